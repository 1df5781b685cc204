# SPDX-License-Identifier: BSD-3-Clause
"""Decide the verdict of a series from all that is known of it: the first of `RULINGS` that holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from plumbline.causes import Code
from plumbline.limits import Limits, Tolerance
from plumbline.problems import Problem
from plumbline.record import OF_NODE, Summary
from plumbline.references import Reference
from postprocess.results.rows import NO_CASE
from postprocess.verdicts.measured import Job, Measured
from postprocess.verdicts.verdict import BAD, Shown, Verdict, VerdictName


@dataclass(frozen=True)
class Loss:
    """What the comparison of a series with a reference `shows`; empty where there was none.

    `cause`: the comparison in words, where it shows something bad. The others are fields of `Verdict`; where they are
    None, those of the series and of its first reference hold.
    """

    shows: Shown = ''
    cause: str = ''
    reference: Reference | None = None
    limits: Limits | None = None
    measured: Summary | None = None
    loss: float | None = None
    interval: tuple[float, float] | None = None
    window: int = 1
    p: float | None = None
    q: float | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of a series in a session before its verdict is decided; texts are empty where they do not apply.

    `rules`: its references with their limits, the most important first. `session`: where its numbers come from. `lost`:
    a job that came to its end without a valid number, though others have one. `hardware`: the problem that its jobs had
    other than its baseline. `own_test`: why the test of another suite failed against references of its own. `common`:
    the loss that it shares with other series. `tolerance`, `spread`: what its limits follow from, and the row that
    states how much it varies, where its reference does not. `stand_in`: its loss against what stands in for a baseline.
    """

    measured: Measured
    rules: Sequence[tuple[Reference, Limits]] = ()
    session: str = ''
    lost: Job | None = None
    hardware: Problem | None = None
    own_test: str = ''
    loss: Loss = Loss()
    common: str = ''
    tolerance: Tolerance = field(default_factory=Tolerance)
    spread: Reference | None = None
    stand_in: Loss = Loss()

    @cached_property
    def mismatch(self) -> str:
        """Why a number of this unit and direction cannot be compared with its references; empty where it can."""
        return next(filter(None, (reference.mismatch(self.measured.quantity) for reference, _ in self.rules)), '')

    @property
    def by_stand_in(self) -> Shown:
        """What the comparison with a stand-in shows; beside references, only a loss counts."""
        shows = self.stand_in.shows
        return shows if shows == 'regressed' or not self.rules else ''

    @property
    def referenced(self) -> list[tuple[Reference, Limits]]:
        """The references of this machine that a loss is computed against; none where the facts decide without."""
        if self.measured.status != 'measured' or self.hardware or self.mismatch:
            return []
        return [rule for rule in self.rules if rule[1].gates]

    @property
    def reference(self) -> Reference:
        """The most important reference."""
        return self.rules[0][0]

    @property
    def bound(self) -> Limits:
        """The limits of the most important reference."""
        return self.rules[0][1]

    @property
    def sign(self) -> int:
        """1 where higher is better, else -1."""
        return self.reference.quantity.sign

    def performance(self, value: float) -> float:
        """Return the logarithm of performance; a value that is not above 0 counts as a tiny positive one."""
        return self.sign * math.log(max(value, 1e-9 * self.reference.mean))

    @property
    def jobs(self) -> list[float]:
        """The performance of the jobs of the session in order, without jobs that ran to judge a node."""
        return [self.performance(job.value) for job in self.measured.measuring if job.purpose != OF_NODE]


class Ruling(NamedTuple):
    """A row of the table that decides: the verdict `when` something `holds`, and its cause in words and as code.

    `job`: the job whose cause, code and nodes hold.
    """

    verdict: VerdictName
    when: str
    holds: Callable[[Facts], object]
    cause: Callable[[Facts], str] = lambda it: ''
    code: Code | None = None
    job: Callable[[Facts], Job | None] = lambda it: None


def _first(it: Facts) -> Job:
    """Return the job that says why the series has no number that counts."""
    return it.measured.first


def _lost(it: Facts) -> Job | None:
    """Return the job that came to its end without a valid number."""
    return it.lost


def _loss(it: Facts) -> str:
    """Return the loss against the reference in words."""
    return it.loss.cause


#: What decides, the most important first; docs/verdicts.md shows verdicts and words.
RULINGS = (
    Ruling('failed', 'its case failed: job state, exit code, output, binding; or a number is not finite',
           lambda it: it.measured.status == 'failed', job=_first),
    Ruling('invalid', 'its number cannot be true, such as one above the physical peak',
           lambda it: it.measured.status == 'invalid', job=_first),
    Ruling('missing', 'it has a reference and should have been measured, and there is no number, or one that its '
           'check judges no longer, as of data within the caches',
           lambda it: it.measured.status == 'missing' and it.rules, job=_first),
    Ruling('failed', 'its check declares it, and there is no number',
           lambda it: it.measured.status == 'missing', job=_first),
    Ruling('invalid', 'its job had other CPUs, memory or GPUs than the baseline',
           lambda it: it.hardware, lambda it: str(it.hardware), 'settings'),
    Ruling('failed', 'its reference has another unit or direction',
           lambda it: it.mismatch, lambda it: it.mismatch, 'reference'),
    Ruling('failed', 'it has no reference here, and its test, of another suite, failed against one of its own',
           lambda it: it.own_test and it.measured.judged and not it.rules, lambda it: it.own_test, 'reference'),
    Ruling('regressed', 'it lost performance, by more than chance and by more than the floor',
           lambda it: it.loss.shows == 'regressed', _loss),
    Ruling('invalid', 'the number of another of its jobs cannot be true',
           lambda it: it.lost and it.lost.status == 'invalid', job=_lost),
    Ruling('missing', 'another of its jobs came to its end without a number',
           lambda it: it.lost, job=_lost),
    Ruling('warning', 'it is worse than what stands in for a baseline',
           lambda it: it.by_stand_in in ('regressed', 'warning'), lambda it: it.stand_in.cause),
    Ruling('warning', 'it is in doubt, not confirmed by further jobs, or worse than a number of another machine',
           lambda it: it.loss.shows == 'warning', _loss),
    Ruling('improved', 'it is better than its reference by more than chance',
           lambda it: it.loss.shows == 'improved'),
    Ruling('warning', 'it may share the loss of a group of series',
           lambda it: it.common, lambda it: it.common),
    Ruling('ok', 'it has a reference: no loss that is more than chance',
           lambda it: it.rules),
    Ruling('no_reference', 'it has no reference, and is not worse than what stands in for one',
           lambda it: it.measured.judged),
    Ruling('informational', 'it is shown only: no reference names it',
           lambda it: True),
)  # fmt: skip


def decide(facts: Facts) -> Verdict:
    """Return the verdict of a series."""
    ruling = next(ruling for ruling in RULINGS if ruling.holds(facts))
    row, stand_in = facts.measured, '' if ruling.verdict in BAD else facts.by_stand_in
    loss = facts.stand_in if stand_in else facts.loss
    reference, bound = facts.rules[0] if facts.rules else (None, None)
    job = ruling.job(facts)
    return Verdict(
        ruling.verdict, row.id, row.quantity, loss.measured or row.summary, loss.reference or reference,
        loss.limits or bound, job.cause if job else ruling.cause(facts), job.nodes if job else row.nodes,
        loss.p, loss.q, facts.session, None if row.case_id == NO_CASE else row.case_id, loss.loss, loss.interval,
        loss.window, row.jobs, job.code if job else ruling.code, stand_in,
    )  # fmt: skip
