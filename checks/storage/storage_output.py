"""What IOR's JSON and mdtest's table say, beyond the numbers that the metrics read."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Lines that IOR and mdtest print when something went wrong, at times before they go on and exit with 0. Of files
# without bytes mdtest warns that reading is opening and closing.
_COMPLAINTS = re.compile(r'(?:ior )?(?:ERROR|WARNING: (?!Read bytes is 0))')
KEPT = 0.01  # of a file in the reader's cache, above which the rate is invalid


def complaint_of(printed: str) -> list[str]:
    """Return the complaint on standard output that says most, as a list of one; empty where there is none."""
    errors = [line.strip() for line in printed.splitlines() if _COMPLAINTS.match(line)]
    errors.sort(key=lambda line: not re.search('ERROR|failed', line))  # these say more than warnings before them
    return errors[:1]


def answered_by_a_cache(cached: Path, file_system: str | None) -> str | None:
    """Return why a cache may have answered a read, from what ``storage_drop`` wrote: bytes kept, bytes of the files."""
    if not cached.exists() or file_system == 'tmpfs':  # there the cache is what there is
        return None
    if file_system in ('zfs', 'gpfs'):
        return 'this file system has a cache of its own, which cannot be emptied'
    kept, _, whole = cached.read_text().partition(' ')
    if kept == 'unknown':
        return 'nothing tells whether a cache answered: fincore (util-linux 2.30) is not installed'
    if int(kept) > KEPT * int(whole):
        return f'{int(kept)} of {int(whole)} bytes were in the cache of the node that read them'
    return None


class Asked(NamedTuple):
    """What one run of IOR was asked to do."""

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
        """Of all files where there are several."""
        return self.block * self.segments * self.ranks


def ior_faults(output: str, asked: Asked) -> list[str]:
    """A sentence for each thing that IOR's summary in JSON lacks, contradicts, or did otherwise than asked.

    The summary is compared with the single repetitions, and its rate with the bytes and the time. There is no table as
    text to compare with: IOR writes either, and with ``-v`` IOR 4.0.0 leaves out a comma of its JSON.
    """
    try:
        said = json.loads(output)
        (test,), (summary,) = said['tests'], said['summary']
        repetitions = _repetitions(test['Results'], asked.operation)
        rates = [float(each['bwMiB']) for each in repetitions]
        found = {
            'operation': summary['operation'], 'API': summary['API'], 'transferSize': summary['transferSize'],
            'blockSize': summary['blockSize'], 'segmentCount': summary['segmentCount'],
            'numTasks': summary['numTasks'], 'nodes': test['Parameters']['nodes'],
            'repetitions': summary['repetitions'], 'filePerProc': bool(summary['filePerProc']),
            'reorderTasks': bool(summary['reorderTasks']),
        }  # fmt: skip
        moved, seconds = float(summary['xsizeMiB']), float(summary['MeanTime'])
        most, least, mean = (float(summary[f'bw{which}MIB']) for which in ('Max', 'Min', 'Mean'))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"IOR's summary is no whole JSON of one test: {type(error).__name__}: {error}"]
    expected = dict(zip(found, (*asked[:6], asked.nodes, asked.repetitions, asked.file_per_process, True), strict=True))
    differs = {key: value for key, value in expected.items() if found[key] != value}
    faults = [f'{key}: {value} was asked, IOR did {found[key]}' for key, value in differs.items()]
    whole = asked.bytes_of_file / 2**20
    if abs(moved - whole) > 1e-4 + 1e-6 * whole:
        faults.append(f'{whole:.4f} MiB were to move, {moved:.4f} did')
    if len(rates) != asked.repetitions:
        faults.append(f'{asked.repetitions} repetitions were asked, {len(rates)} are listed')
    elif not all(_near(*pair) for pair in ((most, max(rates)), (least, min(rates)), (mean, sum(rates) / len(rates)))):
        faults.append(f'the summary has max {most}, min {least}, mean {mean} MiB/s, the repetitions have {rates}')
    # times have four digits after the point, so that short runs say nothing
    if seconds > 0.05 and not _near(moved / seconds, mean, 0.02) and not least <= moved / seconds <= most:
        faults.append(f'{moved} MiB in {seconds} s are not {mean} MiB/s')
    return faults


def ior_spread(output: str) -> str:
    """``3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s`` of a sound summary."""
    (summary,) = json.loads(output)['summary']
    spread = ', '.join(f'{name.lower()} {summary[f"bw{name}MIB"]:.1f}' for name in ('Mean', 'Std', 'Max', 'Min'))
    return f'{summary["repetitions"]} repetitions: {spread} MiB/s'


def _repetitions(results: list[Any], operation: str) -> list[dict[str, Any]]:
    """IOR 3.3 has a list for each repetition, with its removals; 4.0 has one list."""
    flat = [each for entry in results for each in (entry if isinstance(entry, list) else [entry])]
    return [each for each in flat if each['access'] == operation]


def _near(value: float, other: float, relative: float = 1e-4) -> bool:
    return abs(value - other) <= relative * max(abs(value), abs(other)) + 1e-3


def mdtest_rows(item: str, operations: Sequence[str]) -> str:
    """Return a pattern of the mean rate in rows such as ``File creation : max min mean std``; 4.0 has no colon."""
    return rf'^\s+{item} (?P<operation>{"|".join(operations)})\s*:?\s+\S+\s+\S+\s+(?P<value>\S+)\s+\S+\s*$'


def mdtest_faults(output: str, ranks: int, nodes: int, items: int, iterations: int) -> list[str]:
    """A sentence for each of these that mdtest did not do as asked; `items` of all ranks."""
    faults = []
    for what, pattern, asked in (
        ('ranks', r'was launched with (\d+) total task\(s\)', ranks),
        ('nodes', r'total task\(s\) on (\d+) node\(s\)', nodes),
        ('items', r'^\d+ tasks, (\d+) (?:files|directories)', items),
        ('iterations', r'^SUMMARY rate: \(of (\d+) iterations\)', iterations),
    ):
        found = re.findall(pattern, output, re.MULTILINE)
        if found != [str(asked)]:
            faults.append(f'{what}: {asked} asked, mdtest says {", ".join(found) or "nothing"}')
    if '-- finished at ' not in output:
        faults.append('mdtest did not finish')
    return faults
