# SPDX-License-Identifier: BSD-3-Clause
"""What storage jobs leave behind, refuse and report: stand-ins for IOR and mdtest through real ReFrame jobs."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import partial

import pytest
from storage_stand_in import DISK, FULL, NODE, cases, install, mounted, why


@pytest.fixture
def storage(clone, disk):
    """A clone whose site has the folder `clone.disk`, and stand-ins that execute `before` first."""
    clone.disk = disk
    clone.prepare = partial(install, clone, clone.disk)
    return clone


def left(storage) -> list[str]:
    return sorted(os.listdir(storage.disk))


@pytest.fixture
def memory():
    """A directory on tmpfs."""
    if not os.path.isdir('/dev/shm') or shutil.disk_usage('/dev/shm').free < 2**30:
        pytest.skip('/dev/shm has less than 1 GiB free')
    folder = tempfile.mkdtemp(prefix='plumbline-tests-', dir='/dev/shm')
    yield folder
    shutil.rmtree(folder)


def test_stand_ins_on_a_disk_and_on_tmpfs(storage, memory):
    storage.prepare(file_systems=f'{DISK}\nmemory: {{path: {memory}, kind: tmpfs, max_percent_of_free: 50}}')
    found = cases(storage, '-t', 'quick')
    assert set(found) == {
        f'{check}file_system={name},size=quick'
        for check in ('IOR api=POSIX,', 'Mdtest ')
        for name in ('disk', 'memory')
    }
    for case in found.values():
        assert case['result'] == 'pass', case['fail_reason']
    record = found['IOR api=POSIX,file_system=memory,size=quick']['record']
    assert set(record['metrics']) == {
        f'bandwidth access={way},pattern={name}' for name in ('easy_1m', 'hard_47008') for way in ('write', 'read')
    }
    provenance = record['provenance']
    assert provenance['file_system_type'] == 'tmpfs'
    assert provenance['easy_1m_write'] == '3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s'
    record = found['Mdtest file_system=disk,size=quick']['record']
    assert set(record['metrics']) == {
        f'operations{per} operation={operation},place={kind}'
        for kind in ('easy_unique', 'hard_shared')
        for operation in ('creation', 'stat', 'read', 'removal')
        for per in ('', '_per_process')
    }
    assert os.listdir(memory) == left(storage) == []


def test_stand_ins_in_all_that_only_acceptance_has(storage):
    storage.prepare()
    found = cases(storage, '-n', 'size=full|Ranks')
    assert set(found) == {
        'IOR api=POSIX,file_system=disk,size=full', 'IOR api=MPIIO,file_system=disk,size=full',
        'IORRanks file_system=disk,mapping=core,ranks_per_node=1', 'Mdtest file_system=disk,size=full',
    }  # fmt: skip
    for case in found.values():
        assert case['result'] == 'pass', case['fail_reason']
    assert len(found['IOR api=POSIX,file_system=disk,size=full']['record']['metrics']) == 22
    ranks = found['IORRanks file_system=disk,mapping=core,ranks_per_node=1']['record']
    assert set(ranks['metrics']) == {
        f'bandwidth access=write{io},pattern={name}_1m' for name in ('easy', 'shared') for io in ('', ',io=direct')
    }
    assert left(storage) == []


@pytest.mark.parametrize(
    ('before', 'words'),
    [
        ('echo x > FOLDER/plumbline-*/x; kill -SEGV $$', 'exit code 139'),
        ('rm -rf FOLDER/plumbline-*', 'ERROR: dd: failed to open'),
    ],
    ids=['crash', 'vanished'],
)
def test_nothing_is_left_of_a_job_that_failed(storage, before, words):
    storage.prepare(f'{before}\n')
    assert words in why(storage)
    assert left(storage) == []


def test_nothing_is_left_of_a_job_that_timed_out(storage):
    storage.prepare('touch "$(echo FOLDER/plumbline-*)/file"; sleep 600\n')
    assert 'the time limit of 2 s was reached' in why(storage, '-n', 'IOR%.*quick', '-S', 'time_limit=2s')
    assert left(storage) == []


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_session_that_was_cancelled(storage, number):
    storage.prepare('touch "$(echo FOLDER/plumbline-*)/file"; sleep 600\n')
    settings = storage.root / 'reframe_settings/settings.py'
    options = ('-r', '-n', 'IOR%.*quick', '-S', 'trials=1')
    heeding = ['env', '--default-signal=INT']  # which a shell's background jobs do not
    session = subprocess.Popen(
        [*heeding, 'reframe', '-C', settings, '-c', storage.root / 'checks/storage', '-R', *options], cwd=storage.root,
        env=storage.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(lambda: list(storage.disk.glob('plumbline-*/file')))
    session.send_signal(number)
    session.wait(60)
    wait_for(lambda: not left(storage))


def wait_for(happens, seconds: float = 60):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, 'it did not happen'
        time.sleep(0.1)


@pytest.mark.parametrize(
    ('file_system', 'words'),
    [
        ('disk: {path: FOLDER, kind: any, min_percent_left: 99}', 'guard: less than 99 % of'),
        ('disk: {path: $NOSUCH, kind: any}', 'is no directory'),
        ('disk: {path: FOLDER, kind: any, max_percent_of_free: 50, min_percent_left: 1, stripe_count: 4}',
         'stripes of'),
    ],
    ids=['guard', 'unset', 'stripes'],
)  # fmt: skip
def test_a_refusal_is_the_reason_of_the_failure(storage, file_system, words):
    storage.prepare('touch FOLDER/started\n', file_system)
    reason = why(storage)
    assert 'refused: ' in reason and words in reason
    assert left(storage) == []


# What is missing of the output of a program -> what the case says
LOST = {
    'mdtest File stat': 'metric operations operation=stat,place=easy_unique not measured',
    'ior summary': 'no complete JSON',
}


@pytest.mark.parametrize('missing', LOST)
def test_a_number_that_is_missing_fails_the_case(storage, missing):
    name, _, lost = missing.partition(' ')
    storage.prepare()
    program = storage.binary.with_name(name)
    program.rename(program.with_name(f'whole-{name}'))
    storage.program(
        f'{program.with_name(f"whole-{name}")} "$@" > whole; sed "/{lost}/d" whole\n'
        f'[ ! -e summary.json ] || sed -i "/{lost}/d" summary.json', name
    )  # fmt: skip
    check = {'ior': 'IOR', 'mdtest': 'Mdtest'}[name]
    assert LOST[missing] in why(storage, '-n', f'{check}%.*quick')


def image(tmp_path, make: str, program, mib: int) -> str:
    """A file with a file system in it."""
    path = tmp_path / 'image'
    with open(path, 'wb') as file:
        file.truncate(mib * 2**20)
    subprocess.run([program(make), '-q', path], check=True, capture_output=True)
    return str(path)


@pytest.mark.parametrize('kind', ['tmpfs', 'ext4'])
def test_a_disk_that_others_fill_meanwhile_fails_the_case(storage, tmp_path, program, kind):
    if kind == 'tmpfs':
        options = ['-t', 'tmpfs', '-o', 'size=200m', 'none']
    else:
        options = ['-o', 'loop', image(tmp_path, 'mkfs.ext4', program, 200)]
    declared = {'tmpfs': 'tmpfs', 'ext4': 'local'}[kind]
    storage.prepare(FULL, f'disk: {{path: FOLDER, kind: {declared}, max_percent_of_free: 50}}')
    with mounted(storage.disk, *options):
        assert 'No space left on device' in why(storage)
        assert [name for name in left(storage) if name != 'lost+found'] == ['others']


def test_a_quota_that_is_exceeded_fails_the_case(storage, tmp_path, program):
    """Of a Btrfs subvolume, whose limit binds root too."""
    btrfs = program('btrfs')
    storage.prepare(file_systems='disk: {path: FOLDER/limited, kind: local, max_percent_of_free: 50}')
    with mounted(storage.disk, '-o', 'loop', image(tmp_path, 'mkfs.btrfs', program, 400)):
        limited = storage.disk / 'limited'
        for words in (['quota', 'enable', storage.disk], ['subvolume', 'create', limited],
                      ['qgroup', 'limit', '20M', limited]):  # fmt: skip
            subprocess.run([btrfs, *words], check=True, capture_output=True)
        assert 'Disk quota exceeded' in why(storage)
        assert os.listdir(limited) == []


def test_a_directory_that_may_not_be_written_is_refused(storage):
    storage.prepare(file_systems='disk: {path: FOLDER, kind: any, max_percent_of_free: 50, min_percent_left: 1}')
    if os.geteuid() != 0:
        storage.disk.chmod(0o500)
        assert 'Permission denied' in why(storage)
        return
    with mounted(storage.disk, '-t', 'tmpfs', '-o', 'size=4g,ro', 'none'):
        assert 'Read-only file system' in why(storage)


def listed(storage) -> list[str]:
    answer = storage.reframe('-l', checks='checks/storage')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return [line.partition(' /')[0].removeprefix('- ') for line in answer.stdout.splitlines() if line.startswith('- ')]


def test_cases_are_those_that_the_nodes_and_file_systems_have(storage):
    """A disk of the node has no case for several nodes; mappings that are the same have one case."""
    node = NODE.replace('num_cpus: 1', 'num_cpus: 4').replace('num_sockets: 1', 'num_sockets: 2')
    storage.prepare(node=f'num_nodes: 3\n{node}', file_systems=f'{DISK}\nhome: {{path: /home, kind: nfs}}')
    found = listed(storage)
    several = [case for case in found if case.startswith(('IOR ', 'Mdtest ')) and '%nodes=1' not in case]
    assert len(several) == 3 and all('=home' in case and '%size=full %nodes=2' in case for case in several)
    assert {case for case in found if case.startswith('IORRanks') and '=disk' in case} == {
        f'IORRanks %file_system=disk %mapping={case}'
        for case in ('core %ranks_per_node=1', 'core %ranks_per_node=2', 'socket %ranks_per_node=2',
                     'core %ranks_per_node=4')
    }  # fmt: skip
    assert {case for case in found if case.startswith('MdtestRanks') and '=home' in case} == {
        f'MdtestRanks %file_system=home %processes={processes} %nodes={nodes}'
        for processes, nodes in ((2, 1), (4, 1), (2, 2), (4, 2), (8, 2))
    }
