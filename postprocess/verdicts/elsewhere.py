# SPDX-License-Identifier: BSD-3-Clause
"""Compare series without a reference of this machine with what machines with the same hardware reach elsewhere.

``elsewhere.csv`` here holds what was published of the machines that Plumbline describes; a file of the same form in the
folder of a site, what other sites shared. Such a comparison only warns.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from plumbline.errors import SiteError, expected_one_of
from plumbline.identity import Quantity, SeriesId, from_text
from plumbline.limits import PRIOR_DF, Limits
from plumbline.machine.hardware import memory_of_model, same_model
from plumbline.paths import site_file
from plumbline.references import ELSEWHERE, Reference, faults_of_pairs
from plumbline.units import UNITS, number_in
from postprocess.results.rows import CaseRow
from postprocess.text import digits, number
from postprocess.verdicts.decide import Loss
from postprocess.verdicts.measured import Measured

CARRIED = Path(__file__).with_name(ELSEWHERE)
COLUMNS = (
    'part', 'model', 'number', 'check', 'params', 'metric', 'dims', 'share_of', 'unit', 'better', 'median', 'spread',
    'n', 'source',
)  # fmt: skip
#: What a row is of: a processor, a GPU, or any machine.
PARTS = ('processor', 'gpu', 'any')
#: The peaks of a node of which a row may state the share that is reached.
PEAKS = ('memory_bandwidth', 'device_memory_bandwidth', 'flops_dp', 'network_bandwidth')
#: Standard deviation of the logarithm between machines with the same processor or GPU, where too few are known: pooled
#: over the 35 groups of two to four such machines in the published rows.
SPREAD = 0.12
_GPUS = re.compile(r'(?:^|; )(\d+) x (.+?)(?=; \d+ x |$)')  # as Topology.hardware writes them
_BEYOND = 0.99  # share of the machines elsewhere that are better than the limit
_MOST = 0.75  # loss at which a comparison warns at the latest


@dataclass(frozen=True)
class HardwareLevel:
    """What machines with some hardware reach: `row` holds their median, the spread between them, and their number.

    `part`: one of `PARTS`; `model`: of the processor or GPU; `number`: how many a node has, None for any number.
    `share_of`: one of `PEAKS` if the row states a share of it. The ids of the rows are patterns.
    """

    part: str
    model: str
    number: int | None
    share_of: str
    row: Reference

    def fits(self, machine: NodeHardware) -> bool:
        """Return True if a machine has the hardware of this level."""
        if self.part == 'any':
            return machine.is_whole or self.share_of not in ('memory_bandwidth', 'flops_dp')
        if self.part == 'gpu':
            return any(same_model(self.model, gpu) and self.number in (None, n) for gpu, n in machine.gpus)
        same = same_model(self.model, machine.processor) and self.number in (None, machine.sockets)
        return same and machine.is_whole

    @property
    def rank(self) -> tuple[int, tuple[int, int]]:
        """A sort key: of several levels that fit, the largest counts; one of the same hardware before one of any."""
        return PARTS.index('any') - PARTS.index(self.part), self.row.rank

    def to_row(self) -> dict[str, str]:
        """Return the columns of the file as text."""
        row, id = self.row, self.row.id.to_row()
        values = {
            'part': self.part, 'model': self.model, 'number': self.number, 'share_of': self.share_of,
            'unit': row.quantity.unit, 'better': row.quantity.better, 'median': row.mean, 'spread': row.spread,
            'n': row.n, 'source': row.source, **id,
        }  # fmt: skip
        return {name: digits(values[name]) for name in COLUMNS}


@dataclass(frozen=True)
class NodeHardware:
    """The hardware of the node of a case: name of the processor, number of sockets, and (model, number) of its GPUs.

    `is_whole`: False for a virtual machine, and for a job that may use less than half of the CPUs of its node.
    """

    processor: str
    sockets: int
    gpus: tuple[tuple[str, int], ...]
    is_whole: bool = True

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> NodeHardware:
        """Return the machine that the provenance of a case describes."""
        own = re.fullmatch(r'(\d+) of (\d+)', facts.get('cpus', ''))
        few = own and 2 * int(own[1]) < int(own[2])
        sockets, gpus = facts.get('sockets', ''), _GPUS.findall(facts.get('gpus', ''))
        return cls(
            facts.get('cpu_model', ''), int(sockets) if sockets.isdecimal() else 0,
            tuple((model, int(n)) for n, model in gpus), not ('virtual' in facts or few),
        )  # fmt: skip

    def peak(self, name: str) -> float | None:
        """Return the peak of a node in its base unit as its model tells it; None if unknown."""
        of_socket = memory_of_model(self.processor) if name == 'memory_bandwidth' else None
        return (of_socket and of_socket * self.sockets) or None


class Elsewhere:
    """The levels of other machines, for look-up."""

    def __init__(self, levels: Iterable[HardwareLevel]):
        self._levels: dict[tuple[str, str], list[HardwareLevel]] = {}  # by check and metric, the best first
        for level in levels:
            self._levels.setdefault((level.row.id.check, level.row.id.metric), []).append(level)
        for of_metric in self._levels.values():
            of_metric.sort(key=lambda level: level.rank, reverse=True)
        self._found: dict[tuple[SeriesId, NodeHardware], list[HardwareLevel]] = {}

    @classmethod
    def of(cls, site: str, root: Path | None = None) -> Elsewhere:
        """Return what a site may be compared with: the carried file, after the site's own. Raises SiteError."""
        own = site_file(site, ELSEWHERE, root)
        return cls([*(read(own) if own.exists() else ()), *_carried()])

    def rules(self, row: Measured, case: CaseRow) -> list[tuple[Reference, Limits]]:
        """Return the reference for a series with its limits; none where nothing is known of such hardware."""
        machine = NodeHardware.of(case.provenance)
        for level in self._candidates(row.id, machine):
            factor = 1.0
            if level.share_of:
                peak = case.figures.get(row.id.metric, {}).get('peak')
                by_model = machine.peak(level.share_of)
                factor = peak or (by_model and by_model / UNITS[row.quantity.unit]) or 0.0
            elif level.row.quantity != row.quantity:
                continue
            if factor and level.row.quantity.better == row.quantity.better:
                return [_scaled(level, row, factor)]
        return []

    def _candidates(self, id: SeriesId, machine: NodeHardware) -> list[HardwareLevel]:
        """Return the levels of this series for this hardware, the best first; kept, as nodes of a site are alike."""
        if (id, machine) not in self._found:
            of_metric = self._levels.get((id.check, id.metric), ())
            self._found[id, machine] = [level for level in of_metric if level.row.matches(id) and level.fits(machine)]
        return self._found[id, machine]


