# SPDX-License-Identifier: BSD-3-Clause
"""How long a session should take, how far it is, and that it says so while nothing ends."""

import threading
import time

from rows import each_row

from ci.progress import Progress, Seconds, budgets_in

RUN = '[ RUN      ] {} /{} @s:p+e'
OK = '[       OK ] ({}/{}) {} /{} @s:p+e'
A, B = ('aa', 's:p+e'), ('bb', 's:p+e')


class Clock:
    """A clock that goes on only where a test says so."""

    passed = 0.0

    def __call__(self):
        return 1000.0 + self.passed


def told(seconds, capsys, *lines, then=(), **options):
    """The lines that are printed after lines of (seconds, text), and `then` signs of life."""
    clock = Clock()
    progress = Progress(seconds, clock=clock, **options)
    for clock.passed, line in lines:
        progress.follow(line)
    for clock.passed, what in then:
        progress.say(what)
    return capsys.readouterr().out.splitlines()


def test_what_a_case_took_counts_before_the_budget_of_its_check(tmp_path):
    seconds = Seconds.read(tmp_path)
    seconds.budgets = {'aa': 100.0, 'bb': 30.0}
    assert seconds.of_session([A, B]) == 130
    seconds.learn({A: 40.0}, elapsed=50)
    assert seconds.of_session([A, B]) == 70
    seconds.learn({A: 40.0, B: 60.0}, elapsed=50)  # two jobs at once
    assert seconds.of_session([A, B]) == 50
    seconds.write(tmp_path)
    assert Seconds.read(tmp_path) == seconds
    (tmp_path / 'seconds-of-cases.json').write_text('{"cut')
    assert Seconds.read(tmp_path) == Seconds()


def test_budgets_are_those_that_checks_tell():
    of_check, of_file = budgets_in(['aa 30 /a b.py\n', 'bb 0 /c.py\n', 'aa 60 /a b.py\n'])
    assert of_check == {'aa': 63.0, 'bb': 3.0} and of_file == {'/a b.py': 33.0, '/c.py': 3.0}
    assert budgets_in([]) == ({}, {})


def test_where_one_job_runs_at_a_time_a_case_begins_when_the_one_before_it_ends(capsys):
    lines = told(
        Seconds(budgets=dict.fromkeys(('aa', 'bb', 'cc'), 20.0)), capsys,
        (0, RUN.format('A', 'aa')), (1, RUN.format('B', 'bb')), (2, RUN.format('C', 'cc').replace('s:p', 's:q')),
        (30, OK.format(1, 3, 'A', 'aa')), (42, OK.format(2, 3, 'B', 'bb')),
        (50, OK.format(3, 3, 'C', 'cc').replace('s:p', 's:q')), at_once={'s:p': 1},
    )  # fmt: skip
    assert [line.partition(' in ')[2].partition(',')[0] for line in lines] == ['30 s', '12 s', '48 s']
    assert '[1/3] OK    A @s:p+e in 30 s, expected 20 s' in lines[0]


@each_row(
    'took, at_once, elapsed, expected',
    [
        ({}, 1.0, 20, 2.0), ({}, 3.0, 80, 1.0), ({}, 3.0, 0, 3.0), (dict.fromkeys('wxyz', 1.0), 3.0, 20, 3.0),
        (dict.fromkeys('wx', 1.0), 3.0, 20, 2.0),
    ],
)  # fmt: skip
def test_how_many_jobs_run_at_once_is_learned_from_half_of_the_cases_at_least(took, at_once, elapsed, expected):
    """Two cases of 20 s each took `elapsed` seconds; `took`: what is known of other ones."""
    seconds = Seconds(dict(took), at_once=at_once)
    seconds.learn(dict.fromkeys([A, B], 20.04), elapsed)
    assert round(seconds.at_once, 1) == expected and seconds.took['aa s:p+e'] == 20.0


@each_row(
    'took, budgets, words',
    [
        ({'aa s:p+e': 60.0}, {'bb': 60.0}, 'about 2 min by their last jobs or budgets'),
        ({}, {'aa': 120.0}, 'about 2 min by their budgets'), ({'aa s:q+e': 60.0}, {}, ''),
    ],
)  # fmt: skip
def test_what_the_estimate_is_made_of_is_told(took, budgets, words):
    assert Seconds(took, budgets).words_for([A, B]) == words


