# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of all tests."""

import atexit
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis
import pyarrow
import pytest
from browser import Browser
from scratch import CACHE, OUTPUTS, ScratchClone

# no test is judged by its time: this machine may be busy
hypothesis.settings.register_profile('plumbline', deadline=None)
hypothesis.settings.load_profile('plumbline')

# The pools of threads of many processes take a third more CPU time than one thread of each
pyarrow.set_cpu_count(1)


def pytest_configure(config):
    """Leave nothing of what tests start in the home directory, nor logs of ReFrame and Chromium's files in /tmp."""
    gc.disable()  # until all tests are collected: what is made for that stays, and looking through it takes a quarter
    atexit.register(_say_no_more)  # behind pytest, which sets the standard error of the process
    if not hasattr(config, 'workerinput'):  # which has the environment of the process that started it
        CACHE.mkdir(exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix='t', dir=CACHE, ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        of_programs = ('TMPDIR', 'POCL_CACHE_DIR', 'IPYTHONDIR', 'CHROME_CONFIG_HOME')
        os.environ |= dict.fromkeys(of_programs, folder.name) | {'XDG_CACHE_HOME': str(CACHE)}
        Path(folder.name).chmod(0o1777)  # also for the user of a database
    else:  # each has its own, in which no mpirun of another one removes what is in use
        folder = Path(os.environ['TMPDIR'], config.workerinput['workerid'])
        folder.mkdir()
        folder.chmod(0o1777)
        os.environ['TMPDIR'] = str(folder)


def _say_no_more():
    """Keep DuckDB from listing, at the end of a process, all its types that modules loaded by ReFrame still hold."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def pytest_collection_modifyitems(config, items):
    """With several processes: the largest files first, so that at the end no process has a long one left.

    Tests of end_to_end take ten times as long for their size, and wait for jobs: in turn one of their files and one of
    the others, which compute.
    """
    if hasattr(config, 'workerinput'):
        files = sorted({item.path for item in items}, key=lambda path: (-path.stat().st_size, path))
        waiting, others = ([path for path in files if ('end_to_end' in path.parts) is waits] for waits in (True, False))
        turn = {path: number for some in (waiting, others) for number, path in enumerate(some)}
        items.sort(key=lambda item: (turn[item.path], item.path))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def environment():
    """Undo what a command of `ci` sets for the processes that it starts: the site, the results; end its steps."""
    before = {name: value for name, value in os.environ.items() if name.startswith('PLUMBLINE_')}
    yield
    if steps := sys.modules.get('ci.isolated'):
        steps.end_steps()
    for name in [name for name in os.environ if name.startswith('PLUMBLINE_')]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture
def impatient(monkeypatch):
    """Give programs that ask a driver or a scheduler 0.2 s to answer."""
    monkeypatch.setattr('plumbline.programs.TIME_LIMIT', 0.2)


@pytest.fixture
def clone(tmp_path):
    return ScratchClone(tmp_path)


@pytest.fixture
def recorded():
    """The text that a real benchmark printed; each file has a header beside it that says which and where."""

    def read(name: str) -> str:
        path = OUTPUTS / name
        assert path.with_suffix('.header').exists(), f'{name} has no header file'
        return path.read_text(encoding='utf-8', errors='replace')

    return read


@pytest.fixture(scope='session')
def program():
    """The path of an installed program; the test is skipped, saying so, where it is absent."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f'{name} is not installed')
        return path

    return find


@pytest.fixture(scope='session')
def chromium(tmp_path_factory):
    """One browser for all tests of a process."""
    if not (program := shutil.which('chromium')):
        pytest.skip('chromium is not installed')
    browser = Browser(program, tmp_path_factory.mktemp('browser'))
    yield browser
    browser.close()


@pytest.fixture(scope='session')
def half_clock(tmp_path_factory):
    """A library that lets every clock of what preloads it run at half speed."""
    compiler, folder = shutil.which('cc'), tmp_path_factory.mktemp('half')
    if compiler is None:
        pytest.skip('cc is not installed')
    (folder / 'half.c').write_text(
        '#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n'
        'int clock_gettime(clockid_t clock, struct timespec *now) {\n'
        '    int answer = syscall(SYS_clock_gettime, clock, now);\n'
        '    long long half = (now->tv_sec * 1000000000LL + now->tv_nsec) / 2;\n'
        '    now->tv_sec = half / 1000000000; now->tv_nsec = half % 1000000000;\n'
        '    return answer;\n}\n'
    )
    subprocess.run([compiler, '-shared', '-fPIC', '-o', folder / 'half.so', folder / 'half.c'], check=True)
    return folder / 'half.so'
