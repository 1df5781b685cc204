"""What was asked for each rank against what it got, and the wrapper that asks."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scratch import ROOT

from checks.core.placement import Placement, binding_faults, granted, parse_cpu_list

RANK = ROOT / 'checks/core/job/rank.sh'
TWO = Placement(2, ((0,), (1,)))


def start(folder, *command, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(('OMPI', 'SLURM', 'PLUMBLINE'))}
    return subprocess.run(
        ['bash', RANK, *command], cwd=folder, env=clean | environment, capture_output=True, text=True, check=False
    )


@given(st.sets(st.integers(0, 300), min_size=1))
def test_the_kernels_lists_are_understood(cpus):
    assert parse_cpu_list(','.join(map(str, sorted(cpus)))) == cpus


def test_ranges():
    assert parse_cpu_list('0-3,8,10-11\n') == {0, 1, 2, 3, 8, 10, 11}


def test_a_granted_binding_has_no_fault():
    assert binding_faults(TWO, {'n1.0': frozenset({0}), 'n1.1': frozenset({1})}, 1) == []
    assert binding_faults(Placement(1, None), {'n1.0': frozenset({0, 1})}, 1) == []


@pytest.mark.parametrize(
    ('got', 'why'),
    [
        ({'n1.0': frozenset({0})}, '2 ranks were asked, 1 reported'),
        ({}, '2 ranks were asked, 0 reported'),
        ({'n1.0': frozenset({0}), 'n1.7': frozenset({1})}, 'rank n1.7 was asked to run on CPUs [] and got [1]'),
        ({'n1.0': frozenset({0}), 'n1.1': parse_cpu_list('')}, 'rank n1.1 was asked to run on CPUs [1] and got []'),
        ({'n1.0': frozenset({0}), 'n1.1': frozenset({0, 1})}, 'rank n1.1 was asked to run on CPUs [1] and got [0, 1]'),
    ],
)
def test_a_binding_that_was_not_granted_is_named(got, why):
    assert any(why in fault for fault in binding_faults(TWO, got, 1))


@pytest.mark.parametrize(
    'variable',
    ['OMPI_COMM_WORLD_LOCAL_RANK', 'MPI_LOCALRANKID', 'PALS_LOCAL_RANKID', 'FLUX_TASK_LOCAL_ID', 'SLURM_LOCALID'],
)
def test_each_launcher_tells_the_local_rank(tmp_path, variable):
    cpu = str(max(os.sched_getaffinity(0)))
    answer = start(tmp_path, 'echo', 'done', **{variable: '1', 'PLUMBLINE_CPUS': f'0:{cpu}'}, SLURMD_NODENAME='n7')
    assert (answer.returncode, answer.stdout) == (0, 'done\n'), answer.stderr
    assert granted(tmp_path) == {'n7.1': frozenset({int(cpu)})}


def test_mpirun_inside_a_slurm_job_goes_before_slurm(tmp_path):
    start(tmp_path, 'true', OMPI_COMM_WORLD_LOCAL_RANK='1', SLURM_LOCALID='0', SLURMD_NODENAME='n7')
    assert list(granted(tmp_path)) == ['n7.1']


def test_without_cpus_asked_the_rank_keeps_what_it_has(tmp_path):
    assert start(tmp_path, 'true', SLURMD_NODENAME='n7').returncode == 0
    assert granted(tmp_path) == {'n7.0': frozenset(os.sched_getaffinity(0))}


def test_a_cpu_that_is_not_there_ends_the_rank(tmp_path):
    answer = start(tmp_path, 'echo', 'ran', PLUMBLINE_CPUS='4095')
    assert answer.returncode != 0 and answer.stdout == ''
    assert granted(tmp_path) == {}


def test_a_rank_for_which_nothing_was_asked_says_so(tmp_path):
    answer = start(tmp_path, 'echo', 'ran', PLUMBLINE_CPUS='0', SLURM_LOCALID='3')
    assert answer.returncode == 125 and 'local rank 3' in answer.stderr


def test_the_programs_exit_code_and_arguments_pass_through(tmp_path):
    answer = start(tmp_path, 'bash', '-c', 'echo "$1"; exit 7', 'x', 'a  b')
    assert (answer.returncode, answer.stdout) == (7, 'a  b\n')


def test_mpirun_for_real(tmp_path, program):
    mpirun = program('mpirun')
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip('needs two CPUs')
    first, second = sorted(os.sched_getaffinity(0))[:2]
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    subprocess.run(
        [mpirun, '-np', '2', 'bash', RANK, 'true'], cwd=tmp_path, check=True,
        env=os.environ | root | {'PLUMBLINE_CPUS': f'{second}:{first}'},
    )  # fmt: skip
    assert [cpus for _, cpus in sorted(granted(tmp_path).items())] == [{second}, {first}]