@each_row('at, left', [(0, '5 min'), (30, '4 min 30 s'), (200, '3 min')])
def test_what_the_first_case_ran_is_no_longer_left(at, left, capsys):
    """A of 2 min runs, B of 3 min waits. At 200 s, A is 80 s late."""
    seconds = Seconds(budgets={'aa': 120.0, 'bb': 180.0})
    lines = (0, RUN.format('A', 'aa')), (0, RUN.format('B', 'bb'))
    (line,) = told(seconds, capsys, *lines, then=[(at, 'waits')])
    assert line.endswith(f'[0/2] waits; about {left} left')


@each_row('budget, left', [(60.0, '3 min'), (61.0, '5 min 54 s')])
def test_how_slow_the_cases_were_counts_from_a_minute_on(budget, left, capsys):
    """A took 120 s; B should take 3 min: 120 / 61 times as long are 354 s."""
    seconds = Seconds(budgets={'aa': budget, 'bb': 180.0})
    lines = (0, RUN.format('A', 'aa')), (0, RUN.format('B', 'bb')), (120, OK.format(1, 2, 'A', 'aa'))
    (line,) = told(seconds, capsys, *lines)
    assert line.endswith(f'; about {left} left')


def test_a_case_of_which_nothing_is_expected_has_its_time_and_no_other_words(capsys):
    lines = (0, RUN.format('A', 'aa')), (7384.9, OK.format(1, 1, 'A', 'aa').replace('      OK', '    FAIL'))
    assert told(Seconds(), capsys, *lines) == ['  02:03:04 [1/1] FAIL  A @s:p+e in 2 h 3 min']
    ended = OK.format(3, 4, 'B', 'bb').replace('      OK', '   XFAIL')
    assert told(Seconds(), capsys, (1, ended)) == ['  00:00:01 [3/4] XFAIL B @s:p+e']


@each_row(
    'lines, total',
    [([OK.format(3, 9, 'B', 'bb'), RUN.format('A', 'aa')], 9), ([OK.format(3, 3, 'B', 'bb'), RUN.format('A', 'aa')], 4),
     ([RUN.format('A', 'aa'), 'else'], 1)],
)  # fmt: skip
def test_how_many_cases_there_are(lines, total, capsys):
    (line,) = told(Seconds(), capsys, *((0, line) for line in lines), then=[(0, 'waits')])[-1:]
    assert f'/{total}] waits' in line


def test_a_minute_without_a_line_has_a_sign_of_life_and_what_was_aborted_leaves_no_time(capsys):
    seconds = Seconds(budgets={'aa': 100.0})
    with Progress(seconds, heartbeat=0.02, waits=lambda: 'Licenses of 14', clock=Clock()) as progress:
        progress.follow(RUN.format('A', 'aa'))
        for _ in range(500):
            if 'to end' in (printed := capsys.readouterr().out):
                break
            time.sleep(0.01)
    assert '1 case to end, first A @s:p+e; in the queue: Licenses of 14; about 1 min 40 s left' in printed
    progress.follow(RUN.format('B', 'bb'))
    progress.follow(OK.format(1, 2, 'B', 'bb').replace('   OK', 'ABORT'))
    last = capsys.readouterr().out.splitlines()[-1]
    assert 'ABORT' in last and 'left' not in last


def test_the_signs_of_life_go_on_where_a_case_ends_while_the_queue_is_asked(capsys):
    asked, before = [], set(threading.enumerate())

    def waits():
        asked.append(1)
        if len(asked) == 1:
            progress.follow(OK.format(1, 2, 'A', 'aa'))
        return ''

    with Progress(Seconds(), heartbeat=0.02, waits=waits) as progress:
        progress.follow(RUN.format('A', 'aa'))
        progress.follow(RUN.format('B', 'bb'))
        for _ in range(500):
            if len(asked) > 2:
                break
            time.sleep(0.01)
    assert len(asked) > 2 and '1 case to end, first B @s:p+e' in capsys.readouterr().out
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before
