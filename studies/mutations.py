# SPDX-License-Identifier: BSD-3-Clause
"""Change the product in small ways, one at a time, and see whether the tests of its room notice.

    python studies/mutations.py [--changes N] [--seed N] [--room ROOM ...]

A change is one that a slip of the hand makes: a comparison turned round, `+` for `-`, a limit of 600 s for one of 60,
a direction, a value that is not returned. Texts, messages, log lines, types and docstrings stay as they are, and what
only changes speed or a fault that cannot occur: the size of a cache, `strict` of `zip`, `frozen` of a dataclass, the
length of a digest.
The tests run in a copy of the checkout: first the room's own, which take seconds, then, where these notice nothing, the
further ones that run jobs or commands of it, or are of other rooms. The test that fails must pass without the change.
A change that no test notices has survived: a gap in the tests, or code whose result is the same either way.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ci.command import positive  # noqa: E402

# Seconds for the tests of a room, and for its further ones: many times what they take
LIMITS = (300.0, 1200.0)
NOT_COPIED = ('.git', '.venv', '.mypy_cache', '.ruff_cache', '.hypothesis', '__pycache__')


class Room(NamedTuple):
    """A folder of the product and the files of tests that must notice a change in it.

    `tests` take seconds; `further` run jobs, commands or many nights, and are tried where the first notice nothing.
    """

    sources: str
    tests: tuple[str, ...]
    further: tuple[str, ...] = ()


def _rooms() -> dict[str, Room]:
    """Return the rooms of rooms.yaml, where ``ci/again`` is the file tests/ci/test_again.py."""
    rooms = {}
    for sources, lists in yaml.safe_load(Path(__file__).with_name('rooms.yaml').read_text(encoding='utf-8')).items():
        names = {key: [name.rpartition('/') for name in of] for key, of in lists.items()}
        files = {key: tuple(f'tests/{folder}/test_{name}.py' for folder, _, name in of) for key, of in names.items()}
        rooms[sources] = Room(sources, **files)
    return rooms


ROOMS = _rooms()
_FAILED = re.compile(r'(?:FAILED|ERROR) ([^ ]+?\.py(?:::\w+)*(?:\[.*?\](?= - |$))?)(?: - .*)?$')
# Calls whose arguments are texts for people
_SPEAKS = {'print', 'log', 'debug', 'info', 'warning', 'error', 'tell', 'echo', 'Option', 'Argument', 'add_argument'}
_COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_NAMES = {'min': 'max', 'max': 'min', 'any': 'all', 'all': 'any'}
_DIRECTIONS = {'higher': 'lower', 'lower': 'higher'}
_TEXTS = (ast.List, ast.Tuple, ast.JoinedStr, ast.ListComp, ast.Dict, ast.Set)


class Change(NamedTuple):
    """Replace the bytes from `start` to `end` of a file. `kind`: of which only a part can be drawn."""

    file: str
    line: int
    start: int
    end: int
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        before, after = (' '.join(text.split()) for text in (self.before, self.after))
        return f'{self.file}:{self.line}: {before} -> {after}'

    def of(self, text: bytes) -> bytes:
        """Return the text of the file with the change."""
        return text[: self.start] + self.after.encode() + text[self.end :]


# Which changes there are


@cache
def changes_of(file: str, text: str) -> list[Change]:
    """Return all changes of the text of a Python file, from top to bottom."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in _code_in(ast.parse(text)):
        for place, kind, after in _variants(node):
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[place.end_lineno - 1] + place.end_col_offset
            before = text.encode()[start:end].decode()
            found.append(Change(file, place.lineno, start, end, kind, before, after))
    return sorted(found, key=lambda change: (change.start, change.end, change.after))


