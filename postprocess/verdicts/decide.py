# SPDX-License-Identifier: BSD-3-Clause
"""Decide the verdict of a series from all that is known of it: the first of `RULINGS` that holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from plumbline.limits import Limits
from plumbline.record import Summary
from plumbline.references import Reference
from postprocess.results.rows import NO_CASE
from postprocess.verdicts.measured import Job, Measured
from postprocess.verdicts.verdict import Verdict, VerdictName


@dataclass(frozen=True)
class Loss:
    """What the comparison of a series with a reference `shows`; empty where there was none.

    `cause`: the comparison in words, where it shows something bad. The others are fields of `Verdict`; where they are
    None, those of the series and of its first reference hold.
    """

    shows: Literal['', 'ok', 'improved', 'warning', 'regressed'] = ''
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

    `rules`: its references with their limits, the most important first. `session`: where its numbers come from.
    `lost`: a job that came to its end without a valid number, though others have one. `hardware`: what its jobs had
    other than its baseline. `own_test`: why the test of another suite failed against references of its own. `common`:
    the loss that it shares with other series.
    """

    row: Measured
    rules: Sequence[tuple[Reference, Limits]] = ()
    session: str = ''
    lost: Job | None = None
    hardware: str = ''
    own_test: str = ''
    loss: Loss = Loss()
    common: str = ''

    @cached_property
    def mismatch(self) -> str:
        """Why a number of this unit and direction cannot be compared with its references; empty where it can."""
        return next(filter(None, (reference.mismatch(self.row.quantity) for reference, _ in self.rules)), '')

    @property
    def referenced(self) -> list[tuple[Reference, Limits]]:
        """The references of this machine that a loss is computed against; none where the facts decide without."""
        if self.row.status != 'measured' or self.hardware or self.mismatch:
            return []
        return [rule for rule in self.rules if rule[1].gates]


class Ruling(NamedTuple):
    """A row of the table that decides: the verdict `when` something `holds`, and its cause in words.

    `of_lost`: cause and nodes are those of the lost job.
    """

    verdict: VerdictName
    when: str
    holds: Callable[[Facts], object]
    cause: Callable[[Facts], str] = lambda it: ''
    of_lost: bool = False


def _why(it: Facts) -> str:
    """Return why the series has no number that counts."""
    return it.row.cause


def _loss(it: Facts) -> str:
    """Return the loss against the reference in words."""
    return it.loss.cause


#: What decides, the most important first; docs/verdicts.md shows verdicts and words.
RULINGS = (
    Ruling('failed', 'its case failed: job state, exit code, output, binding; or a number is not finite',
           lambda it: it.row.status == 'failed', _why),
    Ruling('invalid', 'its number cannot be true, such as one above the physical peak',
           lambda it: it.row.status == 'invalid', _why),
    Ruling('missing', 'it has a reference and should have been measured, and there is no number, or one that its '
           'check judges no longer, as of data within the caches',
           lambda it: it.row.status == 'missing' and it.rules, _why),
    Ruling('failed', 'its check declares it, and there is no number',
           lambda it: it.row.status == 'missing', _why),
    Ruling('invalid', 'its job had other CPUs, memory or GPUs than the baseline',
           lambda it: it.hardware, lambda it: it.hardware),
    Ruling('failed', 'its reference has another unit or direction',
           lambda it: it.mismatch, lambda it: it.mismatch),
    Ruling('failed', 'it has no reference here, and its test, of another suite, failed against one of its own',
           lambda it: it.own_test and it.row.judged and not it.rules, lambda it: it.own_test),
    Ruling('regressed', 'it lost performance, by more than chance and by more than the floor',
           lambda it: it.loss.shows == 'regressed', _loss),
    Ruling('invalid', 'the number of another of its jobs cannot be true',
           lambda it: it.lost and it.lost.status == 'invalid', of_lost=True),
    Ruling('missing', 'another of its jobs came to its end without a number',
           lambda it: it.lost, of_lost=True),
    Ruling('warning', 'it is in doubt, not confirmed by further jobs, or worse than a number of another machine',
           lambda it: it.loss.shows == 'warning', _loss),
    Ruling('improved', 'it is better than its reference by more than chance',
           lambda it: it.loss.shows == 'improved'),
    Ruling('warning', 'it may share the loss of a group of series',
           lambda it: it.common, lambda it: it.common),
    Ruling('ok', 'it has a reference: no loss that is more than chance',
           lambda it: it.rules),
    Ruling('no_reference', 'there is nothing to compare it with',
           lambda it: it.row.judged),
    Ruling('informational', 'it is shown only: no reference names it',
           lambda it: True),
)  # fmt: skip


def decide(facts: Facts) -> Verdict:
    """Return the verdict of a series."""
    ruling = next(ruling for ruling in RULINGS if ruling.holds(facts))
    row, loss = facts.row, facts.loss
    reference, bound = facts.rules[0] if facts.rules else (None, None)
    lost = facts.lost if ruling.of_lost else None
    return Verdict(
        ruling.verdict, row.id, row.quantity, loss.measured or row.summary, loss.reference or reference,
        loss.limits or bound, lost.cause if lost else ruling.cause(facts), lost.nodes if lost else row.nodes,
        loss.p, loss.q, facts.session, None if row.case_id == NO_CASE else row.case_id, loss.loss, loss.interval,
        loss.window, row.jobs,
    )  # fmt: skip
