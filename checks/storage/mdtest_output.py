# SPDX-License-Identifier: BSD-3-Clause
"""The output of mdtest: the rows and faults of its table, and saved outputs, also of several runs."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from checks.core.reading import saved
from checks.core.reading.metrics import Metric
from checks.storage.ior_output import complaint_of
from plumbline.measurement import Measurement

#: Items of mdtest -> the operations for each of which it prints a row.
OPERATIONS = {'File': ('creation', 'stat', 'read', 'removal'), 'Directory': ('creation', 'stat', 'removal')}
_RATE = r'\d+\.\d{3}'
# Above its table, version 1 says only SUMMARY, and 4.1 the unit, too
_STATED = {
    'ranks': r'was launched with (\d+) total task\(s\)',
    'nodes': r'total task\(s\) on (\d+) node\(s\)',
    'items': r'^\d+ tasks, (\d+) (?:files|directories)',
    'iterations': r'^SUMMARY(?: rate)?(?: \(in ops/sec\))?: \(of (\d+) iterations\)',
}
# Option of mdtest -> the only phase that it runs
_ONLY = {'-C': 'creation', '-T': 'stat', '-E': 'read', '-r': 'removal'}
# Options of mdtest that say what a number is of, beside ranks, nodes and items
_PARAMS = {'-d': 'path', '-a': 'api', '-w': 'write_bytes', '-e': 'read_bytes', '-z': 'depth', '-b': 'branches'}
# The table that -P adds: the seconds behind each rate
_TIMES = re.compile(r'^SUMMARY time.*\n(?: .*\n)*', re.MULTILINE)


def metrics_of(place: str, item: str, operations: Sequence[str], run: str = 'run') -> list[Metric]:
    """Return the mean rates of rows such as ``File creation : max min mean std``; 4.0 has no colon."""
    columns = rf'{_RATE} +{_RATE} +(?P<value>{_RATE}) +{_RATE}'
    rows = rf'^ +{item} (?P<operation>{"|".join(operations)}) *:? +{columns} *$'
    dims, expected, of_process = {'place': place}, {'operation': operations}, (_STATED['ranks'],)
    return [
        Metric('operations', 'ops/s', 'higher', rows, dims, expected, run=run),
        Metric('operations_per_process', 'ops/s', 'higher', rows, dims, expected, of_process, run=run,
               draw={'ideal': 'none'}),
    ]  # fmt: skip


def faults_of(output: str, ranks: int, nodes: int, items: int, iterations: int) -> list[str]:
    """Return a sentence for each number that differs from the requested one.

    `items`: files or directories of all ranks.
    """
    faults = []
    for (what, pattern), requested in zip(_STATED.items(), (ranks, nodes, items, iterations), strict=True):
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
    ranks, nodes, items = (int(part.stated(f'its {what}', _STATED[what])) for what in ('ranks', 'nodes', 'items'))
    iterations = re.findall(_STATED['iterations'], output, re.MULTILINE)
    only = [_ONLY[word] for word in words if word in _ONLY]
    sharing = 'unique' if '-u' in words else 'shared'
    metrics = []
    for item, option, kind in (('File', '-F', 'hard' if '-w' in words else 'easy'), ('Directory', '-D', 'directories')):
        if option not in words and {'-F', '-D'} & {*words}:
            continue
        operations = [name for name in OPERATIONS[item] if not only or name in only]
        metrics += metrics_of(f'{kind}_{sharing}', item, operations)
    faults = faults_of(output, ranks, nodes, items, int(iterations[0]) if iterations else 1)
    params: dict[str, object] = {'ranks': ranks, 'nodes': nodes, 'items': items}
    params |= {_PARAMS[word]: value for word, value in pairwise(words) if word in _PARAMS}
    dates = re.findall(r'^-- started at (.*) --$', output, re.MULTILINE)
    yield saved.Result(
        'mdtest', params, metrics, output, faults, ' '.join(words[1:]), dates, complaints=complaint_of,
    )  # fmt: skip
