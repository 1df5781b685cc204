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
    # twice as many as are wanted, of which some may be in doubt
    available = min(recorded + _since(store, store.sessions(last.site), rows, 2 * (wanted - recorded)), wanted)
    words = f'{available} of {count(wanted, "session")} for narrow limits'
    return f'{words}; nothing to do' if available < wanted else f'{words}: {propose}'


def _since(store: Store, sessions: Sequence[Session], rows: Sequence[Reference], most: int) -> int:
    """Return how many complete sessions after the last one behind a baseline can join its rows: the median of these.

    A session can join where it measured the row in a job without doubt. Only the last `most` sessions are read.
    """
    behind = frozenset().union(*(row.sessions for row in rows))
    day = max(row.recorded_at for row in rows)
    last = max((session.started for session in sessions if session.short_name in behind), default=None)
    if last is None:  # the baseline was recorded in another store, or written by hand
        last = datetime.fromisoformat(f'{day}T23:59:59') if day else datetime.min
    later = [session for session in sessions if session.started > last and not session.narrowed_by][-most:]
    doubts = read_doubts(store, later, accused(store.folder.parent, later, epoch='')) if later else {}
    nights = {
        measured['id']: {night for night, case_id in measured['jobs'] if (night, case_id) not in doubts}
        for measured in store.select(_JOBS, later)
    }
    return round(median(len(nights.get(row.id, ())) for row in rows))
