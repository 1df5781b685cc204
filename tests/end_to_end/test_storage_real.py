# SPDX-License-Identifier: BSD-3-Clause
"""The real IOR and mdtest through real jobs: two sessions on a disk and on tmpfs, every pattern, and faults."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest
from storage_stand_in import DISK, cases, describe

from plumbline.paths import software_directory

pytestmark = pytest.mark.whole_machine

NODE = """\
processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}
memory_per_node: 1 GiB
env_vars:
  - [OMPI_ALLOW_RUN_AS_ROOT, 1]
  - [OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, 1]
  - [OMPI_MCA_hwloc_base_binding_policy, none]
file_systems:
"""


def real(name: str) -> str:
    """The program on PATH or in the installed stack of localhost."""
    found = shutil.which(name) or shutil.which(
        name, path=software_directory() / 'localhost/node/cpu/.spack-env/view/bin'
    )
    if not found or not shutil.which('mpirun'):
        pytest.skip(f'no {name} with mpirun: neither on PATH nor in an installed stack of localhost')
    return found


@pytest.fixture
def storage(clone, tmp_path):
    """A clone whose site has the folder `clone.disk`, and the real programs after what a test puts `before` them."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip('two ranks are bound to CPU 0 and 1')
    clone.disk = tmp_path / 'disk'
    clone.disk.mkdir()

    def prepare(before: str = '', file_systems: str = DISK, more: tuple[str, ...] = ()):
        for name in ('ior', 'mdtest'):
            clone.program(f'{before}\nexec {real(name)} "$@"'.replace('FOLDER', str(clone.disk)), name)
        describe(clone, clone.disk, file_systems, NODE, 'mpirun', more)
        return clone

    clone.prepare = prepare
    return clone


def test_two_sessions_on_a_disk_and_on_tmpfs_with_references_of_the_first(storage):
    if not os.path.isdir('/dev/shm') or shutil.disk_usage('/dev/shm').free < 2**31:
        pytest.skip('/dev/shm has less than 2 GiB free')
    there = tempfile.mkdtemp(prefix='plumbline-tests-', dir='/dev/shm')
    try:
        storage.prepare(file_systems=f'{DISK}\nmemory: {{path: {there}, kind: tmpfs, max_percent_of_free: 20}}')
        with storage.site_file.open('a') as site:
            site.write('tolerance: {floor: 0.9, cap: 0.95}\n')  # what is tested is the way, not this machine
        for session in (1, 2):
            found = cases(storage, '-t', 'quick', '-S', 'trials=2', '-S', 'Mdtest.iterations=1')
            assert set(found) == {
                f'{check}file_system={name},size=quick'
                for check in ('IOR api=POSIX,', 'Mdtest ') for name in ('disk', 'memory')
            }  # fmt: skip
            for case in found.values():
                assert case['result'] == 'pass', case['fail_reason']
            report = max(storage.results.glob('reports/*[0-9].json'), key=lambda path: path.stat().st_mtime)
            answer = storage.plumbline('ingest', str(report))
            assert answer.returncode == 0, answer.stderr
            if session == 1:
                for step in ('propose', 'accept'):
                    answer = storage.plumbline('record', step)
                    assert answer.returncode == 0, answer.stderr
        answer = storage.plumbline('compare', '--format=json')
        assert answer.returncode == 0, answer.stdout
        verdicts = [row for row in json.loads(answer.stdout)['verdicts'] if row['check'] in ('IOR', 'Mdtest')]
        assert len(verdicts) == 2 * (4 + 16)
        assert {row['verdict'] for row in verdicts} <= {'ok', 'improved', 'warning'}
        provenance = found['IOR api=POSIX,file_system=memory,size=quick']['record']['provenance']
        assert provenance['file_system_type'] == 'tmpfs' and '3 repetitions: mean' in provenance['easy_1m_write']
        assert os.listdir(there) == os.listdir(storage.disk) == []
    finally:
        shutil.rmtree(there)


def test_every_pattern_of_ior_writes_and_reads(storage):
    """The full cases, of 16 MiB: buffered and direct, POSIX and MPI-IO, and by numbers of ranks."""
    storage.prepare()
    found = cases(storage, '-n', 'IOR%.*full|IORRanks', '-S', 'repetitions=2')
    counts = {name: len(case['record']['metrics']) for name, case in found.items()}
    assert counts == {
        'IOR api=MPIIO,file_system=disk,size=full': 12,
        'IOR api=POSIX,file_system=disk,size=full': 22,
        'IORRanks file_system=disk,mapping=core,ranks_per_node=1': 4,
        'IORRanks file_system=disk,mapping=core,ranks_per_node=2': 4,
    }
    for case in found.values():
        assert case['result'] == 'pass', case['fail_reason']
    assert os.listdir(storage.disk) == []


def test_ior_with_hdf5_where_it_is_built_so(storage, program):
    linked = subprocess.run([program('ldd'), real('ior')], capture_output=True, text=True, check=True).stdout
    if 'hdf5' not in linked:
        pytest.skip('this IOR is built without HDF5')
    storage.prepare(more=('ior-hdf5',))
    (case,) = cases(storage, '-n', 'IOR%.*HDF5.*full', '-S', 'repetitions=2').values()
    assert case['result'] == 'pass', case['fail_reason']
    assert len(case['record']['metrics']) == 10
    assert os.listdir(storage.disk) == []


def test_mdtest_by_numbers_of_processes(storage):
    storage.prepare()
    (case,) = cases(storage, '-n', 'MdtestRanks', '-S', 'iterations=1').values()
    assert case['result'] == 'pass', case['fail_reason']
    samples = {name: metric['samples'][0][2] for name, metric in case['record']['metrics'].items()}
    for operation in ('creation', 'stat', 'read', 'removal'):
        at = f'operation={operation},place=easy_shared'
        assert samples[f'operations_per_process {at}'] == samples[f'operations {at}'] / 2
    assert os.listdir(storage.disk) == []
