# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream's parser on what the real program printed, and the sizes of its arrays."""

from dataclasses import replace

import pytest
from described_nodes import TWO
from reading import run_of, values_of
from rows import each_row

from checks.core.reading.metrics import NotMeasured
from checks.core.topology import Cache
from checks.memory.babelstream_output import bandwidth, faults_of

ELEMENTS = 2**25
# elements and repetitions that were asked for, and rates in GB/s that the program printed
RUNS = {
    '5.0-omp-100': (
        ELEMENTS, 100,
        {'copy': 43.393133, 'mul': 43.919899, 'add': 45.602291, 'triad': 45.644122, 'dot': 38.308549},
    ),
    '5.0-omp': (ELEMENTS, 10, {}),
    '5.0-hip': (2**22, 15, {'dot': 0.217567}),  # on a processor
    '6.0rc-omp': (ELEMENTS, 100, {'triad': 36.439918}),  # with other columns
    '5.0-cuda-a100-40': (ELEMENTS, 100, {'copy': 1400.256415, 'dot': 1353.461767}),  # these were published by others
    '5.0-cuda-a100-80': (ELEMENTS, 100, {'copy': 1709.360800, 'dot': 1586.905948}),
    '5.0-cuda-rtx2060': (ELEMENTS, 100, {'copy': 396.111209, 'dot': 419.572661}),
}  # fmt: skip


@each_row(('name', 'run'), RUNS.items())
def test_the_rates_of_a_recorded_run(recorded, name, run):
    elements, repetitions, rates = run
    output = recorded(f'babelstream-{name}.txt')
    assert faults_of(output, elements, repetitions) == []
    found = values_of(bandwidth(), output)
    assert len(found) == 5 and found == pytest.approx(found | rates)


@each_row(
    ('name', 'elements', 'repetitions', 'fault'),
    [
        ('5.0-omp-100', 2**26, 100, 'the arrays are not of 536.9 MB'),
        ('5.0-omp-100', ELEMENTS, 50, 'it did not say that it ran 50 times'),
        ('5.0-float', 2**24, 100, 'it did not run in double precision'),
    ],
)
def test_another_run_than_the_one_asked_for_is_a_fault(recorded, name, elements, repetitions, fault):
    assert fault in faults_of(recorded(f'babelstream-{name}.txt'), elements, repetitions)


@each_row(('old', 'new'), [('45644.122', '95644.122'), ('45644.122', '45646.122'), ('0.01764', '0.01766')])
def test_a_rate_that_is_not_that_of_its_shortest_time_is_a_fault(recorded, old, new):
    """Within the five digits of a time: 45646 would take 0.0176424 s, which is printed as 0.01764."""
    output = recorded('babelstream-5.0-omp-100.txt')
    row = next(line for line in output.splitlines() if line.startswith('Triad'))
    faults = faults_of(output.replace(row, row.replace(old, new)), ELEMENTS, 100)
    assert [fault.split(':')[0] for fault in faults] == ['Triad'] * (new != '45646.122'), faults


@each_row('name', ['triad-only', 'csv'])
def test_other_tables_are_no_measurement(recorded, name):
    output = recorded(f'babelstream-5.0-{name}.txt')
    assert faults_of(output, ELEMENTS, 100)
    with pytest.raises(NotMeasured):
        values_of(bandwidth(), output)


def test_a_failed_validation_on_stderr_is_a_fault_although_the_program_exits_with_0(case_on, recorded):
    case = case_on('BabelStreamHost', TWO)
    case.stream(ELEMENTS)
    output, errors = recorded('babelstream-5.0-omp-100.txt'), recorded('babelstream-5.0-float-stderr.txt')
    (fault,) = case.sanity_faults(run_of(output, errors))
    assert 'Validation failed on sum. Error 0.115442' in fault
    assert case.sanity_faults(run_of(output, 'some library warns\n')) == []


@each_row(
    ('mib', 'of_core', 'threads', 'doubles', 'needed'),
    [
        (32, 16, (4,), 33_554_432, [402_653_184]),  # 256 MiB beside 4 x 32
        (512, 128, (4,), 268_435_456, [6_442_450_944]),  # 4 x 512 MiB; three arrays of them are 6 GiB
        # 4 x 513 MiB, in whole Mi; one thread fills the caches of its core alone, 12 x 129 MiB
        (513, 129, (1, 4), 269_484_032, [1_623_195_648, 6_455_033_856]),
    ],
)
def test_arrays_are_four_times_the_caches_and_at_least_the_default(case_on, mib, of_core, threads, doubles, needed):
    parts = (Cache(3, of_core * 2**20, frozenset({0})), Cache(3, (mib - of_core) * 2**20, frozenset({1, 2, 3})))
    case, asked = case_on('BabelStreamHost', replace(TWO, caches=parts)), []
    case.rate, case.repeat_in_time = lambda count: 1e10, lambda once, runs: None
    case.fit = lambda wanted, needed, seconds_of, runs: asked.append(needed) or wanted
    assert (case.doubles(*threads), asked) == ([doubles] * len(threads), needed)
