# SPDX-License-Identifier: BSD-3-Clause
"""What the looks at a running rank say: which threads were where they should not be, and how much was looked at."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import faults_of_ranks, plan_of
from rows import each_row
from scratch import ROOT

from checks.core.placement import Placement
from checks.core.reading.binding import Granted
from checks.core.reading.trials import read_trials
from checks.core.reading.watched import parse, parse_cpu_list

SECOND = 1_000_000_000  # of the times in nanoseconds
BOUND = frozenset({4, 5})
START = ['look 0', '. 100 0 0 4-5 bash']  # the wrapper, which becomes the program


def thread(number, ran, cpus, waited=0.0, process='.'):
    """A thread that so far ran and waited for so many seconds."""
    return f'{process} {number} {int(ran * SECOND)} {int(waited * SECOND)} {cpus} xhpl'


def at(seconds, *lines):
    return [f'look {int(seconds * 1e6)}', *lines]


def faults(*lines, bound=BOUND, ours=None):
    return parse([*START, *lines]).faults(bound, ours or {})


def test_threads_that_run_one_after_the_other_share_no_cpu():
    """Of likwid-bench 5.2.2: its main thread finds the number of repetitions, then waits for those that measure."""
    first = at(2.551659, '. 8118 1547291537 277562 0 likwid-bench')
    then = ['. 8118 2829639057 1992530 0 likwid-bench', '. 8126 1285454324 142503 0 likwid-bench',
            '. 8127 1275713905 9809592 1 likwid-bench']  # fmt: skip
    bound = frozenset({0, 1})
    assert parse([*first, *at(5.117584, *then)]).faults(bound, {}) == []
    waited = ['. 8118 2829639057 1282000000 0 likwid-bench', '. 8126 1285454324 1280000000 0 likwid-bench']
    (said,) = parse([*first, *at(5.117584, *waited)]).faults(bound, {})
    assert said.startswith('2 busy threads share CPU 0 since 5.12 s')


@each_row(
    ('looks', 'said'),
    [
        # all threads where they belong
        ([(1, '4-5', '4-5'), (2, '4-5', '4-5')], []),
        # since when, until when, and how many
        ([(1, '4', '5'), (2, '4', '17')],
         ['thread 2 of 2 (xhpl) may run on CPU 17 since 2.00 s; the rank was bound to CPU 4-5']),
        ([(1, '4', '0-63'), (2, '4', '0-63'), (3, '4', '5')],
         ['thread 2 of 2 (xhpl) may run on CPU 0-63 from 1.00 to 2.00 s']),
        # hwloc, which looks at each CPU in turn while MPI starts
        ([(0.1, '0', '5'), (0.2, '1', '5'), (0.3, '2', '5'), (3, '4', '5')], []),
        ([(0.1, '0', '5'), (0.2, '0', '5'), (3, '4', '5')], []),
        ([(1, '0-63', '0-63'), (2, '0-63', '0-63')], ['2 of 2 threads (xhpl) may run on CPU 0-63 since 1.00 s']),
        ([(1, '2', '3'), (2, '2', '3')],
         ['thread 1 of 2 (xhpl) may run on CPU 2', 'thread 2 of 2 (xhpl) may run on CPU 3']),
        # more busy threads than CPUs
        ([(1, '4', '4'), (2, '4', '4')], ['2 busy threads share CPU 4 since 1.00 s; the rank was bound to CPU 4-5']),
    ],
)  # fmt: skip
def test_threads_that_are_elsewhere_or_share_a_cpu_are_named(looks, said):
    lines = []
    for seconds, main, helper in looks:
        lines += at(seconds, thread(100, seconds, main), thread(101, seconds, helper))
    found = faults(*lines)
    assert len(found) == len(said) and all(words in fault for words, fault in zip(said, found, strict=True)), found


WRAPPER = thread(100, 0.001, '4', waited=0.9)
EARLY = [thread(number, 1, '4') for number in (100, 101, 102)]


@each_row(
    ('lines', 'said'),
    [
        (at(1, thread(100, 1, '4'), thread(101, 0.05, '0-63')), ''),  # one that sleeps may be anywhere
        # sixteen that wait for their CPU count
        (at(1, *(thread(number, 1 / 16, '4', 15 / 16) for number in range(100, 116))), '16 busy threads share CPU 4'),
        # a wrapper and its child that both wait while others have the CPU share nothing, nor where one starts the other
        (at(1, WRAPPER, thread(7, 0.0003, '4', 0.6, process='7')), ''),
        (at(1, WRAPPER, thread(101, 0.25, '4', 0.75)), ''),
        (
            [*at(0.02, *EARLY), *at(0.06, *EARLY)],
            '',
        ),  # of OpenMP, before it binds them
        # the mask of one that ended while it was looked at is empty, as the kernel has no file of it (watch.sh)
        ([*at(1, thread(100, 1, '4')), *at(2, thread(100, 2, '4'), thread(101, 1, ''))], ''),
        (at(4, thread(100, 4, '4'), thread(100, 4, '4')), ''),  # a look that meets one twice
    ],
)
def test_only_threads_that_work_at_the_same_time_are_judged(lines, said):
    assert ''.join(faults(*lines)).startswith(said) if said else faults(*lines) == []


@each_row(
    ('ran', 'busy'),
    [  # parts of a second in which each of two threads ran on the CPU, for which both waited all the time
        (0.009, False),  # 1.8 %: others than the rank have the CPU
        (0.011, True),
        (0.4, True),
    ],
)
def test_threads_share_a_cpu_only_where_they_use_some_of_it(ran, busy):
    found = faults(*at(1, *(thread(number, ran, '4', 1) for number in (100, 101))))
    assert len(found) == busy and all('2 busy threads share CPU 4' in fault for fault in found)
    of_two = [thread(number, ran, '4-5', 1) for number in (100, 101, 102)]
    assert len(faults(*at(1, *of_two))) == (3 * ran >= 0.04)


@each_row(
    ('ran', 'cpus', 'said'),
    [  # parts of a second in which each of the threads ran, for which all waited otherwise; the rank has CPU 4 or 4-5
        ((0.5, 0.5), '4', 'the program has more busy threads than the rank has CPUs'),
        ((0.8, 0.1), '4', 'the program has more busy threads than the rank has CPUs'),
        ((0.2, 0.15), '4', 'other programs had 65 % of that CPU time: the node is overloaded'),
        ((0.4, 0.1), '4', ''),  # one that works, and a helper that waits for the CPU because others have it
        ((0.2, 0.15), '4-5', 'no variable explains it: look for taskset'),  # a wrong mask is one under load, too
    ],
)
def test_a_machine_that_is_overloaded_is_told_from_a_wrong_mask(ran, cpus, said):
    threads = [thread(100 + number, one, '4', 1 - one) for number, one in enumerate(ran)]
    found = faults(*at(1, *threads), bound=parse_cpu_list(cpus))
    assert len(found) == bool(said) and all(said in fault for fault in found), found
    assert all('taskset' not in fault for fault in found) or cpus == '4-5'


@each_row(
    ('lines', 'said'),
    [  # bound to CPUs 4 and 5; in hundredths of a second, as the kernel has it
        (at(4, thread(100, 4, '4'), thread(101, 4, '5'), 'spent . 870'), None),  # 8.7 s of 8 s: a look takes time
        (at(4, thread(100, 4, '4'), 'spent . 500', 'spent 7 400'), 'it used 9.0 s of CPU time in 4.0 s'),
        (at(4, thread(100, 2, '4'), 'spent . 390'), None),  # half of it at most was of others
        (at(4, thread(100, 1, '4'), 'spent . 400'), '3.0 of 4.0 s of its CPU time were of threads or processes'),
        (at(4, thread(100, 0.1, '4'), 'spent . 50'), None),  # a program that starts by a script
        (at(4, thread(100, 4, '4'), 'sched . 100 5 0'), 'thread 1 of 1 (xhpl) has the scheduling SCHED_IDLE, nice 0'),
        (at(4, thread(100, 0.1, '4'), 'sched . 100 0 19'), None),  # a thread that sleeps may have any
    ],
)
def test_cpu_time_and_scheduling_that_a_rank_should_not_have_are_named(lines, said):
    found = parse(['look 0', 'spent . 0', *lines]).faults(BOUND, {})
    assert len(found) == (said is not None) and all(said in fault for fault in found), found


WORKS = ['look 0', *at(10, thread(100, 10, '4'))]


@each_row(
    ('lines', 'after', 'said'),
    [
        (['look 0'], 1.9, ''),
        (['look 0'], 3, 'nobody looked at it in the 3.0 s that it ran'),  # what looks was ended at once
        (['look 0', 'end 3000000 9'], 0, 'nobody looked at it in the 3.0 s that it ran'),
        (['look 0', *at(3, thread(100, 3, ''))], 3, 'nobody looked at it in the 3.0 s that it ran'),  # one that ended
        (WORKS, 22, ''),  # pauses grow
        (WORKS, 23, 'nobody looked at it in the last 23.0 of the 33.0 s'),
        ([*WORKS, 'end 33000000 9'], 0, 'in the last 23.0 of the 33.0 s'),
        (['look 0', *at(0.02, *(thread(n, 1e-8, '4') for n in range(64)))], 18, ''),  # looks at many threads cost time
        (['look 0', *at(9, thread(100, 0, '4')), 'end 9100000 9'], 0, 'this kernel does not tell which ones did'),
        ([*WORKS, 'look 15000000', 'end 15100000 9'], 0, ''),  # it ended during that look
    ],
)
def test_a_program_at_which_nobody_looked_is_named(lines, after, said):
    fault = parse(lines).unseen(after)
    assert bool(fault) == bool(said) and said in fault


@each_row(
    ('asked', 'workers', 'seconds', 'told'),
    [(8, 5, 4, True), (8, 6, 4, False), (8, 2, 2.9, False), (1, 1, 4, False), (4, 0, 4, True)],
)
def test_fewer_threads_than_were_asked_for_are_named(asked, workers, seconds, told):
    working = [thread(100 + number, seconds, '4-5') for number in range(workers)]
    found = faults(f'threads {asked}', *at(seconds, *working, thread(99, 0.1, '4-5')))
    assert any(f'no more than {workers} of the {asked} threads' in fault for fault in found) == told


def test_at_most_three_faults_of_a_rank_are_shown():
    found = faults(*at(1, *(thread(number, 1, f'{number}') for number in range(100, 110))))
    assert len(found) == 4 and found[3] == 'and 7 more'


def test_variables_that_bind_are_named_unless_they_are_ours():
    bindings = ['set GOMP_CPU_AFFINITY=0-3', 'set OMP_PROC_BIND=close', 'set HYDRA_BINDING=none']
    lines = [*bindings, *at(1, thread(100, 1, '7'))]
    (fault,) = faults(*lines, ours={'OMP_PROC_BIND': 'close'})
    assert fault.endswith('(set in its environment: GOMP_CPU_AFFINITY=0-3)')
    (fault,) = faults(*lines, ours={'OMP_PROC_BIND': 'close', 'GOMP_CPU_AFFINITY': '0-3'})
    assert 'no variable explains it: look for taskset, numactl' in fault


@each_row(
    ('lines', 'said'),
    [
        (START, 'not looked at'),  # killed with all of its process group
        (['look 0', 'end 31000 200'], 'too short to look at: 0.03 s'),
        ([*START, *at(0.02, thread(100, 0, '4')), 'end 31000 200'], 'not looked at: this kernel does not tell'),
        ([*START, *at(0.02, thread(100, 1, '4'))], '1 look, the last after 0.02 s'),
        ([*START, *at(0.02, thread(100, 1, '4')), 'end 31000 9'], '1 look, the last after 0.02 of 0.03 s'),
        (['children unknown', *START, *at(0.02, thread(100, 1, '4'))], 'this kernel does not tell its children'),
    ],
)
def test_how_much_was_looked_at(lines, said):
    assert said in str(parse(lines))


ENTRY = st.tuples(st.sampled_from(['.', '200']), st.integers(100, 104), st.sampled_from(['4', '5', '4-5']))
HISTORY = st.lists(st.lists(ENTRY, max_size=6, unique_by=lambda one: one[:2]), max_size=6)


@given(HISTORY, st.integers(0, 5), st.integers(0, 2000))
def test_a_fault_is_never_found_in_a_part_alone_and_no_text_is_too_short(history, outside, cut):
    """Threads that stay within the rank's CPUs are never said to be elsewhere; one that leaves is always said to be."""
    lines = ['look 0']
    for second, threads in enumerate(history, start=1):
        lines += at(second, *(thread(number, second, cpus, process=process) for process, number, cpus in threads))
    assert not any('may run' in fault for fault in parse(lines).faults(BOUND, {}))
    left = [*lines, *at(len(history) + 1, thread(99, 1, f'{outside + 6}'))]
    assert any(f'may run on CPU {outside + 6} ' in fault for fault in parse(left).faults(BOUND, {}))
    text = '\n'.join(lines)[:cut]  # of a job that was killed
    assert not any('may run' in fault for fault in parse(text.splitlines()).faults(BOUND, {}))


