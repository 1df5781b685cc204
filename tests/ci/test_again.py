# SPDX-License-Identifier: BSD-3-Clause
"""The cases that run again: exactly those, whatever was selected, with real ReFrame."""

import json
import re

import pytest
from rows import each_row

from plumbline.references import options_of_mode

CASE = re.compile(r'^- Demo .*?/(\w+) @(\S+)$', re.MULTILINE)


@pytest.fixture
def demo(clone):
    """A check of two sizes on two partitions with two environs: eight cases."""
    text = clone.site_file.read_text()
    start, end = text.index('  - name: node'), text.index('environments:')
    partition = text[start:end].replace('[system]', '[system, other]')
    system = text[text.index('  - {name: system') :]
    clone.site_file.write_text(
        text[:start] + partition + partition.replace('name: node', 'name: more') + text[end:]
        + system.replace('name: system', 'name: other')
    )  # fmt: skip
    path = clone.root / 'checks/demo.py'
    path.write_text(path.read_text().replace("(['small'],", "(['small', 'large'], type=str,"))
    return clone


def listed(demo, *options: str, **environment: str) -> set[tuple[str, str]]:
    answer = demo.reframe('-lC', *options, **environment)
    assert answer.returncode == 0, answer.stderr
    return set(CASE.findall(answer.stdout))


def choose(demo, cases, generated: int, trials: dict | None = None) -> dict[str, str]:
    """The variable that allows these cases only, some with fewer `trials`."""
    found: dict[str, dict[str, list]] = {}
    for name, place in cases:
        found.setdefault(name, {})[place] = []
    path = demo.results.with_name('cases.json')
    path.write_text(json.dumps({'generated': generated, 'cases': found, 'trials': trials or {}}))
    return {'PLUMBLINE_CASES': str(path)}


@each_row(
    'options, generated, number',
    [
        (['-n', 'Demo', '-t', 'quick'], 0, 8), (['--distribute=all', '-n', 'large'], 1, 4),
        (['-P', 'size=small,huge', '-P', 'Demo.cpu=0,1'], 1, 16), (['--repeat=2', '--distribute=all'], 2, 16),
    ],
)  # fmt: skip
def test_only_the_chosen_cases_are_left_of_any_selection(demo, options, generated, number):
    every = listed(demo, *options)
    assert len(every) == number
    name, place = max(every)
    assert listed(demo, *options, **choose(demo, [(name, place)], generated)) == {(name, place)}


def test_an_environ_is_the_only_one_also_with_a_mode(demo):
    environs = {place.rpartition('+')[2] for _, place in listed(demo, '-p', 'other', *options_of_mode('quick'))}
    assert environs == {'other'}


def test_one_case_of_a_partition_and_one_of_another_run_once_each_with_the_trials_that_are_left(demo):
    """ReFrame combines partitions with environs: what that brings beside them is skipped."""
    hashes = {name for name, _ in listed(demo, '-n', 'Demo.*small')}
    wanted = {(name, place) for name in hashes for place in ('demo:node+system', 'demo:more+other')}
    report = demo.results.with_name('report.json')
    left = {name: {'demo:more+other': 1} for name in hashes}
    answer = demo.reframe('-r', f'--report-file={report}', '-n', 'Demo', **choose(demo, wanted, 0, left))
    assert answer.returncode == 0, answer.stdout
    cases = json.loads(report.read_text())['runs'][0]['testcases']
    ran = [(one['hashcode'], f'{one["system"]}:{one["partition"]}+{one["environ"]}') for one in cases
           if one['result'] != 'skip']  # fmt: skip
    assert sorted(ran) == sorted(wanted)
    trials = {case['partition']: len(case['record']['trial_seconds']) for case in cases if case['result'] != 'skip'}
    assert trials == {'node': 3, 'more': 1}
