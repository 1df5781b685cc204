# SPDX-License-Identifier: BSD-3-Clause
"""The rounds of `ci/compare-change`: which state is first, what runs on which nodes, and when it ends."""

import argparse
import json
import time
from types import SimpleNamespace

import pytest
from rows import each_row
from test_session import case

from ci import compare_change as module
from ci.compare_change import compare_change, loss, parse
from ci.outcome import PairsOutcome
from ci.process import Ended
from ci.session import CaseSelection, PlannedSession
from plumbline.errors import InputError
from plumbline.site.sites import Partition, Site

A, B = ('hash-a', 's:p+e'), ('hash-b', 's:p+e')
NAMES = {A: ('p', 'e', 'a'), B: ('p', 'e', 'b')}


def site_of(scheduler: str) -> Site:
    return Site('s', '', (), {'p': Partition('p', {'scheduler': scheduler})}, {})


@each_row('text, share', [('5%', 0.05), ('0.05', 0.05), ('99%', 0.99), ('0.1%', 0.001)])
def test_a_loss_is_a_share_or_percent(text, share):
    assert loss(text) == pytest.approx(share, rel=1e-12)


@each_row('text', ['0', '0%', '1', '1.0', '100%', '-5%', '5', 'much', '%', 'nan'])
def test_what_is_no_loss_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=text):
        loss(text)


def test_the_command_line(capsys):
    found = parse(['--after=x'])
    assert (found.before, found.rounds, found.smallest) == ('true', 16, 0.05)
    assert (found.mode, found.duration) == ('quick', 14400)
    assert not found.to_the_end and parse(['--after=x', '--to-the-end']).to_the_end
    for words in ([], ['--before=x', '--after=x'], ['--after=true']):
        with pytest.raises(SystemExit):
            parse(words)
        assert 'two commands that differ' in capsys.readouterr().err


def test_a_state_is_measured_twice_until_each_metric_is_decided(monkeypatch, tmp_path, capsys):
    assert parse(['--same', '--before=old']).after == 'old' and parse(['--same']).after == 'true'
    with pytest.raises(SystemExit):
        parse(['--same', '--after=new'])
    assert 'no --after' in capsys.readouterr().err
    answers = [PairsOutcome('', 1, frozenset({NAMES[B]})), PairsOutcome('', 1, frozenset(), wrong='1 of 9')]
    world = World(monkeypatch, tmp_path, *answers)
    assert compare_change(site_of('slurm'), parse(['--same', '--before=old']), tmp_path) == 1
    assert [state for _, _, state, *_ in world.ran] == ['old'] * 4
    assert capsys.readouterr().out.endswith('1 of 9\n')


def ran(name: str, nodes: list[str], **facts: str) -> dict:
    return case(name, job_nodelist=nodes, record={'job': {'nodes': nodes}, 'provenance': facts})


class World:
    """ReFrame that runs a and b in `took` seconds a session, and answers of the comparison, one for each round."""

    def __init__(self, monkeypatch, results, *answers: PairsOutcome, took=0.0, entries=None, ended=None):
        self.answers, self.took, self.ended = list(answers), took, ended
        self.ran, self.stored, self.compared = [], [], []
        self.entries = [ran('a', ['n1', 'n2']), ran('b', [])] if entries is None else entries
        self.results, self.now, self.cases, self.problems = results, time.monotonic(), {A: 'a', B: 'b'}, []
        monkeypatch.setattr(CaseSelection, '_checks', ([], []))
        monkeypatch.setattr(CaseSelection, 'list_cases', lambda _: (self.cases, self.problems))
        monkeypatch.setattr(PlannedSession, 'run', lambda session, *given, **more: self.run(session, *given, **more))
        monkeypatch.setattr(
            module.outcome,
            'store',
            lambda *given: self.stored.append((given[2], [str(problem) for problem in given[3]], *given[4:])),
        )
        monkeypatch.setattr(module.outcome, 'compare_pairs', self.compare)
        monkeypatch.setattr(module.time, 'monotonic', lambda: self.now)

    def run(self, session, deadline, cases, shell):
        self.now += self.took
        self.ran.append((session.stamp, cases, shell[2].splitlines()[1], session.expected, deadline))
        if self.entries:
            info = {'uuid': f'u{len(self.ran)}', 'time_start_unix': 1, 'cmdline': ''}
            runs = [{'run_index': 0, 'testcases': self.entries}]
            session.report.write_text(json.dumps({'session_info': info, 'runs': runs}))
        return self.ended or Ended()

    def compare(self, home, pairs, smallest, only):
        assert only == (), 'all series are judged'
        self.compared.append((list(pairs), smallest))
        return self.answers.pop(0)

    def call(self, *words, scheduler='slurm'):
        return compare_change(site_of(scheduler), parse(['--before=old', '--after=new', *words]), self.results)


def answer(code: int, *undecided) -> PairsOutcome:
    return PairsOutcome(f'a table of {code}\n', code, frozenset(NAMES[one] for one in undecided))


