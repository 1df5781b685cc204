# SPDX-License-Identifier: BSD-3-Clause
"""What clpeak wrote of PoCL's devices: recorded, cut, and of a device that is not there."""

import pytest
from reading import plan_of, values_of
from rows import each_row
from scratch import OUTPUTS

from checks.core.reading.trials import NotMeasured

TESTS = ('bandwidth', 'single', 'transfer', 'launch')
WHOLE = {test: (OUTPUTS / f'clpeak-1.1.2-{test}.txt').read_text() for test in TESTS}


@pytest.fixture(scope='module')
def clpeak(reframe_runtime):
    from checks.gpu import clpeak

    return clpeak


def outcome(clpeak, test: str, output: str) -> dict[str, float] | None:
    """The values of a case that passes; None where a fault or a missing number fails it."""
    try:
        found = values_of(clpeak.metrics_of(test)[0], output)
    except NotMeasured:
        return None
    return None if clpeak.faults_of(output, 0) else found


def test_recorded_numbers_are_those_of_their_rows(recorded, clpeak):
    found = {test: outcome(clpeak, test, recorded(f'clpeak-1.1.2-{test}.txt')) for test in TESTS}
    assert found['bandwidth'] == {
        'float': 8.62222, 'float2': 12.561, 'float4': 17.0988, 'float8': 21.722, 'float16': 21.4508,
    }  # fmt: skip
    assert found['single']['float float16'] == 4.82972 and len(found['single']) == 5
    assert set(found['transfer']) == set(clpeak.COPIES) and found['transfer']['enqueuereadbuffer'] == 2.24101
    assert found['launch'] == {'': 74.4468}


@each_row(('test', 'fault'), [
    ('no-device', 'clpeak measured nothing: no OpenCL device 0; platforms of OpenCL: Portable Computing Language'),
    ('no-platform', 'platforms of OpenCL: none: expected the .icd file of a driver'),
    ('killed', 'clpeak ended before its last line'),
])  # fmt: skip
def test_a_recorded_run_that_measured_nothing_or_too_little_says_why(recorded, clpeak, test, fault):
    (found,) = clpeak.faults_of(recorded(f'clpeak-1.1.2-{test}.txt'), 0)
    assert fault in found


def test_two_platforms_with_such_a_device_are_named(clpeak):
    both = WHOLE['launch'].replace('</platform>', f'</platform>{WHOLE["launch"].replace("Portable", "Other")}')
    (fault,) = clpeak.faults_of(both, 0)
    assert 'Portable Computing Language, Other Computing Language' in fault and 'OCL_ICD_VENDORS' in fault


def test_a_number_without_a_vector_is_the_best_of_its_trial(clpeak):

    check = clpeak.ClPeak
    case = type('Case', (), {'tests': ['bandwidth', 'single'], 'derive': check.derive})()
    metrics = [metric for test in case.tests for metric in clpeak.metrics_of(test)]
    record = plan_of('ClPeak', (), metrics, dims=check.dims).empty_record()
    for _, _, series in record.series():
        width = dict(series.dims).get('vector', '').lstrip('float')
        series.samples = [(1, 'n1', float(width or 1)), (2, 'n1', 100 - float(width or 1))] if series.dims else []
    case.derive(record)
    best = {name: one.samples for name, _, one in record.series() if 'vector' not in dict(one.dims)}
    assert best == {'bandwidth': [(1, 'n1', 16.0), (2, 'n1', 99.0)], 'flops': [(1, 'n1', 16.0), (2, 'n1', 99.0)]}
