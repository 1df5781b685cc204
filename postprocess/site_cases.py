# SPDX-License-Identifier: BSD-3-Clause
"""The cases that ReFrame makes of a site, with the job script of each: a dry run of all checks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.identity import CaseId, Quantity, SeriesId, from_text
from plumbline.paths import ROOT
from plumbline.programs import output_of
from plumbline.record import Record, from_dict
from postprocess.readers.run_reports import check_and_params

ANY_METRIC = '*'  # of a check of others, whose metrics are known only when it runs
_TIME_LIMIT = 900  # seconds; a site takes 5 to 30 on a slow machine
SeriesFacts = dict[SeriesId, tuple[Quantity | None, float | None]]  # what each is, and its peak


@dataclass(frozen=True)
class Case:
    """One case of a site. `peaks`: the physical peak of a series by its name, in the unit of its metric."""

    id: CaseId
    name: str
    requires: tuple[str, ...]
    record: Record
    peaks: dict[str, float]
    script: Path
    fault: str = ''
    submitted: bool = True  # to the scheduler; the others run where ReFrame does
    time_limit: str = ''  # its arithmetic, in words

    def series(self) -> SeriesFacts:
        """Return what each series is, and its peak; a check of others has one with the metric ``*``."""
        found: SeriesFacts = {}
        for metric, facts, one in self.record.series():
            key = self.id.series(metric, one.dims)
            found[key] = facts.quantity, self.peaks.get(key.name)
        return found or {self.id.series(ANY_METRIC): (None, None)}


def rehearse(reframe: str, site: str, folder: Path) -> list[Case]:
    """Dry-run all checks on a site of this checkout, below `folder`; return its cases. Raises InputError.

    Cases of all modes are made, with the trials of the longest.
    """
    report = folder / f'{site}.json'
    command = [
        reframe, '-C', str(ROOT / 'reframe_settings' / 'settings.py'), f'--system={site}',
        '-c', str(ROOT / 'checks'), '-R', '--dry-run', '-Smode=acceptance', f'--report-file={report}',
    ]  # fmt: skip
    # ReFrame loads no other site, and writes nothing into the results of this one
    environment = os.environ | {'PLUMBLINE_SITE': site, 'PLUMBLINE_RESULTS': str(folder)}
    environment.pop('RFM_CONFIG_FILES', None)
    said = ''
    try:
        output_of(command, time_limit=_TIME_LIMIT, env=environment)
    except ValueError as error:  # also where single cases fail, of which the report tells more
        said = f'`{" ".join(command)}` {error}'
    try:
        (run,) = json.loads(report.read_text(encoding='utf-8'))['runs']
        return [_case(case) for case in run['testcases'] if not case['fixture']]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(said or f'`{" ".join(command)}` wrote no report: {error}') from None


def _case(case: dict[str, Any]) -> Case:
    if isinstance(case.get('record'), dict):
        record = from_dict(case['record'])
    else:
        check, params = check_and_params(case['display_name'])
        record = Record(check, from_text(params))
    return Case(
        id=CaseId(case['partition'], case['environ'], record.check, record.params), name=case['display_name'],
        requires=tuple(str(case.get('requires') or '').split()), record=record, peaks=case.get('peaks') or {},
        script=Path(case['stagedir']) / 'rfm_job.sh', fault=case['fail_reason'] or '',
        submitted=not case.get('local'), time_limit=(case.get('time_limits') or {}).get(case['partition'], ''),
    )  # fmt: skip
