# SPDX-License-Identifier: BSD-3-Clause
"""Log handlers of finished cases, beside ReFrame's performance logs: a journal, and JSON over HTTP."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from reframe.core.logging import register_log_handler
from reframe.utility import jsonext

from plumbline import settings
from plumbline.identity import from_text


class Journal(logging.FileHandler):
    """Append each finished case, as in the run report, as a line of JSON, in case no report is written."""

    def format(self, record):
        known = {key.removeprefix('check_'): value for key, value in vars(record).items() if key.startswith('check_')}
        return jsonext.dumps(known)


@register_log_handler('journal')
def _journal(site_config, config_prefix):
    return Journal(site_config.get(f'{config_prefix}/name'))


def as_json(record: logging.LogRecord, extras: Mapping[str, Any] | None, ignored: Collection[str]) -> str:
    """Return a finished case as JSON; `check_perf` has metric, dims, value, unit and bounds of each performance value.

    ReFrame's own JSON names six fields after each value. With a curve over message sizes, a collector would have to
    index hundreds of field names.
    """
    left_out = ('_', 'check_perf_')
    known = {key: value for key, value in vars(record).items() if not (key.startswith(left_out) or key in ignored)}
    known['check_perf'] = []
    for name, values in (known.pop('check_perfvalues', None) or {}).items():
        metric, _, dims = name.rpartition(':')[2].partition(' ')
        named = zip(('value', 'ref', 'lower_thres', 'upper_thres', 'unit', 'result'), values, strict=False)
        known['check_perf'].append({'metric': metric, 'dims': dict(from_text(dims)), **dict(named)})
    return jsonext.dumps(known | dict(extras or {}))


def handlers_of_cases() -> list[dict[str, Any]]:
    """Return the entries of ReFrame's ``handlers_perflog`` that the environment asks for.

    The secret of the HTTP header comes from a function, so that no log or report of ReFrame's configuration shows it.
    """
    handlers: list[dict[str, Any]] = []
    if journal := settings.JOURNAL.get():
        handlers.append({'type': 'journal', 'name': journal, 'level': 'info'})
    if url := settings.HTTPJSON.get():
        secret = settings.HTTPJSON_AUTHORIZATION.get()
        header = {'authorization_header': lambda: secret} if secret else {}
        handlers.append({'type': 'httpjson', 'url': url, 'level': 'info', 'json_formatter': as_json, **header})
    return handlers
