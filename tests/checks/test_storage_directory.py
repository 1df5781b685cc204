# SPDX-License-Identifier: BSD-3-Clause
"""The shell script that makes the directory of a storage job, refuses unsafe ones, and removes it."""

import json
import os
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each_row
from scratch import ROOT

MIB = 2**20


def script(folder, text: str, check=False):
    """Runs `text` in `folder` after storage.sh was sourced."""
    lines = f'source {ROOT}/checks/core/job/parts/storage.sh\n{text}'
    return subprocess.run(['bash', '-c', lines], cwd=folder, capture_output=True, text=True, check=check, timeout=60)


@pytest.fixture
def place(tmp_path):
    """A file system's directory, and beside it the job's."""
    (tmp_path / 'fs').mkdir()
    (tmp_path / 'job').mkdir()
    return tmp_path


def opened(place, then='', types='*', kib=10, inodes=5, most=5, least=1, path=None, before=':', stripes="'' ''"):
    asked = f"{path or place / 'fs'} '{types}' {kib} {inodes} {most} {least} 100 {stripes}"
    return script(place / 'job', f'{before}\nstorage_open {asked} || exit\n{then}')


def refused(place, **arguments) -> str:
    answer = opened(place, 'touch $storage_dir/started', **arguments)
    said = (place / 'job/refused').read_text().strip()
    assert answer.returncode == 1 and said in answer.stderr
    assert not list((place / 'fs').iterdir())
    return said


def test_the_directory_is_the_users_own_and_gone_afterwards(place):
    answer = opened(place, 'stat -c "%a %u" $storage_dir; cat $storage_dir/.plumbline.json; mkdir $storage_dir/d; '
                    'touch $storage_dir/d/f; echo; echo $storage_dir')  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    first, *marker, directory = answer.stdout.strip().splitlines()
    assert first == f'700 {os.geteuid()}'
    assert directory.startswith(f'{place}/fs/plumbline-')
    told = json.loads('\n'.join(marker))
    assert told['directory'] == os.path.basename(directory) and int(told['expires']) - int(told['started']) == 100
    assert list((place / 'fs').iterdir()) == []
    facts = (place / 'job/provenance.txt').read_text()
    assert {'file_system_type', 'file_system_layout', 'file_system_space'} <= set(re.findall(r'^(\w+)=', facts, re.M))


@pytest.mark.parametrize('ending', ['exit 3', 'kill -TERM $$; sleep 9', 'kill -INT $$; sleep 9', 'storage_close'])
def test_nothing_is_left_whatever_ends_the_job(place, ending):
    answer = opened(place, f'echo x > $storage_dir/x; {ending}')
    assert answer.returncode == {'exit 3': 3, 'storage_close': 0}.get(ending, answer.returncode)
    assert list((place / 'fs').iterdir()) == []


def test_what_a_killed_job_left_goes_with_the_next_one_and_nothing_else(place):
    fs = place / 'fs'
    assert opened(place, 'mkdir -p $storage_dir/a/b; echo x > $storage_dir/a/b/c; kill -KILL $$').returncode == -9
    (left,) = fs.iterdir()
    user = left.name.split('-')[1]
    marker = json.loads((left / '.plumbline.json').read_text())

    def beside(name: str, marked=True, to=None, **changed):
        path = fs / f'plumbline-{user}-{name}'
        path.symlink_to(to) if to else path.mkdir()
        (path / 'data').write_text('x')
        text = json.dumps(marker | {'directory': path.name} | changed, indent=0)
        (path / '.plumbline.json').write_text(text if marked else '')

    (outside := place / 'outside').mkdir()
    beside('empty', marked=False)
    beside('alive', pid=str(os.getpid()), pid_started=started(os.getpid()))
    beside('elsewhere', boot='another')
    beside('copied', directory=left.name)
    beside('link', to=outside)
    (fs / f'plumbline-{user}-unmarked').mkdir()
    (fs / 'somebodys').mkdir()
    (left / 'way_out').symlink_to(outside)
    kept = {path.name for path in fs.iterdir()} - {left.name}
    beside('expired', boot='another', expires='1')

    answer = opened(place)
    assert answer.returncode == 0, answer.stderr
    assert {path.name for path in fs.iterdir()} == kept
    assert (outside / 'data').exists()
    assert f'removes {left}' in answer.stdout and answer.stdout.count('plumbline: removes ') == 2


