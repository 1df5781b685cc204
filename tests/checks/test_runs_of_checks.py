# SPDX-License-Identifier: BSD-3-Clause
"""What each check says of a run whose output is recorded: faults, provenance and devices."""

from types import SimpleNamespace

import pytest
from described_nodes import GPUS, NODES, TWO
from reading import run_of

from checks.core.placement import Execution, Placement, one_rank_on
from checks.core.reading.causes import Said

HPCG = (32, 32, 32)
OSU = {'osu_latency': ([2**power for power in range(23)], ())}
LATENCY = {'osu_latency': Execution((), program='osu_latency')}
NOTHING = 'clpeak measured nothing: no OpenCL device'
POCL = {'opencl_platform': 'Portable Computing Language'}


@pytest.mark.parametrize(
    ('check', 'fields', 'name', 'output', 'faults', 'provenance'),
    [
        ('HPCC', {'n': 10177}, 'run', 'hpcc-1.5.0', ['HPL did not solve N=10177'], {}),
        ('HPL', {'requested': [(2000, 192, 2, 1)]}, 'run', 'hpl-2.3',
         ['HPL was to solve N=2000 NB=192 P=2 Q=1 and solved N=2000 NB=192 P=1 Q=2'], {}),
        ('HPCG', {'grid': HPCG, 'placement': Placement(1, None), 'num_nodes': 2}, 'run', 'hpcg-3.1', [], {}),
        ('HPCG', {'grid': HPCG, 'placement': Placement(1, None, threads=2), 'num_nodes': 2}, 'run', 'hpcg-3.1',
         ['Threads per processes is 1, expected 2'], {}),
        ('OsuLatency', {'asked': OSU, 'runs': LATENCY, 'num_tasks': 2}, 'osu_latency', 'osu_latency-7.4-all-sizes', [],
         {'osu_version': '7.4'}),
        ('Gemm', {'mpi': False, 'size': 'sniff', 'devices': range(2)}, 'double', 'coralgemm-2025.11-two-devices',
         ['it ended after 3.14 s, expected at least 5, in ascending order'], {}),
        ('Gemm', {'mpi': False, 'size': 'burn', 'devices': range(3)}, 'double', 'coralgemm-2025.11-two-devices',
         None, {'gpus_double': 'the node did not say'}),
    ],
)  # fmt: skip
def test_a_run_has_the_faults_of_its_output(
    case_on, recorded, tmp_path, check, fields, name, output, faults, provenance
):
    case = case_on(check, TWO, **fields)
    case.output = 'HPCG-Benchmark*'
    (tmp_path / 'HPCG-Benchmark_3.1_2026-11-21_14-03-11.txt').touch()
    run = run_of(recorded(f'{output}.txt'), name=name, folder=tmp_path, provenance={})
    found = case.sanity_faults(run)
    assert found == faults if faults is not None else len(found) == 1
    assert run.provenance == provenance


@pytest.mark.parametrize(
    ('node', 'device', 'output', 'faults', 'named'),
    [
        ('gpus', 2, 'single', [], 1),  # the program sees its GPU alone
        ('opencl', 1, 'no-device', [f'{NOTHING} 1; platforms of OpenCL: Portable Computing Language'], 0),
        ('gpus', 1, 'no-device', [f'{NOTHING} 0; platforms of OpenCL: Portable Computing Language'], 0),
    ],
)  # fmt: skip
def test_clpeak_ran_on_the_device_that_it_sees(case_on, recorded, node, device, output, faults, named):
    case = case_on('ClPeak', NODES[node], 'choose_budget choose_tests', device=device)
    run = run_of(recorded(f'clpeak-1.1.2-{output}.txt'), provenance={})
    assert case.sanity_faults(run) == faults and len(run.devices) == named
    assert run.provenance.items() >= POCL.items()
    assert ('opencl_device' in run.provenance, 'opencl_driver_version' in run.provenance) == (bool(named),) * 2


ON_DEVICES = 'choose_modes choose_budget place'