def _scaled(level: HardwareLevel, row: Measured, factor: float) -> tuple[Reference, Limits]:
    """Return a level as the reference of a series, in its unit, with the limits."""
    known = level.row
    of = f'{100 * known.mean:.0f} % of the peak; ' if level.share_of else ''
    machines = 'one machine' if known.n == 1 else f'{known.n} machines'
    reference = Reference(
        row.id, row.quantity, known.mean * factor, None, known.n, 'elsewhere', f'{of}{machines}: {known.source}',
    )  # fmt: skip
    return reference, limits(known, reference.mean, row.quantity.sign)


def beside(row: Measured, reference: Reference, bound: Limits, session: str) -> Loss:
    """Return the loss of a series beside machines elsewhere; a better number is no improvement of this one."""
    if row.quantity.sign * row.value >= row.quantity.sign * bound.bad:
        return Loss()
    side = 'below' if row.quantity.sign > 0 else 'above'
    cause = (
        f'{number(row.value)} {row.quantity.unit} in session {session} is {side} the limit {number(bound.bad)} '
        f'({bound.why}); expected {number(reference.mean)} ({reference.kind}, {reference.source})'
    )
    return Loss('warning', cause)


def limits(known: Reference, mean: float, sign: int) -> Limits:
    """Return the limits around `mean` of a comparison with `known`, the levels of n machines.

    One machine of 100 of such hardware is beyond the limit: the prediction interval of one more machine on the log
    scale. The spread of few machines is averaged with `SPREAD`, which counts for `PRIOR_DF` degrees of freedom.
    """
    from scipy.special import stdtrit

    n, df = known.n or 1, (known.n or 1) - 1
    variance = (PRIOR_DF * SPREAD**2 + df * (known.spread or 0.0) ** 2) / (PRIOR_DF + df)
    sd = math.sqrt(variance * (1 + 1 / n))
    loss = min(-math.expm1(-float(stdtrit(PRIOR_DF + df, _BEYOND)) * sd), _MOST)
    less, more = mean * (1 - loss), mean / (1 - loss)
    bad, good = (less, more) if sign > 0 else (more, less)
    return Limits(bad, good, loss, 'one such machine of 100 is beyond it; only warns', 'elsewhere', sd, PRIOR_DF + df)


