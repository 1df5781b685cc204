# SPDX-License-Identifier: BSD-3-Clause
"""A results directory that others may write: nothing is written through their links, and it is refused if all may."""

import argparse
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from commands import run_command
from rows import each_row
from stand_ins import Slurm

from ci import command
from ci.process import Process, owner_of
from plumbline import settings
from plumbline.errors import InputError
from plumbline.files import open_own, write_text


@pytest.fixture
def results(tmp_path):
    """A results directory, and beside it a file of the user's that others want changed."""
    (tmp_path / 'results').mkdir()
    (tmp_path / 'precious').write_text('mine\n')
    yield tmp_path / 'results'
    assert (tmp_path / 'precious').read_text() == 'mine\n'


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command of ci with a results directory; return its exit code and error."""

    def run(results: Path, work=lambda site, results: 0) -> tuple[int, str]:
        monkeypatch.setenv(settings.RESULTS.name, '')  # which a command changes
        monkeypatch.setenv(settings.SITE.name, 'localhost')
        arguments = argparse.Namespace(results=str(results), sites=None, site=None)
        return command.run(arguments, work), capsys.readouterr().err

    return run


def test_neither_the_lock_nor_the_log_of_a_run_is_opened_through_a_link(results, run):
    for name in ('nightly.lock', 'log'):
        (results / name).symlink_to(results.parent / 'precious')
    code, said = run(results)
    assert code == 2 and 'nightly.lock: is a symbolic link' in said
    with pytest.raises(InputError, match='log: is a symbolic link'):
        Process(['true'], results / 'log', results, 1e9, {}).wait()


def test_a_file_that_is_written_anew_replaces_a_link(results):
    (results / 'summary.txt').symlink_to(results.parent / 'precious')
    write_text(results / 'summary.txt', 'ours\n')
    assert not (results / 'summary.txt').is_symlink() and (results / 'summary.txt').read_text() == 'ours\n'


@each_row(
    'part, mode',
    [
        ('.', 0o777), ('store/cases/site=a', 0o777), ('reports', 0o2777), ('judged', 0o777), ('evidence/a', 0o777),
        ('logs', 0o777), ('nightly-stage', 0o777), ('incidents/a', 0o757),
    ],
)  # fmt: skip
def test_a_part_that_all_users_may_write_is_refused_and_one_of_a_group_is_not(part, mode, results, run):
    (results / part).mkdir(parents=True, exist_ok=True)
    (results / part).chmod(mode)
    code, said = run(results)
    assert code == 2 and f'{results / part}: every user of this machine may write here' in said
    (results / part).chmod(0o2775)
    assert run(results) == (0, '')


@each_row('words', ['status', 'compare', 'report', 'incidents', 'ingest x', 'record propose', 'store check'])
def test_each_command_refuses_what_all_users_may_write(words, tmp_path):
    (tmp_path / 'store').mkdir(exist_ok=True)
    (tmp_path / 'store').chmod(0o777)
    answer = run_command([*words.split(), f'--results={tmp_path}'])
    assert answer.exit_code == 2 and f'{tmp_path / "store"}: every user of this machine may write' in answer.stderr


@pytest.mark.parametrize(('mode', 'file', 'folder'), [
    (0o700, 0o600, 0o700), (0o755, 0o644, 0o755), (0o2770, 0o660, 0o2770), (0o711, 0o644, 0o755), (0o777, 0o664, 0o775),
])  # fmt: skip
def test_what_is_written_is_open_to_nobody_to_whom_its_folder_is_closed(mode, file, folder, results):
    before = os.umask(0)
    try:
        results.chmod(mode)
        write_text(results / 'a/b/file', 'ours\n')
        with open_own(results / 'a/log', 'a'):
            pass
        modes = {path.name: path.stat().st_mode & 0o7777 for path in results.rglob('*')}
    finally:
        os.umask(before)
    assert modes == {'a': folder, 'b': folder, 'file': file, 'log': file}


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can be another user')
@each_row('path', ['store/sessions/site=a/month=2026-11', 'reports/parts', 'incidents/a', 'perflogs/a.log', 'evidence'])
def test_what_another_one_of_the_group_left_unwritable_is_refused_before_anything_is_measured(path, run):
    results = Path(tempfile.mkdtemp())  # which this user may enter
    try:
        results.chmod(0o2777 | stat.S_ISVTX)
        left = results / path
        (left if left.suffix != '.log' else left.parent).mkdir(parents=True)
        if left.suffix:
            left.touch()
        for one in (results, *results.rglob('*')):
            os.chown(one, 65534, 65534)
        os.chown(left, 0, 0)
        left.chmod(0o755)
        os.seteuid(65534)
        code, said = run(results)
        assert code == 2 and f'{path}: cannot be written by this user, and belongs to root: ' in said and 'g+w' in said
        os.seteuid(0)
        left.chmod(0o1777)  # the others of the group cannot replace what is in it
        os.seteuid(65534)
        assert run(results)[0] == 0
    finally:
        os.seteuid(0)
        shutil.rmtree(results)


@pytest.mark.parametrize(
    ('mode', 'umask', 'new'), [(0o2775, 0o022, 0o775), (0o775, 0o022, 0o755), (0o755, 0o022, 0o755), (0o775, 0, 0o775)]
)
def test_results_that_a_group_shares_stay_writable_for_it_and_never_for_all(results, mode, umask, new, run):
    before = os.umask(umask)
    try:
        results.chmod(mode)
        assert run(results, lambda *_: (results / 'new').mkdir() or 0) == (0, '')
        assert (results / 'new').stat().st_mode & 0o777 == new
    finally:
        os.umask(before)


@pytest.mark.parametrize('for_ever', [False, True])
def test_a_lock_that_is_held_for_a_moment_is_asked_for_twice(results, run, monkeypatch, for_ever):
    """As `plumbline status` does, to see whether a night runs."""
    with (results / 'nightly.lock').open('w') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(command.time, 'sleep', lambda _: for_ever or fcntl.flock(held, fcntl.LOCK_UN))
        holder = []
        code, said = run(results, lambda *_: holder.append((results / 'nightly.lock').read_text()) or 0)
    assert (code, 'another nightly run writes to' in said) == ((2, True) if for_ever else (0, False))
    assert for_ever or f'process {os.getpid()} since' in holder[0]


def test_what_a_killed_comparison_of_a_change_left_is_ended(results, run, monkeypatch):
    """Its job and the process that submitted it; ReFrame started by hand has another stage directory."""
    bin_folder, home = results.parent / 'bin', results / 'changes/20261129T010203Z'
    for folder in (bin_folder, results / 'changes/20261128T010203Z', home):
        folder.mkdir(parents=True)
    slurm = Slurm(bin_folder)
    queue = f'7|{home}/nightly-stage/1-before/x\n8|{results}/stage/x\n'
    slurm.says('squeue', queue, queue, '')
    slurm.runs('scancel', '')
    monkeypatch.setenv('PATH', f'{bin_folder}:{os.environ["PATH"]}')
    with subprocess.Popen(['sleep', '5'], env=os.environ | {settings.OWNER.name: owner_of(home)}) as process:
        code, _ = run(results)
        assert process.wait() == -signal.SIGKILL
    assert code == 0 and slurm.of('scancel') == [['7']]


def test_a_file_system_that_cannot_lock_is_named(results, run, monkeypatch):
    """As Lustre without the mount option flock."""

    def flock(*_):
        raise OSError(errno.ENOSYS, 'Function not implemented')

    monkeypatch.setattr(fcntl, 'flock', flock)
    code, said = run(results)
    assert code == 2 and 'cannot be locked: Function not implemented' in said and 'another' not in said
