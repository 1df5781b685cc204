# SPDX-License-Identifier: BSD-3-Clause
"""stress-ng and fio: what their real outputs say, and outputs that say nothing."""

import pytest
from described_nodes import TWO
from reading import run_of

from checks.core.reading.trials import NotMeasured


@pytest.fixture(scope='module')
def stress_ng():
    import checks.compute.stress_ng  # here, after ReFrame's runtime is up

    return checks.compute.stress_ng


@pytest.fixture(scope='module')
def fio():
    import checks.storage.fio

    return checks.storage.fio


def values_of(metrics, output):
    readings = [(metric, metric.reading_of(output)) for metric in metrics]
    return {metric.name: value for metric, reading in readings for value in reading.values.values()}


def test_the_rate_of_a_stressor(case_on, recorded, stress_ng):
    output = recorded('stress-ng-0.15.06-get.txt')
    case = case_on('KernelServices', TWO, 'choose_runs')
    (metric,) = (metric for metric in case.metrics if metric.run == 'get')
    assert recorded('stress-ng-0.15.06-get.header').startswith(
        f'command: stress-ng {" ".join(case.runs["get"].options)}'
    )
    assert values_of([metric], output) == {'rate': 2443.77} and case.sanity_faults(run_of(output)) == []
    cut = output[: output.index('successful')]
    for wrong in (cut, output.replace('successful', 'unsuccessful')):
        assert case.sanity_faults(run_of(wrong)) == ['stress-ng does not say "successful run completed"']
    (other,) = (metric for metric in case.metrics if metric.run == 'null')
    assert values_of([other], output) == {}


@pytest.mark.parametrize(
    ('pattern', 'found'),
    [
        ('write', {'bandwidth': 296.449979}),
        ('randread', {'operations': 34985.71903, 'latency_p99': 8585.216}),
    ],
)
def test_what_a_pattern_of_fio_measured(pattern, found, case_on, recorded, fio):
    output = recorded(f'fio-3.33-{pattern}.txt')
    metrics = list(fio.metrics_of(pattern))
    assert values_of(metrics, output) == found
    assert values_of(metrics, f'fio: a warning\n{output}') == found
    other = {'write': 'read', 'randread': 'randwrite'}[pattern]
    for metric in fio.metrics_of(other):
        assert metric.reading_of(output).missing, 'a direction that did not run measured nothing'


@pytest.mark.parametrize('output', ['', 'fio: file not found', '{', '{"jobs": []}', '[1]', '{"jobs": [1, 2]}'])
def test_no_json_of_fio_is_no_measurement(output, fio):
    with pytest.raises(NotMeasured, match='no JSON of fio'):
        fio.job_of(output)
    (metric,) = fio.metrics_of('write')
    assert not metric.reading_of(output).values
    assert fio.LocalDisk.sanity_faults(None, run_of(output)) == []


def test_a_number_that_fio_lacks_and_an_error_of_it_are_named(recorded, fio):
    output = recorded('fio-3.33-write.txt')
    (metric,) = fio.metrics_of('write')
    lost = metric.reading_of(output.replace('bw_bytes', 'bw')).missing
    assert [*lost.values()] == ["fio's JSON has no number bw_bytes"]
    failed = output.replace('"error" : 0', '"error" : 28')
    assert fio.LocalDisk.sanity_faults(None, run_of(failed)) == ['fio ended with error 28']
    assert fio.LocalDisk.sanity_faults(None, run_of(output)) == []
