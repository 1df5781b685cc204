# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of IOR, its JSON or its text, and of mdtest, also of several runs."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from checks.core.reading.saved import Part, Result, begins, measured, results_of, saved
from checks.core.reading.trials import Metric
from checks.storage import storage_output as storage
from plumbline.measurement import Measurement

# Option of mdtest -> the only phase that it runs
_ONLY = {'-C': 'creation', '-T': 'stat', '-E': 'read', '-r': 'removal'}
# Options of mdtest that say what a number is of, beside ranks, nodes and items
_PARAMS = {'-d': 'path', '-a': 'api', '-w': 'write_bytes', '-e': 'read_bytes', '-z': 'depth', '-b': 'branches'}
# The table that -P adds: the seconds behind each rate
_TIMES = re.compile(r'^SUMMARY time.*\n(?: .*\n)*', re.MULTILINE)
_SUMMARY = re.compile(r'^Summary of all tests: *\n(Operation .*)\n((?:(?:write|read) .*\n)*)', re.MULTILINE)


def ior(path: Path) -> Iterator[Measurement | str]:
    """Yield the mean rate of each test and access: bandwidth, or operations where the offsets are random."""
    text = saved(path)
    if text.lstrip().startswith('{'):
        for result in _of_json(text):
            yield from measured(result)
        return
    begin = begins(r'^IOR-\S+: MPI Coordinated Test of Parallel I/O')
    yield from results_of(path, begin, 'IOR-4.0.0: MPI Coordinated Test of Parallel I/O', _of_text)


def _of_json(text: str) -> Iterator[Result]:
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
        wanted = storage.Requested(
            access, asked['api'], asked['transferSize'], asked['blockSize'], asked['segmentCount'], summary['numTasks'],
            asked['nodes'], asked['repetitions'], bool(asked['filePerProc']), bool(asked['reorderTasks']),
        )  # fmt: skip
        results = [each for each in _flat(test['Results']) if each['access'] == access]
        done += len(results)
        output = json.dumps({'tests': [test | {'Results': results}], 'summary': [summary]}, indent=1)
        random = bool(asked.get('randomOffset'))
        name, unit, key = storage.OPERATIONS if random else storage.BANDWIDTH
        metric = Metric(name, unit, 'higher', rf'"{key}": (\S+?),', {'access': access})
        yield Result(
            'IOR', _params(wanted, random, asked.get('testFileName', '')), [metric], output,
            storage.ior_faults(output, wanted), dates=[report['Began']],
            node=''.join(host) if wanted.nodes == 1 else '',
        )  # fmt: skip
    measured_at_all = [each for test in tests.values() for each in _flat(test['Results']) if each['access'] != 'remove']
    if len(tests) != len(report['tests']) or done != len(measured_at_all):
        raise ValueError(f'expected a summary of each of {len(measured_at_all)} results, found those of {done}')


def _params(of: storage.Requested, random: bool, path: str) -> dict[str, object]:
    return {
        'api': of.api, 'transfer': of.transfer, 'block': of.block, 'segments': of.segments, 'ranks': of.ranks,
        'nodes': of.nodes, 'files': 'process' if of.file_per_process else 'shared',
        'offsets': 'random' if random else 'sequential', 'path': path,
    }  # fmt: skip


def _flat(results: list[Any]) -> list[dict[str, Any]]:
    return [each for entry in results for each in (entry if isinstance(entry, list) else [entry])]


