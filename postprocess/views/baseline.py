# SPDX-License-Identifier: BSD-3-Clause
"""Tables of proposed baselines and of the baselines in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from plumbline.identity import SeriesId, short_name
from postprocess.text import count, number, percent, quantity
from postprocess.verdicts.baseline import Proposal, Replacement
from postprocess.verdicts.selection import command_of
from postprocess.views.series import QUANTITY
from postprocess.views.table import Column, TableRow, View

_ROWS = (
    Column('change', ''),
    *QUANTITY,
    Column('old_mean', 'old', quantity, number=True, beside=('old_std', 'old_unit')),
    *map(Column, ('old_std', 'old_unit')),
    Column('old_limit', 'limit', number, number=True),
    Column('mean', 'new', quantity, number=True, beside=('std', 'unit')),
    Column('std'),
    Column('limit', 'limit', number, number=True),
    Column('difference', 'moves', percent, number=True),
    Column('n', 'n', number=True),
    *map(Column, ('limit_why', 'gate', 'kind', 'source', 'recorded_at', 'mode', 'note', 'spread', 'df', 'spread_n')),
    *map(Column, ('usual_spread', 'floor', 'epoch', 'objections', 'provenance')),
)
_SHOWN = 20  # most sessions, and most sentences of a kind, in the text; JSON has all


def proposal(found: Proposal, path: Path | None, advice: Iterable[str], command: Callable[[str], str]) -> View:
    """Return how proposed rows differ from those in force; `path`: the file of the proposal, None without one.

    `command`: makes a full command line of its argument.
    """
    refused, withheld, ended = _refusals(found), _withheld(found), _ended(found, command)
    proposed = sum(not row.withheld for row in found.rows)
    notes = [f'taken: {_taken(found)}'] if found.taken else []
    left_out = [f'left out: session {short_name(session)}: {why}' for session, why in found.left_out.items()]
    notes += _some(left_out, 'session')
    notes += _some([f'refused: {line}' for line in refused], 'refusal')
    notes += _some([f'not proposed: {line}' for line in ended], 'case')
    if found.doubted:
        notes.append(
            'What is withheld, or refused for what speaks against its jobs: measure it again when that is over, or say '
            f'why it counts all the same, {command("record propose --although REASON")}. After a planned change: '
            f'{command("record propose SESSION... --epoch NAME")}.'
        )
    notes += filter(None, advice)
    if path:
        notes.append(
            f'{path}: {count(proposed, "row")}; {command("record accept")} puts them in force; --format json and csv '
            'show where each row and limit comes from'
        )
    return View(
        _ROWS,
        _to_rows(found.rows),
        before=f'Proposed baseline of {found.site}',
        name='changes',
        document={
            'site': found.site, 'refused': refused, 'withheld': withheld, 'left_out': found.left_out, 'ended': ended,
            'taken': [session.session for session in found.taken],
        },
        notes=[*(f'withheld: {line}' for line in _some(withheld, 'row')), *notes],
        faults=[f'session {session} holds nothing that can be recorded' for session in found.unusable],
    )  # fmt: skip


def _to_rows(rows: Iterable[Replacement]) -> list[TableRow]:
    """Return the rows of a proposal as plain values by the keys of `_ROWS`."""
    return [
        {
            **row.new.to_row(),
            'change': row.what,
            'old_mean': row.old and row.old.mean,
            'old_std': row.old and row.old.std,
            'old_unit': row.old.quantity.unit if row.old else '',
            'old_limit': row.old_limits and row.old_limits.bad,
            'limit': row.new_limits.bad,
            'limit_why': row.new_limits.why,
            'difference': row.difference,
            'gate': row.new_limits.gate,
            'objections': [objection.why for objection in row.objections],
        }
        for row in sorted(rows, key=lambda row: row.new.id.sort_key)
    ]


def _taken(proposal: Proposal) -> str:
    """Return in words which sessions the rows were computed from."""
    first, last = proposal.taken[0], proposal.taken[-1]
    days = sorted({session.day for session in (first, last)})
    names = [session.short_name for session in proposal.taken]
    shown = ', '.join(names if len(names) <= _SHOWN else [names[0], '...', *names[1 - _SHOWN :]])
    return f'{count(len(names), "session")} of {" to ".join(days)}: {shown}'


def _withheld(proposal: Proposal) -> list[str]:
    """Return a line for each row that is withheld, with its objections."""
    return [
        f'{row.new.id}: {"; ".join(objection.why for objection in row.objections)}'
        for row in proposal.rows
        if row.withheld
    ]


def _ended(proposal: Proposal, command: Callable[[str], str]) -> list[str]:
    """Return a line for each case that no longer measures some series, with the command that retires their rows."""
    groups: dict[tuple[Any, ...], list[SeriesId]] = {}
    for of, session in proposal.ended.items():
        groups.setdefault((of.case, session.short_name), []).append(of)
    lines = []
    for (case, session), series in sorted(groups.items()):
        rows = [of for of in series if of in proposal.in_force]
        others = proposal.in_force - proposal.ended.keys()
        then = f'; retire its rows: {command(command_of(rows, others))}' if rows else ''
        names = ', '.join(of.name for of in sorted(series))
        lines.append(f'{case} {names}: no longer measured since session {session}{then}')
    return lines


def _some(lines: list[str], noun: str) -> list[str]:
    """Return the first lines, and then the number of the others."""
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f'and {count(len(lines) - _SHOWN, noun)} more']


def _refusals(proposal: Proposal) -> list[str]:
    """Return a line for each refusal; series of a case with the same cause share a line."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for refusal in proposal.refused:
        groups.setdefault((refusal.id.case, refusal.cause, refusal.sessions), []).append(refusal.id.name)
    lines = []
    for (case, cause, sessions), names in groups.items():
        where = f' (session {", ".join(sessions)})' if len(sessions) < 4 else f' ({len(sessions)} sessions)'
        lines.append(f'{case} {", ".join(names)}: {cause}{where if sessions else ""}')
    return lines
