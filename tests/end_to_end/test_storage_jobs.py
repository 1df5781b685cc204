"""Storage checks through real jobs with the real IOR and mdtest: what they measure, and what they leave in no case."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from site_configs.places import software_directory

SITE = """\
descr: this machine, with file systems for tests
hostnames: [nowhere]
partitions:
  - name: node
    scheduler: local
    launcher: mpirun
    environs: [system]
    max_jobs: 1
    processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}
    memory_per_node: 1 GiB
    env_vars:
      - [OMPI_ALLOW_RUN_AS_ROOT, 1]
      - [OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, 1]
      - [OMPI_MCA_hwloc_base_binding_policy, none]
    file_systems:
      FILE_SYSTEMS
environments:
  - {name: system, provider: system, prefix: PREFIX, features: [ior, mdtest]}
"""
# the guard of these is wide: a test must not depend on how full the machine is
DISK = 'disk: {path: FOLDER, kind: any, size: 16 MiB, max_percent_of_free: 50, min_percent_left: 1}'
QUICK_IOR = ('-n', 'IOR.*quick')


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
    """A clone whose site has the folder `clone.disk`, and real programs after what a test puts `before` them."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip('two ranks are bound to two cores')
    clone.disk = tmp_path / 'disk'
    clone.disk.mkdir()

    def prepare(before: str = '', file_systems: str = DISK):
        for name in ('ior', 'mdtest'):
            path = clone.binary.with_name(name)
            path.write_text(f'#!/bin/bash\n{before}\nexec {real(name)} "$@"\n')
            path.chmod(0o755)
        site = SITE.replace('FILE_SYSTEMS', file_systems.replace('FOLDER', str(clone.disk)))
        clone.site_file.write_text(site.replace('PREFIX', str(clone.binary.parent.parent)))
        return clone

    clone.prepare = prepare
    return clone


def cases(clone, *options: str):
    """The cases of one session, by check and case."""
    answer = clone.reframe('-r', '-S', 'trials=1', *options, checks='checks/storage')
    reports = sorted(clone.results.glob('reports/*[0-9].json'), key=lambda path: path.stat().st_mtime)
    assert reports, answer.stdout + answer.stderr
    found = json.loads(reports[-1].read_text())['runs'][-1]['testcases']
    return {(case['record']['check'], case['record']['case']): case for case in found if not case['fixture']}


def failed(clone, *options: str) -> str:
    (case,) = cases(clone, *QUICK_IOR, *options).values()
    assert case['result'] == 'fail'
    return case['fail_reason']


def test_quick_cases_on_the_disk_and_on_tmpfs(storage):
    if not os.path.isdir('/dev/shm') or shutil.disk_usage('/dev/shm').free < 2**31:
        pytest.skip('/dev/shm has less than 2 GiB free')
    there = tempfile.mkdtemp(prefix='plumbline-tests-', dir='/dev/shm')
    memory = f'memory: {{path: {there}, kind: tmpfs}}'
    try:
        storage.prepare(file_systems=f'{DISK}\n      {memory}')
        found = cases(storage, '-t', 'quick', '-n', 'IOR|disk', '-S', 'Mdtest.iterations=1')
        assert set(found) == {
            ('IOR', 'api=POSIX,file_system=disk,size=quick'),
            ('IOR', 'api=POSIX,file_system=memory,size=quick'),
            ('Mdtest', 'file_system=disk,size=quick'),
        }
        for case in found.values():
            assert case['result'] == 'pass', case['fail_reason']
        provenance = found['IOR', 'api=POSIX,file_system=memory,size=quick']['record']['provenance']
        assert provenance['file_system_type'] == 'tmpfs' and '3 repetitions: mean' in provenance['easy_1m_write']
        record = found['Mdtest', 'file_system=disk,size=quick']['record']
        assert set(record['metrics']) == {
            f'{kind}_{operation}'
            for kind in ('easy_unique', 'hard_shared')
            for operation in ('creation', 'stat', 'read', 'removal')
        }
        assert os.listdir(there) == os.listdir(storage.disk) == []
    finally:
        shutil.rmtree(there)


def test_every_pattern_of_ior_writes_and_reads(storage):
    """The full case, of 16 MiB: buffered and direct."""
    storage.prepare()
    found = cases(storage, '-n', 'IOR.*POSIX.*full', '-S', 'IOR.repetitions=2')
    (case,) = found.values()
    assert case['result'] == 'pass', case['fail_reason']
    assert len(case['record']['metrics']) == 22
    assert os.listdir(storage.disk) == []