def _of_text(part: Part) -> Iterator[Result]:
    """Yield the rows of the summary of a run, or of its table, as the IO500 prints it; without one, a failed result."""
    output = part.output
    options = dict(re.findall(r'^(\w[\w ]*?) *[:=] +(.*\S)', output, re.MULTILINE))
    path, host = options.get('test filename', ''), options.get('Machine', '').split()[1:2]
    dates = [options[name] for name in ('Began', 'Run began') if name in options]
    random = options.get('ordering in a file', '').startswith('random')
    name, unit, _ = storage.OPERATIONS if random else storage.BANDWIDTH
    column = 'Mean(OPs)' if random else 'Mean(MiB)'
    rows = [_columns(names, row) for names, of_table in _SUMMARY.findall(output) for row in of_table.splitlines()]
    faults = [] if {'Finished', 'Run finished'} & options.keys() else ['IOR did not finish']
    if not rows:
        rows, faults = _of_table(output, options), []
    if not rows:
        metric = Metric(name, unit, 'higher', '(?!)()', {'access': 'write'})
        yield Result('IOR', {'path': path}, [metric], output, ['it has no whole table of results'], dates=dates)
    for of in rows:
        numbers = ('blksiz', 'xsize', 'segcnt', '#Tasks', 'tPN', 'reps')
        if column not in of or not all(of.get(each, '').isdecimal() for each in numbers):
            raise ValueError(f'its summary has other columns: expected {column}, {", ".join(numbers)}')
        block, transfer, segments, ranks, of_node, repetitions = (int(of[each]) for each in numbers)
        nodes = options.get('nodes', '')
        wanted = storage.Requested(
            of['Operation'], of.get('API') or options.get('api', ''), transfer, block, segments, ranks,
            int(nodes) if nodes.isdecimal() else -(-ranks // max(1, of_node)), repetitions, of.get('fPP') == '1',
        )  # fmt: skip
        metric = Metric(name, unit, 'higher', r'^(\S+)\n', {'access': of['Operation']})
        node = ''.join(host) if wanted.nodes == 1 else ''
        yield Result(
            'IOR', _params(wanted, random, path), [metric], output, faults,
            part.command('ior'), dates, node, f'{of[column]}\n', storage.complaint_of,
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


def mdtest(path: Path) -> Iterator[Measurement | str]:
    """Yield the mean rates of each operation; the dim `place` follows from the options of the run, as in the check."""
    begin = begins(r'^(?:-- started at .* --\n\s*)?mdtest-\S+ was launched with')
    yield from results_of(path, begin, 'mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)', _of_mdtest)


def _of_mdtest(part: Part) -> Iterator[Result]:
    output = _TIMES.sub('', part.output)
    words = shlex.split(part.stated('its command', r'^Command line used: (.*)$'))
    ranks = int(part.stated('its tasks', r'was launched with ([0-9]{1,9}) total task'))
    nodes = int(part.stated('its nodes', r'total task\(s\) on ([0-9]{1,9}) node'))
    items = int(part.stated('its items', r'^[0-9]{1,9} tasks, ([0-9]{1,15}) (?:files|directories)'))
    of_iterations = r'^SUMMARY(?: rate)?(?: \(in ops/sec\))?: \(of ([0-9]{1,9}) iterations\)'
    iterations = re.findall(of_iterations, output, re.MULTILINE)
    only = [_ONLY[word] for word in words if word in _ONLY]
    sharing = 'unique' if '-u' in words else 'shared'
    metrics = []
    for item, option, kind in (('File', '-F', 'hard' if '-w' in words else 'easy'), ('Directory', '-D', 'directories')):
        if option not in words and {'-F', '-D'} & {*words}:
            continue
        known = ('creation', 'stat', 'read', 'removal') if item == 'File' else ('creation', 'stat', 'removal')
        operations = [name for name in known if not only or name in only]
        rows, dims = storage.mdtest_rows(item, operations), {'place': f'{kind}_{sharing}'}
        metrics += [
            Metric(name, 'ops/s', 'higher', rows, dims, {'operation': operations}, per=per)
            for name, per in (('operations', ()), ('operations_per_process', (r'was launched with (\d+) total',)))
        ]
    faults = storage.mdtest_faults(output, ranks, nodes, items, int(iterations[0]) if iterations else 1)
    params: dict[str, object] = {'ranks': ranks, 'nodes': nodes, 'items': items}
    params |= {_PARAMS[word]: value for word, value in pairwise(words) if word in _PARAMS}
    dates = re.findall(r'^-- started at (.*) --$', output, re.MULTILINE)
    yield Result(
        'mdtest', params, metrics, output, faults, ' '.join(words[1:]), dates, complaints=storage.complaint_of,
    )  # fmt: skip
