# SPDX-License-Identifier: BSD-3-Clause
"""The faults of IOR's JSON and mdtest's table."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from checks.core.reading.agreement import CTIME, Claim, Traces, at_most, contradictions, equal, exact, printed
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


_OF_REPETITION = [
    Claim('rate and time', lambda of: (of['bwMiB'] * of['totalTime'], of['MiB'])),
    Claim('operations/s and time', lambda of: (of['iops'] * of['wrRdTime'], of['transfers'])),
    *(Claim(f'{part} and totalTime', lambda of, part=part: (of[part], of['totalTime']), at_most)
      for part in ('openTime', 'wrRdTime', 'closeTime')),
]  # fmt: skip
_OF_SUMMARY = [
    Claim('OPsMean and bwMeanMIB', lambda of: (of['OPsMean'] * of['MiB'], of['bwMeanMIB'] * of['transfers'])),
    Claim('MeanTime and the times of the repetitions', lambda of: (of['MeanTime'] * of['repetitions'], of['times'])),
]


def _ior_agreement(requested: Requested, summary: dict[str, Any], repetitions: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each repetition, or the summary, whose numbers contradict each other."""
    whole = {
        'MiB': exact(requested.bytes_of_file / MIB),
        'transfers': exact(requested.bytes_of_file / requested.transfer),
    }

    def numbers(of: dict[str, Any]) -> dict[str, Any]:
        return whole | {key: printed(f'{value:.4f}') for key, value in of.items() if isinstance(value, float)}

    faults = []
    for number, each in enumerate(repetitions, start=1):
        faults += contradictions(_OF_REPETITION, numbers(each), f'repetition {number}')
    times = sum((numbers(each)['totalTime'] for each in repetitions), exact(0))
    more = {'times': times, 'repetitions': exact(len(repetitions))}
    return faults + contradictions(_OF_SUMMARY, numbers(summary) | more, 'the summary')


def ior_faults(output: str, requested: Requested) -> list[str]:
    """Return a sentence for each fault in IOR's summary: incomplete, contradictory, or other than requested.

    The summary is compared with its repetitions, and its rate with bytes and time; IOR writes no table beside its JSON.
    """
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
        rates = [float(each['bwMiB']) for each in repetitions]
        actual = {key: (summary | {'nodes': test['Parameters']['nodes']})[key] for key in expected}
        moved, contradicting = float(summary['xsizeMiB']), _ior_agreement(requested, summary, repetitions)
        most, least, mean = (float(summary[f'bw{which}MIB']) for which in ('Max', 'Min', 'Mean'))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return [f"IOR's summary is no complete JSON of one test: {type(error).__name__}: {str(error)[:80]}"]
    differ = [key for key, value in expected.items() if actual[key] != value]
    faults = [f'{key}: {expected[key]} was requested, IOR did {actual[key]}' for key in differ]
    size = requested.bytes_of_file / MIB
    if abs(moved - size) > 1e-4 + 1e-6 * size:
        faults.append(f'{size:.4f} MiB were to move, {moved:.4f} did')
    if len(rates) != requested.repetitions:
        faults.append(f'{requested.repetitions} repetitions were requested, {len(rates)} are listed')
    elif not all(_near(*pair) for pair in ((most, max(rates)), (least, min(rates)), (mean, sum(rates) / len(rates)))):
        faults.append(f'the summary has max {most}, min {least}, mean {mean} MiB/s, the repetitions have {rates}')
    return faults or contradicting


_OF_ROW = [
    Claim('lowest and mean rate', lambda of: (of['Min(MiB)'], of['Mean(MiB)']), at_most),
    Claim('mean and highest rate', lambda of: (of['Mean(MiB)'], of['Max(MiB)']), at_most),
]


