# SPDX-License-Identifier: BSD-3-Clause
"""The changes that `python studies/mutations.py` makes, and that it sees which of them the tests notice."""

import re

import pytest
from scratch import ROOT

from studies import mutations
from studies.mutations import ROOMS, Room, changes_of, sources_of, try_room


def test_every_file_of_the_product_is_of_a_room_whose_tests_exist():
    parts = ('plumbline', 'checks', 'postprocess', 'ci', 'reframe_settings')
    files = {str(path.relative_to(ROOT)) for part in parts for path in (ROOT / part).rglob('*.py')}
    assert files - {file for room in ROOMS.values() for file in sources_of(room)} == {
        'checks/__init__.py', 'checks/no_case.py',
    }  # fmt: skip
    assert not [test for room in ROOMS.values() for test in room.tests + room.further if not (ROOT / test).exists()]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small checkout: a module with a test that sees half of it."""
    folder = tmp_path / 'project'
    for name, text in {
        'room/least.py': 'def least(a, b):\n    while a > 99:\n        a -= 1\n    return min(a, b, 40)\n',
        'tests/test_least.py': 'from room.least import least\n\n\ndef test_least():\n    assert least(101, 3) == 3\n',
        'pyproject.toml': '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(mutations, 'ROOT', folder)
    return folder


def test_what_tests_notice_is_killed_and_the_rest_survives(project, tmp_path, capsys):
    room = Room('room', ('tests/test_least.py',))
    text = (project / 'room/least.py').read_text()
    changes = changes_of('room/least.py', text)
    limit, lowest = (
        next(one for one in changes if (one.before, one.after) == what) for what in (('40', '80'), ('min', 'max'))
    )
    assert try_room('room', room, [limit, lowest], tmp_path, 0) == [limit]
    assert re.search(r'2 changes +1 killed +1 survived', capsys.readouterr().out)
    assert (tmp_path / 'copy/room/least.py').read_text() == (project / 'room/least.py').read_text() == text
