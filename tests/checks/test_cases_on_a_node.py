# SPDX-License-Identifier: BSD-3-Clause
"""What the checks ask of a node of two sockets, of one with four GPUs, and of others: cases.yaml has it, by hand."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml
from scratch import ROOT

from checks.core.topology import Cache, Topology

MIB = 2**20
FIRST, SECOND = frozenset({0, 1, 2, 3, 8, 9, 10, 11}), frozenset({4, 5, 6, 7, 12, 13, 14, 15})
# 16 GB/s and 192 GFlop/s at least: 8 cores of 2 GB/s, and of 2 GHz with one multiply-add of 8 doubles at 0.75 of it
TWO = Topology(
    cores=tuple((core, core + 8) for core in range(8)), numa_domains=(FIRST, SECOND), sockets=(FIRST, SECOND),
    caches=(
        *(Cache(1, 2**15, frozenset({core, core + 8})) for core in range(8)),
        *(Cache(2, MIB, frozenset({core, core + 8})) for core in range(8)),
        Cache(3, 16 * MIB, FIRST), Cache(3, 16 * MIB, SECOND),
    ),
    arch='zen4', described_memory=64 * 2**30, nodes_of_partition=4, numa_distances=((10, 32), (32, 10)),
    numa_ids=(0, 1), nics=('mlx5_0', 'mlx5_1'), nic_numa_ids=(1, 0), memory_kinds={'ddr': (0,), 'hbm': (1,)},
)  # fmt: skip
LINKS = {'near': ((0, 1), (2, 3)), 'far': ((0, 2),)}
GPUS = replace(TWO, gpus=('sm_90',) * 4, gpu_numa_ids=(0, 0, 1, 1), opencl_devices=4, link_classes=LINKS)
NODES = {
    'two': TWO, 'gpus': GPUS, 'opencl': replace(TWO, opencl_devices=2), 'unified': replace(GPUS, unified=True),
    'intel': replace(GPUS, gpus=('intel_pvc',) * 4), 'odd': replace(TWO, cores=TWO.cores[:3]),
    'one_gpu': replace(GPUS, gpus=('sm_90',), gpu_numa_ids=(0,), opencl_devices=1, link_classes={}),
    'large': replace(TWO, nodes_of_partition=32, resources=('different_switch',)),
    'alone': replace(
        TWO, cores=((0,),), numa_domains=(frozenset({0}),), sockets=(frozenset({0}),), caches=(), numa_ids=(0,),
        nodes_of_partition=1, nics=(), nic_numa_ids=(), memory_kinds={},
    ),
}  # fmt: skip


# What a case asks for where the table says nothing
DEFAULTS = {
    'runs': {}, 'run_env': {}, 'before_run': {}, 'nodes': 1, 'ranks': 1, 'env': 'OMP_NUM_THREADS=1', 'job_env': '',
    'placed': '', 'mpi': False, 'device_buffers': False, 'limit': None, 'estimates': [], 'provenance': {}, 'output': '',
    'figures': {}, 'tags': 'acceptance nightly', 'trials': '3 10 100',
}  # fmt: skip


def listed(variables):
    return ' '.join(f'{name}={value}' for name, value in variables.items())


def in_words(metric):
    """The metric, but for how it reads an output."""
    words = f'{metric.name} {metric.unit} {metric.better}'
    words += f' x {metric.scale:.6g}' * (metric.scale != 1) + f' of {metric.run}' * (metric.run != 'run')
    words += f' at {listed(metric.dims)}' * bool(metric.dims)
    for name, values in metric.expected.items():
        texts = [f'{value}' for value in values]
        words += f' for {name} ' + (f'{texts[0]}..{texts[-1]} ({len(texts)})' if texts[5:] else ','.join(texts))
    words += f', peak {metric.peak}' * bool(metric.peak)
    if callable(metric.judged):
        judged = [point['message_bytes'] for point in map(dict, metric.points()) if metric.judged(point)]
        return words + f', judged at {",".join(judged)}'
    return words + ', not judged' * (not metric.judged)


def asked(case):
    """What a case asks for, as texts; nothing is left out where it is not the default of ReFrame."""
    trials = [case.trials_by_mode[mode] for mode in ('quick', 'nightly', 'acceptance')]
    env = listed(case.placement.env_vars)
    found = {
        'tags': ' '.join(sorted(case.tags & {'quick', 'nightly', 'acceptance', 'tutorial'})),
        'needs': case.requires,
        'command': ' '.join([*case.wrapper, case.executable, *case.executable_opts]),
        'runs': {run: ' '.join(words) for run, words in case.runs.items()},
        'run_env': {run: listed(variables) for run, variables in case.run_env.items()},
        'before_run': case.before_run,
        'nodes': case.num_nodes, 'ranks': case.placement.ranks_per_node, 'env': env, 'job_env': listed(case.env_vars),
        'placed': ' '.join(filter(None, [case.placement.switches, case.placement.apart])),
        'mpi': case.mpi, 'device_buffers': case.device_buffers,
        'trials': ' '.join(map(str, trials)), 'seconds': case.trial_seconds, 'limit': case.trial_time_limit,
        'estimates': [round(seconds, 2) for seconds in case.estimates],
        'provenance': case.provenance, 'output': case.output if case.output != 'stdout' else '',
        'figures': dict(case.figures),
        'metrics': [in_words(metric) for metric in case.metrics],
    }  # fmt: skip
    text = yaml.safe_dump(found, width=10**6)
    return yaml.safe_load(re.sub(r'\$\(sed .*? \|\| echo (-s \d+)\)', r'\1', text))


CASES = yaml.safe_load((ROOT / 'tests/data/cases-on-a-node.yaml').read_text(encoding='utf-8'))


@pytest.mark.parametrize('stated', CASES, ids=lambda stated: f'{stated["case"]} {stated.get("with", "")}')
def test_a_case_asks_for_what_was_worked_out(case_on, monkeypatch, stated):
    node = NODES[stated['node']]
    monkeypatch.setattr('checks.memory.likwid.topologies', lambda: [('machine:node', node)])
    entry = stated.get('site', {})
    links = {name: SimpleNamespace(**link) for name, link in entry.get('link_classes', {}).items()}
    entry, parameters = entry | {'link_classes': links}, stated.get('with', {})
    case = case_on(stated['case'], node, stated['hooks'], entry, stated.get('stack'), **parameters)
    assert asked(case) == DEFAULTS | stated['asks']


NVIDIA, GPU = 'gpus unified', 'gpus unified intel'
WITH_OTHERS = 'two gpus opencl unified intel odd one_gpu large'  # all but that of one core


@pytest.mark.parametrize(
    ('check', 'parameters', 'nodes'),
    [
        ('HPCC', {}, WITH_OTHERS),
        ('HPL', {'size': 'quick', 'nodes': 1, 'implementation': 'netlib'}, f'{WITH_OTHERS} alone'),
        ('HPL', {'size': 'quick', 'nodes': 2, 'implementation': 'netlib'}, ''),
        ('HPL', {'size': 'full', 'nodes': 4, 'implementation': 'netlib'}, WITH_OTHERS),
        ('HPL', {'size': 'full', 'nodes': 8, 'implementation': 'netlib'}, 'large'),
        ('HPL', {'size': 'full', 'nodes': 1, 'implementation': 'nvidia'}, f'{GPU} one_gpu'),
        ('HPL', {'size': 'strong', 'nodes': 1, 'implementation': 'netlib'}, ''),
        ('HPL', {'size': 'strong', 'nodes': 2, 'implementation': 'netlib'}, WITH_OTHERS),
        ('HPL', {'size': 'strong', 'nodes': 8, 'implementation': 'netlib'}, 'large'),
        ('HPL', {'size': 'strong', 'nodes': 16, 'implementation': 'netlib'}, ''),
        ('HplMxp', {'nodes': 4}, f'{NVIDIA} one_gpu'),
        ('HplMxp', {'nodes': 8}, ''),
        ('Fft', {'model': 'cpu', 'nodes': 4}, WITH_OTHERS),
        ('Fft', {'model': 'cuda', 'nodes': 1}, f'{NVIDIA} one_gpu'),
        ('Fft', {'model': 'cuda', 'nodes': 8}, ''),
        ('BabelStreamHost', {'binding': 'cores'}, f'{WITH_OTHERS} alone'),
        ('BabelStreamHost', {'binding': 'threads-true'}, WITH_OTHERS),  # the only one without hardware threads
        ('BabelStreamMemory', {'kind': 'hbm'}, WITH_OTHERS),
        ('BabelStreamDevice', {'model': 'cuda', 'device': 3}, NVIDIA),
        ('BabelStreamDevice', {'model': 'cuda', 'device': 4}, ''),
        ('BabelStreamDevice', {'model': 'ocl', 'device': 1}, f'{GPU} opencl'),
        ('BabelStreamDevice', {'model': 'ocl', 'device': 2}, GPU),
        ('BabelStreamAllDevices', {'model': 'cuda'}, NVIDIA),
        ('BabelStreamAllDevices', {'model': 'ocl'}, GPU),
        ('CacheLatency', {}, WITH_OTHERS),
        ('LikwidPeakFlops', {'layout': 'half_spread'}, WITH_OTHERS),
        ('LikwidBandwidth', {'layout': 'node', 'level': 'L3'}, WITH_OTHERS),
        ('LikwidBandwidth', {'layout': 'node', 'level': 'memory'}, f'{WITH_OTHERS} alone'),
        ('LikwidBandwidth', {'layout': 'numa2', 'level': 'L3'}, ''),
        ('ClPeak', {'device': 2}, GPU),
        ('ClPeak', {'device': 1}, f'{GPU} opencl'),
        ('ClPeak', {'device': None}, ''),
        ('CommScopeKernel', {'model': 'cuda', 'device': 3}, NVIDIA),
        ('CommScopeKernel', {'model': 'cuda', 'device': 4}, ''),
        ('CommScopeKernel', {'model': 'hip', 'device': 0}, ''),
        ('CommScopeDevicePair', {'model': 'cuda', 'link_class': 'far', 'pairs': 'first'}, NVIDIA),
        ('CommScopeDevicePair', {'model': 'cuda', 'link_class': 'far', 'pairs': 'all'}, ''),
        ('CommScopeDevicePair', {'model': 'cuda', 'link_class': 'near', 'pairs': 'all'}, NVIDIA),
        ('DeviceCopies', {'model': 'cuda'}, f'{NVIDIA} one_gpu'),
        ('Gemm', {'model': 'cuda', 'size': 'burn'}, f'{NVIDIA} one_gpu'),
        ('Gemm', {'model': 'sycl', 'size': 'sniff'}, 'intel'),
        ('Gemm', {'model': 'sycl', 'size': 'burn'}, ''),
        ('XcclTests', {'nodes': 1}, NVIDIA),
        ('XcclTests', {'nodes': 2}, f'{NVIDIA} one_gpu'),
        ('XcclTests', {'nodes': 8}, ''),
        ('OsuLatency', {'pair': 'two_nodes'}, WITH_OTHERS),
        ('OsuLatency', {'pair': 'different_switch'}, 'large'),
        ('OsuLatency', {'pair': 'different_socket'}, 'two gpus opencl unified intel one_gpu large'),
        ('OsuMultiPair', {'nodes': 1}, WITH_OTHERS),
        ('OsuMultiPair', {'nodes': 8}, 'large'),
        ('OsuCollectives', {'layout': 'node', 'nodes': 1}, ''),
        ('OsuCollectives', {'layout': 'node', 'nodes': 2}, WITH_OTHERS),
        ('OsuCollectives', {'layout': 'socket', 'nodes': 1}, 'two gpus opencl unified intel one_gpu large'),
        ('OsuDeviceLatency', {'buffers': 'managed-managed', 'link_class': 'near', 'pairs': 'all'}, NVIDIA),
        ('OsuDeviceLatency', {'buffers': 'host-device', 'link_class': 'far', 'pairs': 'first'}, NVIDIA),
        ('OsuDeviceLatency', {'buffers': 'host-device', 'link_class': 'far', 'pairs': 'all'}, ''),
        ('OsuDeviceRails', {'rail': 'same'}, f'{NVIDIA} one_gpu'),
        ('OsuDeviceRails', {'rail': 'cross'}, NVIDIA),
        ('OsuDeviceCollectives', {'nodes': 1}, NVIDIA),
        ('OsuDeviceCollectives', {'nodes': 2}, f'{NVIDIA} one_gpu'),
        ('OsuDeviceCollectives', {'nodes': 8}, ''),
    ],
    ids=str,
)  # fmt: skip
def test_a_check_has_cases_only_on_nodes_where_they_make_sense(case_on, check, parameters, nodes):
    case = case_on(check, TWO, 'choose' if check == 'HPL' else '', **parameters)
    assert {name for name, node in NODES.items() if case.supports(node)} == set(nodes.split())
