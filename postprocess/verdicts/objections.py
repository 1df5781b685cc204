# SPDX-License-Identifier: BSD-3-Clause
"""Find objections to recording a series; to record it anyway, a person must give a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from plumbline.limits import PRIOR_DF, Tolerance
from plumbline.references import Reference
from postprocess.results.store import Session
from postprocess.statistics.distributions import quantile
from postprocess.statistics.levels import Level
from postprocess.text import count, number
from postprocess.verdicts.candidates import Candidate, Doubt

#: Kinds of objections that stay true: a reason that was accepted once also holds for the next baseline.
LASTING = ('levels', 'published')
#: Chance of an objection to a row although the machine has not changed.
CHANCE = 0.001
_FEWEST_SESSIONS = 5  # fewest sessions in which to look for a slow loss


@dataclass(frozen=True)
class Objection:
    """A reason not to record a row; `kind`: ``jobs``, ``levels``, ``slow_loss``, ``in_force`` or ``published``."""

    kind: str
    why: str


def doubtful_jobs(used: Candidate, doubts: Mapping[tuple[int, int], Doubt]) -> list[Objection]:
    """Return one objection with all doubts about the jobs behind a row; none without doubts."""
    jobs = zip(used.nights.tolist(), used.cases.tolist(), strict=True) if doubts else ()
    doubts_of_jobs = [doubts[job] for job in jobs if job in doubts]
    return [Objection('jobs', summary_of(doubts_of_jobs))] if doubts_of_jobs else []


def summary_of(doubts: Sequence[Doubt]) -> str:
    """Return the first doubt in words, and the number of further jobs in doubt."""
    more = count(len(doubts) - 1, 'job')
    return f'{doubts[0]}, and {more} more' if doubts[1:] else str(doubts[0])


def two_levels(level: Level, unit: str, sessions: Sequence[Session]) -> list[Objection]:
    """Return an objection if a series has two levels; it names both."""
    if not level.levels:
        return []
    why = both_levels(level, unit)
    if level.switched is not None:
        began = sessions[level.switched]
        why += (
            f'; it changed once, with session {began.short_name} of {began.day}: '
            'after a planned change name the sessions since and give --epoch'
        )
    return [Objection('levels', why)]


def both_levels(level: Level, unit: str) -> str:
    """Return the two levels of a series in words."""
    what = 'session' if level.worse is None else 'job'
    worse, better = (f'{number(mean)} {unit} in {count(n, what)}' for mean, n in level.levels)
    return f'two levels, {worse} and {better}; the worse one is taken'


def slow_loss(used: Candidate, tolerance: Tolerance, sessions: Sequence[Session]) -> list[Objection]:
    """Return an objection if a line through the sessions falls by more than the floor and more than by chance."""
    nights, place = numpy.unique(used.nights, return_inverse=True)
    if len(nights) < _FEWEST_SESSIONS:
        return []
    values = numpy.bincount(place, numpy.log(used.values)) / numpy.bincount(place)
    time = numpy.linspace(-0.5, 0.5, len(nights))
    slope = time @ values / (time @ time)
    rest = values - values.mean() - slope * time
    # correlation of neighbouring sessions
    alike = max(float(rest[1:] @ rest[:-1]), 0.0) / max(float(rest @ rest), 1e-30)
    error = math.sqrt(rest @ rest / (len(nights) - 2) / (time @ time) * (1 + alike) / (1 - alike))
    lost = -used.quantity.sign * slope
    if lost <= max(-math.log1p(-tolerance.floor), float(quantile(1 - CHANCE, numpy.array(len(nights) - 2))) * error):
        return []
    first, last = (sessions[night].day for night in (nights[0], nights[-1]))
    return [Objection('slow_loss', f'lost {-100 * math.expm1(-lost):.1f} % little by little from {first} to {last}')]


def worse(
    new: Reference, in_force: Reference | None, published: Reference | None, tolerance: Tolerance
) -> list[Objection]:
    """Return an objection for each reference of this machine that is better than the new row by more than chance.

    The difference must also be above the floor.
    """
    spread, df = new.spread or tolerance.usual_spread, new.df or PRIOR_DF
    objections = []
    for kind, row, name in (('in_force', in_force, 'in force'), ('published', published, 'published')):
        if row is None or row.kind == 'elsewhere' or row.quantity != new.quantity:
            continue
        lost = row.quantity.sign * math.log(row.mean / new.mean)
        # standard error of the difference of two means; a published number without n is exact
        error = spread * math.sqrt(1 / (new.n or 1) + (1 / row.n if row.n else 0))
        if lost > max(-math.log1p(-tolerance.floor), float(quantile(1 - CHANCE, numpy.array(df))) * error):
            why = (
                f'{number(new.mean)} {new.quantity.unit} is worse than what is {name}, {number(row.mean)}, by '
                f'{-100 * math.expm1(-lost):.1f} % ({row.source})'
            )
            objections.append(Objection(kind, why))
    return objections
