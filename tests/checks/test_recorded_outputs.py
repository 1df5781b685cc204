# SPDX-License-Identifier: BSD-3-Clause
"""The parsers of the checks on outputs that the real programs printed."""

import re

import pytest
from reading import value_of

from checks.compute import hpcc
from checks.core.reading.metrics import NotMeasured
from checks.gpu.xccl_output import iteration_faults
from checks.memory import likwid
from checks.memory.cache_latency import chase_faults
from checks.memory.likwid import faults_of


def test_every_performance_figure_of_a_recorded_hpcc_summary(recorded):
    output = recorded('hpcc-1.5.0.txt')
    values = {metric.name: value_of(metric, output) for metric in hpcc.HPCC.metrics}
    assert values['HPL_Tflops'] == 0.0931897
    assert values['StarSTREAM_Triad'] == 31.5825
    assert values['AvgPingPongLatency_usec'] == 0.360819
    summary = output.split('Begin of Summary section.')[1]
    figures = {
        line.split('=')[0]
        for line in summary.splitlines()
        if any(unit in line for unit in ('flops=', 'GUPs=', 'GBs=', 'usec=', 'GBytes=', 'STREAM_'))
    } - {'STREAM_VectorSize', 'STREAM_Threads'}
    assert set(values) == figures


def test_a_wrong_solution_is_not_sane(recorded):
    output = recorded('hpcc-1.5.0.txt')
    assert hpcc.faults_of(output, 10176) == []
    assert hpcc.faults_of(output.replace('PASSED', 'FAILED'), 10176) == ["HPL's residual check did not pass"]
    assert hpcc.faults_of(output.replace('Success=1', 'Success=0'), 10176) == ['the summary has no Success=1']


def test_flops_bandwidth_and_cycles_of_recorded_likwid_bench_runs(recorded):
    def number(output: str, name: str) -> float:
        return float(next(line for line in output.splitlines() if line.startswith(name)).split()[2])

    peak = recorded('likwid-bench-peakflops_avx512_fma.txt')
    flops, per_cycle = (value_of(metric, peak) for metric in likwid.flop_metrics('avx512_dp', {}, None))
    assert f'{flops * 1000:.2f}' in peak
    assert per_cycle == pytest.approx(flops * 1e9 / number(peak, 'CPU Clock'), rel=1e-3)  # of one core
    triad = recorded('likwid-bench-triad_avx512_fma.txt')
    bandwidth, per_cycle = (value_of(metric, triad) for metric in likwid.bandwidth_metrics('triad', None))
    assert f'{bandwidth * 1000:.2f}' in triad
    assert 2 * per_cycle == pytest.approx(bandwidth * 1e9 / number(triad, 'CPU Clock'), rel=1e-3)  # of two cores


def test_load_does_no_flops_and_threads_that_share_a_core_are_seen(recorded):
    """likwid-bench put five threads on two cores and ended with 0."""
    output = recorded('likwid-bench-five-threads-on-two.txt')
    with pytest.raises(NotMeasured, match='above zero'):
        value_of(likwid.flop_metrics('x', {}, None)[0], output)
    (fault,) = faults_of(output, (0, 1))
    assert 'on CPUs [0, 1] and ran on [0, 0, 0, 1, 1]' in fault


def test_fewer_samples_or_other_iterations_than_asked_are_named(recorded):
    output = recorded('multichase-20250815.txt')
    assert chase_faults(output, 2**29) == []
    (fault,) = chase_faults(re.sub(r' avg=.*', '', output, count=1), 2**29)
    assert fault == '3 samples were requested, multichase took 2'
    assert iteration_faults(recorded('nccl-tests-2.17.6-8-ranks.txt')) == []
    (fault,) = iteration_faults(recorded('nccl-tests-2.18.3-16-ranks.txt'))
    assert fault == '20 iterations were asked for, it says 100'
