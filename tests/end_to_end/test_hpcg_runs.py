# SPDX-License-Identifier: BSD-3-Clause
"""HPCG through real ReFrame: recorded outputs of the real program replayed, and the real one where it is installed."""

import os
import shutil

import pytest
from scratch import OUTPUTS, cases_in

from plumbline.paths import software_directory

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='the site of these tests has two cores')

# Caches for which each of two ranks gets 32 x 32 x 32, the grid of the recorded runs.
NODE = """\
processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1, caches: {L3: {size: 11 MiB, num_cpus: 2}}}
memory_per_node: 1 GiB
"""
REPLAY = r"""
[[ ${OMPI_COMM_WORLD_LOCAL_RANK:-0} = 0 ]] || exit 0
asked="$# $OMP_NUM_THREADS $(tail -n 2 hpcg.dat | tr '\n' ' ')"
[[ $asked = 'ASKED ' ]] || { echo "stand-in: asked for $asked" >&2; exit 3; }
date > hpcg20261121T120000.txt
cp OUTPUT FILE
"""
# Starts `-np N` ranks as Open MPI does.
MPIRUN = """
ranks=$2; shift 2
for ((rank = 0; rank < ranks; rank++)); do OMPI_COMM_WORLD_LOCAL_RANK=$rank "$@" & done
for job in $(jobs -p); do wait $job || failed=$?; done
exit ${failed:-0}
"""
V31 = 'HPCG-Benchmark_3.1_2026-11-21_12-00-01.txt'


@pytest.fixture
def hpcg(clone):
    """A clone whose site has two cores, a stand-in for HPCG and one for mpirun."""

    class Site:
        def __init__(self):
            self.clone = clone
            self.describe(NODE)
            clone.program(MPIRUN, 'mpirun')
            self.replay('hpcg-3.1.txt', V31)

        def describe(self, *partition, feature='hpcg'):
            clone.describe('\n'.join(partition), feature, launcher='mpirun')

        def replay(self, output, file, asked='0 1 32 32 32 10', more=''):
            script = REPLAY.replace('OUTPUT', str(OUTPUTS / output)).replace('FILE', file).replace('ASKED', asked)
            clone.program(script + more, 'xhpcg')

        def reframe(self, *options):
            path = f'{clone.binary.parent}:{os.environ["PATH"]}'
            return clone.reframe(*options, checks='checks/compute/hpcg.py', PATH=path)

        def run(self, *options, name='HPCG'):
            """Runs the quick case or what `options` choose; its entry of the run report."""
            path = f'{clone.binary.parent}:{os.environ["PATH"]}'
            options = options or ('-t', 'quick')
            return clone.run_case(name, '-S', 'trials=2', *options, checks='checks/compute/hpcg.py', PATH=path)

    return Site()


def samples(case, metric):
    return [value for *_, value in case['record']['metrics'][metric]['samples']]


def test_one_rank_a_core_on_a_grid_beyond_the_caches(hpcg):
    case = hpcg.run()
    assert case['result'] == 'pass', case['fail_reason']
    assert case['record']['params'] == 'implementation=reference,size=quick'
    assert samples(case, 'gflops') == [1.43461, 1.43461]
    assert samples(case, 'raw_total_bandwidth') == [11.043, 11.043]
    assert sorted(case['record']['metrics']) == [
        'gflops', 'raw_read_bandwidth', 'raw_spmv', 'raw_total_bandwidth', 'raw_write_bandwidth', 'total_bandwidth',
    ]  # fmt: skip
    assert sorted(case['record']['placement']['actual'].values()) == ['0', '1']
    provenance = case['record']['provenance']
    assert (provenance['hpcg_grid'], provenance['hpcg_seconds']) == ('32x32x32', '10')


def test_settings_of_the_site_and_the_part_of_its_peak(hpcg):
    settings = 'benchmarks: {hpcg: {ranks_per_node: 1, threads_per_rank: 2, grid: [32, 32, 32], run_seconds: 90}}'
    hpcg.describe(NODE, 'peaks: {flops_dp: 2 GFlop/s}', settings)
    hpcg.replay('hpcg-3.1-threads.txt', V31, asked='0 2 32 32 32 90')
    case = hpcg.run('-t', 'acceptance', name='HPCG.*size=full')
    assert samples(case, 'peak_fraction') == pytest.approx([0.404721 / 2] * 2), case['fail_reason']
    assert case['record']['placement']['actual'].popitem()[1] == '0,1'


