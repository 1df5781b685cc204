# SPDX-License-Identifier: BSD-3-Clause
"""stress-ng and fio: what their real outputs say, and outputs that say nothing."""

import pytest
from described_nodes import TWO
from reading import run_of, value_of
from rows import each_row

from checks.core.reading.metrics import NotMeasured
from checks.storage import fio


def test_the_rate_of_a_stressor(case_on, recorded):
    output = recorded('stress-ng-0.15.06-get.txt')
    case = case_on('KernelServices', TWO, 'choose_runs')
    of_run = {metric.run: metric for metric in case.metrics}
    command = f'command: stress-ng {" ".join(case.runs["get"].options)}'
    assert recorded('stress-ng-0.15.06-get.header').startswith(command)
    assert value_of(of_run['get'], output) == 2443.77 and case.sanity_faults(run_of(output)) == []
    assert of_run['null'].reading_of(output).missing
    cut = output[: output.index('successful')]
    for wrong in (cut, output.replace('successful', 'unsuccessful')):
        assert case.sanity_faults(run_of(wrong)) == ['stress-ng does not say "successful run completed"']


@pytest.mark.parametrize(
    ('pattern', 'found'),
    [
        ('write', {'bandwidth': 296.449979}),
        ('randread', {'operations': 34985.71903, 'latency_p99': 8585.216}),
    ],
)
def test_what_a_pattern_of_fio_measured(pattern, found, case_on, recorded):
    output = recorded(f'fio-3.33-{pattern}.txt')
    for text in (output, f'fio: a warning\n{output}'):
        assert {metric.name: value_of(metric, text) for metric in fio.metrics_of(pattern)} == found
    other = {'write': 'read', 'randread': 'randwrite'}[pattern]
    for metric in fio.metrics_of(other):
        assert metric.reading_of(output).missing, 'a direction that did not run measured nothing'


@each_row('output', ['', 'fio: file not found', '{', '{"jobs": []}', '[1]', '{"jobs": [1, 2]}'])
def test_no_json_of_fio_is_no_measurement(output):
    (metric,) = fio.metrics_of('write')
    with pytest.raises(NotMeasured, match='no JSON of fio'):
        value_of(metric, output)
    assert fio.faults_of(output) == []


def test_a_number_that_fio_lacks_and_an_error_of_it_are_named(recorded):
    output = recorded('fio-3.33-write.txt')
    (metric,) = fio.metrics_of('write')
    lost = metric.reading_of(output.replace('bw_bytes', 'bw')).missing
    assert [*lost.values()] == ["fio's JSON has no number bw_bytes"]
    failed = output.replace('"error" : 0', '"error" : 28')
    assert fio.faults_of(failed) == ['fio ended with error 28']
