# SPDX-License-Identifier: BSD-3-Clause
"""Run reports of another suite, its rules, and what the store has of it."""

import json

from run_reports import BEGAN, DAY
from scratch import ROOT

from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in


def report(values, number=0, params='size=8'):
    """A run report of ReFrame 4.10.4 with one test of another suite; `values`: name, value and unit, and bounds."""
    content = json.loads((ROOT / 'tests/data/other-suites/reframe-4.10.4.json').read_text())
    began = BEGAN + number * DAY
    content['session_info'] |= {
        'uuid': f'{number:08x}-0000', 'time_start_unix': began, 'time_end_unix': began + 60,
    }  # fmt: skip
    (test, *_) = content['runs'][0]['testcases']
    test |= {'system': 'box', 'partition': 'cpu', 'result': 'pass', 'display_name': f'Sizes %{params} %threads=2'}
    test['perfvalues'] = {
        f'box:cpu:{name}': [value, 0, *(bounds or (None, None)), unit, 'pass'] for name, value, unit, *bounds in values
    }
    content['runs'][0]['testcases'] = [test]
    return content


def rules(work, text):
    path = work.sites / 'suite.yaml'
    path.write_text(text)
    return path


def rows(work):
    store = Store(work.results)
    return [row for session in store.sessions('*') for row in measured_in(store, session)]
