# SPDX-License-Identifier: BSD-3-Clause
"""HPL through real ReFrame: a replay of what HPL prints, each fault of it, several nodes, and the real program."""

import pytest
from scratch import OUTPUTS

from plumbline.paths import software_directory

# Replays a recorded output with N, NB, P and Q of HPL.dat in its result line, at 12.001 GFlop/s, from the first rank.
REPLAY = r"""
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
value() { awk -v name="$1" '$2 == name { print $1 }' HPL.dat; }
awk -v n="$(value Ns)" -v nb="$(value NBs)" -v p="$(value Ps)" -v q="$(value Qs)" '/^WR/ {
    printf "%s%12d %5d %5d %5d %18.2f    %19.4e\n", $1, n, nb, p, q, (2 / 3 * n^3 + 1.5 * n^2) / 12.001e9, 12.001
    next
} { print }' RECORDED
"""
# Two nodes that are one
NODES = """\
processor: {num_cpus: 1, num_cpus_per_core: 1, num_sockets: 1}
memory_per_node: 1 GiB
num_nodes: 2
peaks: {flops_dp: 40 GFlop/s}
benchmarks: {hpl: {block_size: 100, memory_fraction: 0.1, lines: {BCASTs: 3}}}
"""


@pytest.fixture
def replay(clone):
    """A clone whose site has an `xhpl` that replays an output of the real one, on one core."""

    def install(recorded: str = 'hpl-2.3.txt', before: str = ''):
        clone.program(before + REPLAY.replace('RECORDED', str(OUTPUTS / recorded)), 'xhpl')
        clone.describe(NODES, 'hpl')
        return clone

    return install


def run(clone, *options, **environment):
    """Runs HPL with one trial; returns (exit code, its case in the run report)."""
    case = clone.run_case('HPL', '-S', 'trials=1', *options, checks='checks/compute/hpl.py', **environment)
    return int(case['result'] != 'pass'), case


def test_replay_of_a_good_run(replay):
    clone = replay()
    clone.site_file.write_text(clone.site_file.read_text().replace('BCASTs: 3', 'BCASTs: 3, Ns: 99900'))  # of size=full
    code, case = run(clone, '-t', 'quick')
    assert (code, case['result']) == (0, 'pass'), case['fail_reason']
    record = case['record']
    assert record['params'] == 'implementation=netlib,size=quick'
    assert {name: metric['samples'][0][2] for name, metric in record['metrics'].items()} == {
        'gflops': 12.001, 'peak_fraction': pytest.approx(0.3, abs=1e-3), 'time': 2.59,
    }  # fmt: skip
    # a tenth of 1 GiB holds less than the quick order: 3663
    assert 'Ns 3600; NBs 100; PMAP 0; Ps 1; Qs 1; threshold 16.0' in record['provenance']['hpl_dat']
    assert 'BCASTs 3' in record['provenance']['hpl_dat']


def test_replay_of_a_bad_run_fails_with_its_cause(replay):
    code, case = run(replay('hpl-2.3-failed-residual.txt', ''), '-t', 'quick')
    assert (code, case['result']) == (1, 'fail')
    assert 'the solution is wrong: residual 3.87059020e-03 FAILED' in case['fail_reason']


def test_two_nodes_are_one_more_case_of_the_full_size_and_share_the_problem_of_one(replay):
    clone = replay()
    listed = clone.reframe('-l', checks='checks/compute/hpl.py').stdout
    assert sorted(line.split('/')[0].strip() for line in listed.splitlines() if line.startswith('- HPL')) == [
        '- HPL %size=full %nodes=1 %implementation=netlib',
        '- HPL %size=full %nodes=2 %implementation=netlib',
        '- HPL %size=quick %nodes=1 %implementation=netlib',
        '- HPL %size=strong %nodes=2 %implementation=netlib',
    ]
    clone.reframe('--dry-run', '-n', 'HPL.*nodes=2', checks='checks/compute/hpl.py')
    written = [path.read_text().splitlines() for path in clone.results.glob('stage/demo/node/system/HPL*/HPL.dat')]
    # 5100^2 doubles in a tenth of 2 GiB, 3600^2 in that of one node
    assert sorted((lines[5], *lines[10:12]) for lines in written) == [
        ('3600 Ns', '1 Ps', '2 Qs'), ('5100 Ns', '1 Ps', '2 Qs'),
    ]  # fmt: skip


def test_replay_of_a_vendors_program_on_a_gpu(replay):
    """It is told its file, fills the memory of the GPUs, and the peak of the processors says nothing about it."""
    clone = replay(before='[ "$*" = "--dat HPL.dat" ] || exit 9\n')
    xhpl = clone.binary.with_name('xhpl')
    xhpl.rename(xhpl.with_name('hpl.sh'))
    gpu_node = NODES.replace('num_nodes: 2', 'devices: [{type: gpu, arch: sm_90, num_devices: 1}]')
    gpu_node = gpu_node.replace('40 GFlop/s', '1 GFlop/s')
    clone.describe(gpu_node, 'hpl-nvidia')
    code, case = run(clone, '-t', 'quick')
    assert code == 1 and 'benchmarks.hpl-nvidia.memory: expected that of all GPUs of a node' in case['fail_reason']
    clone.describe(gpu_node.replace('{hpl: {', '{hpl-nvidia: {memory: 2 GiB, '), 'hpl-nvidia')
    code, case = run(clone, '-t', 'quick')
    assert (code, case['result']) == (0, 'pass'), case['fail_reason']
    assert case['record']['params'] == 'implementation=nvidia,size=quick'
    assert set(case['record']['metrics']) == {'gflops', 'time'}
    assert 'Ns 5100;' in case['record']['provenance']['hpl_dat']


def test_a_real_hpl_passes_with_its_rate(clone):
    """Small: of a second."""
    environment = {'PLUMBLINE_SITE': 'localhost', 'PLUMBLINE_SOFTWARE': str(software_directory())}
    listed = clone.reframe('-l', '-t', 'quick', checks='checks/compute/hpl.py', **environment).stdout
    if '- HPL' not in listed:
        pytest.skip('no xhpl: neither on PATH nor in an installed stack of localhost')
    code, case = run(clone, '-t', 'quick', '-S', 'HPL.trial_seconds=4', **environment)
    assert (code, case['result']) == (0, 'pass'), case['fail_reason']
    metrics = case['record']['metrics']
    assert metrics['gflops']['samples'][0][2] > 0.1
    assert metrics['time']['samples'][0][2] < 60
