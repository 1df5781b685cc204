"""Tables of proposed baselines beside those in force."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from postprocess.text import count, number, quantity, signed
from postprocess.verdicts.baseline import Proposal, Replacement
from postprocess.views.series import QUANTITY
from postprocess.views.table import Column, Row, View

_ROWS = (
    Column('change', ''),
    *QUANTITY,
    Column('old_mean', 'old', quantity, number=True, beside=('old_std', 'old_unit')),
    *map(Column, ('old_std', 'old_unit')),
    Column('old_limit', 'limit', number, number=True),
    Column('mean', 'new', quantity, number=True, beside=('std', 'unit')),
    Column('std'),
    Column('limit', 'limit', number, number=True),
    Column('difference', 'moves', signed, '%', number=True),
    Column('n', 'n', number=True),
    Column('limit_why', 'limit from'),
    *map(Column, ('gate', 'kind', 'source')),
    Column('recorded_at', 'recorded'),
    Column('mode'),
    Column('note', 'from'),
    *map(Column, ('spread', 'df', 'spread_n')),
    Column('epoch', 'epoch'),
    Column('provenance'),
)


def proposal(found: Proposal, path: Path | None) -> View:
    """Return how proposed rows differ from those in force; `path`: the file of the proposal, where there is one."""
    refused = _refusals(found)
    rows = count(len(found.rows), 'row')
    saved = [f'{path}: {rows}; `plumbline record accept` puts them in force'] if path else []
    return View(
        _ROWS,
        _to_rows(found.rows),
        before=f'Proposed baseline of {found.site}',
        name='changes',
        document={'site': found.site, 'refused': refused},
        notes=[f'refused: {line}' for line in refused] + saved,
        faults=[f'session {session} holds nothing that can be recorded' for session in found.unusable],
    )


def accepted(rows: Iterable[Replacement]) -> View:
    """Return rows of a baseline before and after."""
    return View(_ROWS, _to_rows(rows))


def _to_rows(rows: Iterable[Replacement]) -> list[Row]:
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
        }
        for row in sorted(rows, key=lambda row: row.new.id.sort_key)
    ]


def _refusals(found: Proposal) -> list[str]:
    """Return what is refused and why; series of a case with the same cause share the line."""
    groups: dict[tuple, list[str]] = {}
    for refusal in found.refused:
        groups.setdefault((refusal.id.case, refusal.cause, refusal.session), []).append(refusal.id.name)
    return [
        f'{case} {", ".join(names)}: {cause}{f" (session {session})" if session else ""}'
        for (case, cause, session), names in groups.items()
    ]
