# SPDX-License-Identifier: BSD-3-Clause
"""How long the store and the commands on it take, and how much memory; prints, asserts nothing.

    python studies/store_speed.py night   a night of 10 000 cases ingested
    python studies/store_speed.py year    365 nights of 400 cases, 3 metrics, 5 trials: compare, trend, report
    python studies/store_speed.py fleet   24, 50 and 100 million samples: ingest, fleet, compare

The numbers are made up, seeded; the commands are those that a user types, each in a process of its own. `--folder DIR`
keeps what was made, `--scale X` makes X times as many nights.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'tests/postprocess')]

import numpy  # noqa: E402
import pyarrow as pa  # noqa: E402
from run_reports import BEGAN, SITE, Workplace, case, metric, report  # noqa: E402

from postprocess.readers.run_reports import read_report  # noqa: E402
from postprocess.results.files import path_of, write_session  # noqa: E402
from postprocess.results.rows import Session  # noqa: E402
from postprocess.results.store import Store  # noqa: E402
from postprocess.results.tables import SCHEMA, TABLES  # noqa: E402

DAY = 86400
FIRST = BEGAN - 1100 * DAY  # three years before: a night of the future would have a wrong clock
METRICS = ('copy', 'triad', 'latency')


def timed(name: str, *words: object, work: Workplace, goal: str = '') -> None:
    """Run ``plumbline WORDS``; print its wall and CPU time, its most memory, and its exit code."""
    options = [f'--results={work.results}'] + ([f'--references={work.sites}'] if words[0] != 'ingest' else [])
    run(name, [sys.executable, '-m', 'plumbline', *map(str, words), *options], goal)


def run(name: str, command: list[str], goal: str) -> None:
    launched = subprocess.run(
        [sys.executable, '-c', LAUNCHER, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    seconds, cpu, memory, code = map(float, launched.stdout.split())
    if 'Traceback' in launched.stderr:
        raise RuntimeError(launched.stderr)
    print(
        f'{name:<32} {seconds:7.2f} s ({cpu:6.2f} s CPU) {memory:6.0f} MB   exit code {code:.0f}   {goal}', flush=True
    )


# The memory of a process counts that of the process that started it, so a small process starts the command.
LAUNCHER = """
import os, sys, time
began = time.perf_counter()
nothing = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nothing), 0)
cpu, code = used.ru_utime + used.ru_stime, os.waitstatus_to_exitcode(status)
print(time.perf_counter() - began, cpu, used.ru_maxrss / 1024, code)
"""


def night_report(night: int, cases: int, trials: int, rng: random.Random, nodes: int = 4) -> dict:
    """Return the run report of a session of `cases` cases: levels vary by 1 % from night to night, trials by 0.5 %."""
    entries = []
    for number in range(cases):
        values = {}
        for i, name in enumerate(METRICS):
            level = 100 * (1 + number % 7 + i) * (1 + 0.01 * rng.gauss(0, 1))
            samples = [level * (1 + 0.005 * rng.gauss(0, 1)) for _ in range(trials)]
            lower = name == 'latency'
            values[name] = metric(samples, 'us' if lower else 'GB/s', 'lower' if lower else 'higher')
        provenance = {'kernel': '6.1.0', 'binary_sha256': 'ab' * 32, 'governor': 'performance', 'cpu_model': 'CPU'}
        node = f'n{number % nodes}'
        entries.append(
            case(f'Check{number // 20}', f'number={number % 20}', values, nodes=(node,), provenance=provenance)
        )
    return report(*entries, uuid=f'{night:08x}', mode='nightly', began=FIRST + night * DAY)


def night(work: Workplace, scale: float) -> None:
    path = work.write(night_report(0, round(10000 * scale), 5, random.Random(1)))
    print(f'{path.stat().st_size / 1e6:.0f} MB of report')
    timed('ingest 10 000 cases', 'ingest', path, work=work, goal='goal 5 s')


def year(work: Workplace, scale: float) -> None:
    store, rng, nights = Store(work.results), random.Random(1), round(365 * scale)
    if not store.sites():
        began = time.perf_counter()
        for number in range(nights):
            path = work.write(night_report(number, 400, 5, rng), 'night.json')
            store.add(read_report(path))
        print(f'{nights} nights made and ingested in {time.perf_counter() - began:.0f} s')
    files = [path for path in work.results.rglob('*.parquet')]
    print(f'store: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB')
    first = [f'{number:08x}' for number in range(10)]
    timed('record propose, all nights', 'record', 'propose', work=work, goal='goal 5 s')
    timed('record propose, 10 nights', 'record', 'propose', *first, work=work)
    timed('record accept', 'record', 'accept', work=work)
    imports = 'import numpy, duckdb, pyarrow.parquet'
    run('imports alone', [sys.executable, '-c', imports], 'what compare and report are measured by')
    shutil.rmtree(work.results / 'judged', ignore_errors=True)
    timed('compare the last night', 'compare', work=work, goal='goal 2 s, 500 MB')
    timed('report of it', 'report', work=work, goal='goal 2 s, 500 MB')
    timed('status of it', 'status', work=work)
    for command, goal in (('compare', 2.5), ('status', 1.5), ('report', 4)):
        timed(f'{command}, nothing changed', command, work=work, goal=f'goal {goal} times the imports')
    timed('trend over the year', 'trend', '--days', 400, work=work, goal='goal 2 s, 500 MB')
    timed('fleet, 30 nights', 'fleet', work=work)


def big_night(store: Store, number: int, nodes: int, cases: int, metrics: int, trials: int, rng) -> None:
    """Write a session of a fleet straight into the store: each case on each node."""
    session = f'{number:08x}'
    n_cases, n_metrics = nodes * cases, nodes * cases * metrics
    node = pa.array([f'n{i:04}' for i in range(nodes)])
    names = pa.array([f'metric_{chr(97 + i)}' for i in range(metrics)])
    of_case, of_metric = numpy.arange(n_cases), numpy.arange(n_metrics)
    values = 100 * (1 + 0.01 * rng.standard_normal(n_metrics))

    def table(of: str, rows: int, /, **columns) -> pa.Table:
        stated = {'schema': pa.repeat(SCHEMA, rows), 'session': pa.repeat(session, rows), **columns}
        arrays = [stated[field.name] if field.name in stated else pa.nulls(rows, field.type) for field in TABLES[of]]
        return pa.table(arrays, names=TABLES[of].names).cast(TABLES[of])

    began = datetime.fromtimestamp(FIRST + number * DAY, timezone.utc).replace(tzinfo=None)
    row = Session(
        SITE, session, began, began, hostname='login1', cmdline='reframe -r', reframe='4.10.4', selection=[],
        narrowed_by=[], runs=1, ran=n_cases, problems=[], report='', report_sha256='', source='report',
    )  # fmt: skip
    samples = numpy.repeat(values, trials) * (1 + 0.005 * rng.standard_normal(n_metrics * trials))
    write_session(path_of(store.folder, 'sessions', SITE, row.month, session), row, {
        'samples': table(
            'samples', n_metrics * trials, case_id=numpy.repeat(of_metric // metrics, trials),
            metric=names.take(pa.array(numpy.repeat(of_metric % metrics, trials))),
            dims=pa.repeat('-', n_metrics * trials),
            trial=numpy.tile(numpy.arange(1, trials + 1), n_metrics),
            node=node.take(pa.array(numpy.repeat(of_metric // metrics % nodes, trials))), value=samples,
        ),
        'metrics': table(
            'metrics', n_metrics, case_id=of_metric // metrics, metric=names.take(pa.array(of_metric % metrics)),
            dims=pa.repeat('-', n_metrics), status=pa.repeat('measured', n_metrics),
            unit=pa.repeat('GB/s', n_metrics), better=pa.repeat('higher', n_metrics), n=pa.repeat(trials, n_metrics),
            mean=samples.reshape(-1, trials).mean(axis=1), std=samples.reshape(-1, trials).std(axis=1, ddof=1),
            judged=pa.repeat(True, n_metrics),
        ),
        'cases': table(
            'cases', n_cases, case_id=of_case, partition=pa.repeat('cpu', n_cases),
            environ=pa.repeat('system', n_cases),
            check=pa.array([f'Check{i}' for i in range(cases)]).take(pa.array(of_case // nodes)),
            params=pa.repeat('-', n_cases), name=pa.repeat('Check', n_cases), fixture=pa.repeat(False, n_cases),
            benchmark=pa.repeat(True, n_cases), result=pa.repeat('pass', n_cases),
            tags=pa.array([[]] * n_cases, pa.list_(pa.string())),
            nodes=pa.ListArray.from_arrays(numpy.arange(n_cases + 1), node.take(pa.array(of_case % nodes))),
            placement=pa.repeat('{}', n_cases), provenance=pa.repeat('{"kernel": "6.1.0"}', n_cases),
        ),
    })  # fmt: skip


def fleet(work: Workplace, scale: float) -> None:
    """Measure a fleet of 1000 nodes, each with 20 cases of 20 metrics and 5 trials: 2 million samples a night."""
    store, rng = Store(work.results), numpy.random.default_rng(1)
    done = len(store.sessions(SITE))
    for nights in (12, 25, 50):
        nights = round(nights * scale)
        began = time.perf_counter()
        for number in range(done, nights):
            big_night(store, number, 1000, 20, 20, 5, rng)
        seconds, samples, new = time.perf_counter() - began, 2 * nights, max(2 * (nights - done), 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f'{new} million samples written in {seconds:.1f} s, {seconds / new:.2f} s a million, {peak:.0f} MB')
        done = max(done, nights)
        timed(f'fleet, {samples} million samples', 'fleet', '--days', 60, work=work, goal='goal 2 GB, linear')
        timed(f'compare, {samples} million samples', 'compare', '--summary', work=work, goal='goal 2 GB')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=('night', 'year', 'fleet'))
    parser.add_argument('--folder', type=Path)
    parser.add_argument('--scale', type=float, default=1.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        globals()[arguments.what](Workplace(folder), arguments.scale)


if __name__ == '__main__':
    main()
