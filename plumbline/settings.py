# SPDX-License-Identifier: BSD-3-Clause
"""The environment variables that Python code reads, each with its type and default. No other module reads them.

``docs/settings.md`` is the table of all settings, also of those that only shell scripts read, with the purpose of each.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from plumbline.errors import InputError

T = TypeVar('T')
TYPES: dict[object, str] = {str: 'text', int: 'an integer', float: 'a number'}


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable. An empty value counts as unset."""

    name: str
    kind: Callable[[str], T]
    default: T
    is_secret: bool = False

    def get(self) -> T:
        """Return the value, or the default if the variable is unset. Raises InputError for a value of another type."""
        text = os.environ.get(self.name, '')
        if not text:
            return self.default
        try:
            return self.kind(text)
        except ValueError:
            raise InputError(f'{self.name}={text}: expected {TYPES[self.kind]}') from None


# Set by the administrator
SITE = Setting('PLUMBLINE_SITE', str, '')
ROOT = Setting('PLUMBLINE_ROOT', str, '')
SITES = Setting('PLUMBLINE_SITES', str, '')
RESULTS = Setting('PLUMBLINE_RESULTS', str, '')
SOFTWARE = Setting('PLUMBLINE_SOFTWARE', str, '')
NOTIFY = Setting('PLUMBLINE_NOTIFY', str, '', is_secret=True)
NOTIFY_FILE = Setting('PLUMBLINE_NOTIFY_FILE', str, '')
LINKS = Setting('PLUMBLINE_LINKS', str, '')
HTTPJSON = Setting('PLUMBLINE_HTTPJSON', str, '')
HTTPJSON_AUTHORIZATION = Setting('PLUMBLINE_HTTPJSON_AUTHORIZATION', str, '', is_secret=True)
GRACE = Setting('PLUMBLINE_GRACE', float, 90.0)
PATIENCE = Setting('PLUMBLINE_PATIENCE', float, 120.0)
OUTPUT_LIMIT = Setting('PLUMBLINE_OUTPUT_LIMIT', int, 64)

# Set by the commands of ci/ for ReFrame and its jobs
OWNER = Setting('PLUMBLINE_OWNER', str, '')
JOURNAL = Setting('PLUMBLINE_JOURNAL', str, '')
CASES = Setting('PLUMBLINE_CASES', str, '')
BUDGETS = Setting('PLUMBLINE_BUDGETS', str, '')
BUSY: Setting[float | None] = Setting('PLUMBLINE_BUSY', float, None)
EXPORTED = Setting('PLUMBLINE_EXPORTED', str, '')
NODE_SWEEP = Setting('PLUMBLINE_NODE_SWEEP', str, '')
NODE_SWEEP_ROUNDS: Setting[int | None] = Setting('PLUMBLINE_NODE_SWEEP_ROUNDS', int, None)
NODE_SWEEP_UNTIL = Setting('PLUMBLINE_NODE_SWEEP_UNTIL', str, '')


def all_settings() -> list[Setting[Any]]:
    return [value for value in globals().values() if isinstance(value, Setting)]


def check() -> None:
    """Raise InputError where a variable has another type than its setting."""
    for setting in all_settings():
        setting.get()
