# SPDX-License-Identifier: BSD-3-Clause
"""Add to a session the jobs of run reports of the same cases, run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from postprocess.readers.run_reports import read_report
from postprocess.results.rows import SessionRows
from postprocess.verdicts.measured import Measured, measured


def with_reruns(stored: SessionRows, reruns: Sequence[Path]) -> list[Measured]:
    """Return the series of a session with added jobs from run reports of the same cases; each report counts once.

    Raises InputError if a report cannot be read or is of another site.
    """
    session, rows = stored.session, measured(stored)
    known = {session.session}
    for number_of, path in enumerate(reruns, 1):
        report = read_report(path, session.site)
        again_session = report.session
        if again_session.site != session.site:
            raise InputError(f'{path}: is of site {again_session.site}, the session of {session.site}')
        if again_session.session in known:
            continue
        known.add(again_session.session)
        again: dict[SeriesId, list[Measured]] = {}
        for row in measured(report):
            again.setdefault(row.id, []).append(row)
        several = {of for of, n in Counter(row.id for row in rows).items() if n > 1}
        rows = [
            replace(row, jobs=(*row.jobs, *(
                replace(job, round=number_of, case_id=row.case_id)
                for rerun in again.get(row.id, ()) if row.status == 'measured'
                if row.id not in several or set(rerun.nodes) == set(row.nodes)
                for job in rerun.jobs
            )))
            for row in rows
        ]  # fmt: skip
    return rows
