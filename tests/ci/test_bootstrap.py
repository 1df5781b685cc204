# SPDX-License-Identifier: BSD-3-Clause
"""Set-up in POSIX shell: which Python, what is said where one or a package is absent, and what is left alone."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scratch import PARTS, ROOT, compiled_product

TOOLS = (
    'cat', 'cksum', 'dirname', 'env', 'grep', 'id', 'mktemp', 'nproc', 'readlink', 'rm', 'nice', 'sed', 'setsid', 'sh',
    'sleep', 'stat', 'tr',
)  # fmt: skip
OLD = '[ "$1" = --version ] && echo Python 3.6.8'


@pytest.fixture(params=['dash', 'bash'])
def shell(request, program):
    return program(request.param)


class Machine:
    """A clone in which nothing was set up, and a PATH with nothing but a few tools and stand-ins."""

    def __init__(self, folder: Path):
        self.path, self.clone, self.log = folder / 'path', folder / 'a clone', folder / 'log'
        self.path.mkdir()
        (self.clone / 'ci').mkdir(parents=True)
        for name in TOOLS:
            (self.path / name).symlink_to(shutil.which(name))
        for name in ('nightly', 'test', 'bootstrap.sh'):
            shutil.copy(ROOT / 'ci' / name, self.clone / 'ci')
        for name in ('pyproject.toml', 'requirements.txt'):
            shutil.copy(ROOT / name, self.clone)

    def program(self, name: str, script: str = ''):
        """Put a stand-in on PATH that notes its call."""
        (self.path / name).unlink(missing_ok=True)
        (self.path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{script}\n')
        (self.path / name).chmod(0o755)

    def calls(self) -> str:
        return self.log.read_text() if self.log.exists() else ''

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        environment = {'PATH': str(self.path), 'HOME': str(self.clone), **variables}
        return subprocess.run(
            words, cwd=self.clone, env=environment, capture_output=True, text=True, check=False, timeout=60
        )  # fmt: skip

    def bootstrap(self, shell: str, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        return self.run(shell, '-c', f'. ci/bootstrap.sh; {script}', shell, *arguments, **variables)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_first_python_that_is_new_enough(machine, shell):
    machine.program('python3', OLD)
    machine.program('python3.12', 'exit 127')  # as a shim of pyenv
    machine.program('python3.11')
    assert machine.bootstrap(shell, 'find_python').stdout.strip() == str(machine.path / 'python3.11')


def test_a_python_of_a_module(machine, shell, tmp_path):
    modules = tmp_path / 'modules'
    (modules / 'init').mkdir(parents=True)
    (modules / 'init/sh').write_text(f'module() {{ [ "$2" = cray-python ] && PATH={tmp_path}/cray:$PATH; }}\n')
    machine.program('python3')
    (machine.path / 'python3').rename(tmp_path / 'python3')
    (tmp_path / 'cray').mkdir()
    (tmp_path / 'python3').rename(tmp_path / 'cray/python3')
    found = machine.bootstrap(shell, 'find_python', MODULESHOME=str(modules))
    assert found.stdout.strip() == str(tmp_path / 'cray/python3'), found.stderr


@pytest.mark.parametrize(
    ('manager', 'command'),
    [('dnf', 'sudo dnf install python3.12'), ('zypper', 'sudo zypper install python311'),
     ('apt-get', 'sudo apt-get install python3 python3-venv')],
)  # fmt: skip
def test_no_python_is_one_sentence_with_the_command(machine, manager, command):
    machine.program('python3', OLD)
    machine.program(manager)
    answer = machine.run('ci/nightly', PLUMBLINE_NO_PROVISION='1')
    assert (answer.returncode, answer.stdout) == (2, '')
    (said,) = answer.stderr.splitlines()
    assert 'Python 3.6.8' in said and said.endswith(command)
    assert not (machine.clone / '.venv').exists()


@pytest.mark.parametrize(
    ('words', 'installs'),
    [((), True), (('--no-provision',), False)],
)
def test_a_night_that_is_to_install_nothing_installs_no_python(machine, words, installs):
    machine.program('python3', OLD)
    machine.program('apt-get')
    machine.program('dpkg-query', 'exit 1')
    machine.program('id', 'echo 0')
    machine.run('ci/nightly', *words)
    assert ('apt-get' in machine.calls()) == installs


@pytest.fixture
def apt(machine, program, tmp_path):
    """The real apt-get with folders of its own, in which a stand-in for hpcc is installed; returns its environment."""
    for name in ('lists', 'archives', 'dpkg'):
        (tmp_path / name / 'partial').mkdir(parents=True)
    (tmp_path / 'dpkg/status').write_text(
        'Package: hpcc\nStatus: install ok installed\nMaintainer: a\nArchitecture: all\nVersion: 1\nDescription: a\n'
    )
    (tmp_path / 'apt.conf').write_text(
        f'Dir::State "{tmp_path}"; Dir::State::lists "lists"; Dir::State::status "{tmp_path}/dpkg/status";'
        f'Dir::Cache "{tmp_path}"; Dir::Cache::archives "archives"; Dir::Etc::sourcelist "/dev/null";'
        'Dir::Etc::sourceparts "/dev/null"; APT::Sandbox::User "root";'
    )
    machine.program('id', 'echo 0')
    machine.program('dpkg-query')  # hpcc seems to be missing
    machine.program('sleep', '[ $1 = 10 ] && exec /bin/sleep 10; exec /bin/sleep 0.05')
    machine.program('apt-get', f'exec {program("apt-get")} "$@"')
    for name in ('tail', 'mktemp'):
        (machine.path / name).unlink(missing_ok=True)
        (machine.path / name).symlink_to(program(name))
    return {'PATH': f'{machine.path}', 'APT_CONFIG': f'{tmp_path}/apt.conf'}


@pytest.mark.parametrize(('lock', 'waits'), [('lists/lock', 'sleep 5'), ('dpkg/lock-frontend', 'install --yes')])
def test_another_apt_get_is_waited_for(machine, apt, tmp_path, lock, waits):
    with (tmp_path / lock).open('w') as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        installs = subprocess.Popen(
            ['sh', '-c', '. ci/bootstrap.sh; debian_packages hpcc'], cwd=machine.clone, env=apt, text=True,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        while waits not in machine.calls():
            time.sleep(0.05)
        time.sleep(0.2)
        assert installs.poll() is None
    _, rest = installs.communicate(timeout=60)
    assert installs.returncode == 0, rest
    assert 'install --yes --no-install-recommends hpcc' in machine.calls()


@pytest.mark.parametrize(('lock', 'installs'), [('lists/lock', 0), ('dpkg/lock-frontend', 60)])
def test_an_apt_get_that_holds_its_lock_for_longer_is_quoted(machine, apt, tmp_path, lock, installs):
    machine.program('sleep', '[ $1 = 5 ] || exec /bin/sleep 10')
    with (tmp_path / lock).open('w') as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        answer = machine.bootstrap('sh', 'debian_packages hpcc', **apt)
    assert answer.returncode != 0 and f'held by process {os.getpid()} (' in answer.stderr, answer.stderr
    assert machine.calls().count('sleep 5') == 59 and machine.calls().count('install --yes') == installs


@pytest.mark.parametrize('answer', ["*config*) echo 'global.index-url=http://mirror' ;;", '*uv*) exit 1 ;;'])
def test_pip_installs_where_it_has_an_index_of_its_own_or_uv_cannot_be_had(machine, shell, answer):
    machine.program('python', f'case "$*" in {answer} esac')
    answer = machine.bootstrap(shell, "install_python_packages python ''")
    assert answer.returncode == 0 and ('goes on with pip' in answer.stderr) is ('uv' in machine.log.read_text())
    *_, packages, itself = machine.calls().splitlines()
    assert packages.endswith('--no-compile --no-deps --require-hashes --requirement requirements.txt')
    assert itself.endswith('--no-compile --no-deps --no-build-isolation --editable .')


def test_an_index_without_the_pinned_versions_is_said_and_no_hash_is_left_out_without_one(machine, shell):
    machine.program('python', 'case "$*" in *uv*|*--require-hashes*) exit 1 ;; esac')
    assert machine.bootstrap(shell, "install_python_packages python ''").returncode == 1
    machine.program('python', 'case "$*" in *config*) echo index-url=x ;; *--require-hashes*) exit 1 ;; esac')
    answer = machine.bootstrap(shell, 'install_python_packages python test')
    assert answer.returncode == 0 and 'index-url=x' in answer.stderr
    assert machine.calls().splitlines()[-1].endswith('--no-compile --editable .[test]')


def test_uv_is_the_program_again_once_packages_are_installed(machine, shell):
    """As ci/style needs it in a new clone."""
    machine.program('python', 'case "$*" in *uv*) exit 1 ;; esac')
    machine.program('uv', 'echo the program')
    answer = machine.bootstrap(shell, "install_python_packages python ''; uv pip")
    assert answer.stdout.strip() == 'the program'


def test_progress_is_said_while_a_command_runs(machine, shell):
    machine.log.touch()
    machine.program('sleep', '/bin/sleep 0.05')  # called a third time when two lines of progress were said
    (machine.path / 'long').write_text(f'until [ "$(grep -c sleep {machine.log})" -ge 3 ]; do /bin/sleep 0.05; done\n')
    answer = machine.bootstrap(
        shell, f"with_progress 'a long step' sh {machine.path}/long; echo $?; with_progress x false; echo $?"
    )
    assert answer.stdout.split() == ['0', '1']
    assert answer.stderr.splitlines()[:3] == [f'plumbline: a long step{more}' for more in ('', ': 10 s', ': 20 s')]
    assert 'erminated' not in answer.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason='takes a folder of another user')
def test_with_sudo_all_goes_on_as_the_user_who_asked(machine):
    os.chown(machine.clone, 1234, 1234)
    machine.program('sudo', 'echo "$https_proxy|$SSL_CERT_FILE|$no_proxy|$SECRET" >> ' + str(machine.log))
    # the shell is what sudo is to the command: its own environment has what the command does not get
    started = 'env -u https_proxy -u SSL_CERT_FILE -u SECRET no_proxy=of-root ci/nightly --mode quick; exit $?'
    own = {'https_proxy': "http://it's a proxy:3128", 'SSL_CERT_FILE': '/etc/our $(ca).pem', 'SECRET': 'x'}
    assert machine.run('sh', '-c', started, SUDO_UID='1234', **own).returncode == 0
    called, variables = machine.calls().splitlines()
    assert called.startswith('sudo -H --preserve-env=http_proxy,https_proxy,')
    assert called.endswith(f' -u #1234 PLUMBLINE_SUDO=1 {machine.clone}/ci/nightly --mode quick')
    assert variables == f'{own["https_proxy"]}|{own["SSL_CERT_FILE"]}|of-root|'


def test_one_certificate_file_is_that_of_pip_and_git(machine, shell):
    answer = machine.bootstrap(
        shell, 'export SSL_CERT_FILE=/etc/our.pem; . ci/bootstrap.sh; echo $PIP_CERT $GIT_SSL_CAINFO'
    )
    assert answer.stdout.split() == ['/etc/our.pem'] * 2, answer.stderr


def test_help_and_version_build_nothing(machine):
    """With a Python that has no package."""
    for part in PARTS:
        shutil.copytree(compiled_product() / part, machine.clone / part, dirs_exist_ok=True)
    python = Path(os.path.realpath('/proc/self/exe'))
    machine.program('python3', f'exec {python} -S "$@"')
    for command in ('nightly', 'node-sweep', 'compare-change', 'why', 'provision', 'test'):
        for option, words in (('--help', f'ci/{command} '), ('--version', 'plumbline ')):
            answer = machine.run(f'ci/{command}', option)
            assert answer.returncode == 0, answer.stderr
            assert words in answer.stdout
    assert not (machine.clone / '.venv').exists()


def test_the_environment_can_be_a_link_to_another_disk(machine, shell, tmp_path):
    (machine.clone / '.venv').symlink_to(tmp_path / 'other')
    machine.program('python3', f'case "$2" in venv) exec {sys.executable} "$@" --without-pip ;; esac')
    answer = machine.bootstrap(shell, 'install_python_packages() { return 5; }; python_environment ""')
    assert (answer.returncode, (tmp_path / 'other/pyvenv.cfg').exists()) == (2, True), answer.stderr


def test_the_environment_of_another_clone_is_left_alone(machine, shell, tmp_path):
    other = tmp_path / 'other'
    for folder in (other / '.git', other / '.venv'):
        folder.mkdir(parents=True)
    (other / '.venv/plumbline-ready').write_text(f'123 456 {other} test\n')
    (machine.clone / '.venv').symlink_to(other / '.venv')
    machine.program('python3')
    answer = machine.bootstrap(shell, 'python_environment ""')
    assert answer.returncode == 2 and f'the environment of the clone {other}: remove the link' in answer.stderr
    assert 'venv' not in machine.calls()


@pytest.fixture
def ready(machine):
    """The machine with an environment that is set up, no package of Debian and stand-ins for what the tests call."""
    venv = machine.clone / '.venv'
    venv.mkdir()
    check = machine.run('sh', '-c', 'cat pyproject.toml requirements.txt | cksum').stdout.split()
    (venv / 'plumbline-ready').write_text(f'{check[0]} {check[1]} {machine.clone} test\n')
    machine.program('dpkg-query', 'exit 1')
    machine.program('apt-get')
    machine.program('id', 'echo 0')
    for name in ('python', 'coverage'):
        machine.program(name)
    return machine


def style(machine: Machine, code: int) -> None:
    path = machine.clone / 'ci/style'
    path.write_text(f'#!/bin/sh\necho what it says of the code\nexit {code}\n')
    path.chmod(0o755)


def test_the_tests_install_packages_only_when_told_to(ready):
    """`ci/test` says what `ci/test --all` would install."""
    style(ready, 0)
    answer = ready.run('ci/test', '-k', 'two words')
    assert answer.returncode == 0, answer.stderr
    assert 'mariadb-server' in answer.stdout and 'ci/test --all' in answer.stdout
    assert 'what it says' not in answer.stdout  # only some tests were asked for
    calls = ready.calls()
    assert 'apt-get' not in calls and '-k two words' in calls
    ready.run('ci/test', '--all')
    assert ' install --yes --no-install-recommends hpcc' in ready.calls()


def test_the_tests_near_a_room_run_and_an_unknown_room_is_one_sentence(ready):
    (ready.clone / 'studies').symlink_to(ROOT / 'studies')
    ready.program('python', f'case "$*" in *pytest*) exit 5 ;; esac; exec {sys.executable} "$@"')
    assert ready.run('ci/test', '--near', 'checks/ladder/', '-k', 'two words').returncode == 5
    (tests,) = (call for call in ready.calls().splitlines() if 'pytest' in call)
    assert '--numprocesses=2' in tests and 'not whole_machine and not slow and not twin' in tests
    assert tests.endswith('-k two words tests/checks/test_ladder.py tests/checks/test_node_ladder.py')
    for words in (('--near', 'leader'), ('--near',)):
        answer = ready.run('ci/test', *words)
        assert answer.returncode == 2
        (said,) = answer.stderr.splitlines()
        assert said.startswith(f'plumbline: {" ".join(words)}') and 'not a room' in said and 'checks/ladder, ' in said


@pytest.mark.parametrize(('tests', 'of_style', 'expected'), [(0, 0, 0), (0, 1, 1), (3, 0, 3), (3, 1, 3)])
def test_tests_run_and_decide_whatever_style_says(ready, tests, of_style, expected):
    style(ready, of_style)
    ready.program('python', f'case "$*" in *--numprocesses*) exit {tests} ;; esac')
    answer = ready.run('ci/test')
    assert answer.returncode == expected, answer.stderr
    assert '--numprocesses' in ready.calls() and 'what it says of the code' in answer.stdout
    assert ('ci/style failed' in answer.stdout) == bool(of_style)


def test_one_red_part_of_style_leaves_the_others_to_run_and_makes_the_whole_red(ready):
    shutil.copy(ROOT / 'ci/style', ready.clone / 'ci')
    for name in ('awk', 'mkdir'):
        (ready.path / name).symlink_to(shutil.which(name))
    folders = ' '.join(f'.mypy_cache/numpy-{python}/lib/python3.11/site-packages' for python in ('3.10', '3.14'))
    ready.program('python', f'case "$*" in *version_info*) echo 3.11 ;; *venv*) mkdir -p {folders} ;; esac')
    for name in ('lint-imports', 'uv', 'mypy', 'ruff'):
        ready.program(name)
    for words, pythons in ((), ['3.10']), (('3.10', '3.14'), ['3.10', '3.14']):
        ready.log.unlink(missing_ok=True)
        assert ready.run('ci/style', *words).returncode == 0
        assert re.findall(r'mypy --python-version (\S+) ', ready.calls()) == pythons
    for name in ('mypy', 'ruff'):
        ready.program(name, 'exit 1')
        ready.log.unlink()
        assert ready.run('ci/style').returncode == 1 and 'lint-imports' in ready.calls()