@given(st.lists(st.text(alphabet='look set.end sees=0-9,4 \t', max_size=30)))
def test_no_text_is_misread_in_a_way_that_ends_the_reading(lines):
    seen = parse(lines)
    assert str(seen) and seen.faults(BOUND, {}) is not None


@pytest.mark.parametrize(
    ('fewest', 'said'),
    [
        (['look 0', 'end 10000 1'], 'too short to look at: 0.01 s'),
        ([*START, *at(0.02, thread(100, 1, '4'))], '1 look, the last after 0.02 s'),
    ],
)
def test_the_trial_with_the_fewest_looks_stays_in_the_record(tmp_path, fewest, said):
    long = [*START, *at(0.02, thread(100, 1, '4')), *at(0.05, thread(100, 2, '4'))]
    for trial, lines in enumerate((long, fewest, long), start=1):
        run = tmp_path / f'trial_{trial}/run'
        run.mkdir(parents=True)
        for name, content in {'stdout': ['done'], 'exit_code': ['0'], 'binding.n1.0': ['4,5', *lines]}.items():
            (run / name).write_text('\n'.join([*content, '']))
    record = read_trials(tmp_path, plan_of('Demo', trials=3), 'n1')
    assert record.placement['actual'] == {'n1.0': '4,5'}
    assert record.placement['watched'] == {'n1.0': said}


