"""What came out: the verdict of a series in a session, and all verdicts of a session together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Limits
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.results.store import Session
from postprocess.verdicts.measured import Job

#: From worst to best.
VERDICTS = (
    'regressed', 'missing', 'failed', 'invalid', 'warning', 'improved', 'ok', 'no_reference', 'informational',
)  # fmt: skip
BAD = frozenset(('regressed', 'missing', 'failed', 'invalid'))
_COMPARED = frozenset(('regressed', 'warning', 'improved', 'ok'))


@dataclass(frozen=True)
class Verdict:
    """One series of one job, judged. Metric ``*`` stands for a case that names none.

    `reference` and `limits` are None where there is nothing to compare with. `nodes` and `case_id` are those of the
    first job that measured it, `session` is where its numbers come from. `loss`: share of the performance that was lost
    against the reference over the last `window` sessions, below 0 where it gained; `interval`: its 95 % interval.
    `p` is the chance that a healthy series looks so bad, corrected for the number of windows; `q` the same adjusted for
    the number of series, and 0 where a loss counts whatever the spread.
    """

    verdict: str
    id: SeriesId
    quantity: Quantity
    measured: Summary = NOTHING
    reference: Reference | None = None
    limits: Limits | None = None
    cause: str = ''
    nodes: tuple[str, ...] = ()
    p: float | None = None
    q: float | None = None
    session: str = ''
    case_id: int | None = None
    loss: float | None = None
    interval: tuple[float, float] | None = None
    window: int = 1
    jobs: tuple[Job, ...] = ()

    @property
    def value(self) -> float | None:
        """The mean of the samples; None without any."""
        return self.measured.mean

    @property
    def _same_quantity(self) -> bool:
        return self.reference is not None and self.quantity == self.reference.quantity

    @property
    def expected(self) -> float | None:
        """The mean of the reference; None without one in the unit and direction of the series."""
        return self.reference.mean if self.reference and self._same_quantity else None

    @property
    def limit(self) -> float | None:
        """The worst value that is still ok; None where `expected` is."""
        return self.limits.bad if self.limits and self._same_quantity else None

    @property
    def ratio(self) -> float | None:
        """Value / expected; None where the two were not compared."""
        if self.verdict not in _COMPARED or self.value is None or self.reference is None:
            return None
        return self.value / self.reference.mean

    @property
    def deviation(self) -> float | None:
        """How far the value is from the expected one, in %."""
        return None if self.ratio is None else 100 * (self.ratio - 1)

    @property
    def worse_by(self) -> float:
        """The deviation in the bad direction in %, for sorting; 0 where there is none."""
        return -self.quantity.sign * (self.deviation or 0.0)


@dataclass(frozen=True)
class Common:
    """A loss that several series share, though each may be too small to be seen alone.

    `kind`: ``partition``, ``environ``, ``check``, ``link_class``, ``node`` or ``curve``; `where` names it. `loss` is
    the median of theirs, with its 95 % `interval`; `p`: the chance that healthy ones look so bad, corrected for the
    number of groups.
    """

    kind: str
    where: str
    series: tuple[SeriesId, ...]
    loss: float
    interval: tuple[float, float]
    p: float

    @cached_property
    def _members(self) -> frozenset[SeriesId]:
        return frozenset(self.series)

    def holds(self, verdict: Verdict) -> bool:
        """Return True if a series may share the loss: it is one of its group, and not surely without half of it."""
        healthy = verdict.interval is not None and verdict.interval[1] < self.loss / 2
        return verdict.id in self._members and (self.kind != 'node' or self.where in verdict.nodes) and not healthy

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f'{self.kind} {self.where}: {len(self.series)} series lost {100 * self.loss:.1f} % in common '
            f'(95 % interval {100 * low:.1f} to {100 * high:.1f} %)'
        )


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a session, worst first, and what went wrong outside its series.

    `scope` names what is compared where that is more than one session on either side. `common`: losses that series
    share. `suspects`: the cases that should run again, for they are in doubt. `hints`: what to do next.
    """

    session: Session
    against: Session | None
    verdicts: list[Verdict]
    problems: list[str]
    scope: str = ''
    common: list[Common] = field(default_factory=list)
    suspects: frozenset[int] = frozenset()
    hints: list[str] = field(default_factory=list)

    @cached_property
    def series(self) -> list[Verdict]:
        """The verdict that stands for each series, that of its worst job: what is counted wherever metrics are."""
        found: dict[SeriesId, Verdict] = {}
        for row in self.verdicts:
            found.setdefault(row.id, row)
        return list(found.values())

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many series got each verdict, from worst to best, without verdicts that none got."""
        found = Counter(row.verdict for row in self.series)
        return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}

    @property
    def headline(self) -> str:
        """``2 regressed, 1 missing, 40 ok``."""
        return ', '.join(f'{n} {verdict.replace("_", " ")}' for verdict, n in self.counts.items()) or 'no metric'

    @property
    def exit_code(self) -> int:
        """1 where a series, what series have in common or the session itself is not as it should be, else 0."""
        return int(bool(self.problems or self.common) or not BAD.isdisjoint(self.counts))

    @property
    def word(self) -> str:
        """``FAILED`` or ``OK``."""
        return 'FAILED' if self.exit_code else 'OK'

    @property
    def nothing_to_compare_with(self) -> bool:
        """True if no series has a reference."""
        return set(self.counts) - {'informational'} == {'no_reference'}


def worst_first(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts sorted by kind, deviation and name."""
    return sorted(verdicts, key=lambda row: (VERDICTS.index(row.verdict), -row.worse_by, row.id.sort_key))
