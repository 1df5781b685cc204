# SPDX-License-Identifier: BSD-3-Clause
"""The output of IOR: the faults of its JSON, and saved outputs, JSON or text, also of several runs."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from checks.core.reading import saved
from checks.core.reading.metrics import Metric
from checks.core.reading.outputs import errors_of
from plumbline.measurement import Measurement

# A warning of IOR or mdtest, even if they continue and exit with 0. Harmless: for empty files, reading means opening
# and closing; a time limit leaves bytes out; the size of the file system is not known; a sync that an API lacks.
_WARNING = re.compile(
    r'(?:ior )?WARNING: (?!Read bytes is 0|.* statfs|unable to use realpath'
    r'|(?:Expected|Stat\(\) of|Using actual) aggregate|[Mm]aybe caused by deadline|fsync\(\) not supported'
    r'|The file .* exists already)'
)
MIB = 2**20
SPREAD = {'mean': 'bwMeanMIB', 'std': 'bwStdMIB', 'max': 'bwMaxMIB', 'min': 'bwMinMIB'}  # MiB/s in its summary
KEPT = 0.01  # part of a file in the reader's cache, above which the rate is invalid
_SUMMARY = re.compile(r'^Summary of all tests: *\n(Operation .*)\n((?:(?:write|read) .*\n)*)', re.MULTILINE)


def complaint_of(printed: str) -> list[str]:
    """Return the first error on standard output, else the first warning, as a list of one or none."""
    warnings = errors_of(printed, _WARNING)
    return (errors_of(printed) or sorted(warnings, key=lambda line: 'failed' not in line))[:1]


def metric_of(random: bool, dims: Mapping[str, str], rows: str = '', run: str = 'run') -> Metric:
    """Return the mean bandwidth of a test, of random offsets its operations; `rows`: where not as in IOR's JSON."""
    name, unit, key = ('operations', 'ops/s', 'OPsMean') if random else ('bandwidth', 'MiB/s', 'bwMeanMIB')
    return Metric(name, unit, 'higher', rows or rf'"{key}": (\S+?),', dims, run=run)


def answered_by_a_cache(cached: Path, file_system: str | None) -> list[str]:
    """Return a sentence if a cache may have answered a read.

    `cached`: the file that ``storage_drop`` wrote, with the bytes in the cache and the bytes of the files.
    """
    if not cached.exists() or file_system == 'tmpfs':  # tmpfs is the cache
        return []
    if file_system in ('zfs', 'gpfs'):
        return ['this file system has a cache of its own, which cannot be emptied']
    kept, _, whole = cached.read_text().partition(' ')
    if kept == 'unknown':
        return [
            'cannot tell whether a cache answered: this node has neither fincore (util-linux; of Debian: '
            'util-linux-extra) nor a python3 that can count cached pages'
        ]
    was_kept = int(kept) > KEPT * int(whole)
    return [f'{int(kept)} of {int(whole)} bytes were in the cache of the node that read them'] * was_kept


def bytes_of_files(requested: Mapping[str, Any]) -> int:
    """Return the bytes of all files of a run."""
    return int(requested['blockSize'] * requested['segmentCount'] * requested['numTasks'])


