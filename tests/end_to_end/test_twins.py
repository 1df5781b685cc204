# SPDX-License-Identifier: BSD-3-Clause
"""Sessions of shipped sites on twins of their machines (tests/twins), and what they say of a fault that was planted."""

import re

import pytest
from twins.engine import Twin

MACHINES = ('frontier', 'perlmutter', 'lumi', 'aurora', 'polaris', 'marenostrum5')
# A case of each check, on no more than two nodes but for the ladder
EACH_CHECK = '|'.join([
    r'Fft%.*nodes=2(%|$)', 'IOR%.*(POSIX%size=quick|MPIIO)', 'Mdtest%.*quick', 'DeviceCopies', 'Gemm',
    'ClPeak%device=0', r'CommScope.*(device=0|first)(%|$)', r'XcclTests%nodes=[12](%|$)', 'OsuLatency',
    'OsuBandwidth%pair=two', 'OsuOneSided%pair=two', 'OsuMultiPair%nodes=1',
    r'OsuCollectives%layout=node%nodes=2(%|$)', 'OsuDevice(Latency|Bandwidth).*first', 'OsuDeviceRails%.*same',
    r'Osu(Device|Xccl)Collectives%nodes=2(%|$)', 'NodeLadder%nodes=16', 'Likwid.*node', 'Numa', 'CacheLatency',
    r'BabelStream(Device.*device=0|AllDevices|Memory|Host%binding=cores-spread)(%|$)',
])  # fmt: skip
#: Two ways in which a job starts and reads its nodes: with ranks that see a GPU each, and on two nodes
FEW = 'OsuDeviceLatency%buffers=device-device.*first|XcclTests%nodes=2$'


@pytest.fixture
def twin(tmp_path):
    """A function: the twin of a machine; `change` plants a fault in it."""

    def make(name: str, change=None) -> Twin:
        return Twin(tmp_path, name, change)

    return make


def results(twin: Twin) -> dict[str, str]:
    return {case['display_name']: case['result'] for case in twin.cases()}


def cores(first: int) -> str:
    """Return the 16 cores of a NUMA domain."""
    return ','.join(map(str, range(first, first + 16)))


def first_cause(twin: Twin, *options: str) -> str:
    """Run a session that fails; return what its summary says of the first incident, on one line."""
    answer = twin.nightly('--no-retry', *options)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    summary = ' '.join((twin.clone.results / 'summary.txt').read_text().split())
    return re.split(r' (?=[0-9a-f]{6} [A-Z]+ )', summary)[1]


def test_a_session_on_a_twin_comes_to_a_verdict(twin):
    perlmutter = twin('perlmutter')
    answer = perlmutter.nightly('--mode', 'nightly', '--no-retry', '--', '-n', FEW)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert set(results(perlmutter).values()) == {'pass'}
    records = {case['display_name']: case['record'] for case in perlmutter.cases()}
    assert len(records) == 2
    # GPU 0 is in NUMA domain 3, GPU 1 in domain 2, of 16 cores each
    pair = records['OsuDeviceLatency %buffers=device-device %link_class=A %pairs=first']
    got = {rank: where.partition(' GPU-')[0] for rank, where in pair['placement']['actual'].items()}
    assert got == {
        f'{run} {node}.{rank}': where
        for run in ('osu_latency_0_1', 'host_buffers') for node in pair['job']['nodes']
        for rank, where in enumerate((f'{cores(48)}; GPU 0', f'{cores(32)}; GPU 1'))
    }  # fmt: skip
    ways = records['XcclTests %nodes=2']['provenance']['transport_all_reduce']
    assert ways.startswith('NET/AWS Libfabric/GDRDMA')


@pytest.mark.twin
@pytest.mark.parametrize('machine', MACHINES)
def test_a_session_on_each_twin_is_ok(twin, machine):
    made = twin(machine)
    answer = made.nightly('--mode', 'nightly', '--no-retry', '--', '-n', EACH_CHECK)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert set(results(made).values()) == {'pass'}


DEVICES = 'OsuDeviceLatency%buffers=device-device.*A.*first'


