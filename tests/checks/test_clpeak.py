# SPDX-License-Identifier: BSD-3-Clause
"""What clpeak wrote of PoCL's devices: recorded, cut, and of a device that is not there."""

from reading import values_of
from rows import each_row

from checks.gpu import clpeak


@each_row(
    ('test', 'number', 'some'),
    [
        ('bandwidth', 5, {'float': 8.62222, 'float4': 17.0988, 'float16': 21.4508}),
        ('single', 5, {'float float16': 4.82972}),
        ('transfer', 4, {'enqueuereadbuffer': 2.24101}),
        ('launch', 1, {'': 74.4468}),
    ],
)
def test_recorded_numbers_are_those_of_their_rows(recorded, test, number, some):
    output = recorded(f'clpeak-1.1.2-{test}.txt')
    assert clpeak.faults_of(output, 0) == []
    found = values_of(clpeak.metrics_of(test)[0], output)
    assert found.items() >= some.items() and len(found) == number


@each_row(('test', 'fault'), [
    ('no-device', 'clpeak measured nothing: no OpenCL device 0; platforms of OpenCL: Portable Computing Language'),
    ('no-platform', 'platforms of OpenCL: none: expected the .icd file of a driver'),
    ('killed', 'clpeak ended before its last line'),
])  # fmt: skip
def test_a_recorded_run_that_measured_nothing_or_too_little_says_why(recorded, test, fault):
    (found,) = clpeak.faults_of(recorded(f'clpeak-1.1.2-{test}.txt'), 0)
    assert fault in found


def test_two_platforms_with_such_a_device_are_named(recorded):
    one = recorded('clpeak-1.1.2-launch.txt')
    (fault,) = clpeak.faults_of(one.replace('</platform>', f'</platform>{one.replace("Portable", "Other")}'), 0)
    assert 'Portable Computing Language, Other Computing Language' in fault and 'OCL_ICD_VENDORS' in fault