def ior_row_faults(output: str, row: Mapping[str, str]) -> list[str]:
    """Return a sentence for each fault of a row (column -> text) in the summary that IOR prints as text.

    It is compared with itself, with the rows of its repetitions and with the highest rate that IOR names.
    """
    numbers = {name: printed(text) for name, text in row.items() if re.fullmatch(r'[0-9]+\.[0-9]+', text)}
    faults = contradictions(_OF_ROW, numbers, f'the summary of {row["Operation"]}')
    highest = re.findall(rf'^Max {row["Operation"].title()}: +([0-9.]+) MiB/sec', output, re.MULTILINE)
    if highest and 'Max(MiB)' in numbers and not any(equal(printed(each), numbers['Max(MiB)']) for each in highest):
        faults.append(f'the highest rate is {row["Max(MiB)"]} MiB/s in the summary and {highest[0]} MiB/s above it')
    return faults


def ior_traces(output: str, operation: str) -> Traces:
    """Return the time of all repetitions, when IOR began and finished, and the host of rank 0."""
    report = json.loads(output)
    each = _repetitions(report['tests'][0]['Results'], operation)
    seconds = sum((printed(f'{repetition["totalTime"]:.4f}') for repetition in each), exact(0))
    dates = [report[key] for key in ('Began', 'Finished') if re.fullmatch(CTIME, str(report.get(key)))]
    return Traces(seconds, dates, hosts=str(report.get('Machine', '')).split()[1:2])


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


_RATE = r'\d+\.\d{3}'


def mdtest_rows(item: str, operations: Sequence[str]) -> str:
    """Return a pattern of the mean rate in rows such as ``File creation : max min mean std``; 4.0 has no colon."""
    columns = rf'{_RATE} +{_RATE} +(?P<value>{_RATE}) +{_RATE}'
    return rf'^ +{item} (?P<operation>{"|".join(operations)}) *:? +{columns} *$'


def mdtest_faults(output: str, ranks: int, nodes: int, items: int, iterations: int) -> list[str]:
    """Return a sentence for each number that differs from the requested one, and for each contradictory row.

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
    version = output.partition('mdtest-')[2][:1]
    number = rf' +({_RATE})'
    for row, *numbers in re.findall(rf'^ +(\w+ \w+) *:?{4 * number} *$', output, re.MULTILINE):
        most, least, mean = map(float, numbers[:3])
        if not least <= mean <= most:
            faults.append(f'{row}: the mean of {least} to {most} cannot be {mean}')
        elif not faults and version not in ('1', '3') and not _may_be(iterations, *map(float, numbers)):
            faults.append(f'{row}: max, min, mean and std {" ".join(numbers)} contradict each other')
    return faults


def _may_be(n: int, most: float, least: float, mean: float, std: float) -> bool:
    """Return True if `n` numbers may have this summary. `std`: with divisor n - 1.

    Not of version 1, whose numbers are those of all ranks, nor of version 3, which leaves numbers out of `std`.
    Of the numbers between the largest and the smallest only the sum is known; `std` is least if they are equal.
    """
    rounded = 0.01  # the four numbers have three decimals; the sum of the others has an error n times as large
    others = n - 2
    if others < 1:
        return abs(2 * mean - most - least) <= rounded and abs(std - (most - least) / math.sqrt(2)) <= rounded
    rest = (n * mean - most - least) / others
    fewest = math.sqrt(((most - mean) ** 2 + (least - mean) ** 2 + others * (rest - mean) ** 2) / (n - 1))
    largest = fewest if others == 1 else math.sqrt((most - mean) * (mean - least) * n / (n - 1))
    return least - rounded <= rest <= most + rounded and fewest - rounded <= std <= largest + rounded


def mdtest_traces(output: str, items: int, iterations: int) -> Traces:
    """Return the least time of all iterations, by their best rates, and when mdtest started and finished."""
    best = [printed(rate) for rate in re.findall(rf'^ +(?:File|Directory) \w+ *:? +({_RATE})', output, re.MULTILINE)]
    seconds = sum((exact(items) * iterations / rate for rate in best), exact(0))
    return Traces(seconds, re.findall(r'^-- (?:started|finished) at (.*) --$', output, re.MULTILINE))
