# SPDX-License-Identifier: BSD-3-Clause
"""A real Slurm for all tests that need one: a controller, an accounting database and virtual nodes on this host."""

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scratch import CACHE, ROOT

PROGRAMS = ('sbatch', 'slurmctld', 'slurmd', 'slurmdbd', 'munged', 'mariadbd')


@pytest.fixture(scope='session')
def slurm():
    """The environment of a running cluster; its first start is the slowest, so each process of pytest has one.

    Not below the folder of pytest, which each start of pytest closes to other users: the database runs as its own.
    """
    paths = f'{os.environ["PATH"]}:/usr/sbin:/sbin'
    for name in PROGRAMS:
        if shutil.which(name, path=paths) is None:
            pytest.skip(f'{name} is not installed')
    with free_ports() as port, tempfile.TemporaryDirectory(prefix='plumbline-slurm-') as name:
        folder = Path(name)
        folder.chmod(0o711)

        def cluster(action):
            return subprocess.run(
                [ROOT / 'ci/slurm/cluster', action, folder, str(port)], capture_output=True, text=True, timeout=600,
                check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip

        answer = cluster('up')
        if answer.returncode:
            cluster('down')
            pytest.fail(f'{answer.stdout}{answer.stderr}')
        yield {'SLURM_CONF': str(folder / 'slurm.conf'), 'PATH': paths}
        assert cluster('down').returncode == 0


@pytest.fixture
def disk():
    """A folder on a disk: that of a test may be in memory, where a cache is no fault and old kernels lack O_DIRECT."""
    with tempfile.TemporaryDirectory(prefix='plumbline-tests-', dir='/var/tmp') as folder:
        yield Path(folder)


@pytest.fixture(scope='module')
def free_port():
    """Return the first of 41 consecutive free ports for the daemons of one test file."""
    with free_ports() as port:
        yield port


@contextmanager
def free_ports() -> Iterator[int]:
    """Yield the first of 41 ports that no other cluster of this user has: a lock file for each 50 ports says so."""
    CACHE.mkdir(exist_ok=True)
    for first in range(20000, 32000, 50):  # below those that Linux gives to outgoing connections
        with (CACHE / f'ports-{first}').open('a') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for port in range(first, first + 41):
                    with socket.create_server(('', port)):  # fails where another program listens
                        pass
            except OSError:
                continue
            yield first
            return
    pytest.fail('expected 41 free ports in a row from 20000 to 32000')
