# SPDX-License-Identifier: BSD-3-Clause
"""Power caps, by a command that stands for that of a site: set, verified, and restored whatever happens."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from described_nodes import NODES
from scratch import ROOT

from checks.core.reading.metrics import Metric
from checks.core.topology import caps_of
from plumbline.record import Dim

CAP = ROOT / 'checks/core/job/parts/cap.sh'
# Keeps the cap in a file; `stuck`: it cannot be set any more
COMMAND = """\
[ $# = 0 ] && exec cat FOLDER/watts
[ ! -e FOLDER/stuck ] && echo "$1" > FOLDER/new && mv FOLDER/new FOLDER/watts
"""


@pytest.fixture
def node(tmp_path):
    (tmp_path / 'site').mkdir()
    (tmp_path / 'job').mkdir()
    put(tmp_path, 'cap', COMMAND.replace('FOLDER', f'{tmp_path}/site'))
    (tmp_path / 'site/watts').write_text('246\n')
    return tmp_path


def put(node, name, script):
    """Put a program on the PATH of the job."""
    (node / 'site' / name).write_text(f'#!/bin/bash\n{script}\n')
    (node / 'site' / name).chmod(0o755)


def watts(node):
    return int((node / 'site/watts').read_text())


def job(node, then, **environment):
    """A job that sets a cap, goes on with `then`, and restores the cap when it ends."""
    command = node / 'site/cap'
    text = f'trap "bash {CAP} restore" EXIT; bash {CAP} set 100 246 "{command}" || exit 7; {then}'
    env = {'PATH': f'{node}/site:/usr/bin:/bin'} | environment
    with (node / 'stderr').open('w') as stderr:
        return subprocess.Popen(['bash', '-c', text], cwd=node / 'job', env=env, stderr=stderr)


def refused(node, stays=246, **environment):
    """What a job says that sets no cap."""
    assert job(node, 'true', **environment).wait(60) == 7 and watts(node) == stays
    return (node / 'stderr').read_text()


def until(condition):
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_cap_is_set_for_the_job_and_restored(node):
    ended = job(node, f'cat {node}/site/watts > during')
    assert ended.wait(60) == 0 and (node / 'job/during').read_text() == '100\n'
    assert watts(node) == 246 and not (node / 'job/cap.set').exists() and not (node / 'job/health.txt').exists()


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL], ids=['TERM', 'KILL'])
def test_a_killed_job_leaves_no_cap(node, number):
    """SIGKILL: only the guard, in a session of its own, is left."""
    killed = job(node, 'echo > began; while :; do read -t 1 -u 9 9<> <(:); done')
    assert until((node / 'job/began').exists) and watts(node) == 100
    guard = json.loads((node / 'job/cap.set').read_text().split('guard=')[1].splitlines()[0])
    killed.send_signal(number)
    killed.wait(60)
    assert until(lambda: watts(node) == 246)
    assert until(lambda: not Path(f'/proc/{guard}/exe').exists())


def test_no_cap_is_set_where_the_node_has_another_than_the_normal_one(node):
    (node / 'site/watts').write_text('180\n')
    said = refused(node, stays=180)
    assert '180 W' in said and '246' in said


def test_no_cap_is_set_without_a_guard(node):
    """Under Slurm the guard is a job; here sbatch fails."""
    put(node, 'sbatch', 'echo "sbatch: error: invalid account" >&2; exit 1')
    said = refused(node, SLURM_JOB_ID='7', SLURMD_NODENAME='n1', SLURM_JOB_PARTITION='batch')
    assert 'invalid account' in said and 'no guard' in said


def test_under_slurm_the_guard_is_a_job_that_needs_no_file_of_this_one(node):
    put(node, 'sbatch', f'echo "$@" > {node}/asked; cat > {node}/guard; echo 12;')
    put(node, 'scancel', f'echo "$@" > {node}/cancelled')
    of_slurm = {'SLURM_JOB_ID': '7', 'SLURMD_NODENAME': 'n1', 'SLURM_JOB_PARTITION': 'batch', 'SLURM_JOB_ACCOUNT': 'a'}
    ended = job(node, f'cp {node}/guard {node}/guard_then', **of_slurm)
    assert ended.wait(60) == 0 and watts(node) == 246
    asked = (node / 'asked').read_text().split()
    assert {'--dependency=afterany:7', '--nodelist=n1', '--partition=batch', '--account=a'} <= set(asked)
    assert (node / 'cancelled').read_text() == '12\n'
    (node / 'site/watts').write_text('100\n')  # as after SIGKILL
    subprocess.run(['bash', node / 'guard_then'], cwd='/', check=True)
    assert watts(node) == 246


def test_a_cap_that_cannot_be_restored_or_was_changed_is_said_of_the_node(node):
    ended = job(node, f'echo 120 > {node}/site/watts; touch {node}/site/stuck')
    assert until((node / 'job/health.txt').exists)
    ended.wait(60)
    said = (node / 'job/health.txt').read_text()
    assert '120 W after the trials, expected 100 W' in said and 'could not be set to 246 W' in said
    (node / 'site/stuck').unlink()  # and the guard sets it
    assert until(lambda: watts(node) == 246)


def test_a_cap_that_the_node_does_not_take_ends_the_job(node):
    at_least_120 = f'[ "$1" -ge 120 ] || echo 120 > {node}/site/watts'
    put(node, 'cap', COMMAND.replace('FOLDER', f'{node}/site') + at_least_120)
    assert 'expected a power cap of 100 W afterwards, found 120 W' in refused(node)


def test_the_usual_cap_is_measured_too():
    """So that the energy saved is against it, as in 002, section IV-I."""
    assert caps_of({'caps': ['60 W', '0.22 kW'], 'normal': '246 W', 'command': 'cap'}) == (60, 220, 246)
    assert caps_of({'caps': ['246 W'], 'normal': '246 W', 'command': 'cap'}) == (246,)
    assert caps_of({}) == ()


def test_a_case_sets_its_cap_before_the_trials_and_restores_the_usual_one(case_on):
    stated = {'power_cap': {'normal': '0.35 kW', 'command': '/opt/site cap'}, 'energy': {}}
    case = case_on('HPLPowerCap', NODES['two'], 'leave_it_to_acceptance', stated, cap=200)
    case.prerun_cmds, case.postrun_cmds = ['module list'], ['date']
    case.metrics = [Metric('gflops', 'GFlop/s', 'higher', 'x', figures={'solver': 'dense'})]
    case.set_and_restore_the_cap()
    assert case.metrics[0].figures == {} and case.metering.figures == {'capped': 'cap'}
    first, at_exit, then = case.prerun_cmds
    assert (first, then) == ('module list', "bash ./cap.sh set 200 350 '/opt/site cap'")
    assert at_exit.startswith('started_in=$PWD; trap ') and at_exit.count("' EXIT") == 1
    assert at_exit.endswith("""load.txt >> provenance.txt; }; cd "$started_in" && bash ./cap.sh restore' EXIT""")
    assert case.postrun_cmds == ['date', 'bash ./cap.sh restore']
    assert case.tags == {'acceptance'} and case.dims['cap'] == Dim('count', 'W')
