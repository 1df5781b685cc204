# SPDX-License-Identifier: BSD-3-Clause
"""Mutate files of every kind that `plumbline ingest` reads, and see that each is read whole, or said to be otherwise.

    python studies/input_mutations.py [--each N] [--seed N]

The files are recorded: one of each format, run reports of ReFrame, its results database, performance logs. Each is
mutated as the outputs of :mod:`output_mutations` are, JSON also by other, lost and repeated entries. A reader may
refuse it in one sentence, or read it and say what failed or is missing. Otherwise it must have at least as many numbers
as before. Other errors, and numbers that are gone without a word, are failures.

Not noticed, and counted: where a format does not say how much it holds, a whole entry or line that is gone; as all
tools have it, another number. The first is `missing` beside a baseline.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests'), str(ROOT / 'tests/checks')]

import output_mutations  # noqa: E402

from plumbline.errors import InputError  # noqa: E402
from postprocess.formats.measurements import read_measurements  # noqa: E402
from postprocess.formats.performance_logs import read_perflogs  # noqa: E402
from postprocess.readers.run_reports import read_report, sessions_in  # noqa: E402
from postprocess.results.rows import RunReport  # noqa: E402
from postprocess.results.store import Store  # noqa: E402

OUTPUTS, FORMATS = ROOT / 'tests/outputs', ROOT / 'tests/data/formats'
#: Format -> a recorded file of it.
RECORDED = {
    'asv': FORMATS / 'asv-0.6.6.json',
    'babelstream': OUTPUTS / 'babelstream-5.0-omp.txt',
    'bencher': FORMATS / 'bencher.json',
    'conbench': FORMATS / 'conbench-2024.3.20.json',
    'github-action-benchmark': FORMATS / 'github-action-benchmark.js',
    'google-benchmark': OUTPUTS / 'comm_scope-0.12.0-cuda.txt',
    'hpcg': OUTPUTS / 'hpcg-3.1.txt',
    'hpl': OUTPUTS / 'hpl-2.3-eight-configurations.txt',
    'hyperfine': FORMATS / 'hyperfine-1.15.0.json',
    'ior': OUTPUTS / 'ior-4.0.0-json-write.txt',
    'jube': FORMATS / 'jube-2.7.1.csv',
    'mdtest': OUTPUTS / 'mdtest-4.0.0-files-unique.txt',
    'nccl-tests': OUTPUTS / 'rccl-tests-all_reduce-8-ranks.txt',
    'osu': OUTPUTS / 'osu_mbw_mr-7.4.txt',
    'pyperf': FORMATS / 'pyperf-2.10.0.json',
    'pytest-benchmark': FORMATS / 'pytest-benchmark-5.3.1.json',
    'ramble': FORMATS / 'ramble-0.5.0.json',
    'superbench': FORMATS / 'superbench.jsonl',
    'xdmod': FORMATS / 'xdmod-appkernels.csv',
}
#: Kinds of files that may lose a line, or an entry of a list, unnoticed: nothing in them says how many there are.
UNCOUNTED = {
    'asv', 'bencher', 'conbench', 'database', 'github-action-benchmark', 'google-benchmark', 'hyperfine', 'jube',
    'jube database', 'performance log', 'pyperf', 'pytest-benchmark', 'ramble', 'run report 4.10.4', 'run report 4.6.4',
    'superbench', 'table', 'xdmod',
}  # fmt: skip
_TABLE = """\
session,time,partition,environ,check,params,metric,dims,unit,better,value,node,trial
a,2026-11-01T02:00:00+01:00,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,,95.125,n1,1
a,2026-11-01T02:00:00+01:00,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,,95.5,n1,2
a,2026-11-01T02:00:00+01:00,cpu,gnu,Solve,,time,,s,,12.25,n2,1
b,1793498400,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,higher,94.75,n1,1
"""
_VALUES = (None, '', 0, -1, 7, 1e308, 'x', [], {}, True, '9' * 400, '1_0', '\u0663')
Read = Callable[[Path], Iterator[RunReport | InputError]]
Mutation = Callable[[random.Random, str], str]


class Input(NamedTuple):
    """A file of a `kind`: its name, the `text` that is mutated, and the function that reads the file.

    `binary`: whether each character of `text` is a byte.
    """

    kind: str
    name: str
    text: str
    read: Read
    binary: bool = False

    def write(self, folder: Path, text: str) -> Path:
        path = folder / self.name
        if self.kind == 'database':
            _write_database(path, text)
        else:
            path.write_bytes(text.encode('latin-1' if self.binary else 'utf-8', errors='replace'))
        return path


def inputs(folder: Path) -> Iterator[Input]:
    """Yield a file of each kind. `folder`: for an empty store, which the reader of performance logs needs."""

    def of(name: str) -> Read:
        return lambda path: read_measurements(path, name, 'box')

    for name, path in RECORDED.items():
        text = path.read_text(encoding='utf-8')
        if path.suffix == '.json':
            text = json.dumps(json.loads(text), indent=1) + '\n'
        file = 'all_reduce_perf.txt' if name == 'nccl-tests' else path.name
        yield Input(name, file, text, of(name))
    yield Input('table', 'table.csv', _TABLE, of('table'))
    jube = (FORMATS / 'jube-2.7.1.db').read_bytes().decode('latin-1')
    yield Input('jube database', 'jube.db', jube, of('jube'), binary=True)
    for version in ('4.6.4', '4.10.4'):
        report = json.loads((ROOT / f'tests/data/other-suites/reframe-{version}.json').read_text())
        text = json.dumps(report, indent=1)
        yield Input(f'run report {version}', 'report.json', text, lambda path: iter([read_report(path)]))
    yield Input('database', 'results.db', text, lambda path: sessions_in(path, ()))
    log = (OUTPUTS / 'reframe-perflog.txt').read_text()
    yield Input('performance log', 'a.log', log, lambda path: read_perflogs(Store(folder / 'none'), [path]))


def _write_database(path: Path, report: str) -> None:
    """Write a results database with one session, in a table as ReFrame 4.10 has it."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            'CREATE TABLE sessions (uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, '
            'json_blob TEXT, report_file TEXT)'
        )
        database.execute('INSERT INTO sessions VALUES (?, 0, 1, ?, ?)', ('a1', report, ''))


