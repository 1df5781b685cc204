"""Tables of the history of a site: steps and drift, nodes that stand out, the ledger, and alarms by setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from postprocess.text import count, number, signed
from postprocess.views.series import SERIES, of_series
from postprocess.views.table import Column, Row, View

if TYPE_CHECKING:
    from postprocess.history.backtest import Setting
    from postprocess.history.fleet import Fleet
    from postprocess.history.ledger import Entry
    from postprocess.history.trend import Change, Trend
    from postprocess.results.store import Session

_PERFORMANCE = Column('change', 'performance', signed, '%', number=True)
_TREND = [
    Column('kind', ''),
    Column('since', 'since'),
    *SERIES,
    Column('unit'),
    Column('better'),
    Column('before'),
    Column('session'),
    Column('was', 'was', number, number=True),
    Column('became', 'is', lambda value, unit: f'{number(value)} {unit}', number=True, beside=('unit',)),
    _PERFORMANCE,
    Column('nights', 'nights', number=True),
    Column('with_it', 'changed with it', '; '.join),
]
_FLEET = [
    Column('kind', ''),
    Column('where', 'where'),
    *SERIES,
    Column('unit'),
    Column('better'),
    _PERFORMANCE,
    Column('metrics', 'metrics', number=True),
    Column('how', 'compared with'),
    Column('evidence', 'evidence', '; '.join),
]
_LEDGER = [
    Column('date', 'date'),
    Column('session'),
    Column('node', 'node'),
    Column('kind', ''),
    Column('check', 'check'),
    Column('case', 'case'),
    Column('metric', 'metric'),
    _PERFORMANCE,
    Column('how', 'compared with'),
]
_BACKTEST = [
    Column('what', ''),
    Column('setting', 'setting'),
    Column('alarms', 'alarms', number=True),
    Column('chances', 'of', '{} {}'.format, beside=('of',)),
    Column('of'),
    Column('share', 'share', '{:.2f}'.format, '%', number=True),
    Column('nights', 'nights with one', number=True),
]


def trend(found: Trend, days: int) -> View:
    """Return the changes in the history of a site; those of the last `days` for the worse are counted below."""
    first, last = (_day(found.sessions[place].started) for place in (0, -1))
    looked_at = f'{count(found.looked_at, "metric")} over {count(len(found.sessions), "session")}'
    worse = count(len(found.recent(days)), 'change')
    return View(
        _TREND,
        [_of_change(change) for change in found.changes],
        before=f'{found.site}: {looked_at}, {first} to {last}',
        after=f'{worse} for the worse in the last {count(days, "day")}, {len(found.changes)} in all',
        name='changes',
        document={
            'site': found.site, 'nights': len(found.sessions), 'metrics': found.looked_at, 'left_out': found.left_out,
        },
        notes=[f'not looked at: {line}' for line in found.left_out],
    )  # fmt: skip


def _of_change(change: Change) -> Row:
    return of_series(change.metric) | {
        'kind': change.kind,
        'since': _day((change.night if change.kind == 'step' else change.before).started),
        'before': _day(change.before.started),
        'session': change.night.session,
        **{name: getattr(change, name) for name in ('was', 'became', 'change', 'nights', 'with_it')},
    }


def fleet(found: Fleet, drain: Path | None) -> View:
    """Return what stands out in a session; `drain`: the file with the proposal to drain nodes, where there is one."""
    nodes, nights = count(found.nodes, 'node'), count(found.nights, 'session')
    proposal = f'{drain}: a proposal to drain {count(len(found.drain), "node")}; no node was drained'
    return View(
        _FLEET,
        [
            of_series(event.metric)
            | {name: getattr(event, name) for name in ('kind', 'where', 'change', 'metrics', 'how', 'evidence')}
            for event in found.events
        ],
        before=f'{found.session.site}: {nodes} in session {found.session.session}, compared over {nights}',
        after=count(len(found.events), 'event'),
        name='events',
        document={
            'site': found.session.site, 'session': found.session.session, 'nodes': found.nodes,
            'nights': found.nights, 'drain': found.drain, 'left_out': found.left_out,
        },
        notes=[f'not compared: {line}' for line in found.left_out] + ([proposal] if drain else []),
    )  # fmt: skip


def ledger(entries: Sequence[Entry]) -> View:
    """Return which nodes stood out when."""
    return View(_LEDGER, [asdict(entry) for entry in entries], after=f'entries: {len(entries)}')


def backtest(found: Sequence[Setting], sessions: Sequence[Session], baseline: int) -> View:
    """Return the alarms of each setting over `sessions`; `baseline`: nights that the limits of the gate come from."""
    first, last = (_day(sessions[place].started) for place in (0, -1))
    return View(
        _BACKTEST,
        [asdict(setting) | {'share': setting.share} for setting in found],
        before=f'{sessions[0].site}: {count(len(sessions), "session")}, {first} to {last}',
        after=f'The limit of the gate is from the first {baseline} nights of each metric; no rerun confirmed an alarm.',
    )


def _day(time: datetime) -> str:
    return f'{time:%Y-%m-%d}'