def test_states_alternate_and_only_undecided_cases_go_on_on_their_nodes(monkeypatch, tmp_path, capsys):
    world = World(monkeypatch, tmp_path, answer(3, A, B), answer(3, A), answer(0))
    world.problems = ['a file is not valid']
    assert world.call('--smallest=7%') == 0
    on = ['--nodelist=n1,n2']
    assert [one[:4] for one in world.ran] == [
        ('1-before', None, 'old', 2), ('1-after', {A: on, B: []}, 'new', 2), ('2-after', {A: on, B: []}, 'new', 2),
        ('2-before', {A: on, B: []}, 'old', 2), ('3-before', {A: on}, 'old', 1), ('3-after', {A: on}, 'new', 1),
    ]  # fmt: skip
    assert world.ran[0][4] == pytest.approx(world.now + 14400)
    assert world.compared[-1] == ([('u1', 'u2'), ('u4', 'u3'), ('u5', 'u6')], 0.07)
    assert [one[0] for one in world.stored] == [2, 2, 2, 2, 1, 1]
    said = capsys.readouterr()
    assert 'before, 1 of 16' in said.out and '2 cases undecided' in said.out and '1 case undecided' in said.out
    assert said.out.endswith('a table of 0\n') and 'a file is not valid' in said.err
    (home,) = (tmp_path / 'changes').iterdir()
    assert len(list((home / 'reports').iterdir())) == 6


@each_row(
    'words, answers, rounds, code, said',
    [
        ([], [answer(1, A), answer(0)], 1, 1, 'worse or lost'), (['--to-the-end'], [answer(1, A), answer(1)], 2, 1, ''),
        ([], [answer(3, A), answer(1, A)], 2, 1, 'worse or lost'), (['--rounds=2'], [answer(3, A)] * 3, 2, 3, ''),
        ([], [answer(1)], 1, 1, ''),
    ],
)  # fmt: skip
def test_it_ends_when_one_is_worse_or_all_are_decided(
    words, answers, rounds, code, said, monkeypatch, tmp_path, capsys
):
    world = World(monkeypatch, tmp_path / f'{rounds}{code}{len(answers)}{words}', *answers)
    assert world.call(*words) == code and len(world.ran) == 2 * rounds
    assert ('worse or lost' in capsys.readouterr().out) == bool(said)


# A round takes 20 s: after one of 40 s there is time for another, after one of 39 s not
@each_row('seconds, rounds', [(40, 2), (39, 1), (60, 3), (59, 2)])
def test_no_round_begins_that_would_not_end_in_time(seconds, rounds, monkeypatch, tmp_path, capsys):
    world = World(monkeypatch, tmp_path / f'{seconds}', *[answer(3, A)] * 4, took=10.0)
    assert world.call(f'--duration={seconds}s', f'--rounds={rounds + 1}') == 3
    assert len(world.ran) == 2 * rounds
    assert 'no time for another round of 20 s' in capsys.readouterr().out


def test_without_slurm_a_case_runs_where_it_may(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, answer(0))
    world.call(scheduler='local')
    assert world.ran[1][1] == {A: [], B: []}


def test_where_the_first_session_measured_nothing_all_run_in_the_second(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, answer(0), entries=[case('a ~fixture')])
    world.call()
    assert [one[1] for one in world.ran] == [None, None]


def test_what_ended_a_session_or_left_trials_out_is_stored_with_it(monkeypatch, tmp_path):
    entries = [ran('a', ['n1'], trials_left_out='4 of 5 trials')]
    world = World(monkeypatch, tmp_path, answer(0), entries=entries, ended=Ended(-11, 'SIGSEGV'))
    assert world.call() == 0
    assert world.stored[0] == (2, ['SIGSEGV', 'a: 4 of 5 trials'])


def test_a_night_that_is_told_to_end_ends_after_what_it_measured_is_stored(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, ended=Ended(why='interrupted', told_to_end=True))
    with pytest.raises(InputError, match='round 1 of 16: interrupted'):
        world.call()
    assert world.stored == [(2, ['interrupted'])] and len(world.ran) == 1


def test_where_the_time_ends_in_a_later_round_the_rounds_before_it_decide(monkeypatch, tmp_path, capsys):
    world = World(monkeypatch, tmp_path, answer(3, A))
    run = world.run

    def ended(*given, **more):
        run(*given, **more)
        return Ended(why='no time', told_to_end=True) if len(world.ran) == 3 else Ended()

    world.run = ended
    assert world.call() == 3 and len(world.ran) == 3
    assert 'ended in round 2 of 16: no time; the rounds before it decide' in capsys.readouterr().out
    world = World(monkeypatch, tmp_path / 'killed', answer(3, A))
    run, world.ended = world.run, Ended(why='SIGTERM', told_to_end=True, by_signal=True)
    with pytest.raises(InputError, match='round 1 of 16: SIGTERM'):
        world.call()


def test_without_a_case_or_a_report_nothing_is_compared(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, entries=[], ended=Ended(7))
    with pytest.raises(InputError, match=r'before: .* exit code 7'):
        world.call()
    world.cases = {}
    with pytest.raises(InputError, match='no case can run here'):
        world.call()


def test_the_site_and_its_results_are_those_of_the_command(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(module.sys, 'argv', ['compare-change', '--after=x', '--site=s'])
    monkeypatch.setattr(module, 'compare_change', lambda *given: called.append(given) or 3)
    monkeypatch.setattr(
        module.command, 'run', lambda arguments, work: work(SimpleNamespace(name=arguments.site), tmp_path)
    )
    assert module.main() == 3
    ((site, arguments, results),) = called
    assert (site.name, arguments.after, arguments.selection, results) == ('s', 'x', [], tmp_path)
