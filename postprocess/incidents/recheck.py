# SPDX-License-Identifier: BSD-3-Clause
"""Ask for a look at the nodes of incidents that are not over, of which a session measured nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from plumbline.record import OF_NODE
from postprocess.incidents import FAILING
from postprocess.incidents.healing import seen_again
from postprocess.incidents.known import Known
from postprocess.results.rows import CaseRow
from postprocess.results.store import Store
from postprocess.verdicts.policy import site_policy
from postprocess.verdicts.verdict import Again, Comparison

MOST = 4  # jobs in a session: the costliest incidents first


def rechecks(store: Store, known: Sequence[Known], comparison: Comparison, root: Path | None = None) -> list[Again]:
    """Return one job for each node that an open or healing incident accuses and that the session did not measure.

    The incident is a loss, or other hardware than that of the baseline.

    Without it, an incident would stay open after a repair until its cases happen to run there. None where the site
    allows no further jobs. Raises InputError, SiteError.
    """
    session, comparison = comparison.session, comparison.with_stand_ins
    costliest = sorted(known, key=lambda one: -one.incident.severity)
    states = (*FAILING, 'healing')
    lasting = [
        one
        for one in costliest
        if one.incident.sort != 'failure' and one.incident.series and one.state(session.day) in states
    ]
    if not lasting or site_policy(session, root).get('further_jobs') == 0:
        return []
    cases = store.cases(session)
    return [again for one in lasting for again in _of(one, comparison, cases)][:MOST]


def _of(known: Known, comparison: Comparison, cases: Sequence[CaseRow]) -> Iterator[Again]:
    """Yield a job for each node of an incident: of its case on fewest nodes that ran well tonight, the shortest."""
    wanted = set(known.incident.series)
    rows = [row for row in comparison.verdicts if row.id in wanted and row.value is not None]
    ran = {row.case_id for row in rows}
    own = [case for case in cases if case.case_id in ran]
    seen = {node for part in known.parts for nodes in seen_again(part, comparison, cases) for node in nodes}
    seen |= {node for row in rows for job in row.jobs if job.purpose == OF_NODE for node in job.nodes}
    for node in known.unhealed:
        if own and node and node not in seen:
            case = min(own, key=lambda case: (len(case.nodes), case.time_run or 0.0, case.case_id))
            place = case.case_id, case.partition, case.environ, case.name
            why = f'incident {known.id} is not closed, and nothing ran on {node}'
            yield Again(*place, 1, node, (), why, if_free=True)