@pytest.mark.parametrize(
    ('before', 'words'),
    [
        ('[ "$OMPI_COMM_WORLD_RANK" = 1 ] && kill -SEGV $$', ['exit code 139']),
        ('rm -rf FOLDER/plumbline-*', ['ERROR: open64', 'No such file or directory']),
    ],
    ids=['crash', 'vanished'],
)
def test_nothing_is_left_of_a_job_that_failed(storage, before, words):
    storage.prepare(before.replace('FOLDER', str(storage.disk)))
    reason = failed(storage)
    for word in words:
        assert word in reason
    assert os.listdir(storage.disk) == []


def test_nothing_is_left_of_a_job_that_timed_out(storage):
    storage.prepare('touch "$(echo FOLDER/plumbline-*)/file"; sleep 600'.replace('FOLDER', str(storage.disk)))
    assert 'timed out' in failed(storage, '-S', 'time_limit=2s')
    assert os.listdir(storage.disk) == []


def test_what_a_killed_job_left_is_removed_by_the_next_one(storage):
    kill = 'kill -KILL $(sed -n \'s/"pid": "\\(.*\\)",/\\1/p\' FOLDER/plumbline-*/.plumbline.json)'
    storage.prepare(kill.replace('FOLDER', str(storage.disk)))
    failed(storage)
    assert len(os.listdir(storage.disk)) == 1
    (storage.disk / 'somebodys').write_text('x')
    storage.prepare('exit 3')
    failed(storage)
    assert os.listdir(storage.disk) == ['somebodys']


@pytest.mark.parametrize(
    ('file_system', 'words'),
    [
        ('disk: {path: FOLDER, kind: any, min_percent_left: 99}', 'guard: less than 99 % of'),
        ('disk: {path: FOLDER, kind: lustre}', 'declared is lustre'),
        ('disk: {path: $NOSUCH, kind: any}', 'is no directory'),
    ],
    ids=['guard', 'kind', 'unset'],
)
def test_a_refusal_is_the_reason_of_the_failure(storage, file_system, words):
    storage.prepare(file_systems=file_system)
    reason = failed(storage)
    assert 'refused: ' in reason and words in reason
    assert os.listdir(storage.disk) == []


@contextlib.contextmanager
def mounted(folder, options: str):
    if os.geteuid() != 0:
        pytest.skip('mounting a small file system takes root')
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'none', folder], check=False).returncode:
        pytest.skip('tmpfs cannot be mounted here')
    try:
        yield
    finally:
        subprocess.run(['umount', folder], check=True)


def test_a_disk_that_others_fill_meanwhile_fails_the_case(storage):
    storage.prepare(
        f'[ "$OMPI_COMM_WORLD_RANK" = 0 ] && head -c 190M /dev/zero > {storage.disk}/others',
        'disk: {path: FOLDER, kind: tmpfs, max_percent_of_free: 50}',
    )
    with mounted(storage.disk, 'size=200m'):
        assert 'No space left on device' in failed(storage)
        assert os.listdir(storage.disk) == ['others']


def test_a_file_system_that_may_not_be_written_is_refused(storage):
    storage.prepare(file_systems='disk: {path: FOLDER, kind: tmpfs}')
    with mounted(storage.disk, 'size=4g,ro'):
        assert 'Read-only file system' in failed(storage)


def test_without_a_file_system_there_is_no_case(storage):
    storage.prepare()
    storage.site_file.write_text(storage.site_file.read_text().replace('file_systems:', 'memory_kinds: {}').replace(
        DISK.replace('FOLDER', str(storage.disk)), ''))  # fmt: skip
    answer = storage.reframe('-lC', checks='checks/storage')
    assert 'Concretized 0 test case(s)' in answer.stdout, answer.stdout + answer.stderr


def test_several_nodes_have_cases_on_what_they_share_alone(storage):
    storage.prepare(file_systems=f'{DISK}\n      home: {{path: /home, kind: nfs}}\n    num_nodes: 3')
    listed = storage.reframe('-l', checks='checks/storage').stdout
    cases = [line for line in listed.splitlines() if line.startswith('- ')]
    assert len([line for line in cases if '%nodes=1' in line]) == 2 * (5 + 3)
    several = [line for line in cases if '%nodes=1' not in line]
    assert len(several) == 3 and all('=home' in line and '%size=full %nodes=2' in line for line in several)
