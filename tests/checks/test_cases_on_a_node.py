# SPDX-License-Identifier: BSD-3-Clause
"""What the checks ask of a node of two sockets, of one with four GPUs, and of others: cases.yaml has it, by hand."""

import re
from types import SimpleNamespace

import pytest
import yaml
from described_nodes import NODES, TWO
from reading import run_of
from scratch import ROOT

from plumbline.site.sites import FileSystem

MODES = ('quick', 'nightly', 'acceptance')
# What a case asks for where the table says nothing
DEFAULTS = {
    'runs': {}, 'run_env': {}, 'before_run': {}, 'nodes': 1, 'ranks': 1, 'env': 'OMP_NUM_THREADS=1', 'job_env': '',
    'placed': '', 'mpi': False, 'device_buffers': False, 'limit': None, 'estimates': [], 'provenance': {}, 'output': '',
    'figures': {}, 'tags': 'acceptance nightly', 'trials': '3 10 100', 'around': [], 'space': '',
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
    by_mode = case.trials if isinstance(case.trials, dict) else dict.fromkeys(MODES, case.trials)
    trials = [by_mode[mode] for mode in MODES]
    env = listed(case.placement.env_vars)
    job_env = {name: value for name, value in case.env_vars.items() if name != 'PLUMBLINE_RESULTS'}
    found = {
        'tags': ' '.join(sorted(case.tags & {'quick', 'nightly', 'acceptance', 'tutorial'})),
        'needs': ' '.join(word[1:].replace('_', '-') for word in case.valid_prog_environs if word[:1] == '+'),
        'command': ' '.join([*case.placement.wrapper, case.executable, *case.executable_opts]),
        'runs': {run: ' '.join(filter(None, [of.program, *of.options])) for run, of in case.runs.items()},
        'run_env': {run: listed(of.variables) for run, of in case.runs.items() if of.variables},
        'before_run': {run: of.before for run, of in case.runs.items() if of.before},
        'around': [*case.prerun_cmds, *case.postrun_cmds],
        'space': f'{case.need_bytes} B, {case.need_inodes} files' if hasattr(case, 'need_bytes') else '',
        'nodes': case.num_nodes, 'ranks': case.placement.ranks_per_node, 'env': env, 'job_env': listed(job_env),
        'placed': ' '.join(filter(None, [case.placement.switches, case.placement.apart])),
        'mpi': case.mpi, 'device_buffers': case.placement.gpu_buffers,
        'trials': ' '.join(map(str, trials)), 'seconds': case.trial_seconds, 'limit': case.trial_time_limit,
        'estimates': [round(seconds, 2) for seconds in case.estimates],
        'provenance': case.provenance, 'output': case.output if case.output != 'stdout' else '',
        'figures': {metric.name: dict(metric.figures) for metric in case.metrics if metric.figures},
        'metrics': [in_words(metric) for metric in case.metrics],
    }  # fmt: skip
    text = yaml.safe_dump(found, width=10**6)
    return yaml.safe_load(re.sub(r'\$\(sed .*? \|\| echo (-s \d+)\)', r'\1', text))


CASES = yaml.safe_load((ROOT / 'tests/data/cases-on-a-node.yaml').read_text(encoding='utf-8'))


@pytest.fixture
def stated_case(case_on, classes, monkeypatch, stated):
    """The case of an entry of the table."""
    node = NODES[stated['node']]
    monkeypatch.setattr('checks.memory.likwid.topologies', lambda: [('machine:node', node)])
    entry = stated.get('site', {})
    links = {name: SimpleNamespace(peak=None) for name in node.link_classes}
    links |= {name: SimpleNamespace(**link) for name, link in entry.get('link_classes', {}).items()}
    systems = {name: FileSystem(**system) for name, system in entry.get('file_systems', {}).items()}
    parameters = {'trials': classes[stated['case']]._rfm_var_space['trials'].default_value} | stated.get('with', {})
    entry = entry | {'link_classes': links, 'file_systems': systems}
    return case_on(stated['case'], node, stated['hooks'], entry, stated.get('stack'), **parameters)


@pytest.mark.parametrize('stated', CASES, ids=lambda stated: f'{stated["case"]} {stated.get("with", "")}')
def test_a_case_asks_for_what_was_worked_out(stated_case, stated):
    assert asked(stated_case) == DEFAULTS | stated['asks']


# The numbers of OpenSSL are missing without a fault; a node without settings that differ prints none; rccl-tests and
# nccl-tests are in test_xccl.py, with the logs that they write
SILENT = ('OpenSSLSpeed', 'NodeSettings', 'XcclTests')


@pytest.mark.parametrize('stated', [one for one in CASES if one['case'] not in SILENT], ids=lambda one: one['case'])
def test_a_run_that_printed_nothing_has_a_fault(stated_case):
    for run in stated_case.runs or ['run']:
        assert stated_case.sanity_faults(run_of('', name=run))


def test_every_parameter_stands_in_the_performance_log(classes):
    parameters = {(name, key): space for name, of in classes.items() for key, space in of.param_space.params.items()}
    assert len(parameters) > 50
    assert not [key for key, space in parameters.items() if not space.is_loggable()]


NVIDIA, GPU = 'gpus unified', 'gpus unified intel'
EIGHT_CORES = 'two gpus opencl unified intel one_gpu large'
WITH_OTHERS = 'two gpus opencl unified intel odd one_gpu large'  # all but that of one core


@pytest.mark.parametrize(
    ('check', 'parameters', 'nodes'),
    [
        ('HPCC', {}, WITH_OTHERS),
        ('HPL', {'size': 'quick', 'nodes': 1, 'implementation': 'netlib'}, f'{WITH_OTHERS} alone'),
        ('HPL', {'size': 'full', 'nodes': 8, 'implementation': 'netlib'}, 'large'),
        ('HPL', {'size': 'full', 'nodes': 1, 'implementation': 'nvidia'}, f'{GPU} one_gpu'),
        ('HPL', {'size': 'strong', 'nodes': 2, 'implementation': 'netlib'}, WITH_OTHERS),
        ('HPL', {'size': 'strong', 'nodes': 16, 'implementation': 'netlib'}, ''),
        ('HplMxp', {'nodes': 4}, f'{NVIDIA} one_gpu'),
        ('Fft', {'model': 'cpu', 'nodes': 4}, WITH_OTHERS),
        ('BabelStreamHost', {'binding': 'threads-true'}, WITH_OTHERS),  # the only one without hardware threads
        ('BabelStreamDevice', {'model': 'cuda', 'device': 3}, NVIDIA),
        ('BabelStreamDevice', {'model': 'ocl', 'device': 1}, f'{GPU} opencl'),
        ('BabelStreamAllDevices', {'model': 'cuda'}, NVIDIA),
        ('CacheLatency', {}, WITH_OTHERS),
        ('LikwidBandwidth', {'layout': 'node', 'level': 'L3'}, WITH_OTHERS),
        ('LikwidBandwidth', {'layout': 'node', 'level': 'memory'}, f'{WITH_OTHERS} alone'),
        ('ClPeak', {'device': 1}, f'{GPU} opencl'),
        ('ClPeak', {'device': None}, ''),
        ('CommScopeKernel', {'model': 'cuda', 'device': 3}, NVIDIA),
        ('CommScopeKernel', {'model': 'hip', 'device': 0}, ''),
        ('CommScopeDevicePair', {'model': 'cuda', 'link_class': 'far', 'pairs': 'first'}, NVIDIA),
        ('CommScopeDevicePair', {'model': 'cuda', 'link_class': 'near', 'pairs': 'all'}, NVIDIA),
        ('Gemm', {'model': 'sycl', 'size': 'sniff'}, 'intel'),
        ('Gemm', {'model': 'sycl', 'size': 'burn'}, ''),
        ('XcclTests', {'nodes': 1}, NVIDIA),
        ('XcclTests', {'nodes': 2}, f'{NVIDIA} one_gpu'),
        ('OsuLatency', {'pair': 'different_switch'}, 'large'),
        ('OsuLatency', {'pair': 'different_socket'}, EIGHT_CORES),
        ('OsuMultiPair', {'nodes': 1}, WITH_OTHERS),
        ('OsuCollectives', {'layout': 'node', 'nodes': 1}, ''),
        ('OsuCollectives', {'layout': 'socket', 'nodes': 1}, EIGHT_CORES),
        ('OsuDeviceLatency', {'buffers': 'managed-managed', 'link_class': 'near', 'pairs': 'all'}, NVIDIA),
        ('OsuDeviceLatency', {'buffers': 'host-device', 'link_class': 'far', 'pairs': 'first'}, NVIDIA),
        ('OsuDeviceRails', {'rail': 'same'}, f'{NVIDIA} one_gpu'),
        ('OsuDeviceCollectives', {'nodes': 1}, NVIDIA),
        ('OsuDeviceCollectives', {'nodes': 2}, f'{NVIDIA} one_gpu'),
        ('IOR', {'api': 'POSIX', 'size': 'quick', 'nodes': 1, 'file_system': 'scratch'}, f'{WITH_OTHERS} alone'),
        ('IOR', {'api': 'MPIIO', 'size': 'quick', 'nodes': 1, 'file_system': 'scratch'}, ''),
        ('IOR', {'api': 'POSIX', 'size': 'nightly', 'nodes': 2, 'file_system': 'scratch'}, ''),
        ('IOR', {'api': 'POSIX', 'size': 'full', 'nodes': 4, 'file_system': 'scratch'}, WITH_OTHERS),
        ('IOR', {'api': 'POSIX', 'size': 'full', 'nodes': 2, 'file_system': 'tmp'}, ''),
        ('IORRanks', {'mapping': 'core', 'ranks_per_node': 8, 'file_system': 'tmp'}, EIGHT_CORES),
        ('IORRanks', {'mapping': 'core', 'ranks_per_node': 3, 'file_system': 'tmp'}, 'odd'),
        ('IORRanks', {'mapping': 'socket', 'ranks_per_node': 4, 'file_system': 'tmp'}, EIGHT_CORES),
        ('MdtestRanks', {'processes': 2, 'nodes': 4, 'file_system': 'scratch'}, ''),
    ],
    ids=str,
)  # fmt: skip
def test_a_check_has_cases_only_on_nodes_where_they_make_sense(case_on, check, parameters, nodes):
    case = case_on(check, TWO, 'choose' if check == 'HPL' else '', **parameters)
    assert {name for name, node in NODES.items() if case.supports(node)} == set(nodes.split())


def test_on_each_node_of_a_sweep_only_its_own_file_system_is_measured(case_on, tmp_path, monkeypatch):
    (tmp_path / 'nodes').write_text('n1\n')
    monkeypatch.setenv('PLUMBLINE_NODE_SWEEP', str(tmp_path / 'nodes'))
    cases = {name: case_on('Mdtest', TWO, file_system=name, nodes=1, size='full') for name in TWO.file_systems}
    assert {name: case.supports(TWO) for name, case in cases.items()} == {'scratch': False, 'tmp': True}