def _code_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are neither types nor texts for people."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ('annotation', 'returns', 'type_comment'):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield from _code_in(child)


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return 'TYPE_CHECKING' in ast.unparse(node.test) or '__main__' in ast.unparse(node.test)
    if isinstance(node, ast.Call):
        return _called(node) in _SPEAKS | {'lru_cache'}
    if isinstance(node, ast.keyword):
        return node.arg in ('strict', 'frozen')
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Call) and _called(node.value) == 'hexdigest'
    return isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert))


def _called(call: ast.Call) -> str:
    """Return the name of the function or method that is called; empty where it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, 'id', '')


def _variants(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield which expression is replaced, the kind of the change, and the text in its place."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in _COMPARISONS[type(node.ops[0])]:
            yield node, 'comparison', _with(node, ops=[other()])
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not _joins_texts(node):
        yield node, 'arithmetic', _with(node, op=_OPERATORS[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield node, 'and, or', _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node, 'not, sign', f'({ast.unparse(node.operand)})'
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield node, 'min, max', _NAMES[node.id]
    elif isinstance(node, ast.Constant):
        yield from ((node, kind, after) for kind, after in _other_constants(node.value))
    elif isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
        yield node.value, 'return', 'None'
    elif isinstance(node, ast.Slice):
        yield from ((bound, 'slice', f'{ast.unparse(bound)} + 1') for bound in (node.lower, node.upper) if bound)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield from ((node.test, 'condition', value) for value in ('True', 'False') if not isinstance(node, ast.While))
    elif isinstance(node, ast.comprehension):
        yield from ((test, 'condition', 'True') for test in node.ifs)


def _with(node: ast.expr, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return f'({ast.unparse(changed)})'


def _joins_texts(node: ast.BinOp) -> bool:
    """Return True where an operand is a text or a list, with which the other operator is an error at once."""
    return any(
        isinstance(side, _TEXTS) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _other_constants(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, bool):
        yield 'constant', str(not value)
    elif isinstance(value, (int, float)):
        yield 'constant', repr(1 - value) if value in (0, 1) else repr(10 * value) if value == 60 else repr(2 * value)
    elif value in _DIRECTIONS:
        yield 'direction', repr(_DIRECTIONS[value])


# Which are tried


def sources_of(room: Room) -> list[str]:
    """Return the files of a room."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / room.sources).glob('*.py'))


def sample(rooms: dict[str, Room], number: int, seed: int) -> dict[str, list[Change]]:
    """Return so many changes by room, as many of each room and, of a room, of each kind as there are."""
    draw, left = random.Random(seed), {}
    for name, room in rooms.items():
        kinds: dict[str, list[Change]] = defaultdict(list)
        for file in sources_of(room):
            for change in changes_of(file, (ROOT / file).read_text(encoding='utf-8')):
                kinds[change.kind].append(change)
        left[name] = kinds
    chosen: dict[str, list[Change]] = {name: [] for name in rooms}
    while number and (order := [name for name, kinds in left.items() if kinds]):
        draw.shuffle(order)
        for name in order[:number]:
            kinds = left[name]
            kind = draw.choice(sorted(kinds))
            chosen[name].append(kinds[kind].pop(draw.randrange(len(kinds[kind]))))
            left[name] = {one: of for one, of in kinds.items() if of}
            number -= 1
    return chosen


# What becomes of them


class Failure(NamedTuple):
    """Why tests fail: the name of the first one that does, empty where pytest names none, and the lines that say it."""

    test: str
    lines: str