def _place(draw: random.Random, document: Any) -> tuple[Any, Any]:
    """Return a mapping or list in a document, and one of its keys or indices, drawn by chance."""
    places: list[tuple[Any, Any]] = []
    nodes = [document]
    while nodes:
        node = nodes.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            nodes += [value] if isinstance(value, (dict, list)) else []
    return draw.choice(places)


def _of_json(draw: random.Random, text: str, change: Callable[[Any, Any], None], otherwise: Mutation) -> str:
    """Return a JSON document with one place changed; a text that is no JSON is mutated by `otherwise`."""
    try:
        document = json.loads(text)
    except ValueError:
        return otherwise(draw, text)
    change(*_place(draw, document))
    return json.dumps(document, indent=1) + '\n'


def other_value(draw: random.Random, text: str) -> str:
    """Return a JSON document with another value at one place."""

    def change(node: Any, key: Any) -> None:
        node[key] = draw.choice(_VALUES)

    return _of_json(draw, text, change, output_mutations.other_word)


def entry_lost(draw: random.Random, text: str) -> str:
    """Return a JSON document without one key or element and all below it."""

    def change(node: Any, key: Any) -> None:
        del node[key]

    return _of_json(draw, text, change, output_mutations.lines_lost)


def entry_repeated(draw: random.Random, text: str) -> str:
    """Return a JSON document with one element of a list twice."""

    def change(node: Any, key: Any) -> None:
        if isinstance(node, list):
            node.insert(key, node[key])

    return _of_json(draw, text, change, output_mutations.lines_repeated)