@each_row(
    ('node', 'host', 'nodes', 'slurm', 'said'),
    [
        ('n1', 'n1.cluster.org', ['n1'], 'n1', None),
        ('n1', 'vm', ['n1'], 'vm', None),  # virtual nodes
        ('n1', 'n2', ['n1'], 'n1', 'rank n1.0 ran on host n2; the job says n1, which is host n1'),
        ('n7', 'n1', ['n1'], 'n1', 'rank n7.0 says that it ran on n7; its host is n1, the job had n1'),
        ('h1', 'h1', ['n1'], 'h1', None),  # of Hydra, whose ranks know their host alone
        ('n7', 'n1', [], 'n7', 'rank n7.0 ran on host n1; the job says n7, which is host n7'),
    ],
)
def test_the_node_of_the_job_is_compared_with_that_of_the_rank(node, host, nodes, slurm, said):
    got = {f'{node}.0': Granted(frozenset({0}), host=host)}
    one = Placement(1, ((0,),))
    assert faults_of_ranks(one, got, 1, nodes, host_of=lambda _: slurm) == ([said] if said else [])
    assert faults_of_ranks(one, got, 1, nodes) == [], 'no scheduler chose the nodes'


# A program whose looks take COST microseconds each, by a clock that is not real, for ten minutes
LOOKS = """
source WATCH
pause=20000 wait=20000 own=0 now=0
while ((now + wait < 600000000)); do
    ((now += wait, own += COST, pause < 6000000 && (pause += pause / 2)))
    _wait $((own + COST)) $now
    echo $now $own
done
"""


@pytest.mark.parametrize('cost', [300, 19_000, 2_000_000])
def test_looks_take_a_thousandth_of_a_cpu_whatever_one_costs(cost):
    script = LOOKS.replace('COST', str(cost)).replace('WATCH', str(ROOT / 'checks/core/job/parts/watch.sh'))
    said = subprocess.run(['bash', '-c', script], capture_output=True, text=True, check=True).stdout
    looks = [tuple(map(int, line.split())) for line in said.splitlines()]
    assert looks[0] == (20_000, cost)
    assert all(own <= max(60_000, now / 1000) for now, own in looks[1:])
    assert len(looks) > 60 or looks[-1][1] > 300_000, 'they are fewer than they may be'
