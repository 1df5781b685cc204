# SPDX-License-Identifier: BSD-3-Clause
"""The jobs that a case gets beside its first one."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from rows import each_row
from stand_ins import Slurm, site_of

from ci import rerun as module
from ci.cases import cases_in
from ci.rerun import complete, look_again, rerun, retry
from plumbline.site.sites import Site
from postprocess.verdicts.verdict import Again

SITE = Site('s', '', (), {}, {})


def case(left: int = 0, of: int = 0, result: str = 'pass') -> dict:
    facts = {}
    if left:
        facts = {'trials_not_run': str(left), 'trials_left_out': f'{left} of {of} trials: one takes up to 30 s'}
    return {
        'unique_name': 'HPL', 'display_name': 'HPL', 'hashcode': 'hash', 'system': 's', 'partition': 'p',
        'environ': 'e', 'result': result, 'fixture': False, 'record': {'provenance': facts},
    }  # fmt: skip


class Jobs:
    """A session whose further jobs end as `left` says, one after the other."""

    distributes = False

    def __init__(self, *left: int):
        self.left, self.asked = list(left), []

    def run_again(self, content, wanted, deadline, part, trials, purpose):
        assert purpose == 'rest', 'no further job of a case in doubt'
        self.wanted = wanted
        self.asked.append((part, *trials.values()))
        if self.left:
            content['runs'].append({'testcases': [case(self.left.pop(0), *trials.values())]})
        return len(content['runs']) > len(self.asked)


def test_a_failed_case_that_runs_once_more_is_no_further_job_of_a_case_in_doubt():
    asked = []
    session = SimpleNamespace(run_again=lambda content, wanted, deadline, part, purpose: asked.append((part, purpose)))
    retry(session, session_of(case(result='fail') | {'fail_phase': 'run', 'fail_reason': 'crashed'}), [], 0.0)
    assert asked == [('-retry', 'rest')]


def session_of(first: dict) -> dict:
    return {'runs': [{'testcases': [first]}]}


def test_trials_run_in_further_jobs_until_all_have_run():
    jobs, content = Jobs(2, 0), session_of(case(4, 5))
    assert complete(jobs, content, SITE, time.monotonic() + 60) == []
    assert jobs.asked == [('-part2', 4), ('-part3', 2)]
    assert len(cases_in(content, every_run=True)) == 3
    for whole in (case(), case() | {'record': None}):
        assert complete(none := Jobs(), session_of(whole), SITE, time.monotonic() + 60) == none.asked == []


def test_trials_that_no_job_ran_are_a_problem_of_the_session():
    for jobs, deadline in ((Jobs(0), time.monotonic() - 1), (Jobs(), time.monotonic() + 60)):
        (problem,) = complete(jobs, session_of(case(4, 5)), SITE, deadline)
        assert 'HPL: 4 of 5 trials' in problem
    assert jobs.asked == [('-part2', 4)], 'a job that ran nothing is the last one'


def test_trials_of_a_further_job_that_was_aborted_are_a_problem_of_the_session():
    jobs, content = Jobs(), session_of(case(7, 10))
    aborted = {'testcases': [case(result='abort')]}
    jobs.run_again = lambda content, *_, **__: content['runs'].append(aborted)
    assert complete(jobs, content, SITE, time.monotonic() + 60) == [
        'HPL: 7 of 10 trials: one takes up to 30 s; no job ran them'
    ]


# Cases in doubt


class Doubts:
    """A session of a site whose judge asks for `steps`, one after the other; what runs is written down."""

    def __init__(self, monkeypatch, *steps: list[Again], free=('n1', 'n2', 'n3'), distributes=False, scheduler='slurm'):
        self.results, self.started, self.distributes = '/nowhere', time.time(), distributes
        self.steps, self.ran, self.stored = list(steps), [], 0
        monkeypatch.setattr(module, 'in_doubt', lambda results, uuid: self.steps.pop(0) if self.steps else ())
        self.site, self.free = site_of(scheduler), free

    def run_again(self, content, wanted, deadline, part, jobs, *, purpose=''):
        self.ran.append((part, jobs, purpose, list(wanted.values())))
        self.deadline = deadline
        return True

    def store(self):
        self.stored += 1

    def rerun(self, seconds=3600.0):
        content = session_of(case() | {'record': {'provenance': {}, 'job': {'nodes': ['n1']}}})
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            Slurm(Path(folder)).says('sinfo', ''.join(f'p*|{node}|idle\n' for node in self.free))
            patch.setenv('PATH', f'{folder}:/usr/bin:/bin')
            of = content | {'session_info': {'uuid': 'u'}}
            rerun(self, of, self.site, time.monotonic() + seconds, self.store)
        return self.ran


def again(jobs: int, on: str = '', not_on: tuple[str, ...] = ('n1',), case_id: int = 7) -> Again:
    return Again(case_id, 'p', 'e', 'HPL', jobs, on, not_on)


def test_cases_in_doubt_run_again_elsewhere_until_nothing_is_in_doubt(monkeypatch):
    session = Doubts(monkeypatch, [again(1)], [again(2, not_on=())], [])
    assert session.rerun() == [('-rerun1', 1, '', [['--exclude=n1']]), ('-rerun2', 2, '', [[]])]
    assert session.stored == 2, 'each step is judged by what the store then holds'


def test_jobs_of_a_case_in_one_step_are_runs_of_their_own(monkeypatch):
    on_node, elsewhere = again(2, on='n1'), again(2)
    session = Doubts(monkeypatch, [elsewhere, on_node, elsewhere, again(1, case_id=8)])
    assert session.rerun() == [
        ('-rerun1', 2, '', [['--exclude=n1']]),
        ('-rerun1-2', 2, 'node', [['--nodelist=n1']]),
        ('-rerun1-3', 2, '', [['--exclude=n1']]),
        ('-rerun1-4', 1, '', [['--exclude=n1']]),
    ]


def test_a_look_at_a_node_runs_only_where_the_node_is_free_and_can_be_asked_for(monkeypatch):
    look = replace(again(1, on='n2', not_on=()), if_free=True)
    assert Doubts(monkeypatch, [look]).rerun() == [('-rerun1', 1, 'node', [['--nodelist=n2']])]
    assert Doubts(monkeypatch, [look], free=('n1',)).rerun() == []
    assert Doubts(monkeypatch, [look], distributes=True).rerun() == []
    session = Doubts(monkeypatch, [look], scheduler='local')
    assert session.rerun() == [] and session.stored == 0


def test_a_case_of_a_distributed_session_stays_on_its_node(monkeypatch):
    assert Doubts(monkeypatch, [again(1)], distributes=True).rerun()[0][3] == [['--nodelist=n1']]


@pytest.mark.parametrize(('lasted', 'left', 'until'), [(10, 7200, 1800), (5000, 7200, 5000), (5000, 60, 60)])
def test_reruns_take_as_long_as_the_session_or_half_an_hour(monkeypatch, lasted, left, until):
    session = Doubts(monkeypatch, [again(1)])
    session.started -= lasted
    session.rerun(left)
    assert session.deadline == pytest.approx(time.monotonic() + until, abs=5)


def test_reruns_end_after_eight_steps_a_run_that_ran_nothing_and_the_deadline(monkeypatch):
    assert len(Doubts(monkeypatch, *[[again(1)]] * 20).rerun()) == 8
    assert Doubts(monkeypatch, [again(1)]).rerun(-1) == []
    nothing = Doubts(monkeypatch, [again(1)], [again(1)])
    nothing.run_again = lambda *words, **options: bool(nothing.ran.append(words))
    assert len(nothing.rerun()) == 1 and nothing.stored == 0


# The first night of an undescribed machine


class Looks:
    """A session whose further jobs are written down: (part, times, purpose, hashes of the cases)."""

    def __init__(self, monkeypatch, rows=(), needs=()):
        self.ran, self.needs = [], dict(needs)
        monkeypatch.setattr(module, 'load_references', lambda site: SimpleNamespace(rows=rows))

    def run_again(self, content, wanted, deadline, part, times, *, trials, purpose=''):
        assert set(trials.values()) == {1}
        self.ran.append((part, times, purpose, sorted(name for name, _ in wanted)))
        return True


def ran_for(seconds, check, code, result='pass', **more):
    entry = case() | {'hashcode': code, 'result': result, 'time_run': seconds, 'display_name': f'{check} {code}'}
    record = {'check': check, 'metrics': {'m': {}}, 'provenance': {}, 'job': {'nodes': ['n1']}}
    return entry | {'unique_name': code, 'record': record | more}


def look(session, *cases, site='localhost'):
    content = {'runs': [{'testcases': list(cases)}]}
    first = partial(session.ran.append, 'first verdict')
    look_again(session, content, SimpleNamespace(name=site), time.monotonic() + 3600, first)
    if session.ran:
        assert session.ran.pop(0) == 'first verdict'
    return session.ran


def test_the_shortest_case_of_each_check_runs_again_for_a_minute_and_a_half(monkeypatch):
    """A trial and 3 s for ReFrame: 5, 9 and 45 s; once each 59 s. 4 more of A and 1 of B make it 88 s."""
    cases = [
        ran_for(4, 'A', 'a', trials=2), ran_for(6, 'B', 'b', trials=1), ran_for(9, 'B', 'longer', trials=1),
        ran_for(126, 'C', 'c', trials=3),
    ]  # fmt: skip
    assert look(Looks(monkeypatch), *cases) == [
        ('-look1', 1, 'look', ['a', 'b', 'c']), ('-look2', 1, 'look', ['a', 'b']), ('-look5', 3, 'look', ['a']),
    ]  # fmt: skip


def test_nothing_looks_again_at_what_did_not_measure_or_is_not_judged_or_takes_too_long(monkeypatch):
    cases = [
        ran_for(2, 'A', 'failed', result='fail'), ran_for(2, 'B', 'shown', metrics={'m': {'judged': False}}),
        ran_for(130, 'C', 'long'), ran_for(None, 'D', 'no time'), ran_for(0, 'E', 'at once'),
    ]  # fmt: skip
    assert look(Looks(monkeypatch), *cases) == []


def test_what_depends_on_other_cases_is_not_looked_at_again(monkeypatch):
    needs = {('best', 's:p+e'): {('a', 's:p+e')}}
    cases = [ran_for(42, 'A', 'a', trials=1), ran_for(1, 'Best', 'best', trials=1)]
    assert look(Looks(monkeypatch, needs=needs), *cases) == [('-look2', 2, 'look', ['a'])]


def test_a_described_site_and_one_with_a_baseline_need_no_look(monkeypatch):
    assert look(Looks(monkeypatch), ran_for(2, 'A', 'a'), site='mycluster') == []
    assert look(Looks(monkeypatch, [SimpleNamespace(kind='baseline')]), ran_for(2, 'A', 'a')) == []
    assert look(Looks(monkeypatch, [SimpleNamespace(kind='published')]), ran_for(2, 'A', 'a')) != []


def test_nothing_looks_again_when_the_time_is_over_or_nothing_ran(monkeypatch, capsys):
    session = Looks(monkeypatch)
    content = {'runs': [{'testcases': [ran_for(2, 'A', 'a')]}]}
    look_again(session, content, SimpleNamespace(name='localhost'), time.monotonic() - 1, pytest.fail)
    assert look(session) == [] and capsys.readouterr().out == ''


@each_row('seconds, times', [(87.0, 1), (87.1, 0), (42.0, 2), (42.1, 1), (1.0, 8)])
def test_looks_fill_a_minute_and_a_half_and_are_at_most_eight(seconds, times, monkeypatch):
    """Each takes 3 s more than its trial: 90 s, 45 s twice, 4 s 22 times."""
    found = look(Looks(monkeypatch), ran_for(seconds, 'A', 'a', trials=1))
    assert sum(one[1] for one in found) == times


def test_a_case_without_a_number_of_trials_looks_once_and_so_does_one_of_which_one_metric_is_judged(monkeypatch):
    assert look(Looks(monkeypatch), ran_for(80, 'A', 'a', trials=0)) == [('-look1', 1, 'look', ['a'])]
    one_is_judged = {'m': {'judged': False}, 'n': {'judged': True}}
    assert look(Looks(monkeypatch), ran_for(80, 'A', 'a', metrics=one_is_judged)) == [('-look1', 1, 'look', ['a'])]


def test_of_two_cases_of_a_check_in_different_places_both_look(monkeypatch):
    here, there = ran_for(37, 'A', 'a'), ran_for(37, 'A', 'b') | {'environ': 'f'}
    assert look(Looks(monkeypatch), here, there) == [('-look1', 1, 'look', ['a', 'b'])]


@each_row(
    'free, not_on, options',
    [
        (('n1',), ('n1',), []), ((), (), []), (('n1', 'n2', 'n3'), ('n1', 'n2'), ['--exclude=n1,n2']),
    ],
)  # fmt: skip
def test_a_further_job_avoids_nodes_where_enough_others_are_free(free, not_on, options, monkeypatch):
    assert Doubts(monkeypatch, [again(1, not_on=not_on)], free=free).rerun()[0][3] == [options]


def test_a_case_of_another_scheduler_and_one_that_is_not_in_the_session(monkeypatch, capsys):
    elsewhere = Doubts(monkeypatch, [again(1, on='n1')], scheduler='local')
    assert elsewhere.rerun() == [('-rerun1', 1, 'node', [[]])]
    unknown = Again(8, 'p', 'e', 'another', 1, '', ())
    assert Doubts(monkeypatch, [unknown, again(2)]).rerun()[0] == ('-rerun1', 1, '', [])
    assert '3 further jobs of 2 cases' in capsys.readouterr().out


@each_row('scheduler, options', [('slurm', ['--nodelist=n1,n2']), ('local', [])])
def test_trials_that_are_left_run_on_the_nodes_of_the_first_job(scheduler, options):
    first, jobs = case(4, 5), Jobs(0)
    first['record']['job'] = {'nodes': ['n1', 'n2']}
    complete(jobs, session_of(first), site_of(scheduler), time.monotonic() + 60)
    assert jobs.wanted == {('hash', 's:p+e'): options}
