# SPDX-License-Identifier: BSD-3-Clause
"""Say how many more sessions would narrow the limits of a site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

from plumbline.limits import tolerance_for
from plumbline.references import Reference
from postprocess.incidents.ledger import accused
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.advice import narrowing
from postprocess.verdicts.baseline import NEWEST
from postprocess.verdicts.candidates import read_doubts
from postprocess.verdicts.policy import site_policy

_JOBS = """
    SELECT "partition", environ, "check", params, metric, dims, list((night, case_id)) AS jobs
    FROM first_jobs GROUP BY ALL
"""


def narrower(store: Store, last: Session, rows: Sequence[Reference], propose: str, root: Path | None) -> str:
    """Return in words how many sessions there are of those that narrow limits need; `rows`: of the baseline.

    `last`: the newest session. `propose`: the command that records them.
    """
    policy = site_policy(last, root)
    recorded, wanted = narrowing([(row, tolerance_for(policy, row.id, **row.stated)) for row in rows])
    if wanted is None:
        return 'the limits are as narrow as they get; nothing to do'
    available = min(recorded + _since(store, store.sessions(last.site), rows), wanted)
    words = f'{available} of {count(wanted, "session")} for narrow limits'
    return f'{words}; nothing to do' if available < wanted else f'{words}: {propose}'


def _since(store: Store, sessions: Sequence[Session], rows: Sequence[Reference]) -> int:
    """Return the median number of complete sessions, after the last one behind a baseline, that can join its rows.

    Of a session can join what it measured in jobs without doubt.
    """
    behind = frozenset().union(*(row.sessions for row in rows))
    day = max(row.recorded_at for row in rows)
    last = max((session.started for session in sessions if session.short_name in behind), default=None)
    if last is None:  # the baseline was recorded in another store, or written by hand
        last = datetime.fromisoformat(f'{day}T23:59:59') if day else datetime.min
    later = [session for session in sessions if session.started > last and not session.narrowed_by][-NEWEST:]
    doubts = read_doubts(store, later, accused(store.folder.parent, later, epoch='')) if later else {}
    nights = {
        measured['id']: {night for night, case_id in measured['jobs'] if (night, case_id) not in doubts}
        for measured in store.select(_JOBS, later)
    }
    return round(median(len(nights.get(row.id, ())) for row in rows))