ALL_MUTATIONS = (*output_mutations.MUTATIONS, other_value, other_value, entry_lost, entry_lost, entry_repeated)
_OF_BYTES = (output_mutations.cut, output_mutations.doubled, output_mutations.other_word, output_mutations.binary)


def outcome(one: Input, path: Path) -> tuple[Counter[tuple[str, ...]], dict[tuple[str, ...], float], set[str]]:
    """Return the count of numbers of each series, the numbers, and what the reader calls wrong. Raises InputError."""
    counts: Counter[tuple[str, ...]] = Counter()
    numbers: dict[tuple[str, ...], float] = {}
    faults: set[str] = set()
    for report in one.read(path):
        if isinstance(report, InputError):
            faults.add(str(report))
            continue
        cases = {case.case_id: case for case in report.cases}
        faults |= {f'{case.fail_reason}' for case in report.cases if case.result != 'pass'}
        faults |= {f'{row.missing}' for row in report.metrics if row.missing}
        faults |= {*report.session.problems}
        for row in report.samples:
            case = cases[row.case_id]
            key = (case.partition, case.environ, case.check, case.params, row.metric, row.dims)
            counts[key] += 1
            numbers[(*key, row.node, str(row.trial), str(counts[key]))] = row.value
    if not numbers and not faults:
        raise InputError('it has no numbers')
    return counts, numbers, faults


def judged(one: Input, text: str, folder: Path, original: tuple[Any, dict[Any, float], set[str]]) -> str:
    """Return what became of a mutated file: refused, told, same, others, fewer, or a sentence on a failure."""
    path = one.write(folder, text)
    try:
        _, numbers, faults = outcome(one, path)
    except InputError as error:
        return 'refused' if '\n' not in str(error) else f'refused in several lines: {error}'
    except Exception as error:
        return f'{type(error).__name__}: {error}'[:300]
    _, before, known = original
    if faults - known:
        return 'told'
    if len(numbers) < len(before):
        return 'fewer' if one.kind in UNCOUNTED else f'{len(numbers)} numbers of {len(before)} without a word'
    return 'same' if numbers == before else 'others'


def main() -> int:
    parser = argparse.ArgumentParser(prog='input_mutations', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--each', type=int, default=25, help='mutations of each kind of each file (25: 10 300)')
    parser.add_argument('--seed', type=int, default=0, help='first seed (0)')
    arguments = parser.parse_args()
    failures: list[str] = []
    totals: Counter[str] = Counter()
    columns = ('refused', 'told', 'same', 'others', 'fewer', 'failures')
    with tempfile.TemporaryDirectory() as name:
        files = list(inputs(Path(name)))
        print(f'{len(files)} files, {len(ALL_MUTATIONS)} kinds of mutation, {arguments.each} of each')
        print(f'{"":25}', *(f'{column:>9}' for column in columns))
        for file in files:
            original = outcome(file, file.write(Path(name), file.text))
            counts: Counter[str] = Counter()
            for place, mutation in enumerate(_OF_BYTES if file.binary else ALL_MUTATIONS):
                for seed in range(arguments.seed, arguments.seed + arguments.each):
                    text = mutation(random.Random(f'{file.kind} {place} {seed}'), file.text)
                    became = judged(file, text, Path(name), original)
                    if became not in columns:
                        failures.append(f'{file.kind}, {mutation.__name__}, seed {seed}: {became}')
                        became = 'failures'
                    counts[became] += 1
            totals += counts
            print(f'{file.kind:25}', *(f'{counts[column]:9}' for column in columns), flush=True)
    print(f'{f"all {totals.total()}":25}', *(f'{totals[column]:9}' for column in columns))
    print(*failures[:50], f'{len(failures)} ended in another error or lost numbers without a word', sep='\n')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
