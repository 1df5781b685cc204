# SPDX-License-Identifier: BSD-3-Clause
"""What network devices carry bounds what is measured between nodes: numbers worked out by hand for 4 x 25 GB/s."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from described_nodes import GPUS, NODES
from rows import each_row

from checks.memory.likwid import flop_metrics
from plumbline.site.sites import Partition

NICS = ('cxi0', 'cxi1', 'cxi2', 'cxi3')
NODE = Partition('gpu', {'nics': list(NICS)}, peaks={'network_bandwidth': 100e9})


SITE = {'network_peak': NODE.network_peak, 'transport': None}


@each_row('name, peak', [('multi_bandwidth', 100e9), ('message_rate', None)])
def test_osu_between_two_nodes(case_on, name, peak):
    case = case_on('OsuMultiPair', NODES['large'], 'count_nodes choose_budget place', SITE, nodes=2)
    assert {metric.name: metric.peak for metric in case.metrics}[name] == peak


def rates_on(case_on, nodes):
    """The peaks of NCCL's rates on nodes of four GPUs."""
    case = case_on('XcclTests', GPUS, 'count_nodes choose_budget place', SITE, nodes=nodes)
    return {(metric.dims['collective'], metric.name): metric for metric in case.metrics}


@each_row(
    'collective, algorithm, bus',
    [('all_reduce', 100, 187.5), ('all_gather', 400 / 3, 125), ('reduce_scatter', 400 / 3, 125),
     ('alltoall', 100 / 3, 31.25), ('sendrecv', 100, 100)],
)  # fmt: skip
def test_collectives_of_four_gpus_on_each_of_four_nodes(case_on, collective, algorithm, bus):
    rates = rates_on(case_on, 4)
    for name, expected in (('algorithm_bandwidth', algorithm), ('bus_bandwidth', bus)):
        assert rates[collective, name].peak == pytest.approx(expected * 1e9)


def test_an_allreduce_that_was_measured_is_possible_and_one_above_all_devices_is_not(case_on):
    """github.com/eth-cscs/cscs-reframe-tests expects 150 GB/s of four GH200 on each of two nodes, with 4 x 25 GB/s."""
    metric = rates_on(case_on, 2)['all_reduce', 'bus_bandwidth']
    assert metric.invalid_reason(150.0) is None
    assert metric.invalid_reason(176.0) == '176 GB/s is above the physical peak of 175'


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