@pytest.mark.parametrize(
    ('peak', 'factor', 'faults', 'words'),
    [
        # 4 MiB take 83.9 us at the peak, 183.66 between the hosts, 182.27 between the GPUs, or ten times that
        (50e9, 1, 0, 'direct'),
        (50e9, 10, 1, 'staged through the host'),
        (40e9, 10, 0, 'not decided: the path has no peak, or a low one'),  # 104.9 us
        (None, 10, 0, 'not decided: the path has no peak, or a low one'),
    ],
)
def test_buffers_that_are_staged_through_the_host_are_a_fault(case_on, recorded, tmp_path, peak, factor, faults, words):
    site = {'link_classes': {'near': SimpleNamespace(peak=peak)}}
    pair = {'buffers': 'device-device', 'link_class': 'near', 'pairs': 'first', 'num_tasks': 2}
    case = case_on('OsuDeviceLatency', GPUS, ON_DEVICES, site, {'mpi': 'openmpi'}, **pair)
    device = recorded('osu_latency-7.5-cuda.txt').replace('182.27', f'{182.27 * factor:.2f}')
    (folder := tmp_path / 'osu_latency_0_1').mkdir()
    (folder / 'stdout').write_text(device)
    host = recorded('osu_latency-7.5.txt').replace('MPI Latency', 'MPI-CUDA Latency')
    run = run_of(host, name='host_buffers', folder=tmp_path / 'host_buffers', provenance={})
    found = case.sanity_faults(run)
    times = f'4194304 bytes take {182.27 * factor:.1f} us between the GPUs and 183.7 us between the hosts'
    assert run.provenance == {'osu_version': '7.5', 'gpu_buffers': f'{words}: {times}'}
    assert len(found) == faults and all(times in fault and 'openmpi needs UCX' in fault for fault in found)
    (folder / 'stdout').write_text('')
    run = run_of(host, name='host_buffers', folder=tmp_path / 'host_buffers', provenance={})
    assert case.sanity_faults(run) == [] and run.provenance == {'osu_version': '7.5'}
    (folder / 'stdout').write_text(device)
    cut = host[: host.index('4194304')]
    run = run_of(cut, name='host_buffers', folder=tmp_path / 'host_buffers', provenance={})
    (fault,) = case.sanity_faults(run)
    assert fault == 'expected the time of a message of 4194304 bytes between the hosts, found none'


def test_why_programs_have_no_device_buffers_is_told(case_on, tmp_path):
    def said_by(case, output, errors=''):
        (tmp_path / 'stdout').write_text(output)
        run = run_of(output, errors, name=next(iter(case.runs)), folder=tmp_path)
        return [fault for fault in case.sanity_faults(run) if isinstance(fault, Said)]

    site = {'link_classes': {'near': SimpleNamespace(peak=None)}}
    pair = {'buffers': 'device-device', 'link_class': 'near', 'pairs': 'first', 'num_tasks': 2}
    case = case_on('OsuDeviceLatency', GPUS, ON_DEVICES, site, **pair)
    words = 'Segmentation fault (signal 11)\n', 'OSU: Benchmark Does Not Support Accelerator Transfers\n'
    built, support = said_by(case, *words)
    assert 'were built without support' in built and 'the MPI library does not' in support
    case = case_on('OsuLatency', TWO, 'choose_pair choose_budget place', pair='same_numa', num_tasks=2)
    (told,) = said_by(case, '', 'This test requires exactly two processes\n')
    assert told == 'OSU says: This test requires exactly two processes'
    case = case_on('IOR', TWO)
    case.runs, case.requested = {'write': None}, {'write': {}}
    assert said_by(case, 'ior ERROR: open64() failed\n') == ['ior ERROR: open64() failed']


def test_the_arrays_of_each_run_of_babelstream_are_its_own(case_on, recorded):
    case = case_on('BabelStreamHost', TWO, repetitions=10)
    output = recorded('babelstream-5.0-omp.txt')
    case.stream(33554432)
    run = run_of(output, 'Validation failed on a[]. Average error 1\nother\n', name='run')
    assert case.sanity_faults(run) == ['the program says: Validation failed on a[]. Average error 1']
    case.stream(33554432, 'second')
    assert case.sanity_faults(run_of(output, name='second')) == []
    case.repetitions = 11
    assert case.sanity_faults(run_of(output, name='second'))
    case, run = (
        case_on('BabelStreamDevice', GPUS, elements={'run': 1}),
        run_of('Using CUDA device NVIDIA A100\nUsing x\n'),
    )
    assert case.sanity_faults(run) and run.devices == ['NVIDIA A100']


def test_ranks_of_mdtest_and_of_ior_are_those_of_all_nodes(case_on, recorded):
    case = case_on('Mdtest', TWO, num_nodes=1, iterations=3, placement=one_rank_on((0, 1)))
    case.ranks, case.items = 2, 400
    run = run_of(recorded('mdtest-4.0.0-files-unique.txt'))
    assert case.sanity_faults(run) == []
    case.num_nodes = 2
    assert case.sanity_faults(run) == ['nodes: 2 requested, mdtest says 1']
