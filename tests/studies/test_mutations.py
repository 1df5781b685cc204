# SPDX-License-Identifier: BSD-3-Clause
"""The changes that `python studies/mutations.py` makes, and that it sees which of them the tests notice."""

import ast
import re

import pytest
from scratch import ROOT

from studies import mutations
from studies.mutations import ROOMS, Change, Checkout, Room, changes_of, sample, sources_of, try_room

MODULE = '''\
"""A limit of 60 s."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LONG = 1 < 2


def worst(values: list[float], limit: int = 60, better: str = 'higher') -> float | None:
    """Return the worst of 0 values."""
    if not values or len(values) > 3:
        print(1 + 1, 'of 2')
        raise ValueError(f'{len(values) + 1} values')
    known = [value / 2 for value in values[1:] if value >= 0]
    return min(known) + limit if better == 'higher' else -1
'''
CHANGES = {
    '9: 60 -> 600',
    "9: 'higher' -> 'lower'",
    '11: not values or len(values) > 3 -> (not values and len(values) > 3)',
    '11: not values or len(values) > 3 -> True',
    '11: not values or len(values) > 3 -> False',
    '11: not values -> (values)',
    '11: len(values) > 3 -> (len(values) >= 3)',
    '11: len(values) > 3 -> (len(values) <= 3)',
    '11: 3 -> 6',
    '14: value / 2 -> (value * 2)',
    '14: 2 -> 4',
    '14: 1 -> 1 + 1',
    '14: 1 -> 0',
    '14: value >= 0 -> True',
    '14: value >= 0 -> (value > 0)',
    '14: value >= 0 -> (value < 0)',
    '14: 0 -> 1',
    "15: min(known) + limit if better == 'higher' else -1 -> None",
    '15: min -> max',
    '15: min(known) + limit -> (min(known) - limit)',
    "15: better == 'higher' -> True",
    "15: better == 'higher' -> False",
    "15: better == 'higher' -> (better != 'higher')",
    "15: 'higher' -> 'lower'",
    '15: -1 -> (1)',
    '15: 1 -> 0',
}


def test_each_kind_of_change_and_none_of_texts_and_types():
    assert {str(change).removeprefix('m.py:') for change in changes_of('m.py', MODULE)} == CHANGES


def test_nothing_changes_that_no_test_could_notice():
    text = '@lru_cache(8)\ndef f(x):\n    g(zip(x, strict=True), y.hexdigest()[:9])\n'
    assert changes_of('m.py', text) == []
    assert len(changes_of('m.py', 'g(x[:9], strict(1))')) == 3


def test_a_change_replaces_its_bytes_alone():
    text = "limit = 'ü', 60  # s\nother = 1\n"
    (long, short) = changes_of('m.py', text)
    assert long.of(text.encode()).decode() == "limit = 'ü', 600  # s\nother = 1\n"
    assert short.of(text.encode()).decode() == "limit = 'ü', 60  # s\nother = 0\n"


def test_every_change_of_the_product_is_code_that_means_something_else():
    for name, changes in sample(ROOMS, 150, 1).items():
        for change in changes:
            text = (ROOT / change.file).read_bytes()
            assert ast.dump(ast.parse(change.of(text))) != ast.dump(ast.parse(text)), (name, str(change))


def test_a_sample_is_seeded_and_has_as_many_changes_of_each_room():
    first = sample(ROOMS, 2 * len(ROOMS), 3)
    assert first == sample(ROOMS, 2 * len(ROOMS), 3) != sample(ROOMS, 2 * len(ROOMS), 4)
    assert {len(changes) for changes in first.values()} == {2}
    few = sample({'checks/node': ROOMS['checks/node']}, 10_000, 0)['checks/node']
    assert len(few) == len(set(few)) < 100, 'no change is tried twice'


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


def test_further_tests_are_tried_where_the_first_notice_nothing(project, tmp_path):
    (project / 'tests/test_most.py').write_text(
        'from room.least import least\n\n\ndef test_most():\n    assert least(77, 60) == 40\n'
    )
    (limit,) = (
        one for one in changes_of('room/least.py', (project / 'room/least.py').read_text()) if one.before == '40'
    )
    assert try_room('room', Room('room', ('tests/test_least.py',), ('tests/test_most.py',)), [limit], tmp_path, 0) == []


def test_what_never_ends_is_killed_after_its_time(project, tmp_path):
    checkout = Checkout(tmp_path, Room('room', ('tests/test_least.py',)))
    start = (project / 'room/least.py').read_text().index('-= 1')
    endless = Change('room/least.py', 3, start, start + 4, 'constant', '-= 1', '-= 0')
    assert not checkout.survives(endless, [5, 5])
    assert checkout.failure(['tests/test_least.py'], 60) is None, 'the change is undone'


def test_a_test_that_fails_without_a_change_is_an_error(project, tmp_path):
    (project / 'tests/test_least.py').write_text(
        "import pytest\n\n\n@pytest.mark.parametrize('of', ['a - b'])\ndef test_nothing(of):\n    assert [of] == [1]\n"
    )
    changes = changes_of('room/least.py', (project / 'room/least.py').read_text())
    with pytest.raises(
        RuntimeError, match=r'^room: expected tests/test_least.py::test_nothing\[a - b\] to pass without'
    ):
        try_room('room', Room('room', ('tests/test_least.py',)), changes[:1], tmp_path, 0)


def test_the_command_tries_changes_of_each_room_and_fails_where_a_room_could_not_be_tried(project, monkeypatch, capsys):
    (project / 'room/least.py').write_text('def least(a, b):\n    return min(a, b, 40)\n')  # without a loop
    monkeypatch.setattr(mutations, 'ROOMS', {'room': Room('room', ('tests/test_least.py',))})
    monkeypatch.setattr('sys.argv', ['mutations', '--changes', '2'])
    assert mutations.main() == 0
    assert re.search(r'^2 changes: [012] killed, [012] survived$', capsys.readouterr().out, re.MULTILINE)
    (project / 'tests/test_least.py').write_text('def test_nothing():\n    assert False\n')
    assert mutations.main() == 1
    said = capsys.readouterr()
    assert (
        '0 changes: 0 killed, 0 survived' in said.out
        and 'test_least.py::test_nothing to pass without a change' in said.err
    )
