# SPDX-License-Identifier: BSD-3-Clause
"""The faults of IOR's JSON and mdtest's table."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from checks.core.reading.outputs import errors_of

# A warning of IOR or mdtest, even if they continue and exit with 0. Harmless: for empty files, reading means opening
# and closing; a time limit leaves bytes out; the size of the file system is not known; a sync that an API lacks.
_WARNING = re.compile(
    r'(?:ior )?WARNING: (?!Read bytes is 0|.* statfs|unable to use realpath'
    r'|(?:Expected|Stat\(\) of|Using actual) aggregate|[Mm]aybe caused by deadline|fsync\(\) not supported'
    r'|The file .* exists already)'
)
MIB = 2**20
BANDWIDTH = 'bandwidth', 'MiB/s', 'bwMeanMIB'  # metric, unit, key of IOR's summary
OPERATIONS = 'operations', 'ops/s', 'OPsMean'  # of random offsets
SPREAD = {'mean': 'bwMeanMIB', 'std': 'bwStdMIB', 'max': 'bwMaxMIB', 'min': 'bwMinMIB'}  # MiB/s in its summary
KEPT = 0.01  # part of a file in the reader's cache, above which the rate is invalid


def complaint_of(printed: str) -> list[str]:
    """Return the first error on standard output, else the first warning, as a list of one or none."""
    warnings = errors_of(printed, _WARNING)
    return (errors_of(printed) or sorted(warnings, key=lambda line: 'failed' not in line))[:1]


def answered_by_a_cache(cached: Path, file_system: str | None) -> str | None:
    """Return why a cache may have answered a read; None if none has.

    `cached`: the file that ``storage_drop`` wrote, with the bytes in the cache and the bytes of the files.
    """
    if not cached.exists() or file_system == 'tmpfs':  # tmpfs is the cache
        return None
    if file_system in ('zfs', 'gpfs'):
        return 'this file system has a cache of its own, which cannot be emptied'
    kept, _, whole = cached.read_text().partition(' ')
    if kept == 'unknown':
        return (
            'cannot tell whether a cache answered: this node has neither fincore (util-linux; of Debian: '
            'util-linux-extra) nor a python3 that can count cached pages'
        )
    if int(kept) > KEPT * int(whole):
        return f'{int(kept)} of {int(whole)} bytes were in the cache of the node that read them'
    return None


class Requested(NamedTuple):
    """One requested run of IOR."""

    operation: str  # write or read
    api: str
    transfer: int  # bytes
    block: int  # bytes of a rank and segment
    segments: int
    ranks: int
    nodes: int
    repetitions: int
    file_per_process: bool
    reorder: bool = True  # each rank reads what another one wrote

    @property
    def bytes_of_file(self) -> int:
        """The bytes of all files of the run."""
        return self.block * self.segments * self.ranks


def ior_faults(output: str, requested: Requested) -> list[str]:
    """Return a sentence for each fault in IOR's summary: incomplete, or other than requested."""
    expected = {
        'operation': requested.operation, 'API': requested.api, 'transferSize': requested.transfer,
        'blockSize': requested.block, 'segmentCount': requested.segments, 'numTasks': requested.ranks,
        'nodes': requested.nodes, 'repetitions': requested.repetitions, 'filePerProc': requested.file_per_process,
        'reorderTasks': requested.reorder,
    }  # fmt: skip
    try:
        report = json.loads(output)
        (test,), (summary,) = report['tests'], report['summary']
        repetitions = _repetitions(test['Results'], requested.operation)
        actual = {key: (summary | {'nodes': test['Parameters']['nodes']})[key] for key in expected}
        moved, *_ = [float(summary[key]) for key in ('xsizeMiB', *SPREAD.values())]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return [f"IOR's summary is no complete JSON of one test: {type(error).__name__}: {str(error)[:80]}"]
    differ = [key for key, value in expected.items() if actual[key] != value]
    faults = [f'{key}: {expected[key]} was requested, IOR did {actual[key]}' for key in differ]
    size = requested.bytes_of_file / MIB
    if abs(moved - size) > 1e-4 + 1e-6 * size:
        faults.append(f'{size:.4f} MiB were to move, {moved:.4f} did')
    if len(repetitions) != requested.repetitions:
        faults.append(f'{requested.repetitions} repetitions were requested, {len(repetitions)} are listed')
    return faults


def ior_spread(output: str) -> str:
    """Return ``3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s`` of a summary without faults."""
    (summary,) = json.loads(output)['summary']
    spread = ', '.join(f'{name} {summary[key]:.1f}' for name, key in SPREAD.items())
    return f'{summary["repetitions"]} repetitions: {spread} MiB/s'


def _repetitions(results: list[Any], operation: str) -> list[dict[str, Any]]:
    """Flatten IOR 3.3's list for each repetition, with its removals; 4.0 has one list."""
    flat = [each for entry in results for each in (entry if isinstance(entry, list) else [entry])]
    return [each for each in flat if each['access'] == operation]


_RATE = r'\d+\.\d{3}'


def mdtest_rows(item: str, operations: Sequence[str]) -> str:
    """Return a pattern of the mean rate in rows such as ``File creation : max min mean std``; 4.0 has no colon."""
    columns = rf'{_RATE} +{_RATE} +(?P<value>{_RATE}) +{_RATE}'
    return rf'^ +{item} (?P<operation>{"|".join(operations)}) *:? +{columns} *$'


def mdtest_faults(output: str, ranks: int, nodes: int, items: int, iterations: int) -> list[str]:
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
