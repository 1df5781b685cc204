# SPDX-License-Identifier: BSD-3-Clause
"""The output of mdtest: the rows and faults of its table, and saved outputs, also of several runs."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from checks.core.reading import saved
from checks.core.reading.trials import Metric
from checks.storage.ior_output import complaint_of
from plumbline.measurement import Measurement

_RATE = r'\d+\.\d{3}'
# Option of mdtest -> the only phase that it runs
_ONLY = {'-C': 'creation', '-T': 'stat', '-E': 'read', '-r': 'removal'}
# Options of mdtest that say what a number is of, beside ranks, nodes and items
_PARAMS = {'-d': 'path', '-a': 'api', '-w': 'write_bytes', '-e': 'read_bytes', '-z': 'depth', '-b': 'branches'}
# The table that -P adds: the seconds behind each rate
_TIMES = re.compile(r'^SUMMARY time.*\n(?: .*\n)*', re.MULTILINE)


def rows_of(item: str, operations: Sequence[str]) -> str:
    """Return a pattern of the mean rate in rows such as ``File creation : max min mean std``; 4.0 has no colon."""
    columns = rf'{_RATE} +{_RATE} +(?P<value>{_RATE}) +{_RATE}'
    return rf'^ +{item} (?P<operation>{"|".join(operations)}) *:? +{columns} *$'


def faults_of(output: str, ranks: int, nodes: int, items: int, iterations: int) -> list[str]:
    """Return a sentence for each number that differs from the requested one.

    `items`: files or directories of all ranks. Above its table, version 1 says only
    SUMMARY, and 4.1 the unit, too.
    """
    faults = []
    for what, pattern, requested in (
        ('ranks', r'was launched with (\d+) total task\(s\)', ranks),
        ('nodes', r'total task\(s\) on (\d+) node\(s\)', nodes),
        ('items', r'^\d+ tasks, (\d+) (?:files|directories)', items),
        ('iterations', r'^SUMMARY(?: rate)?(?: \(in ops/sec\))?: \(of (\d+) iterations\)', iterations),
    ):
        stated = re.findall(pattern, output, re.MULTILINE)
        if stated != [str(requested)]:
            faults.append(f'{what}: {requested} requested, mdtest says {", ".join(stated) or "nothing"}')
    if '-- finished at ' not in output:
        faults.append('mdtest did not finish')
    return faults


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield the mean rates of each operation; the dim `place` follows from the options of the run, as in the check."""
    begin = saved.begins(r'^(?:-- started at .* --\n\s*)?mdtest-\S+ was launched with')
    yield from saved.results_of(path, begin, 'mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)', _run)


def _run(part: saved.Part) -> Iterator[saved.Result]:
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
        rows, dims = rows_of(item, operations), {'place': f'{kind}_{sharing}'}
        metrics += [
            Metric(name, 'ops/s', 'higher', rows, dims, {'operation': operations}, per=per)
            for name, per in (('operations', ()), ('operations_per_process', (r'was launched with (\d+) total',)))
        ]
    faults = faults_of(output, ranks, nodes, items, int(iterations[0]) if iterations else 1)
    params: dict[str, object] = {'ranks': ranks, 'nodes': nodes, 'items': items}
    params |= {_PARAMS[word]: value for word, value in pairwise(words) if word in _PARAMS}
    dates = re.findall(r'^-- started at (.*) --$', output, re.MULTILINE)
    yield saved.Result(
        'mdtest', params, metrics, output, faults, ' '.join(words[1:]), dates, complaints=complaint_of,
    )  # fmt: skip