def started(pid: int) -> str:
    with open(f'/proc/{pid}/stat') as file:
        return file.read().rpartition(')')[2].split()[19]


def test_a_removal_that_was_cut_short_can_still_be_proved(place):
    """The marker goes last."""
    opened(place, 'mkdir $storage_dir/a; kill -KILL $$')
    (left,) = (place / 'fs').iterdir()
    script(place, f'find() {{ kill -KILL $BASHPID; }}; storage_remove {left}')
    assert (left / '.plumbline.json').exists()
    assert opened(place).returncode == 0
    assert list((place / 'fs').iterdir()) == []


def test_a_directory_that_a_link_replaced_is_not_followed(place):
    outside = place / 'outside'
    outside.mkdir()
    (outside / 'precious').write_text('x')
    opened(place, f'mv $storage_dir {place}/moved; ln -s {outside} $storage_dir')
    assert (outside / 'precious').exists()
    (link,) = (place / 'fs').iterdir()
    assert script(place, f'storage_remove {link}').returncode == 1
    assert (outside / 'precious').exists()


def test_a_directory_that_vanished_is_no_trouble(place):
    assert opened(place, 'rm -r $storage_dir; storage_close').returncode == 0


def test_a_place_that_is_no_storage_directory_is_refused_with_the_reason(place):
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize // 1024
    assert 'guard: ' in (said := refused(place, kib=free // 10)) and 'more than 5 % of what is free' in said
    assert 'less than 99 %' in refused(place, least=99)
    if space.f_files:
        assert 'inodes would be more than 5 %' in refused(place, inodes=space.f_ffree)
    assert 'declared is lustre' in refused(place, types='lustre')
    assert 'is no directory' in refused(place, path=place / 'nosuch')
    (place / 'link').symlink_to(place / 'fs')
    assert f'reached through a symbolic link; name {place}/fs' in refused(place, path=place / 'link')
    (place / 'fs').chmod(0o777)
    assert 'no sticky bit' in refused(place)
    (place / 'fs').chmod(0o1777)
    assert opened(place).returncode == 0
    assert 'mkdir: ' in refused(place, before='mkdir() { command mkdir /sys/kernel/x; }')  # not even root may


@given(st.integers(0, 2**50), st.integers(0, 2**50), st.sampled_from([512, 4096, 2**20]))
@settings(max_examples=15)
def test_exabytes_do_not_overflow(blocks, free, unit):
    """The guard's arithmetic, for file systems of up to 2**70 bytes, is never negative and never wraps."""
    answer = script('/', f'storage_kib {blocks} {unit}; storage_kib {free} {unit}', check=True)
    assert [int(line) for line in answer.stdout.split()] == [blocks * unit // 1024, free * unit // 1024]


def test_the_pages_of_a_file_are_dropped_and_that_is_verified(place, program):
    program('fincore')
    file = place / 'fs/file'
    file.write_bytes(bytes(MIB))
    answer = script(place / 'job', f'sync {file}; storage_drop {file}')
    assert answer.returncode == 0, answer.stderr
    kept, whole = map(int, (place / 'job/cached').read_text().split())
    assert whole == MIB and kept <= MIB
    assert script(place / 'job', f'storage_drop {file}.nosuch').returncode == 1


def test_without_fincore_the_same_pages_are_counted(place, program):
    program('fincore')
    file = place / 'fs/file'
    file.write_bytes(os.urandom(3 * MIB + 5000))
    counts = f'storage_in_cache {file}; fincore() {{ return 1; }}; storage_in_cache {file}'

    def counted() -> list[int]:
        return [min(int(line), 3 * MIB + 5000) for line in script(place, counts, check=True).stdout.split()]

    assert counted() == [3 * MIB + 5000] * 2
    script(place, f'sync {file}', check=True)
    with file.open() as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(stream.fileno(), MIB, MIB)
    theirs, ours = counted()
    assert theirs == ours >= MIB  # all of it on a tmpfs
    assert script(place, f'fincore() {{ return 1; }}; storage_in_cache {file}.nosuch').returncode == 1
    assert script(place, f'fincore() {{ return 1; }}; python3() {{ return 1; }}; storage_in_cache {file}').returncode


def test_stripes_that_cannot_be_set_are_a_refusal(place):
    answer = opened(place, stripes='4 1048576')
    assert answer.returncode == 1 and 'stripes of' in answer.stderr and 'have none' in answer.stderr
    assert list((place / 'fs').iterdir()) == []


# of quota, of lfs, and of lfs where not all servers answered
QUOTA = [
    """Disk quotas for user bob (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sda1    1000    4000    5000       0      10       0     100       0
""",
    """
        /lustre/of/a/long/name
                    1000*   4000       0       -      10       0     100       -
""",
    '      /lustre  [1000]    0    4000       -      [10]      100       0       -\n',
]


@each_row('printed', QUOTA)
@pytest.mark.parametrize('type', ['ext4', 'lustre'])
def test_what_is_left_of_a_quota_bounds_a_job(place, type, printed):
    """With stand-ins: columns as quota(1) with --raw-grace and lfs-quota(1) print them, in KiB."""
    (place / 'job/printed').write_text(printed)

    def asked(kib: int, inodes: int):
        return script(
            place / 'job', f'timeout() {{ shift; "$@"; }}; quota() {{ cat printed; }}; lfs() {{ cat printed; }}\n'
            f'storage_home=.; storage_quota /fs {type} / {kib} {inodes}; echo $? "$storage_quota"'
        ).stdout.strip()  # fmt: skip

    rows = 2 if type == 'lustre' else 1  # asked for user and group
    assert asked(3000, 90) == '0 ' + '; '.join(['3000 KiB, 90 inodes left'] * rows)
    assert asked(3001, 90).startswith('1 ') and asked(3000, 91).startswith('1 ')
    assert 'quota: 3000 KiB and 91 inodes are needed on /fs: 3000 KiB' in (place / 'job/refused').read_text()


@each_row('printed', ['', 'Disk quotas for user root (uid 0): none', '  /dev/sda1  1000  0  0  0  7  0  0  0'])
def test_where_no_quota_is_told_there_is_none(place, printed):
    text = f'timeout() {{ echo "{printed}"; }}; storage_quota /fs ext4 / 999999 999999; echo $? "$storage_quota"'
    assert script(place / 'job', text).stdout.startswith('0 none told:')


def test_tmpfs_has_no_more_than_the_memory(place):
    text = """
    sed() { echo 1000; }; stat() { echo 4096 1000000 1000000 0 0; }; storage_home=.
    for type in ext4 tmpfs; do storage_guard /fs $type 2000 1 50 1; echo $?; done"""
    assert script(place / 'job', text).stdout.split() == ['0', '1']


@each_row(
    ('type', 'program', 'options'),
    [
        ('beegfs', 'beegfs-ctl', '--getentryinfo /d'),
        ('beegfs', 'beegfs', 'entry info --retro /d'),
        ('gpfs', 'mmlsattr', '-L /d'),
    ],
)
def test_the_layout_is_recorded_on_one_line(place, type, program, options):
    """With a stand-in for the file system's own program; BeeGFS 8 has another one."""
    text = f"""
    {program}() {{ echo "$*" > asked; printf 'Chunksize: 512K\n+ targets:  4\n'; }}
    storage_dir=/d; storage_layout {type}; storage_dir="""
    assert script(place / 'job', text).stdout == 'Chunksize: 512K + targets: 4\n'
    assert (place / 'job/asked').read_text() == f'{options}\n'
    failed = script(place / 'job', f'{program}() {{ echo why; false; }}; storage_layout {type}')
    assert failed.stdout == 'not known: why\n'


def test_a_lustre_directory_is_striped_and_says_so(place):
    """With a stand-in for Lustre's `lfs`: the options are those of lfs-setstripe(1)."""
    text = f"""
    lfs() {{ echo "$*" >> {place}/lfs; [ $1 = setstripe ] || printf 'stripe_count:  8\\nstripe_size: 1\\n'; }}
    storage_dir=/d; storage_stripe lustre 8 1048576 && storage_layout lustre; storage_dir="""
    answer = script(place, text)
    assert answer.stdout == 'stripe_count: 8 stripe_size: 1\n'
    assert (place / 'lfs').read_text() == 'setstripe -c 8 -S 1048576 /d\ngetstripe -d /d\n'


@each_row('path', ['/', '/etc', '/usr/share', '/home', 'HOME'])
def test_folders_of_the_system_and_home_directories_are_refused(place, path):
    home = place / 'fs'
    answer = opened(place, path=path.replace('HOME', str(home)), before=f'HOME={home}')
    assert answer.returncode == 1 and 'belongs to the system or is a home directory' in answer.stderr
    assert not list(home.iterdir())
    assert opened(place, before=f'HOME={place}').returncode == 0, 'a folder below the home directory'
