# SPDX-License-Identifier: BSD-3-Clause
"""Make a row of ``baseline.csv`` from the jobs of a series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from plumbline.limits import DEFAULT_SPREAD, PRIOR_DF, spread_of
from plumbline.record import summarize
from plumbline.references import Reference
from postprocess.results.store import Session
from postprocess.statistics.levels import Level
from postprocess.text import count, ranges
from postprocess.verdicts.candidates import BINARY, Candidate
from postprocess.verdicts.measured import mean_of

_NAMED = 30  # most sessions that a row names besides its first


def row_of(of: Candidate, level: Level, sessions: Sequence[Session], facts: Mapping[str, Sequence[str]]) -> Reference:
    """Return the baseline row of a series from its jobs, which ran in `sessions`."""
    jobs, trials = summarize(of.values.tolist()), float(of.std[0])
    nodes = sorted({node for names in set(of.nodes) for node in names.split(',') if node})
    first, last = (session.day for session in (sessions[0], sessions[-1]))
    dates = first if first == last else f'{first}..{last}'
    names = [session.short_name for session in sessions]
    hosts = ', '.join(sorted({session.hostname for session in sessions} - {''}))
    source = f'session {", ".join(names)}' if len(names) < 3 else f'{len(names)} sessions of {dates}'
    note = [f'binary {", ".join(binary[:12] for binary in binaries)}'] if (binaries := facts.get(BINARY)) else []
    note += [count(len(nodes), 'node')]
    note += [f'{count(level.dropped, "outlying value")} dropped'] if level.dropped else []
    spread, df = None if level.variance is None else math.sqrt(level.variance), level.df
    if len(sessions) == 1:
        usual = of.stated['usual_spread'] or DEFAULT_SPREAD
        if level.usual and level.usual > usual:
            spread, df = level.usual, PRIOR_DF
            note += [f'one session: limits from the spread that its further jobs show, {spread:.2g}']
        else:
            note += [f'one session: limits from the usual spread of such a metric, {usual:.2g}']
    known = {name: ' | '.join(map(part, values)) for name, values in facts.items() if name != BINARY}
    known |= {
        'dates': dates, 'nodes': ranges(nodes),
        'sessions': ', '.join(names if len(names) <= _NAMED else [names[0], *names[-_NAMED:]]),
    } | ({'levels': f'{len(level.levels)}'} if level.levels else {})  # fmt: skip
    return Reference(
        id=of.id, quantity=of.quantity, mean=mean_of(jobs), n=len(sessions), kind='baseline',
        std=jobs.std if jobs.n > 1 else None if math.isnan(trials) else trials,
        source=f'{source} on {hosts}' if hosts else source, recorded_at=last, mode=of.mode, note='; '.join(note),
        spread=spread, df=df, spread_n=None if spread is None else len(sessions),
        usual_spread=of.stated['usual_spread'],
        floor=of.stated['floor'],
        provenance='; '.join(f'{name}={known[name]}' for name in sorted(known)),
    )  # fmt: skip


def with_spread_of(new: Reference, old: Reference) -> Reference:
    """Return the row `new` with the spread of the row `old`, if both have the same unit and direction."""
    spread, df = spread_of(old)
    if spread is None or old.quantity != new.quantity:
        return new
    return replace(new, spread=spread, df=df, spread_n=old.spread_n or old.n)


def part(text: str) -> str:
    """Return `text` without the separators of a provenance, so that it can be a part of one."""
    return text.replace(';', ',')


def retired_at(row: Reference) -> datetime | None:
    """Return when a row was retired; None if its provenance does not say it."""
    try:
        return datetime.fromisoformat(row.facts.get('retired', ''))
    except ValueError:  # someone edited the row by hand
        return None