def test_two_files_of_a_trial_are_a_fault(hpcg):
    hpcg.replay('hpcg-3.1.txt', V31, more=f'cp {V31} HPCG-Benchmark_3.1_2026-11-21_12-00-02.txt')
    assert 'found 2' in hpcg.run()['fail_reason']


def test_a_file_of_an_earlier_trial_is_not_read_again(hpcg):
    hpcg.replay('hpcg-3.1.txt', V31, more='[[ $PWD != *trial_2/* ]] || rm HPCG-Benchmark*')
    case = hpcg.run()
    assert 'xhpcg in trial 2 of 2' in case['fail_reason']
    assert 'expected one file HPCG-Benchmark*, found 0' in case['fail_reason']
    assert samples(case, 'gflops') == [1.43461]


def test_ranks_that_hpcg_refuses_are_named_before_the_job(hpcg):
    hpcg.describe(NODE, 'benchmarks: {hpcg: {ranks_per_node: 11}}')
    assert 'HPCG refuses 11 ranks' in hpcg.run()['fail_reason']


def test_nvidias_script_gets_one_rank_a_gpu_and_the_grid_of_the_site(hpcg):
    """Replayed: the real script was not at hand."""
    gpu = 'devices: [{type: gpu, arch: sm_90, num_devices: 1}]', 'peaks: {flops_dp: 2 GFlop/s}'
    hpcg.describe(NODE, *gpu, feature='hpcg-nvidia')
    assert 'benchmarks.hpcg-nvidia.grid' in hpcg.run()['fail_reason']
    hpcg.describe(NODE, *gpu, 'benchmarks: {hpcg-nvidia: {grid: [32, 32, 32]}}', feature='hpcg-nvidia')
    hpcg.replay('hpcg-3.1-threads.txt', V31, asked='2 2 32 32 32 10')
    hpcg.clone.program('[[ $* = "--dat hpcg.dat" ]] && xhpcg "$@"', 'hpcg.sh')
    case = hpcg.run()
    assert samples(case, 'gflops') == [0.404721, 0.404721], case['fail_reason']
    assert case['record']['params'] == 'implementation=nvidia,size=quick'
    assert 'peak_fraction' not in case['record']['metrics']  # the peak of the site is that of its processors


def test_full_cases_exist_for_as_many_nodes_as_the_partition_has(hpcg):
    """The local grid is the same on any number of nodes: a quarter of 1 GiB in two ranks."""
    hpcg.describe(NODE, 'num_nodes: 5')
    listed = hpcg.reframe('-l').stdout
    assert listed.count('%size=full') == 3 and listed.count('%size=quick') == 1
    assert '%size=full %nodes=4' in listed and '%size=quick %nodes=1' in listed
    answer = hpcg.reframe('--dry-run', '-n', 'HPCG.*nodes=4')
    assert answer.returncode == 0, answer.stdout
    (script,) = hpcg.clone.results.glob('stage/**/HPCG*/rfm_job.sh')
    assert 'mpirun -np 8 ' in script.read_text()
    assert (script.parent / 'hpcg.dat').read_text().splitlines()[2:] == ['64 56 56', '1800']


def test_real_hpcg_of_this_machine(clone):
    """Skipped where neither PATH nor an installed stack of localhost has it."""
    software = software_directory()
    installed = software / 'localhost/node/cpu/.spack-env/view/bin/xhpcg'
    if not (shutil.which('xhpcg') or installed.exists()) or not shutil.which('mpirun'):
        pytest.skip('xhpcg is neither on PATH nor in an installed stack of localhost')
    answer = clone.reframe(
        '-r', '-t', 'quick', '-S', 'trials=1', '-S', 'HPCG.run_seconds=1',
        checks='checks/compute/hpcg.py', PLUMBLINE_SITE='localhost', PLUMBLINE_SOFTWARE=str(software),
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (report,) = clone.results.glob('reports/*[0-9].json')
    (case,) = cases_in(report)
    read, write, total = (samples(case, f'raw_{kind}_bandwidth')[0] for kind in ('read', 'write', 'total'))
    assert read + write == pytest.approx(total, rel=1e-4)
    assert samples(case, 'gflops')[0] < total  # a Flop takes more than a byte
