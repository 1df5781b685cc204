"""A real Slurm for all tests that need one: a controller, an accounting database and virtual nodes on this host."""

import os
import shutil
import subprocess

import pytest
from scratch import ROOT

PROGRAMS = ('sbatch', 'slurmctld', 'slurmd', 'slurmdbd', 'munged', 'mariadbd')


@pytest.fixture(scope='session')
def slurm(tmp_path_factory):
    """The environment of a running cluster; its first start is the slowest, so each process of pytest has one."""
    paths = f'{os.environ["PATH"]}:/usr/sbin:/sbin'
    for name in PROGRAMS:
        if shutil.which(name, path=paths) is None:
            pytest.skip(f'{name} is not installed')
    folder = tmp_path_factory.mktemp('slurm')
    for path in (folder, *folder.parents[:3]):  # as many as xdist makes
        path.chmod(path.stat().st_mode | 0o011)  # the database runs as its own user
    port = str(20000 + 50 * (os.getpid() % 250))  # it takes 41, and processes that xdist starts have close numbers

    def cluster(action):
        return subprocess.run(
            [ROOT / 'ci/slurm/cluster', action, folder, port], capture_output=True, text=True, timeout=180, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    answer = cluster('up')
    if answer.returncode:
        cluster('down')
        pytest.fail(f'{answer.stdout}{answer.stderr}')
    yield {'SLURM_CONF': str(folder / 'slurm.conf'), 'PATH': paths}
    assert cluster('down').returncode == 0
