# SPDX-License-Identifier: BSD-3-Clause
"""Log handlers of finished cases, beside ReFrame's performance logs: a journal, and JSON over HTTP."""

import logging
from typing import Any

from reframe.core.logging import register_log_handler
from reframe.utility import jsonext

from plumbline import settings


class Journal(logging.FileHandler):
    """Append one line of JSON for each case, with what the run report will hold of it, in case no report is written."""

    def format(self, record):
        known = {key.removeprefix('check_'): value for key, value in vars(record).items() if key.startswith('check_')}
        return jsonext.dumps(known)


@register_log_handler('journal')
def _journal(site_config, config_prefix):
    return Journal(site_config.get(f'{config_prefix}/name'))


def handlers_of_cases() -> list[dict[str, Any]]:
    """Return the entries of ReFrame's ``handlers_perflog`` that the environment asks for.

    A function gives the secret of the HTTP header, so that no log and no report of ReFrame's configuration shows it.
    """
    handlers: list[dict[str, Any]] = []
    if journal := settings.JOURNAL.get():
        handlers.append({'type': 'journal', 'name': journal, 'level': 'info'})
    if url := settings.HTTPJSON.get():
        secret = settings.HTTPJSON_AUTHORIZATION.get()
        header = {'authorization_header': lambda: secret} if secret else {}
        handlers.append({'type': 'httpjson', 'url': url, 'level': 'info', **header})
    return handlers