def faults_of(output: str, requested: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each fault in IOR's summary: incomplete, or other than `requested`, by its own names."""
    try:
        report = json.loads(output)
        (test,), (summary,) = report['tests'], report['summary']
        repetitions = [each for each in _flat(test['Results']) if each['access'] == requested['operation']]
        actual = {key: (summary | {'nodes': test['Parameters']['nodes']})[key] for key in requested}
        moved, *_ = [float(summary[key]) for key in ('xsizeMiB', *SPREAD.values())]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return [f"IOR's summary is no complete JSON of one test: {type(error).__name__}: {str(error)[:80]}"]
    differ = [key for key, value in requested.items() if actual[key] != value]
    faults = [f'{key}: {requested[key]} was requested, IOR did {actual[key]}' for key in differ]
    size = bytes_of_files(requested) / MIB
    if abs(moved - size) > 1e-4 + 1e-6 * size:
        faults.append(f'{size:.4f} MiB were to move, {moved:.4f} did')
    if len(repetitions) != requested['repetitions']:
        faults.append(f'{requested["repetitions"]} repetitions were requested, {len(repetitions)} are listed')
    return faults


def spread_of(output: str) -> str:
    """Return ``3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s`` of a summary without faults."""
    (summary,) = json.loads(output)['summary']
    spread = ', '.join(f'{name} {summary[key]:.1f}' for name, key in SPREAD.items())
    return f'{summary["repetitions"]} repetitions: {spread} MiB/s'


# Saved outputs


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield the mean rate of each test and access: bandwidth, or operations where the offsets are random."""
    text = saved.saved(path)
    if text.lstrip().startswith('{'):
        for result in _of_json(text):
            yield from saved.measured(result)
        return
    begin = saved.begins(r'^IOR-\S+: MPI Coordinated Test of Parallel I/O')
    yield from saved.results_of(path, begin, 'IOR-4.0.0: MPI Coordinated Test of Parallel I/O', _of_text)


def _of_json(text: str) -> Iterator[saved.Result]:
    try:
        report = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected IOR's JSON, of -O summaryFormat=JSON: {error}") from None
    tests = {test['TestID']: test for test in report['tests']}
    host = str(report.get('Machine', '')).split()[1:2]
    done = 0
    for summary in report['summary']:
        test, access = tests[summary['TestID']], summary['operation']
        asked = test['Parameters']
        wanted = {
            'operation': access, 'API': asked['api'], 'transferSize': asked['transferSize'],
            'blockSize': asked['blockSize'], 'segmentCount': asked['segmentCount'], 'numTasks': summary['numTasks'],
            'nodes': asked['nodes'], 'repetitions': asked['repetitions'], 'filePerProc': bool(asked['filePerProc']),
            'reorderTasks': bool(asked['reorderTasks']),
        }  # fmt: skip
        results = [each for each in _flat(test['Results']) if each['access'] == access]
        done += len(results)
        output = json.dumps({'tests': [test | {'Results': results}], 'summary': [summary]}, indent=1)
        random = bool(asked.get('randomOffset'))
        yield saved.Result(
            'IOR', _params(wanted, random, asked.get('testFileName', '')), [metric_of(random, {'access': access})],
            output, faults_of(output, wanted), dates=[report['Began']],
            node=''.join(host) if wanted['nodes'] == 1 else '',
        )  # fmt: skip
    measured_at_all = [each for test in tests.values() for each in _flat(test['Results']) if each['access'] != 'remove']
    if len(tests) != len(report['tests']) or done != len(measured_at_all):
        raise ValueError(f'expected a summary of each of {len(measured_at_all)} results, found those of {done}')


def _params(of: Mapping[str, Any], random: bool, path: str) -> dict[str, object]:
    return {
        'api': of['API'], 'transfer': of['transferSize'], 'block': of['blockSize'], 'segments': of['segmentCount'],
        'ranks': of['numTasks'], 'nodes': of['nodes'], 'files': 'process' if of['filePerProc'] else 'shared',
        'offsets': 'random' if random else 'sequential', 'path': path,
    }  # fmt: skip


def _flat(results: list[Any]) -> list[dict[str, Any]]:
    """Flatten IOR 3.3's list for each repetition, with its removals; 4.0 has one list."""
    return [each for entry in results for each in (entry if isinstance(entry, list) else [entry])]


def _of_text(part: saved.Part) -> Iterator[saved.Result]:
    """Yield the rows of the summary of a run, or of its table, as the IO500 prints it; without one, a failed result."""
    output = part.output
    options = dict(re.findall(r'^(\w[\w ]*?) *[:=] +(.*\S)', output, re.MULTILINE))
    path, host = options.get('test filename', ''), options.get('Machine', '').split()[1:2]
    dates = [options[name] for name in ('Began', 'Run began') if name in options]
    random = options.get('ordering in a file', '').startswith('random')
    column = 'Mean(OPs)' if random else 'Mean(MiB)'
    rows = [_columns(names, row) for names, of_table in _SUMMARY.findall(output) for row in of_table.splitlines()]
    faults = [] if {'Finished', 'Run finished'} & options.keys() else ['IOR did not finish']
    if not rows:
        rows, faults = _of_table(output, options), []
    if not rows:
        metric = metric_of(random, {'access': 'write'}, '(?!)()')
        yield saved.Result('IOR', {'path': path}, [metric], output, ['it has no whole table of results'], dates=dates)
    for of in rows:
        numbers = ('blksiz', 'xsize', 'segcnt', '#Tasks', 'tPN', 'reps')
        if column not in of or not all(of.get(each, '').isdecimal() for each in numbers):
            raise ValueError(f'its summary has other columns: expected {column}, {", ".join(numbers)}')
        block, transfer, segments, ranks, of_node, _ = (int(of[each]) for each in numbers)
        nodes = options.get('nodes', '')
        wanted = {
            'API': of.get('API') or options.get('api', ''), 'transferSize': transfer, 'blockSize': block,
            'segmentCount': segments, 'numTasks': ranks, 'filePerProc': of.get('fPP') == '1',
            'nodes': int(nodes) if nodes.isdecimal() else -(-ranks // max(1, of_node)),
        }  # fmt: skip
        metric = metric_of(random, {'access': of['Operation']}, r'^(\S+)\n')
        node = ''.join(host) if wanted['nodes'] == 1 else ''
        yield saved.Result(
            'IOR', _params(wanted, random, path), [metric], output, faults,
            part.command('ior'), dates, node, f'{of[column]}\n', complaint_of,
        )  # fmt: skip


def _columns(header: str, row: str) -> dict[str, str]:
    """Return the columns of a row of the summary by name; of several of a name the first."""
    names, values = header.split(), row.split()
    return dict(reversed(list(zip(names, values, strict=True)))) if len(values) == len(names) else {}


def _of_table(output: str, options: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the means of the repetitions of each access in the table, by the names of the summary's columns."""
    header = re.search(r'^access +(bw\(MiB/s\) .*)', output, re.MULTILINE)
    names, rows = header[1].split() if header else [], []
    for access in ('write', 'read'):
        of_access = [row.split() for row in re.findall(rf'^{access} +([0-9].*)', output, re.MULTILINE)]
        if not of_access or str(len(of_access)) != options.get('repetitions'):
            continue
        columns = dict(zip(names, zip(*of_access, strict=False), strict=False))
        means = {
            mean: f'{fmean(map(float, columns[rate])):.10g}'
            for mean, rate in (('Mean(MiB)', 'bw(MiB/s)'), ('Mean(OPs)', 'IOPS'))
            if rate in columns
        }
        rows.append(means | {
            'Operation': access, 'reps': str(len(of_access)), 'segcnt': options.get('segments', ''),
            'blksiz': _bytes(options.get('blocksize', '')), 'xsize': _bytes(options.get('xfersize', '')),
            '#Tasks': options.get('tasks', ''), 'tPN': options.get('clients per node', ''),
            'fPP': str(int(options.get('access') == 'file-per-process')),
        })  # fmt: skip
    return rows


def _bytes(text: str) -> str:
    """Return a size as IOR prints it, such as ``2 MiB`` or ``47008 bytes``, in bytes; empty if it is none."""
    number, _, unit = text.partition(' ')
    factor = {'bytes': 1, 'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30, 'TiB': 2**40}.get(unit)
    return str(round(float(number) * factor)) if factor and re.fullmatch(r'[0-9]+(\.[0-9]+)?', number) else ''
