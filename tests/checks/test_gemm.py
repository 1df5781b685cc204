# SPDX-License-Identifier: BSD-3-Clause
"""Rows of matrix multiplications on several devices: recorded, cut; and the precisions that an architecture has."""

import itertools
import subprocess

from hypothesis import given
from hypothesis import strategies as st
from reading import values_of
from rows import each_row
from scratch import OUTPUTS, ROOT

from checks.core.reading.health import state_of
from checks.gpu import gemm

CORAL = (OUTPUTS / 'coralgemm-2025.11-two-devices.txt').read_text()
# as Argonne's gemm.cpp prints it, with the figures of a node that its page publishes
ONEMKL = """\
DGEMM: 125020 GFlop/s
SGEMM: 247113 GFlop/s
HGEMM: 2.469e+06 GFlop/s
BF16GEMM: 2.487e+06 GFlop/s
TF32GEMM: 1.254e+06 GFlop/s
I8GEMM: 5.128e+06 GFlop/s
"""


def test_the_rate_of_a_device_is_the_median_of_its_second_half():
    rows = gemm.rows_of(CORAL)
    late = sorted(row[1] for row in rows[len(rows) // 2 :])
    (flops, *_) = gemm.metrics_of('double', range(2), False)
    found = values_of(flops, CORAL)
    assert late[0] < found['1 double'] * 1e3 < late[-1] and set(found) == {'0 double', '1 double'}
    assert gemm.coral_faults(CORAL, 2, 3) == []


def test_of_the_whole_rows_of_an_output_the_one_in_the_middle_counts():
    rows = [(100, 1), (20, 2), (40, 3)]
    output = 'devices\n' + ''.join(f' {rate}.00 {rate}.00 {seconds}.00\n' for rate, seconds in rows)
    assert [row.number for row in gemm.rates_of_devices(output)] == [30, 30]
    assert gemm.rows_of(output[:-1]) == ((100, 100, 1), (20, 20, 2)), 'the last row may go on'
    assert gemm.rows_of(' 1.00 2.00 0.50\n warming up\n 3.00 nan 0.60\n') == ()


@each_row(('devices', 'seconds', 'says'), [
    (4, 3, "expected the columns device_0_[GFLOPS] to device_3_[GFLOPS] and timestamp_[sec], found 'device_0_"),
    (2, 4, 'expected at least 4'),
])  # fmt: skip
def test_another_number_of_devices_or_a_shorter_run_is_named(devices, seconds, says):
    (fault,) = gemm.coral_faults(CORAL, devices, seconds)
    assert says in fault


@each_row(('old', 'new'), [
    ('device_0_[GFLOPS] device_1_[GFLOPS]', 'device_1_[GFLOPS] device_0_[GFLOPS]'),
    ('device_1_[GFLOPS] timestamp_[sec]', 'timestamp_[sec] device_1_[GFLOPS]'),
    (' timestamp_[sec]', ''),
    ('device_1_[GFLOPS]', 'device_1_[TFLOPS]'),
])  # fmt: skip
def test_columns_of_another_order_or_unit_are_a_fault(old, new):
    (fault,) = gemm.coral_faults(CORAL.replace(old, new, 1), 2, 3)
    first = CORAL.replace(old, new, 1).splitlines()[0].strip()
    assert fault.endswith(f'to device_1_[GFLOPS] and timestamp_[sec], found {first!r}')


@given(st.data())
def test_an_output_that_was_cut_anywhere_fails(data):
    assert gemm.coral_faults(CORAL[: data.draw(st.integers(0, len(CORAL) - 1))], 2, 3)
    assert gemm.onemkl_faults(ONEMKL[: data.draw(st.integers(0, len(ONEMKL) - 1))])


@each_row('word', ['nan', '-1.00', '1.2.3', '1' * 5000, '\u0663.00', ''])
def test_a_rate_that_is_none_fails(word):
    first = CORAL.splitlines()[1].split()[0]
    assert gemm.coral_faults(CORAL.replace(first, word, 1), 2, 3)


def test_oneMKL_prints_the_sum_of_all_ranks():
    metrics = [gemm.of_onemkl(one) for one in gemm.ONEMKL]
    assert [list(values_of(metric, ONEMKL).values()) for metric in metrics] == [
        [125.02], [247.113], [2469.0], [2487.0], [1254.0],
    ]  # fmt: skip
    assert gemm.onemkl_faults(ONEMKL) == []


def test_the_state_of_the_gpus_is_sampled_until_the_run_has_ended(tmp_path):
    smi = tmp_path / 'bin/nvidia-smi'
    smi.parent.mkdir()
    smi.write_text('#!/bin/sh\necho "0, 1410, 398.25, 61"\necho "1, 1395, [Not Supported], 60"\n')
    smi.chmod(0o755)
    script = ['bash', str(ROOT / 'checks/core/job/parts/gpus.sh'), '0']
    env = {'PATH': f'{smi.parent}:/usr/bin:/bin', 'PLUMBLINE_GPU': 'cuda'}
    with subprocess.Popen(script, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as sampler:
        said = ''.join(itertools.islice(sampler.stdout, 2))
        sampler.kill()  # the next look is due when the first one is 0.1 % of the time
    assert state_of(said) == '0: 1410 MHz, 398 W, 61 C; 1: 1395 MHz, 60 C'

    (tmp_path / 'exit_code').touch()
    assert subprocess.run(script, cwd=tmp_path, env=env, capture_output=True, timeout=60).stdout == b''
    assert state_of('0 - - -\n') == state_of('') == state_of('x\n0 1410 398\n') == ''
