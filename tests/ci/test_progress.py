# SPDX-License-Identifier: BSD-3-Clause
"""How long a session should take, how far it is, and that it says so while nothing ends."""

import time

from rows import each_row

from ci.progress import Progress, Seconds, budgets_in
from plumbline.units import in_words

RUN = '[ RUN      ] {} /{} @s:p+e'
OK = '[       OK ] ({}/{}) {} /{} @s:p+e'
A, B = ('aa', 's:p+e'), ('bb', 's:p+e')


@each_row(
    ('seconds', 'words'),
    [(0.4, '0 s'), (59.4, '59 s'), (60, '1 min'), (510, '8 min 30 s'), (7500, '2 h 5 min'), (7200, '2 h')],
)
def test_times_in_words(seconds, words):
    assert in_words(seconds) == words


def test_what_a_case_took_counts_before_the_budget_of_its_check(tmp_path):
    seconds = Seconds.read(tmp_path)
    seconds.budgets = {'aa': 100.0, 'bb': 30.0}
    assert seconds.of_session([A, B]) == 130
    assert seconds.words_for([A, B]) == 'about 2 min 10 s by their budgets'
    assert seconds.words_for([]) == ''
    seconds.learn({A: 40.0}, elapsed=50)
    assert seconds.of_session([A, B]) == 70
    seconds.learn({A: 40.0, B: 60.0}, elapsed=50)  # two jobs at once
    assert seconds.of_session([A, B]) == 50
    assert seconds.words_for([A, B]) == 'about 50 s by their last jobs'
    seconds.write(tmp_path)
    assert Seconds.read(tmp_path) == seconds
    (tmp_path / 'seconds-of-cases.json').write_text('{"cut')
    assert Seconds.read(tmp_path) == Seconds()


def test_budgets_are_those_that_checks_tell():
    assert budgets_in(['aa 30\n', 'bb 0\n', 'aa 60\n']) == {'aa': 63.0, 'bb': 3.0}
    assert budgets_in([]) == {}


def test_a_line_for_each_case_that_ends_with_what_is_left(capsys):
    progress = Progress(Seconds(budgets={'aa': 60.0, 'bb': 90.0}))
    for line in (RUN.format('A %x=1', 'aa'), RUN.format('B', 'bb'), OK.format(1, 2, 'A %x=1', 'aa')):
        progress.follow(line)
    (line,) = capsys.readouterr().out.splitlines()
    assert '00:00:00 [1/2] OK    A %x=1 @s:p+e in 0 s, expected 1 min; about 1 min 30 s left' in line
    progress.follow(OK.format(2, 2, 'B', 'bb'))
    assert capsys.readouterr().out.rstrip().endswith('[2/2] OK    B @s:p+e in 0 s, expected 1 min 30 s')


def test_a_sign_of_life_names_what_runs(capsys):
    with Progress(Seconds(), heartbeat=0.02) as progress:
        progress.follow(RUN.format('A', 'aa'))
        printed = ''
        for _ in range(500):
            if 'first A @s:p+e' in (printed := printed + capsys.readouterr().out):
                break
            time.sleep(0.01)
    assert '1 case to end, first A @s:p+e' in printed
    progress._clock.join(5)
    assert not progress._clock.is_alive()


def test_what_is_left_is_scaled_by_how_late_the_cases_before_were(capsys):
    progress = Progress(Seconds(budgets={'aa': 120.0, 'bb': 90.0}))
    for line in (RUN.format('A', 'aa'), RUN.format('B', 'bb')):
        progress.follow(line)
    progress._waiting[A] = 'A', time.monotonic() - 240
    progress.follow(OK.format(1, 2, 'A', 'aa'))
    assert 'in 4 min, expected 2 min; about 3 min left' in capsys.readouterr().out


def test_a_case_that_is_late_is_told_as_late(capsys):
    with Progress(Seconds(budgets={'aa': 100.0}), heartbeat=0.02) as progress:
        progress.follow(RUN.format('A', 'aa'))
        progress._waiting[A] = 'A', time.monotonic() - 300
        printed = ''
        for _ in range(500):
            if 'late' in (printed := printed + capsys.readouterr().out):
                break
            time.sleep(0.01)
    assert 'first A, late: expected 1 min 40 s, 5 min by now' in printed


def test_where_one_job_runs_at_a_time_a_case_begins_when_the_one_before_it_ends(capsys, monkeypatch):
    progress = Progress(Seconds(budgets=dict.fromkeys(('aa', 'bb', 'cc'), 20.0)), at_once={'s:p': 1})
    now = time.monotonic()
    for later, line in [
        (0, RUN.format('A', 'aa')), (1, RUN.format('B', 'bb')), (2, RUN.format('C', 'cc').replace('s:p', 's:q')),
        (30, OK.format(1, 3, 'A', 'aa')), (42, OK.format(2, 3, 'B', 'bb')),
        (50, OK.format(3, 3, 'C', 'cc').replace('s:p', 's:q')),
    ]:  # fmt: skip
        monkeypatch.setattr('time.monotonic', lambda seconds=later: now + seconds)
        progress.follow(line)
    took = [line.partition(' in ')[2].partition(',')[0] for line in capsys.readouterr().out.splitlines()]
    assert took == ['30 s', '12 s', '48 s']