def read(path: Path) -> list[HardwareLevel]:
    """Return the levels of a file. Raises SiteError naming file, line, column and what was expected."""
    try:
        text = path.read_text(encoding='utf-8')
    except OSError as error:
        raise SiteError(f'{path}: cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise SiteError(f'{path}: not a valid CSV file: {error}') from None
    return parse(text, path)


@cache
def _carried() -> list[HardwareLevel]:
    return read(CARRIED)


def parse(text: str, path: Path) -> list[HardwareLevel]:
    """Return the levels in the `text` of a file that `path` names. Raises SiteError."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise SiteError(f'{path}:1: expected the columns {",".join(COLUMNS)}')
        return [_level(entry, f'{path}:{reader.line_num}') for entry in reader]
    except csv.Error as error:
        raise SiteError(f'{path}: not a valid CSV file: {error}') from None


def _level(entry: Mapping[str, str], where: str) -> HardwareLevel:
    for fault in _faults_of(entry):
        raise SiteError(f'{where}: {fault}')
    n, spread = int(entry['n']), number_in(entry['spread'])
    row = Reference(
        SeriesId('*', '*', entry['check'], from_text(entry['params']), entry['metric'], from_text(entry['dims'])),
        Quantity(entry['unit'], entry['better']), number_in(entry['median']) or 0.0, None, n, 'elsewhere',
        entry['source'], spread=spread,
    )  # fmt: skip
    number = int(entry['number']) if entry['number'] else None
    return HardwareLevel(entry['part'], entry['model'], number, entry['share_of'], row)


def _faults_of(entry: Mapping[str, str]) -> Iterator[str]:
    """Yield each fault of a row: its column, and what was expected there."""
    if None in entry or None in entry.values():
        yield f'expected {len(COLUMNS)} fields'
        return
    for column, allowed in (
        ('part', PARTS), ('unit', (*UNITS,)), ('better', ('higher', 'lower')), ('share_of', ('', *PEAKS)),
    ):  # fmt: skip
        if entry[column] not in allowed:
            yield f'{column}: {expected_one_of(entry[column], allowed)}'
    for column in ('check', 'metric', 'source'):
        if not entry[column] or '*' in entry[column]:
            yield f'{column}: expected a text without wildcards, found {entry[column]!r}'
    if (entry['part'] == 'any') != (entry['model'] == ''):
        yield f'model: expected one for a processor or GPU and none for any machine, found {entry["model"]!r}'
    yield from faults_of_pairs(entry)
    for column, least in (('number', 1), ('n', 1)):
        text = entry[column]
        if not (text.isdecimal() and int(text) >= least) and (text or column == 'n'):
            yield f'{column}: expected a whole number of at least {least}, found {text!r}'
    for column in ('median', 'spread'):
        value = number_in(entry[column])
        if not (value is not None and math.isfinite(value) and (value > 0 or (column == 'spread' and value >= 0))) and (
            entry[column] or column == 'median'
        ):
            yield f'{column}: expected a finite number above 0, found {entry[column]!r}'
    if (entry['n'] == '1') != (entry['spread'] == ''):
        yield 'spread: expected one of two machines or more, and none of one machine'
