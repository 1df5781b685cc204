"""What leaves ReFrame as soon as a case ends, beside its performance logs: a journal, and JSON over HTTP."""

from __future__ import annotations

import logging
import os

from reframe.core.logging import register_log_handler
from reframe.utility import jsonext


class Journal(logging.FileHandler):
    """A line of JSON a case, with all that the run report will say of it, for when there will be no report."""

    def format(self, record):
        known = {key.removeprefix('check_'): value for key, value in vars(record).items() if key.startswith('check_')}
        return jsonext.dumps(known)


@register_log_handler('journal')
def _journal(site_config, config_prefix):
    return Journal(site_config.get(f'{config_prefix}/name'))


def _authorization() -> str:
    return os.environ['PLUMBLINE_HTTPJSON_AUTHORIZATION']


def further_handlers() -> list[dict]:
    """ReFrame's handlers of finished cases that the environment asks for.

    ``PLUMBLINE_HTTPJSON``: where each case is posted as JSON; ``PLUMBLINE_HTTPJSON_AUTHORIZATION``: the header of that
    name, such as ``Bearer ...``. ``PLUMBLINE_JOURNAL``: a file.
    """
    handlers = []
    if journal := os.environ.get('PLUMBLINE_JOURNAL'):
        handlers.append({'type': 'journal', 'name': journal, 'level': 'info'})
    if url := os.environ.get('PLUMBLINE_HTTPJSON'):
        secret = 'PLUMBLINE_HTTPJSON_AUTHORIZATION' in os.environ
        header = {'authorization_header': _authorization} if secret else {}
        handlers.append({'type': 'httpjson', 'url': url, 'level': 'info', **header})
    return handlers
