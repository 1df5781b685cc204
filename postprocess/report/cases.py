# SPDX-License-Identifier: BSD-3-Clause
"""Say of a case how its job ran, on what, why it failed, and how it runs again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from plumbline.causes import sentence
from plumbline.identity import to_text
from plumbline.record import EXPERIMENTAL
from plumbline.site.schedulers import scheduler
from postprocess.incidents.background import again, name_of
from postprocess.incidents.failures import UNPROVEN
from postprocess.incidents.words import with_options
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session
from postprocess.text import number, spaced


def case_details(case: CaseRow, session: Session, results: Path, link: Callable[[Path], str]) -> dict[str, Any]:
    """Return the details of a case; `link`: makes the address of a file."""
    parts = [case.job_id or 'no number', case.job_state, case.scheduler or 'no scheduler']
    trials = f'; trials {spaced(case.trial_seconds)}' if case.trial_seconds else ''
    facts = {
        'Job': f'{", ".join(filter(None, parts))}; result {case.result}',
        'Nodes': ', '.join(case.nodes) or 'none known',
        'Ended': f'{case.completed:%Y-%m-%d %H:%M:%S} UTC' if case.completed else '',
        'Seconds': f'{number(case.time_total) or "?"} in all{trials}',
        'Failed': sentence(case.causes),
        'Experimental': UNPROVEN if EXPERIMENTAL in case.tags else '',
        **{f'Placement {key}': value for key, value in case.placement.items()},
        **case.provenance,
    }
    nodes = case.nodes if scheduler(case.scheduler).is_slurm else ()
    command = again(session, case.partition, [name_of(case)], nodes)
    return {
        'name': f'{case.check} {to_text(case.params)} on {case.partition}/{case.environ}',
        'job': case.job_id or 'without a number',
        'facts': {key: str(value) for key, value in facts.items() if value not in (None, '')},
        'output': link(results / case.evidence) if case.evidence else '',
        'again': with_options(command, results, session.site) if command else '',
    }