class Checkout:
    """A copy of the checkout in which changes are made, and the tests of one room."""

    def __init__(self, folder: Path, room: Room, seed: int = 0):
        self.root, self.room, self.seed = folder / 'copy', room, seed
        if not self.root.exists():
            shutil.copytree(ROOT, self.root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
            subprocess.run(['git', 'init', '--quiet'], cwd=self.root, check=True)  # tests ask git for the files

    def failure(self, tests: Sequence[str], limit: float | None = None, first: str = '') -> Failure | None:
        """Run tests, by file or name; return the first failure, also that they took longer than `limit` seconds.

        The files that name the module `first` run first, as a failure ends the run.
        """
        ordered = sorted(tests, key=lambda name: not first or first not in (self.root / name).read_text('utf-8'))
        # Without bytecode, each run compiles all tests anew, in 15 s
        own = ('PYTEST_', 'COV_', 'COVERAGE', 'PLUMBLINE', 'RFM_', 'TESTS_CACHE', 'PYTHONDONTWRITEBYTECODE')
        # What one change detects of this machine, no other one may find; a pipe would stay open while a process is left
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile('w+') as printed:
            kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
            command = [
                sys.executable, '-m', 'pytest', '-x', '-q', '-p', 'no:cacheprovider', f'--hypothesis-seed={self.seed}',
                *ordered,
            ]  # fmt: skip
            running = subprocess.Popen(
                command, cwd=self.root, env=kept | {'PYTHONPATH': str(self.root), 'TESTS_CACHE': cache}, stdout=printed,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code = running.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
                return Failure('', f'the tests took longer than {limit:.0f} s')
            printed.seek(0)
            # What pytest names; libraries may say more behind it
            lines = [line.rstrip() for line in printed if line.startswith(('E  ', 'FAILED ', 'ERROR '))]
        if not code:
            return None
        names = [match[1] for line in lines if (match := _FAILED.match(line))]
        return Failure(names[0] if names else '', '\n'.join(lines[-20:]) or f'pytest ended with {code}')

    def failure_with(self, change: Change, limits: Sequence[float] = LIMITS) -> Failure | None:
        """Return what fails with the change, which is then undone; None if all tests pass.

        `limits`: seconds for the tests of the room, and for its further ones. Raises RuntimeError if the test that
        fails also does without the change.
        """
        path = self.root / change.file
        text = path.read_bytes()
        try:
            self._write(path, change.of(text))
            stages = zip((self.room.tests, self.room.further), limits, strict=True)
            failures = (self.failure(tests, limit, path.stem) for tests, limit in stages if tests)
            failure = next(filter(None, failures), None)
        finally:
            self._write(path, text)
        if failure and failure.test and (without := self.failure([failure.test], limits[-1])):
            raise RuntimeError(f'expected {failure.test} to pass without a change, found\n{without.lines}')
        return failure

    @staticmethod
    def _write(path: Path, text: bytes) -> None:
        """Write a module; what is compiled of it may be as old, and as long."""
        path.write_bytes(text)
        for compiled in path.parent.glob(f'__pycache__/{path.stem}.*.pyc'):
            compiled.unlink()


def outcome_of(change: Change, checkout: Checkout) -> str:
    """Return `killed`, `survived`, or `not judged` where a test fails without any change; print it with its reason."""
    try:
        failure = checkout.failure_with(change)
        outcome, reason = ('killed', failure.test or failure.lines) if failure else ('survived', '')
    except RuntimeError as undecided:
        outcome, reason = 'not judged', str(undecided)
    print(f'{outcome:10} {change}' + f'\n           {reason}' * bool(reason), flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog='mutations', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--changes', type=positive, default=100, metavar='N', help='how many (100)')
    parser.add_argument('--seed', type=int, default=0, help='which of all (0)')
    parser.add_argument('--room', action='append', choices=ROOMS, metavar='ROOM', help='of this room only; repeatable')
    given = parser.parse_args()
    rooms = {name: room for name, room in ROOMS.items() if not given.room or name in given.room}
    chosen = {name: changes for name, changes in sample(rooms, given.changes, given.seed).items() if changes}
    with tempfile.TemporaryDirectory(prefix='mutations-') as folder:
        Path(folder).chmod(0o711)  # the accounts of a scheduler that tests start read the copy, too
        outcomes = Counter(
            outcome_of(change, Checkout(Path(folder), rooms[name], given.seed))
            for name, changes in chosen.items()
            for change in changes
        )
    print(f'{outcomes.total()} changes: {", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())}')
    return int('not judged' in outcomes)


if __name__ == '__main__':
    sys.exit(main())
