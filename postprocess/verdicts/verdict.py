# SPDX-License-Identifier: BSD-3-Clause
"""The results of judging: the verdict of a series in a session, and all verdicts of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from plumbline.causes import Code
from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Limits
from plumbline.problems import Problem
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.results.store import Session
from postprocess.verdicts.measured import Job

VerdictName = Literal[
    'regressed', 'missing', 'failed', 'invalid', 'warning', 'improved', 'ok', 'no_reference', 'informational'
]
#: From worst to best.
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
#: What a comparison with a reference shows; empty where there was none.
Shown = Literal['', 'ok', 'improved', 'warning', 'regressed']
BAD: frozenset[VerdictName] = frozenset(('regressed', 'missing', 'failed', 'invalid'))
#: What a loss in a series would cause: a failure; a warning, because the reference is of another machine; or nothing,
#: because the series has no reference, is no longer measured, or is informational.
Standing = Literal['gated', 'elsewhere', 'no_reference', 'vanished', 'informational']
STANDINGS: tuple[Standing, ...] = get_args(Standing)
_LEAST_FIRST: tuple[Standing, ...] = ('vanished', 'no_reference', 'elsewhere', 'gated', 'informational')
_COMPARED: frozenset[VerdictName] = frozenset(('regressed', 'warning', 'improved', 'ok'))


@dataclass(frozen=True)
class Verdict:
    """One judged series of one job. Metric ``*`` stands for a case that names no metric.

    `reference` and `limits` are None if there is nothing to compare with. `nodes` and `case_id`: of the first job that
    measured the series. `session`: where its numbers come from. `loss`: share of the performance that was lost against
    the reference over the last `window` sessions, below 0 for a gain; `interval`: its 95 % interval. `p`: the chance
    that a healthy series looks so bad, corrected for the number of windows. `q`: `p` adjusted for the number of series;
    0 for a loss above the cap. `code`: of the cause, where the series has no number that counts. `stand_in`: what the
    comparison with a stand-in for a baseline shows, where it counts; then it is that `reference` and that loss.
    """

    verdict: VerdictName
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
    code: Code | None = None
    stand_in: Shown = ''

    @property
    def value(self) -> float | None:
        """The mean of the samples; None without any."""
        return self.measured.mean

    @property
    def _same_quantity(self) -> bool:
        """True if the reference has the unit and direction of the series."""
        return self.reference is not None and self.quantity == self.reference.quantity

    @property
    def expected(self) -> float | None:
        """The mean of the reference; None without a reference in the unit and direction of the series."""
        return self.reference.mean if self.reference and self._same_quantity else None

    @property
    def limit(self) -> float | None:
        """The worst value that is still ok; None where `expected` is None."""
        return self.limits.bad if self.limits and self._same_quantity else None

    @property
    def ratio(self) -> float | None:
        """Value / expected value; None if these two were not compared."""
        if self.verdict not in _COMPARED or self.value is None or self.reference is None:
            return None
        return self.value / self.reference.mean

    @property
    def deviation(self) -> float | None:
        """The difference of the value from the expected value, in %; None if these two were not compared."""
        return None if self.ratio is None else 100 * (self.ratio - 1)

    @property
    def worse_by(self) -> float:
        """The deviation in the bad direction in %, for sorting; 0 without a deviation."""
        return -self.quantity.sign * (self.deviation or 0.0)

    @property
    def standing(self) -> Standing:
        """The standing of the series, one of `STANDINGS`."""
        if self.limits and self.value is None:
            return 'vanished'
        if self.verdict == 'informational':
            return self.verdict
        return (self.limits.gate if self.limits else '') or 'no_reference'

    @property
    def is_referenced(self) -> bool:
        """True if there is a reference of this machine, so that a loss can fail."""
        return self.reference is not None and self.standing not in ('elsewhere', 'no_reference')

    @property
    def detectable(self) -> float:
        """The smallest loss that the limit notices, a share; 0 if it is not known."""
        return (self.limits and self.limits.detectable) or 0.0


@dataclass(frozen=True)
class Common:
    """A loss that several series share, though it may be too small to be seen in one series.

    `kind`: ``partition``, ``environ``, ``check``, ``link_class``, ``node`` or ``curve``; `where`: its name. `loss`:
    median loss of the series, with its 95 % `interval`. `p`: the chance that healthy series look so bad, corrected for
    the number of groups.
    """

    kind: str
    where: str
    series: tuple[SeriesId, ...]
    loss: float
    interval: tuple[float, float]
    p: float

    @cached_property
    def _members(self) -> frozenset[SeriesId]:
        """The series of the group, for fast look-up."""
        return frozenset(self.series)

    def holds(self, verdict: Verdict) -> bool:
        """Return True if a series may share the loss: it is in the group and may have lost at least half as much."""
        healthy = verdict.interval is not None and verdict.interval[1] < self.loss / 2
        return verdict.id in self._members and (self.kind != 'node' or self.where in verdict.nodes) and not healthy

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f'{self.kind} {self.where}: {len(self.series)} series lost {100 * self.loss:.1f} % in common '
            f'(95 % interval {100 * low:.1f} to {100 * high:.1f} %)'
        )


@dataclass(frozen=True)
class Again:
    """Further `jobs` of a case that should run now: on the node `on` if given, else on nodes not in `not_on`.

    `case_id`: of its first job. `partition`, `environ`, `name`: as in ReFrame. `why`: the reason in words. `if_free`:
    only if the node is idle, as one that was drained for its repair is not.
    """

    case_id: int
    partition: str
    environ: str
    name: str
    jobs: int
    on: str = ''
    not_on: tuple[str, ...] = ()
    why: str = ''
    if_free: bool = False


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a session, the worst first, and what went wrong outside its series.

    `scope`: what is compared, if it is more than one session on a side. `common`: losses that series share. `again`:
    jobs that should run before the answer is final. `left_out`: a sentence on the doubts for which the budget of
    further jobs was too small. `hints`: what to do next. `retire`: the command that retires the baseline of series that
    no job measured, without ``plumbline`` and its options. `busy`: how many cases ran on nodes that had other work or
    were throttled, with the `case_id` of their `busy_jobs`. `common_by_stand_in`: losses that series share against what
    stands in for a baseline; `fault`: why nothing does.
    """

    session: Session
    against: Session | None
    verdicts: list[Verdict]
    problems: list[Problem]
    scope: str = ''
    common: list[Common] = field(default_factory=list)
    again: tuple[Again, ...] = ()
    left_out: str = ''
    hints: list[str] = field(default_factory=list)
    retire: str = ''
    busy: int = 0
    busy_jobs: frozenset[int] = frozenset()
    common_by_stand_in: list[Common] = field(default_factory=list)
    fault: str = ''

    @cached_property
    def with_stand_ins(self) -> Comparison:
        """The same, as if what stands in for a baseline were one: incidents tell a first doubt from a loss."""
        rows = [replace(row, verdict=row.stand_in) if row.stand_in else row for row in self.verdicts]
        return replace(self, verdicts=worst_first(rows), common=[*self.common, *self.common_by_stand_in])

    @cached_property
    def series(self) -> list[Verdict]:
        """The worst verdict of each series; all counts of metrics use these."""
        worst: dict[SeriesId, Verdict] = {}
        for row in self.verdicts:
            worst.setdefault(row.id, row)
        return list(worst.values())

    @cached_property
    def counts(self) -> dict[VerdictName, int]:
        """Verdict -> number of series, from the worst verdict to the best; verdicts of no series are left out."""
        numbers = Counter(row.verdict for row in self.series)
        return {verdict: numbers[verdict] for verdict in VERDICTS if numbers[verdict]}

    @property
    def headline(self) -> str:
        """The counts as text: ``2 regressed, 1 missing, 40 ok``."""
        return _counted(self.counts)

    @cached_property
    def guarded(self) -> list[Verdict]:
        """The series sorted by standing, the least guarded first, then by the loss they notice, the largest first."""
        rows = [row for row in self.series if row.id.metric != '*']
        return sorted(rows, key=lambda row: (_LEAST_FIRST.index(row.standing), -row.detectable))

    @property
    def standings(self) -> dict[Standing, int]:
        """Standing -> number of series; standings of no series are left out."""
        numbers = Counter(row.standing for row in self.guarded)
        return {name: numbers[name] for name in STANDINGS if numbers[name]}

    @property
    def coverage(self) -> str:
        """The standings as text: ``180 gated, 9 no reference``."""
        return _counted(self.standings)

    @property
    def guard(self) -> str:
        """Sentences that say how many series are gated, and which losses they notice within one session."""
        text = f'{self.coverage}.'
        if noticed := sorted(row.detectable for row in self.guarded if row.standing == 'gated' and row.detectable):
            half, every = (f'{100 * loss:.1f} %' for loss in (noticed[len(noticed) // 2], noticed[-1]))
            said = f'half of them notice losses above {half}, all of them losses above {every}'
            said = f'each notices losses above {every}' if half == every else said
            of_nodes = 'as a mean over its nodes; one slow node is named by `plumbline compare SESSION`'
            text += f' {said.capitalize()}, {of_nodes}.' if self.scope else f' Within one session {said}.'
        if levels := sum(bool(row.reference and row.reference.has_two_levels) for row in self.guarded):
            text += f' {levels} of them {"has" if levels == 1 else "have"} two levels and the worse one as reference.'
        return f'{text} {self.left_out}'.rstrip()

    @property
    def undecided(self) -> int:
        """The number of series for which a comparison of sessions cannot tell whether they lost performance."""
        return self.counts.get('warning', 0) if self.against else 0

    @property
    def exit_code(self) -> int:
        """1 if a series, a group of series or the session itself failed; else 3 if the comparison cannot tell.

        Else 0.
        """
        failed = self.problems or self.common or not BAD.isdisjoint(self.counts)
        return 1 if failed else 3 if self.undecided else 0

    @property
    def word(self) -> Literal['OK', 'FAILED', 'INCONCLUSIVE']:
        """The exit code as a word: ``FAILED``, ``INCONCLUSIVE`` or ``OK``."""
        code = self.exit_code
        return 'OK' if code == 0 else 'FAILED' if code == 1 else 'INCONCLUSIVE'

    @property
    def nothing_to_compare_with(self) -> bool:
        """True if no series has a reference of this machine, and none is wrong by itself."""
        unlike = [row for row in self.series if row.verdict != 'informational']
        return bool(unlike) and all(
            row.standing in ('no_reference', 'elsewhere') and row.verdict not in BAD for row in unlike
        )


def _counted(counts: Mapping[VerdictName, int] | Mapping[Standing, int]) -> str:
    """Return counts as text, such as ``2 regressed, 1 missing``."""
    said = {'informational': 'informational (not judged)'}
    return ', '.join(f'{n} {said.get(name, name.replace("_", " "))}' for name, n in counts.items()) or 'no metric'


def worst_first(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts sorted by verdict, deviation and name, the worst first."""
    return sorted(verdicts, key=lambda row: (VERDICTS.index(row.verdict), -row.worse_by, row.id.sort_key))