@pytest.mark.twin
def test_a_partition_whose_jobs_ask_for_no_gpu(twin):
    frontier = twin('frontier')
    frontier.edit_site('--gpus-per-node=8, ', '')
    cause = first_cause(frontier, '--', '-n', DEVICES)
    assert re.search('GPU [01] was requested; rocminfo then lists: none', cause), 'of the rank that ends first'


@pytest.mark.twin
@pytest.mark.parametrize(
    ('nic', 'words'),
    [
        ('hsn0', 'bytes between nodes went not through each of hsn0, which were asked for'),
        ('cxi9', 'network device cxi9 was requested; there is none in'),
    ],
)
def test_a_network_device_that_mpi_does_not_use(twin, nic, words):
    perlmutter = twin('perlmutter')
    perlmutter.edit_site('nics: [cxi0, cxi1, cxi2, cxi3]', f'nics: [{nic}]')
    assert words in first_cause(perlmutter, '--mode', 'nightly', '--', '-n', 'OsuLatency%pair=two')


@pytest.mark.twin
def test_a_program_without_the_library_of_cray_mpich_for_gpus(twin):
    perlmutter = twin('perlmutter', lambda machine: machine.update(linked_with_gtl=[]))
    assert 'the program is not linked with GTL' in first_cause(perlmutter, '--', '-n', DEVICES)


@pytest.mark.twin
@pytest.mark.parametrize(
    ('provider', 'words'),
    [
        ('spack', 'aws-ofi-nccl: expected lib[nr]ccl-net.so, found none'),  # without a job
        ('system', 'NCCL fell back to sockets (Using network Socket)'),
    ],
)
def test_nccl_without_its_plugin(twin, provider, words):
    perlmutter = twin('perlmutter', lambda machine: machine.pop('plugin'))
    perlmutter.edit_site('provider: spack', f'provider: {provider}')
    assert words in first_cause(perlmutter, '--mode', 'nightly', '--', '-n', 'XcclTests%nodes=2$')


@pytest.mark.twin
def test_a_node_that_has_lost_a_gpu(twin):
    frontier = twin('frontier')
    for host in frontier.hosts('ex'):
        node = frontier.folder / 'nodes' / host
        (node / 'gpus.tsv').write_text(''.join((node / 'gpus.tsv').read_text().splitlines(True)[:7]))
        (node / 'sys/bus/pci/drivers/amdgpu/0000:de:00.0').unlink()
    cause = first_cause(frontier, '--', '-n', DEVICES)
    assert 'is not set as site.yaml expects, so no benchmark runs there: gpus: expected 8, found 7' in cause


@pytest.mark.twin
def test_devices_in_another_order(twin):
    perlmutter = twin('perlmutter', lambda machine: machine['nodes']['a100']['gpus'].reverse())
    words = 'GPU 0 at 0000:c7:00.0 is near NUMA domain 0 by the kernel; GPU 1 at 0000:85:00.0 is near NUMA domain 1'
    assert words in first_cause(perlmutter, '--', '-n', DEVICES)


@pytest.mark.twin
def test_programs_that_run_on_the_login_node(twin):
    perlmutter = twin('perlmutter')
    perlmutter.edit_site('scheduler: slurm\n    launcher: srun', 'scheduler: local\n    launcher: mpirun')
    perlmutter.command(perlmutter.bin / 'mpirun', 'shift 2; OMPI_COMM_WORLD_LOCAL_RANK=0 exec "$@"')
    assert 'gpus: expected 4, cannot be read: nvidia-smi says: No devices were found' in first_cause(
        perlmutter, '--', '-n', DEVICES
    )


@pytest.mark.twin
def test_a_core_that_the_system_keeps(twin):
    frontier = twin('frontier', lambda machine: machine['nodes']['ex']['reserved'].append(1))
    cause = first_cause(frontier, '--', '-n', 'OsuLatency%pair=same_numa')
    assert re.search(r'taskset --cpu-list 1 was requested; it says: .*Invalid argument', cause)


@pytest.mark.twin
def test_more_jobs_than_the_queue_takes_of_a_user(twin):
    polaris = twin('polaris')
    polaris.edit_site('    max_jobs: 1\n', '')
    cause = first_cause(polaris, '--', '-n', 'BabelStreamDevice')
    assert 'qsub: would exceed limit on number of jobs of a user in queue debug-scaling' in cause
