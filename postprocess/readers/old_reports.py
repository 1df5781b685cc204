# SPDX-License-Identifier: BSD-3-Clause
"""Convert run reports of ReFrame 4.0 to 4.6 (data version 3) to the form of 4.7 and later (data version 4)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

_RESULTS = {'success': 'pass', 'failure': 'fail', 'aborted': 'abort'}
_VALUE = ('value', 'reference', 'thres_lower', 'thres_upper', 'unit')


def as_version_4(report: dict[str, Any], digest: str) -> dict[str, Any]:
    """Return a report of data version 3 in the form of version 4; unexpected parts are left for the reader to report.

    `digest`: of the file; it replaces the uuid, which these reports do not have.
    """
    info = dict(report['session_info'])
    info |= {'data_version': f'4.0, from {info["data_version"]}', 'uuid': digest[:32]}
    for key in ('start', 'end'):
        try:
            info[f'time_{key}_unix'] = datetime.strptime(info[f'time_{key}'], '%Y-%m-%dT%H:%M:%S%z').timestamp()
        except (KeyError, TypeError, ValueError):
            info[f'time_{key}_unix'] = info.get(f'time_{key}')
    runs = report.get('runs')
    if isinstance(runs, list):
        runs = [_run(run) for run in runs]
    return report | {'session_info': info, 'runs': runs}


def _run(run: Any) -> Any:
    """Return a run in the form of version 4."""
    if not isinstance(run, dict) or not isinstance(run.get('testcases'), list):
        return run
    return run | {'testcases': [_case(case) if isinstance(case, dict) else case for case in run['testcases']]}


def _case(case: dict[str, Any]) -> dict[str, Any]:
    """Return a test case in the form of version 4."""
    system, _, partition = str(case.get('system')).partition(':')
    values = case.get('perfvars')
    if isinstance(values, list) and all(isinstance(value, dict) for value in values):
        values = {str(value.get('name')): [value.get(key) for key in _VALUE] for value in values}
    return case | {
        'system': system, 'partition': partition, 'environ': case.get('environment'), 'perfvalues': values,
        'result': _RESULTS.get(str(case.get('result')), case.get('result')), 'job_nodelist': case.get('nodelist'),
    }  # fmt: skip
