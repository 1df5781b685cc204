# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of IOR, its JSON, and of mdtest."""

import json
import re
import shlex
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from checks.core.reading.saved import measured, saved
from checks.core.reading.trials import Metric
from checks.storage import storage_output as storage
from plumbline.measurement import Measurement

# Option of mdtest -> the only phase that it runs
_ONLY = {'-C': 'creation', '-T': 'stat', '-E': 'read', '-r': 'removal'}
# The table that -P adds: the seconds behind each rate
_TIMES = re.compile(r'^SUMMARY time.*\n(?: .*\n)*', re.MULTILINE)


def ior(path: Path) -> Iterator[Measurement]:
    """Yield the mean rate of each test and access: bandwidth, or operations where the offsets are random."""
    try:
        report = json.loads(saved(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"expected IOR's JSON, of -O summaryFormat=JSON: {error}") from None
    tests = {test['TestID']: test for test in report['tests']}
    at = _utc(report['Began'], '%a %b %d %H:%M:%S %Y')
    done = 0
    for summary in report['summary']:
        test, access = tests[summary['TestID']], summary['operation']
        asked = test['Parameters']
        wanted = storage.Requested(
            access, asked['api'], asked['transferSize'], asked['blockSize'], asked['segmentCount'], summary['numTasks'],
            asked['nodes'], asked['repetitions'], bool(asked['filePerProc']), bool(asked['reorderTasks']),
        )  # fmt: skip
        params = {
            'api': wanted.api, 'transfer': wanted.transfer, 'block': wanted.block, 'segments': wanted.segments,
            'ranks': wanted.ranks, 'nodes': wanted.nodes, 'files': 'process' if wanted.file_per_process else 'shared',
            'offsets': 'random' if asked.get('randomOffset') else 'sequential',
        }  # fmt: skip
        results = [each for each in _flat(test['Results']) if each['access'] == access]
        done += len(results)
        output = json.dumps({'tests': [test | {'Results': results}], 'summary': [summary]}, indent=1)
        name, unit, key = storage.OPERATIONS if asked.get('randomOffset') else storage.BANDWIDTH
        metric = Metric(name, unit, 'higher', rf'"{key}": (\S+?),', {'access': access})
        yield from measured('IOR', params, [metric], output, storage.ior_faults(output, wanted), time=at)
    measured_at_all = [each for test in tests.values() for each in _flat(test['Results']) if each['access'] != 'remove']
    if len(tests) != len(report['tests']) or done != len(measured_at_all):
        raise ValueError(f'expected a summary of each of {len(measured_at_all)} results, found those of {done}')


def _flat(results: list[Any]) -> list[dict[str, Any]]:
    return [each for entry in results for each in (entry if isinstance(entry, list) else [entry])]


def mdtest(path: Path) -> Iterator[Measurement]:
    """Yield the mean rates of each operation; the dim `place` follows from the options of the run, as in the check."""
    output = _TIMES.sub('', saved(path))

    def stated(what: str, pattern: str) -> str:
        matches = re.findall(pattern, output, re.MULTILINE)
        if len(matches) != 1:
            raise ValueError(f'expected one line of mdtest with {what}, found {len(matches)}')
        return matches[0]

    words = shlex.split(stated('its command', r'^Command line used: (.*)$'))
    ranks = int(stated('its tasks', r'was launched with ([0-9]{1,9}) total task'))
    nodes = int(stated('its nodes', r'total task\(s\) on ([0-9]{1,9}) node'))
    items = int(stated('its items', r'^[0-9]{1,9} tasks, ([0-9]{1,15}) (?:files|directories)'))
    of_iterations = r'^SUMMARY(?: rate)?(?: \(in ops/sec\))?: \(of ([0-9]{1,9}) iterations\)'
    iterations = int(stated('its iterations', of_iterations))
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
    faults = storage.mdtest_faults(output, ranks, nodes, items, iterations)
    params = {'ranks': ranks, 'nodes': nodes, 'items': items}
    began = re.findall(r'^-- started at (.*) --$', output, re.MULTILINE)
    at = _utc(began[0], '%m/%d/%Y %H:%M:%S') if began else None
    yield from measured('mdtest', params, metrics, output, faults, time=at)


def _utc(text: str, form: str) -> datetime:
    """Return a time in the time zone of this machine in UTC. Raises ValueError."""
    return datetime.strptime(text, form).astimezone(timezone.utc).replace(tzinfo=None)
