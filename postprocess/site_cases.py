# SPDX-License-Identifier: BSD-3-Clause
"""The cases that ReFrame makes on a site, with the job script of each case, from a dry run of all checks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.identity import CaseId, Quantity, SeriesId
from plumbline.paths import ROOT
from plumbline.programs import output_of
from plumbline.record import Record, from_dict
from postprocess.readers.run_reports import check_and_params, reason_of

ANY_METRIC = '*'  # metric of other suites' checks, whose metrics are known only when they run
_TIME_LIMIT = 900  # seconds; a site takes 5 to 30 on a slow machine
SeriesFacts = dict[SeriesId, tuple[Quantity | None, float | None]]  # series -> (its quantity, its physical peak)


@dataclass(frozen=True)
class Case:
    """One case of a site. `features`: as ReFrame names those that an environ of the case must have.

    `peaks`: name of a series -> its physical peak, in the unit of its metric.
    """

    id: CaseId
    name: str
    features: tuple[str, ...]
    record: Record
    peaks: dict[str, float]
    script: Path
    fault: str = ''
    submitted: bool = True  # to the scheduler; other cases run where ReFrame runs
    time_limit: str = ''  # how the time limit was computed, in words

    def series(self) -> SeriesFacts:
        """Return series -> its quantity and peak; a check of another suite has one series with the metric ``*``."""
        facts_of: SeriesFacts = {}
        for metric, facts, declared in self.record.series():
            key = self.id.series(metric, declared.dims)
            facts_of[key] = facts.quantity, self.peaks.get(key.name)
        return facts_of or {self.id.series(ANY_METRIC): (None, None)}


def rehearse(reframe: str, site: str, folder: Path) -> list[Case]:
    """Dry-run all checks on a site of this checkout, below `folder`; return the cases. Raises InputError.

    The cases of all modes are made, with the trials of the longest mode.
    """
    report = folder / f'{site}.json'
    command = [
        reframe, '-C', str(ROOT / 'reframe_settings' / 'settings.py'), f'--system={site}',
        '-c', str(ROOT / 'checks'), '-R', '--dry-run', '-Smode=acceptance', f'--report-file={report}',
    ]  # fmt: skip
    # so that ReFrame loads no other site, and writes nothing into the results of this site
    environment = os.environ | {'PLUMBLINE_SITE': site, 'PLUMBLINE_RESULTS': str(folder)}
    environment['RFM_RESOLVE_MODULE_CONFLICTS'] = 'no'  # else a host without the site's module system could not do it
    environment.pop('RFM_CONFIG_FILES', None)
    message = ''
    try:
        output_of(command, time_limit=_TIME_LIMIT, env=environment)
    except ValueError as error:  # also raised if single cases fail; the report then has more details
        message = f'`{" ".join(command)}` {error}'
    try:
        (run,) = json.loads(report.read_text(encoding='utf-8'))['runs']
        return [_case(case) for case in run['testcases'] if not case['fixture']]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(message or f'`{" ".join(command)}` wrote no report: {error}') from None


def _case(case: dict[str, Any]) -> Case:
    """Return the case of an entry of the report."""
    if isinstance(case.get('record'), dict):
        record = from_dict(case['record'])
    else:
        check, params = check_and_params(case['display_name'])
        record = Record(check, params)
    started = case['stagedir'] is not None
    return Case(
        id=CaseId(case['partition'], case['environ'], record.check, record.params), name=case['display_name'],
        features=tuple(word[1:] for word in case.get('valid_prog_environs') or () if word[:1] == '+'), record=record,
        peaks=case.get('peaks') or {},
        script=Path(case['stagedir'] or '') / 'rfm_job.sh',
        fault=reason_of(case) or ('' if started else 'a case that it uses failed'),
        submitted=started and not case.get('local'),
        time_limit=(case.get('time_limits') or {}).get(case['partition'], ''),
    )  # fmt: skip
