"""What came out: the verdict of a series in a session, and all verdicts of a session together."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Limits, quantile_t99
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.results.store import Session

#: From worst to best.
VERDICTS = (
    'regressed', 'missing', 'failed', 'invalid', 'warning', 'improved', 'ok', 'no_reference', 'informational',
)  # fmt: skip
BAD = frozenset(('regressed', 'missing', 'failed', 'invalid'))
_COMPARED = frozenset(('regressed', 'warning', 'improved', 'ok'))


@dataclass(frozen=True)
class Verdict:
    """One series of one job, judged. Metric ``*`` stands for a case that names none.

    `reference` and `limits` are None where there is nothing to compare with. `nodes` and
    `case_id` are those of the job, `session` is where its numbers come from. `where`: ``node`` or ``system`` when
    reruns tell. `p` is the chance that a healthy series is as bad as this or worse, `q` the same adjusted for the
    number of series; both only where the limit gates.
    """

    verdict: str
    id: SeriesId
    quantity: Quantity
    measured: Summary = NOTHING
    reference: Reference | None = None
    limits: Limits | None = None
    cause: str = ''
    where: str = ''
    nodes: tuple[str, ...] = ()
    p: float | None = None
    q: float | None = None
    session: str = ''
    case_id: int | None = None

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
    def interval(self) -> tuple[float, float] | None:
        """The 98 % interval of `ratio` from the spread of the reference: wholly beside 1 where the level changed."""
        if self.ratio is None or self.limits is None or self.limits.sd is None or self.limits.df is None:
            return None
        factor = math.exp(quantile_t99(self.limits.df) * self.limits.sd)
        return self.ratio / factor, self.ratio * factor

    @property
    def deviation(self) -> float | None:
        """How far the value is from the expected one, in %."""
        return None if self.ratio is None else 100 * (self.ratio - 1)

    @property
    def worse_by(self) -> float:
        """The deviation in the bad direction in %, for sorting; 0 where there is none."""
        return -self.quantity.sign * (self.deviation or 0.0)


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a session, worst first, and what went wrong outside its series.

    `false_flags`: how many series of a healthy machine would be beyond their limits in such a session, before reruns.
    `scope` names what is compared where that is more than one session on either side.
    """

    session: Session
    against: Session | None
    verdicts: list[Verdict]
    problems: list[str]
    false_flags: float = 0.0
    scope: str = ''

    @property
    def counts(self) -> dict[str, int]:
        """How many series got each verdict, from worst to best, without verdicts that none got."""
        found = Counter(row.verdict for row in self.verdicts)
        return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}

    @property
    def headline(self) -> str:
        """``2 regressed, 1 missing, 40 ok``."""
        return ', '.join(f'{n} {verdict.replace("_", " ")}' for verdict, n in self.counts.items()) or 'no metric'

    @property
    def exit_code(self) -> int:
        """1 where a series or the session itself is not as it should be, else 0."""
        return int(bool(self.problems) or not BAD.isdisjoint(self.counts))

    @property
    def nothing_to_compare_with(self) -> bool:
        """True if no series has a reference."""
        return set(self.counts) - {'informational'} == {'no_reference'}


def worst_first(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts sorted by kind, deviation and name."""
    return sorted(verdicts, key=lambda row: (VERDICTS.index(row.verdict), -row.worse_by, row.id.sort_key))
