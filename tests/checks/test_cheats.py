# SPDX-License-Identifier: BSD-3-Clause
"""Programs that leave the CPUs they were given are found and named; and what the looks leave as it is."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from cheats import compiled
from reading import faults_of_ranks
from rows import each_row
from scratch import ROOT, wait_for

from checks.core.placement import UNBOUND, Placement
from checks.core.reading.binding import granted
from checks.core.reading.watched import parse_cpu_list

RANK = ROOT / 'checks/core/job/parts/rank.sh'
CPUS = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason='needs two CPUs')
FIRST, SECOND = (CPUS * 2)[:2]
ALL = Placement(1, (tuple(CPUS),))
ONE = Placement(1, ((FIRST,),))
SECONDS = '3'
AS_ROOT = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


@pytest.fixture(scope='module')
def cheat(tmp_path_factory) -> str:
    return compiled(tmp_path_factory.mktemp('cheat'))


class Rank:
    """A program that runs through `rank.sh` in a folder of its own: `code`, `said`, and what the looks found."""

    def __init__(self, folder: Path, *command: str, placement=ONE, launcher: tuple[str, ...] = (), **environment: str):
        folder.mkdir(exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(('OMPI', 'SLURM', 'PLUMBLINE', 'OMP_'))}
        self.folder, self.placement = folder, placement
        self.process = subprocess.Popen(
            [*launcher, 'bash', RANK, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=clean | AS_ROOT | placement.env_vars | environment,
        )  # fmt: skip

    def end(self, killed: bool = False):
        """Waits for the program, and for the last line about it, which comes just after its end, if none was killed."""
        self.said = ''.join(self.process.communicate(timeout=60))
        self.code = self.process.returncode
        deadline = time.monotonic() + 20
        while not killed and not all('\nend ' in path.read_text() for path in self.folder.glob('binding.*')):
            assert time.monotonic() < deadline, self.said
            time.sleep(0.01)
        self.got = granted(self.folder)
        self.faults = faults_of_ranks(self.placement, self.got, 1)
        return self

    def see(self, words: str):
        """Waits until a look has found a fault that says so, however late it comes, or the program has ended."""
        while self.process.poll() is None and words not in ''.join(
            faults_of_ranks(self.placement, granted(self.folder), 1)
        ):
            time.sleep(0.1)

    @property
    def watched(self):
        (got,) = self.got.values()
        return got.watched


def test_programs_that_move_are_found_and_named(tmp_path, cheat, subtests):
    """All at the same time: each needs a second, and its looks count waiting for a CPU as running."""
    wrapped, many = f'taskset --cpu-list {SECOND} {cheat} honest 0 {SECONDS}; exit $?', len(CPUS) + 6
    rows = [
        (ONE, (cheat, 'start', SECOND), ['.0: thread 1 of 1 (cheat) may run on CPU', f'bound to CPU {FIRST}']),
        (ONE, (cheat, 'middle', SECOND), ['thread 1 of 1 (cheat) may run on', f'CPU {SECOND} ']),
        (ONE, (cheat, 'thread', SECOND), [' (cheat) may run on CPU', f'bound to CPU {FIRST}']),
        (ONE, (cheat, 'child', SECOND), ['thread 2 of 2 (cheat, a child process) may run on CPU']),
        (ONE, ('bash', '-c', wrapped), ['thread 2 of 2 (cheat, a child process) may run', f'CPU {SECOND} ']),
        (ONE, (cheat, 'crowd', 3), [f' busy threads share CPU {FIRST}']),
        (ALL, (cheat, 'crowd', many), [f' busy threads share CPU {FIRST}']),
        (ONE, (cheat, 'daemon', SECOND), ['(cheat, a child process) may run on CPU', f'bound to CPU {FIRST}']),
        (ONE, (cheat, 'closed', SECOND), ['thread 1 of 1 (cheat) may run on CPU', f'bound to CPU {FIRST}']),
        (ONE, (cheat, 'honest', 0), []),
        (ALL, (cheat, 'crowd', len(CPUS)), []),
    ]
    started = []
    for number, (placement, command, _) in enumerate(rows):
        command = (*command, SECONDS) if command[0] == cheat else command
        started.append(Rank(tmp_path / str(number), *map(str, command), placement=placement))
    for ran, (_, command, words) in zip(started, rows, strict=True):
        with subtests.test(command=command):
            assert ran.end().code == 7, ran.said
            assert bool(ran.faults) == bool(words) and len(ran.faults) < 2, ran.faults
            assert all(word in ran.faults[0] for word in words), ran.faults
            assert ran.watched.looks[1:] and ', the last after ' in str(ran.watched)
            assert 'middle' not in command or 'since 0.0' not in ran.faults[0]


def test_stress_ng_that_binds_its_workers_is_found(tmp_path, program):
    ran = Rank(tmp_path, program('stress-ng'), '--cpu', '1', '--taskset', str(SECOND), '--timeout', '30')
    ran.see('(stress-ng')
    ran.process.terminate()  # it ends its workers, and well
    assert ran.end().code == 0, ran.said
    assert '(stress-ng' in ran.faults[0] and f'may run on CPU {SECOND} ' in ran.faults[0]


@pytest.mark.parametrize(('name', 'option'), [('mpirun.openmpi', '--bind-to'), ('mpirun.mpich', '-bind-to')])
def test_a_rank_that_moves_under_a_launcher_that_binds_is_named(tmp_path, program, cheat, name, option):
    asked = Placement(2, ((SECOND,), (FIRST,)))
    given = {'placement': asked, 'launcher': (program(name), option, 'core', '-np', '2'), 'SLURMD_NODENAME': 'n1'}
    named = {'OMPI_MCA_hwloc_base_binding_policy': 'core'}
    moved = Rank(tmp_path / 'a', cheat, 'start', str(SECOND), '1', '0', **named, **given)
    assert len(moved.end().got) == 2 and len(moved.faults) == 1, moved.faults  # rank 0 was there already
    # Hydra hands on the variables of the node that it was started on
    node = os.uname().nodename if 'mpich' in name else 'n1'
    for word in (f'rank {node}.1: thread 1 of', f'on CPU {SECOND} since', f'bound to CPU {FIRST}', 'policy=core'):
        assert word in moved.faults[0], moved.faults
    # not at the same time: an mpirun of Open MPI that ends removes the folder in which another one starts
    honest = Rank(tmp_path / 'b', cheat, 'honest', '0', '1', '0', **given).end()
    assert honest.faults == [], f'what the launcher binds, rank.sh binds again: {honest.said}'


def test_no_launcher_binds_where_its_variable_is_set(tmp_path, program):
    said = subprocess.run([program('mpirun.openmpi'), '--version'], capture_output=True, text=True, check=True).stdout
    by_prrte = int(re.search(r'\d+', said)[0]) >= 5
    of_openmpi = 'PRTE_MCA_hwloc_default_binding_policy' if by_prrte else 'OMPI_MCA_hwloc_base_binding_policy'
    for name, variable in (('mpirun.openmpi', of_openmpi), ('mpirun.mpich', 'HYDRA_BINDING')):
        words = [program(name), '-np', '2', 'bash', '-c', 'taskset --cpu-list --pid $$ >> seen; sleep 0.2']
        for value, whole in (('core', False), (UNBOUND[variable], True)):
            folder = tmp_path / f'{name}-{value}'
            folder.mkdir()
            # Hydra itself may die of SIGPIPE where ranks end as soon as they start: what they saw counts
            subprocess.run(words, cwd=folder, check=False, env=os.environ | AS_ROOT | {variable: value})
            seen = [parse_cpu_list(line.rpartition(' ')[2]) for line in (folder / 'seen').read_text().splitlines()]
            assert [one == set(CPUS) for one in seen] == [whole, whole], (name, value, seen)


def test_a_program_without_a_look_is_never_called_looked_at(tmp_path):
    ran = Rank(tmp_path, 'true').end()
    assert (ran.code, ran.faults) == (0, [])
    assert str(ran.watched).startswith('too short to look at: ') or ran.watched.looks[1:], ran.watched


def test_the_looks_may_come_from_any_cpu(tmp_path):
    """So that they take no time from a rank beside which a CPU is idle."""
    ran = Rank(tmp_path, 'sleep', '100')
    deadline, looks = time.monotonic() + 60, set()
    while looks != set(CPUS) or os.sched_getaffinity(ran.process.pid) != {FIRST}:
        assert time.monotonic() < deadline, looks
        time.sleep(0.05)
        here = [path for path in Path('/proc').glob('[0-9]*/cwd') if _target(path) == f'/proc/{ran.process.pid}']
        looks = os.sched_getaffinity(int(here[0].parent.name)) if here else set()
    ran.process.kill()
    ran.end()


def test_a_program_that_closes_all_its_files_is_looked_at_to_its_end(tmp_path, cheat):
    script = f'for fd in /proc/$$/fd/*; do fd=${{fd##*/}}; ((fd < 3)) || exec {{fd}}>&-; done; {cheat} honest 0 1; exit'
    ran = Rank(tmp_path, 'bash', '-c', script).end()
    assert ran.code == 7 and ran.watched.ended > 1 and ran.watched.looks[-1].at > 0.3, ran.watched


def test_a_program_that_ends_the_process_that_looks_is_named(tmp_path):
    script = f'pkill -KILL -f "[r]ank.sh .*{tmp_path.name}"; sleep 4'
    ran = Rank(tmp_path, 'bash', '-c', script, tmp_path.name).end(killed=True)
    (tmp_path / 'exit_code').write_text('0')
    (fault,) = faults_of_ranks(ONE, granted(tmp_path), 1)
    assert ran.code == 0 and '.0: nobody looked at it in the ' in fault, fault
    assert faults_of_ranks(ONE, granted(tmp_path), 1, looks_required=False) == []


@pytest.fixture
def control_group():
    """A control group as Slurm makes it for a task."""
    for root in ('/sys/fs/cgroup/pids', '/sys/fs/cgroup/unified', '/sys/fs/cgroup'):
        step = Path(root, f'plumbline_test_{os.getpid()}')
        if Path(root, 'cgroup.procs').exists():
            with suppress(OSError):
                (step / 'task_0').mkdir(parents=True)
        if os.access(step / 'task_0/cgroup.procs', os.W_OK):
            break
    else:
        pytest.skip('cannot make a control group here')
    yield step / 'task_0/cgroup.procs'
    while (step / 'task_0/cgroup.procs').read_text():
        time.sleep(0.1)
    (step / 'task_0').rmdir()
    step.rmdir()


def test_a_process_without_a_parent_or_an_environment_is_found_by_the_control_group(tmp_path, cheat, control_group):
    launcher = ('bash', '-c', f'echo $$ > {control_group} && exec "$@"', 'in_group')
    moved = Rank(tmp_path / 'a', 'env', '-i', cheat, 'daemon', str(SECOND), '1.5', launcher=launcher).end()
    (fault,) = moved.faults
    assert '(cheat, a child process) may run on CPU' in fault and f'bound to CPU {FIRST}' in fault
    honest = Rank(tmp_path / 'b', cheat, 'child', str(FIRST), '1', launcher=launcher).end()
    assert honest.faults == [] and len(honest.watched.looks[-1].threads) == 2


def test_a_lower_priority_and_threads_that_no_look_meets_are_named(tmp_path, cheat):
    """Not beside the others, as they need CPU time."""
    lowered = Rank(tmp_path / 'a', cheat, 'lowered', '0', '1')
    brief = Rank(tmp_path / 'b', cheat, 'brief', str(SECOND), '2')
    (fault,) = lowered.end().faults
    assert f'thread 1 of 1 (cheat) has the scheduling SCHED_BATCH, nice {os.nice(0)}' in fault  # as this process
    (fault,) = brief.end().faults
    assert 'on which CPUs they ran is not known' in fault or f'may run on CPU {SECOND} ' in fault


def test_fewer_busy_threads_than_were_asked_for_are_named(tmp_path, cheat):
    words = 'no more than 2 of the 8 threads that it was asked for (OMP_NUM_THREADS) were busy'
    lazy = Rank(tmp_path / 'a', cheat, 'crowd', '2', '20', placement=ALL, OMP_NUM_THREADS='8')
    enough = Rank(tmp_path / 'b', cheat, 'crowd', '2', '20', placement=ALL, OMP_NUM_THREADS='2')
    lazy.see(words)
    lazy.process.terminate()
    wait_for(lambda: all(got.watched.looks[-1].at > 3 for got in granted(enough.folder).values()))  # when it is judged
    enough.process.terminate()
    (fault,) = lazy.end().faults
    assert words in fault
    assert enough.end().faults == []


@each_row('number', [signal.SIGSEGV, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_ends_the_program_reaches_the_caller(tmp_path, number):
    assert Rank(tmp_path, 'bash', '-c', f'sleep 0.2; kill -{number.value} $$').end().code == -number


def test_a_signal_to_the_rank_is_handled_by_the_program(tmp_path):
    ran = Rank(tmp_path, 'bash', '-c', 'trap "exit 5" USR1; echo > ready; while :; do sleep 0.01; done')
    while not (tmp_path / 'ready').exists() and ran.process.poll() is None:
        time.sleep(0.01)
    ran.process.send_signal(signal.SIGUSR1)
    assert ran.end().code == 5


def test_nothing_is_left_when_the_program_has_ended(tmp_path):
    ran = Rank(tmp_path, 'bash', '-c', 'sleep 0.1; exit 3').end()
    open_here = [path for path in Path('/proc').glob('[0-9]*/fd/*') if _target(path).startswith(str(tmp_path))]
    assert (ran.code, open_here) == (3, [])


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ''


@each_row(
    ('change', 'shown'),
    [
        ('CUDA_VISIBLE_DEVICES=0', 'CUDA_VISIBLE_DEVICES=0'),
        ('unset CUDA_VISIBLE_DEVICES;', 'no CUDA_VISIBLE_DEVICES'),
        ('', None),
        ('CUDA_VISIBLE_DEVICES=GPU-bb', None),
    ],
)
def test_the_gpus_that_a_wrapper_changes_are_named(tmp_path, cheat, change, shown):
    (tools := tmp_path / 'bin').mkdir(exist_ok=True)
    gpus = 'echo "0, GPU-aa, 00000000:07:00.0, A"; echo "1, GPU-bb, 00000000:46:00.0, A"'
    (tools / 'nvidia-smi').write_text(f'#!/bin/bash\n{gpus}\n')
    (tools / 'nvidia-smi').chmod(0o755)
    asked = Placement(1, ((FIRST,),), devices=((1,),), gpu='cuda')
    path = {'PATH': f'{tools}:{os.environ["PATH"]}', 'CUDA_VISIBLE_DEVICES': '0'}
    work = f'{change} {cheat} honest 0 0.5; exit'
    faults = Rank(tmp_path / f'of {change}', 'bash', '-c', work, placement=asked, **path).end().faults
    assert len(faults) == (shown is not None)
    assert all(f'has {shown} since ' in fault and 'was given CUDA_VISIBLE_DEVICES=1' in fault for fault in faults)
