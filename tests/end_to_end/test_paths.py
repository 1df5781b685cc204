# SPDX-License-Identifier: BSD-3-Clause
"""Folders with unusual names: what works, and what is refused in one sentence before anything runs."""

import os
import shutil
import subprocess

import pytest
from rows import each_row
from scratch import GOOD_PROGRAM, ROOT

NAMES = ['a $(touch ran)', '"`touch ran`', 'x\ny', '{sessionid}[b]*']


def refused(answer, tmp_path) -> bool:
    said = (answer.stdout + answer.stderr).splitlines()
    assert not [line for line in said if line.startswith('Traceback')], said
    assert not list(tmp_path.rglob('ran')), 'a name was executed'
    return answer.returncode != 0 and 'move or rename' in ' '.join(said)


@each_row('name', NAMES)
def test_a_clone_that_cannot_be_used_is_refused(name, clone, tmp_path):
    there = tmp_path / name
    if not there.exists():
        shutil.copytree(clone.root, there)
    elsewhere = {'TMPDIR': str(tmp_path), 'PLUMBLINE_RESULTS': ''}  # for a log of ReFrame
    # of the shell, before it makes an environment
    answer = clone.run('./ci/nightly', '--no-provision', cwd=there, **elsewhere)
    assert refused(answer, tmp_path) and (answer.returncode, answer.stdout) == (2, '')
    assert len(answer.stderr.splitlines()) == 1
    answer = clone.fork('ci.nightly', '--no-provision', cwd=there, **elsewhere)
    assert refused(answer, tmp_path) and answer.returncode == 2 and len(answer.stderr.splitlines()) == 1
    assert not (there / 'results').exists()
    plain = ('reframe', '-C', 'reframe_settings/settings.py', '-c', 'checks/demo.py', '-r')
    assert refused(clone.fork(*plain, cwd=there, **elsewhere), tmp_path)


@each_row('name', NAMES[2:])
def test_a_results_directory_that_cannot_be_used_is_refused(name, clone, tmp_path):
    results = tmp_path / 'results of' / name
    assert refused(clone.nightly('--results', results), tmp_path)
    assert refused(clone.reframe('-l', PLUMBLINE_RESULTS=str(results)), tmp_path)
    assert not results.exists()
    results.mkdir(parents=True)  # one that is not there is refused for that
    assert refused(clone.plumbline('compare', '--results', str(results)), tmp_path)
    assert not list(results.iterdir())


@pytest.mark.parametrize('name', ['+a,b=c@d~é-', 'a blank'])
def test_a_case_runs_and_is_stored_from_other_names(name, clone, tmp_path):
    """A clone with a blank keeps its results elsewhere, as ReFrame runs no job there. The clone may be read-only."""
    clone.without_our_checks()
    (clone.root / 'checks/core/job/parts').chmod(0o555)
    clone.program(f'{GOOD_PROGRAM}; stat -c %A "$0" . .. ../.. | sort -u > {tmp_path}/modes')
    there = tmp_path / name
    shutil.move(clone.root, there)
    clone.root = there
    environment = {'HOME': str(tmp_path), 'PLUMBLINE_RESULTS': ''}
    answer = clone.nightly(**environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert 'dr-x' not in (tmp_path / 'modes').read_text(), 'ReFrame gave the stage directory the mode of the clone'
    results = tmp_path / 'plumbline-results' if ' ' in name else there / 'results'
    assert list(results.glob('reports/*.json')) and (results / 'report.html').exists()
    answer = clone.plumbline('compare', '--format=csv', **environment)
    assert answer.stdout.count('no_reference') == 2, answer.stderr


def test_the_shell_refuses_the_same_names_as_python(tmp_path):
    """Every character that a folder can be named with, of ASCII."""
    from plumbline.errors import InputError
    from plumbline.paths import usable

    for character in map(chr, range(1, 127)):
        if character == '/':
            continue
        folder = tmp_path / f'a{character}b'
        folder.mkdir()
        script = f'cd "$1" && . {ROOT}/ci/bootstrap.sh && echo fine'
        said = subprocess.run(['sh', '-c', script, 'sh', folder], capture_output=True, text=True, check=False).stdout
        try:
            accepted = usable(folder) == folder
        except InputError:
            accepted = False
        assert accepted == (said == 'fine\n'), repr(character)
        assert accepted or character not in f'{os.sep}abc123._-+=, '
