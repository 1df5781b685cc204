# SPDX-License-Identifier: BSD-3-Clause
"""What network devices carry bounds what is measured between nodes: numbers worked out by hand for 4 x 25 GB/s."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rows import each_row

from checks.core.placement import ONE_RANK
from checks.core.reading.metrics import Metric
from checks.memory.likwid import flop_metrics
from plumbline.site.sites import Partition

NICS = ('cxi0', 'cxi1', 'cxi2', 'cxi3')
NODE = Partition('gpu', {'nics': list(NICS)}, peaks={'network_bandwidth': 100e9})


def case_of(check: type, num_nodes: int, partition: Partition = NODE, **other) -> SimpleNamespace:
    """What the methods about peaks need of a case."""
    case = SimpleNamespace(partition=partition, num_nodes=num_nodes, placement=ONE_RANK, **other)
    case.peak_of = lambda metric: check.peak_of(case, metric)
    case.invalid_reason = lambda *of: check.invalid_reason(case, *of)
    return case


@each_row('name, unit, peak', [('multi_bandwidth', 'MB/s', 100e9), ('message_rate', 'ops/s', None)])
def test_osu_between_two_nodes(classes, name, unit, peak):
    assert case_of(classes['OsuMultiPair'], 2).peak_of(Metric(name, unit, 'higher')) == peak


@each_row(
    'collective, algorithm, bus',
    [('all_reduce', 100, 187.5), ('all_gather', 400 / 3, 125), ('reduce_scatter', 400 / 3, 125),
     ('alltoall', 100 / 3, 31.25), ('sendrecv', 100, 100)],
)  # fmt: skip
def test_collectives_of_four_gpus_on_each_of_four_nodes(classes, collective, algorithm, bus):
    case = case_of(classes['XcclTests'], 4, ranks=16)
    for name, expected in (('algorithm_bandwidth', algorithm), ('bus_bandwidth', bus)):
        found = case.peak_of(Metric(name, 'GB/s', 'higher', dims={'collective': collective}))
        assert found == pytest.approx(expected * 1e9)


def test_an_allreduce_that_was_measured_is_possible_and_one_above_all_devices_is_not(classes):
    """github.com/eth-cscs/cscs-reframe-tests expects 150 GB/s of four GH200 on each of two nodes, with 4 x 25 GB/s."""
    case = case_of(classes['XcclTests'], 2, ranks=8)
    metric = Metric('bus_bandwidth', 'GB/s', 'higher', dims={'collective': 'all_reduce'})
    assert case.invalid_reason(metric, 150.0, None) is None
    assert case.invalid_reason(metric, 176.0, None) == '176 GB/s is above the physical peak of 175'


def test_flops_of_double_precision_are_bounded_and_shares_of_a_published_peak_are_not(classes):
    """112 cores of 32 Flop a cycle are 7.17 TFlop/s at 2 GHz, as a document counts them, and 10.75 at 3 GHz."""
    bounds = [flop_metrics('x', {'precision': precision}, None)[0].peak for precision in ('dp', 'sp')]
    assert bounds == ['flops_dp', None]
    node = Partition('gpp', {}, peaks={'flops_dp': 10.75e12}, published_peaks={'flops_dp': 7.17e12})
    case = SimpleNamespace(partition=node, program=SimpleNamespace(on_gpus=False), num_nodes=1)
    assert classes['HPL'].peak.fget(case) == 7.17e12
    case.partition = replace(node, published_peaks={})
    assert classes['HPL'].peak.fget(case) == 10.75e12


@pytest.mark.parametrize(('cores', 'peak'), [(4, 3.2e11), (2, 1.92e11)])
def test_the_peak_of_a_node_has_the_clock_of_each_of_its_cores(classes, cores, peak):
    """Two of four cores reach 3 GHz, and two 2 GHz: of fewer than all cores the clocks are not known."""
    node = Partition('x', {}, peaks={'core_clock': 3e9, 'flops_dp': 3.2e11}, flop_per_cycle={'avx512_dp': 32})
    case = SimpleNamespace(
        partition=node, provenance={}, cores_in_use=range(cores), topology=SimpleNamespace(cores=range(4))
    )
    assert classes['LikwidPeakFlops'].theoretical_peak(case, 'avx512_dp') == pytest.approx(peak)
    assert classes['LikwidPeakFlops'].theoretical_peak(case, 'avx_dp') is None
