# SPDX-License-Identifier: BSD-3-Clause
"""The faults of IOR's JSON and mdtest's table."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Lines that IOR and mdtest print on an error, even if they continue and exit with 0. For empty files mdtest warns that
# reading means opening and closing.
_COMPLAINTS = re.compile(r'(?:ior )?(?:ERROR|WARNING: (?!Read bytes is 0))')
KEPT = 0.01  # of a file in the reader's cache, above which the rate is invalid


def complaint_of(printed: str) -> list[str]:
    """Return the first error on standard output, else the first warning, as a list of one or none."""
    found = [line.strip() for line in printed.splitlines() if _COMPLAINTS.match(line)]
    return sorted(found, key=lambda line: not re.search('ERROR|failed', line))[:1]


def answered_by_a_cache(cached: Path, file_system: str | None) -> str | None:
    """Return why a cache may have answered a read, from what ``storage_drop`` wrote: bytes kept, bytes of the files."""
    if not cached.exists() or file_system == 'tmpfs':  # tmpfs is the cache
        return None
    if file_system in ('zfs', 'gpfs'):
        return 'this file system has a cache of its own, which cannot be emptied'
    kept, _, whole = cached.read_text().partition(' ')
    if kept == 'unknown':
        return 'cannot tell whether a cache answered: fincore (util-linux 2.30) is not installed'
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

    @property
    def bytes_of_file(self) -> int:
        """The bytes of all files of the run."""
        return self.block * self.segments * self.ranks


def ior_faults(output: str, requested: Requested) -> list[str]:
    """Return a sentence for each thing that IOR's summary lacks, contradicts, or did otherwise than requested.

    The summary is compared with its repetitions, and its rate with bytes and time; IOR writes no table beside its JSON.
    """
    expected = {
        'operation': requested.operation, 'API': requested.api, 'transferSize': requested.transfer,
        'blockSize': requested.block, 'segmentCount': requested.segments, 'numTasks': requested.ranks,
        'nodes': requested.nodes, 'repetitions': requested.repetitions, 'filePerProc': requested.file_per_process,
        'reorderTasks': True,
    }  # fmt: skip
    try:
        report = json.loads(output)
        (test,), (summary,) = report['tests'], report['summary']
        rates = [float(each['bwMiB']) for each in _repetitions(test['Results'], requested.operation)]
        found = {key: (summary | {'nodes': test['Parameters']['nodes']})[key] for key in expected}
        moved, seconds = float(summary['xsizeMiB']), float(summary['MeanTime'])
        most, least, mean = (float(summary[f'bw{which}MIB']) for which in ('Max', 'Min', 'Mean'))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return [f"IOR's summary is no complete JSON of one test: {type(error).__name__}: {str(error)[:80]}"]
    differ = [key for key, value in expected.items() if found[key] != value]
    faults = [f'{key}: {expected[key]} was requested, IOR did {found[key]}' for key in differ]
    size = requested.bytes_of_file / 2**20
    if abs(moved - size) > 1e-4 + 1e-6 * size:
        faults.append(f'{size:.4f} MiB were to move, {moved:.4f} did')
    if len(rates) != requested.repetitions:
        faults.append(f'{requested.repetitions} repetitions were requested, {len(rates)} are listed')
    elif not all(_near(*pair) for pair in ((most, max(rates)), (least, min(rates)), (mean, sum(rates) / len(rates)))):
        faults.append(f'the summary has max {most}, min {least}, mean {mean} MiB/s, the repetitions have {rates}')
    # times have four decimals, which does not suffice for short runs
    if seconds > 0.05 and not _near(moved / seconds, mean, 0.02) and not least <= moved / seconds <= most:
        faults.append(f'{moved} MiB in {seconds} s are not {mean} MiB/s')
    return faults


def ior_spread(output: str) -> str:
    """Return ``3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s`` of a summary without faults."""
    (summary,) = json.loads(output)['summary']
    spread = ', '.join(f'{name.lower()} {summary[f"bw{name}MIB"]:.1f}' for name in ('Mean', 'Std', 'Max', 'Min'))
    return f'{summary["repetitions"]} repetitions: {spread} MiB/s'


def _repetitions(results: list[Any], operation: str) -> list[dict[str, Any]]:
    """Flatten IOR 3.3's list for each repetition, with its removals; 4.0 has one list."""
    flat = [each for entry in results for each in (entry if isinstance(entry, list) else [entry])]
    return [each for each in flat if each['access'] == operation]


def _near(value: float, other: float, relative: float = 1e-4) -> bool:
    return math.isclose(value, other, rel_tol=relative, abs_tol=1e-3)


def mdtest_rows(item: str, operations: Sequence[str]) -> str:
    """Return a pattern of the mean rate in rows such as ``File creation : max min mean std``; 4.0 has no colon."""
    number = r'\d+\.\d{3}'
    columns = rf'{number} +{number} +(?P<value>{number}) +{number}'
    return rf'^ +{item} (?P<operation>{"|".join(operations)}) *:? +{columns} *$'


def mdtest_faults(output: str, ranks: int, nodes: int, items: int, iterations: int) -> list[str]:
    """Return a sentence for each of these that mdtest did otherwise than requested; `items` of all ranks.

    From 4.1 on, mdtest names the unit above its table.
    """
    faults = []
    for what, pattern, requested in (
        ('ranks', r'was launched with (\d+) total task\(s\)', ranks),
        ('nodes', r'total task\(s\) on (\d+) node\(s\)', nodes),
        ('items', r'^\d+ tasks, (\d+) (?:files|directories)', items),
        ('iterations', r'^SUMMARY rate(?: \(in ops/sec\))?: \(of (\d+) iterations\)', iterations),
    ):
        found = re.findall(pattern, output, re.MULTILINE)
        if found != [str(requested)]:
            faults.append(f'{what}: {requested} requested, mdtest says {", ".join(found) or "nothing"}')
    if '-- finished at ' not in output:
        faults.append('mdtest did not finish')
    number = r' +(\d+\.\d{3})'
    for row, *numbers in re.findall(rf'^ +(\w+ \w+) *:?{3 * number}{number} *$', output, re.MULTILINE):
        most, least, mean = map(float, numbers[:3])
        if not least <= mean <= most:
            faults.append(f'{row}: the mean of {least} to {most} cannot be {mean}')
    return faults
