"""The list of settings: complete, documented, used, and the only place where Python code reads the environment."""

import re
import subprocess
from pathlib import Path

import pytest
from rows import each_row
from scratch import ROOT

from plumbline import settings
from plumbline.errors import InputError

NAME = re.compile(r'PLUMBLINE_[A-Z][A-Z_]*')
LIST, DOCUMENT = 'plumbline/settings.py', 'docs/settings.md'
PRODUCT = ('plumbline/', 'postprocess/', 'ci/', 'reframe_settings/', 'checks/')
CONSTANTS = {name: value for name, value in vars(settings).items() if isinstance(value, settings.Setting)}


def texts() -> dict[str, str]:
    """Every tracked or new text file by its path."""
    command = ['git', 'ls-files', '--cached', '--others', '--exclude-standard']
    paths = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = {}
    for path in paths:
        if (ROOT / path).is_file():
            found[path] = (ROOT / path).read_bytes().decode(errors='replace')
    return found


def test_every_name_in_the_tree_is_listed():
    known = {setting.name for setting in settings.ALL}
    unknown = {
        f'{path}: {name}'
        for path, text in texts().items()
        for name in set(NAME.findall(text)) - known
        if path != Path(__file__).relative_to(ROOT).as_posix()
    }
    assert not unknown, f'add to {LIST}'


def test_every_setting_is_used():
    elsewhere = {path: text for path, text in texts().items() if path not in (LIST, DOCUMENT)}
    product = '\n'.join(text for path, text in elsewhere.items() if not path.startswith(('tests/', 'docs/')))
    for constant, setting in CONSTANTS.items():
        where = '\n'.join(elsewhere.values()) if setting.group == 'tests' else product
        assert re.search(rf'\bsettings\.{constant}\b|\b{setting.name}\b', where), f'{setting.name} is not used'


def test_python_code_reads_no_setting_by_itself():
    for path, text in texts().items():
        if path.endswith('.py') and path.startswith(PRODUCT) and path != LIST:
            found = re.findall(r'(?:environ(?:\.get\()?\[?|getenv\()[\'"]PLUMBLINE_\w+[\'"]\]?(?!\]? =)', text)
            assert not found, f'{path}: read {found} through {LIST}'


@each_row('group', settings.GROUPS)
def test_the_page_shows_the_list(group):
    assert settings.table(group) in (ROOT / DOCUMENT).read_text(), f'replace the table by:\n{settings.table(group)}'


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


def test_no_setting_is_listed_twice():
    names = [setting.name for setting in settings.ALL]
    assert len(names) == len(set(names)) == len(CONSTANTS)
    assert {setting.group for setting in settings.ALL} == set(settings.GROUPS)
