"""Job states of a real Slurm: a controller, an accounting database and four virtual nodes on this host."""

import json
import os
import shutil
import subprocess
import threading
import time

import pytest
from scratch import ROOT

pytestmark = pytest.mark.whole_machine

SLURM_PARTITION = """\
  - name: compute
    scheduler: slurm
    launcher: srun
    access: [-p compute]
"""
LOCAL_PARTITION = """\
  - name: node
    scheduler: local
    launcher: local
"""


@pytest.fixture(scope='module')
def slurm(tmp_path_factory):
    """The environment of a running cluster."""
    paths = f'{os.environ["PATH"]}:/usr/sbin:/sbin'
    for name in ('sbatch', 'slurmctld', 'slurmd', 'slurmdbd', 'munged', 'mariadbd'):
        if shutil.which(name, path=paths) is None:
            pytest.skip(f'{name} is not installed')
    folder = tmp_path_factory.mktemp('slurm')
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)  # the database runs as its own user
    port = str(20000 + os.getpid() % 20000)

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


@pytest.fixture
def on_slurm(clone, slurm):
    """Runs the demo check there, perhaps with a word to Slurm once its job runs; returns (exit code, case)."""
    text = clone.site_file.read_text()
    assert LOCAL_PARTITION in text
    clone.site_file.write_text(text.replace(LOCAL_PARTITION, SLURM_PARTITION))
    started = clone.results.parent / 'started'

    def run(*options, then=None):
        environment = slurm | {'PATH': f'{clone.environment()["PATH"]}:{slurm["PATH"]}'}

        def tell():
            while not (started.exists() and started.read_text().strip()):
                time.sleep(0.2)
            job, node = started.read_text().split()
            words = [word.format(job=job, node=node) for word in then]
            subprocess.run(words, env=os.environ | slurm, check=True)

        helper = threading.Thread(target=tell, daemon=True)
        if then:
            helper.start()
        clone.reframe('-r', '-n', 'Demo', '-S', 'trials=1', *options, **environment)
        (report,) = clone.results.glob('reports/*[0-9].json')
        (found,) = (e for e in json.loads(report.read_text())['runs'][-1]['testcases'] if not e['fixture'])
        return found

    run.started = started
    return run


def test_a_job_that_completes(on_slurm):
    found = on_slurm('-S', 'trials=2')
    assert found['result'] == 'pass', found['fail_reason']
    record = found['record']
    assert record['job']['state'] == 'COMPLETED' and record['job']['exitcode'] == 0
    (node,) = record['job']['nodes']
    assert node in ('n1', 'n2', 'n3')
    assert record['binding']['got'] == {f'{node}.0': '0'}
    assert {sample[1] for sample in record['metrics']['rate']['samples']} == {node}


LONG = 'echo "rate: 50.5"; echo "delay: 1.25"; echo $SLURM_JOB_ID $SLURMD_NODENAME > {started}; exec sleep 300'


def test_a_job_that_printed_all_and_ran_into_its_time_limit(clone, on_slurm):
    clone.program(LONG.format(started=on_slurm.started))
    found = on_slurm('-S', 'time_limit=1m')
    assert found['result'] == 'fail'
    assert 'TIMEOUT' in found['fail_reason'] and 'on n' in found['fail_reason']
    assert found['record']['job']['state'] == 'TIMEOUT'


def test_a_job_that_an_administrator_cancels(clone, on_slurm):
    clone.program(LONG.format(started=on_slurm.started))
    found = on_slurm(then=['scancel', '{job}'])
    assert found['result'] == 'fail'
    assert 'CANCELLED' in found['fail_reason']


def test_a_node_that_goes_down(clone, on_slurm, slurm):
    clone.program(LONG.format(started=on_slurm.started))
    found = on_slurm(then=['scontrol', 'update', 'NodeName={node}', 'State=down', 'Reason=test'])
    assert found['result'] == 'fail'
    assert 'NODE_FAIL' in found['fail_reason']
    node = on_slurm.started.read_text().split()[1]
    assert node in found['fail_reason']
    subprocess.run(['scontrol', 'update', f'NodeName={node}', 'State=resume'], env=os.environ | slurm, check=True)
