# SPDX-License-Identifier: BSD-3-Clause
"""The settings: all documented and used, and read by Python code in one module only."""

import functools
import re
import subprocess
from pathlib import Path

import pytest
from rows import each_row
from scratch import ROOT

from plumbline import settings
from plumbline.errors import InputError

NAME = re.compile(r'(?<!_)PLUMBLINE_[A-Z][A-Z_]*')  # click's own begins with _
LIST, DOCUMENT = 'plumbline/settings.py', 'docs/settings.md'
PRODUCT = ('plumbline/', 'postprocess/', 'ci/', 'reframe_settings/', 'checks/')
SETTINGS = {name: value for name, value in vars(settings).items() if isinstance(value, settings.Setting)}
ROW = re.compile(r'^\| `(PLUMBLINE_[A-Z_]+)` \| ([^|]+) \| ([^|]*) \| [^|]+ \|$', re.MULTILINE)
DOCUMENTED = {name: (kind, default) for name, kind, default in ROW.findall((ROOT / DOCUMENT).read_text())}


@functools.cache
def texts() -> dict[str, str]:
    """Every tracked or new text file by its path."""
    command = ['git', 'ls-files', '--cached', '--others', '--exclude-standard']
    paths = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = {}
    for path in paths:
        if (ROOT / path).is_file():
            found[path] = (ROOT / path).read_bytes().decode(errors='replace')
    return found


def test_every_name_in_the_tree_is_documented():
    unknown = {
        f'{path}: {name}'
        for path, text in texts().items()
        for name in set(NAME.findall(text)) - DOCUMENTED.keys()
        if path != Path(__file__).relative_to(ROOT).as_posix()
    }
    assert not unknown, f'add to {DOCUMENT}'


def test_every_documented_setting_is_used():
    named = {
        path: set(re.findall(r'\b(?:settings\.|PLUMBLINE_)\w+', text))
        for path, text in texts().items()
        if not path.startswith(('docs/', LIST))
    }
    for name in DOCUMENTED:
        words = {name, f'settings.{name.removeprefix("PLUMBLINE_")}'}
        users = {path for path, found in named.items() if found & words}
        if not name.startswith('PLUMBLINE_TEST_'):
            users = {path for path in users if not path.startswith('tests/')}
        assert users, f'{name} is not used'


def test_python_code_reads_no_setting_by_itself():
    for path, text in texts().items():
        if path.endswith('.py') and path.startswith(PRODUCT) and path != LIST:
            found = re.findall(r'(?:environ(?:\.get\()?\[?|getenv\()[\'"]PLUMBLINE_\w+[\'"]\]?(?!\]? =)', text)
            assert not found, f'{path}: read {found} through {LIST}'


@each_row('constant', SETTINGS)
def test_the_page_states_type_and_default(constant):
    setting = SETTINGS[constant]
    assert setting.name == f'PLUMBLINE_{constant}'
    kind, default = DOCUMENTED[setting.name]
    assert kind == settings.TYPES[setting.kind]
    if setting.default not in ('', None):
        assert default == f'`{setting.default}`'


def test_a_value_has_its_type(monkeypatch):
    monkeypatch.delenv('PLUMBLINE_GRACE', raising=False)
    assert settings.GRACE.get() == 90
    monkeypatch.setenv('PLUMBLINE_GRACE', '')
    assert settings.GRACE.get() == 90
    monkeypatch.setenv('PLUMBLINE_GRACE', '1.5')
    assert settings.GRACE.get() == 1.5
    monkeypatch.setenv('PLUMBLINE_GRACE', 'soon')
    with pytest.raises(InputError, match='PLUMBLINE_GRACE=soon: expected a number'):
        settings.GRACE.get()
    with pytest.raises(InputError, match='PLUMBLINE_GRACE=soon'):
        settings.check()


def test_no_setting_is_documented_twice():
    assert len(ROW.findall((ROOT / DOCUMENT).read_text())) == len(DOCUMENTED) >= len(SETTINGS) > 10
