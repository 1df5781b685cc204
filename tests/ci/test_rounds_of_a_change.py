# SPDX-License-Identifier: BSD-3-Clause
"""The rounds of `ci/compare-change`: which state is first, what runs on which nodes, and when it ends."""

import argparse
import json
import re
import time

import pytest
from rows import each_row
from stand_ins import ReFrame, no_files_of_checks, site_of
from test_session import case

from ci import compare_change as module
from ci.compare_change import compare_change, loss, parse
from ci.pairs import PairsOutcome
from plumbline.errors import InputError
from plumbline.site.sites import Partition, Site

A, B = ('aa', 's:p+e'), ('bb', 's:p+e')
NAMES = {A: ('p', 'e', 'a'), B: ('p', 'e', 'b')}


@each_row('text, share', [('5%', 0.05), ('0.05', 0.05), ('99%', 0.99), ('0.1%', 0.001)])
def test_a_loss_is_a_share_or_percent(text, share):
    assert loss(text) == pytest.approx(share, rel=1e-12)


@each_row('text', ['0', '1', '100%', '-5%', '5', 'much', 'nan'])
def test_what_is_no_loss_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=text):
        loss(text)


@each_row(
    'words, said',
    [([], 'two commands that differ'), (['--before=x', '--after=x'], 'two commands that differ'),
     (['--after=true'], 'two commands that differ'), (['--same', '--after=new'], 'no --after')],
)  # fmt: skip
def test_two_states_that_cannot_be_compared_are_refused(words, said, capsys):
    with pytest.raises(SystemExit):
        parse(words)
    assert said in capsys.readouterr().err


def test_a_state_is_measured_twice_until_each_metric_is_decided(monkeypatch, tmp_path, capsys):
    answers = [PairsOutcome('', 1, frozenset({NAMES[B]})), PairsOutcome('', 1, frozenset(), wrong='1 of 9')]
    world = World(monkeypatch, tmp_path, *answers)
    assert compare_change(site_of('slurm'), parse(['--same', '--before=export STATE=old']), tmp_path) == 1
    assert [state for _, state, _ in world.ran] == ['old'] * 4
    assert capsys.readouterr().out.endswith('1 of 9\n')


def ran(name: str, nodes: list[str], **facts: str) -> dict:
    return case(name, hashcode=name * 2, job_nodelist=nodes, record={'job': {'nodes': nodes}, 'provenance': facts})


def chosen(line: str) -> dict:
    given, _ = json.JSONDecoder().raw_decode(line)
    return {(name, place): options for name, places in given['cases'].items() for place, options in places.items()}


#: Of each session its state; the sessions are u1, u2, ...
NUMBERED = """\
echo "$STATE" >> states
[ ! -e "$file" ] || sed -i 's/"uuid": "u"/"uuid": "u'$(wc -l < states)'"/' "$file"
"""


class World:
    """ReFrame that runs a and b in `took` seconds a session, and answers of the comparison, one for each round."""

    def __init__(self, monkeypatch, results, *answers: PairsOutcome, took=0.0, entries=None, ends='exit 0', clock=None):
        self.answers, self.took, self.stored, self.compared = list(answers), took, [], []
        self.results, self.now = results, time.monotonic()
        (results / 'bin').mkdir(parents=True)
        self.reframe = ReFrame(results / 'bin')
        self.reframe.lists('a', 'b')
        entries = [ran('a', ['n1', 'n2']), ran('b', [])] if entries is None else entries
        if entries:
            self.reframe.reports(*entries)
        self.reframe.ends(NUMBERED + ends)
        monkeypatch.setenv('PATH', f'{results / "bin"}:/usr/bin:/bin')
        no_files_of_checks(monkeypatch)
        monkeypatch.setattr(module.so_far, 'store', self.store)
        monkeypatch.setattr(module, 'compare_pairs', self.compare)
        monkeypatch.setattr(module.time, 'monotonic', clock or (lambda: self.now))

    @property
    def ran(self) -> list[tuple[str, str, dict | None]]:
        """Of each session its name, its state, and its cases with the nodes that it asks for; None: all cases."""
        states = (self.results / 'bin/states').read_text().splitlines()
        return [
            (re.search(r'/reports/(\S+)\.json', line)[1], state, chosen(line) if line.startswith('{') else None)
            for line, state in zip(self.reframe.runs, states, strict=True)
        ]

    def store(self, home, report, number, problems, site):
        self.now += self.took
        self.stored.append((number, [str(problem) for problem in problems]))

    def compare(self, home, pairs, smallest, only):
        assert only == (), 'all series are judged'
        self.compared.append((list(pairs), smallest))
        return self.answers.pop(0)

    def call(self, *words, scheduler='slurm'):
        return compare_change(
            site_of(scheduler), parse(['--before=export STATE=old', '--after=export STATE=new', *words]), self.results
        )


def answer(code: int, *undecided) -> PairsOutcome:
    return PairsOutcome(f'a table of {code}\n', code, frozenset(NAMES[one] for one in undecided))


def test_states_alternate_and_only_undecided_cases_go_on_on_their_nodes(monkeypatch, tmp_path, capsys):
    world = World(monkeypatch, tmp_path, answer(3, A, B), answer(3, A), answer(0))
    world.reframe.lists('a', 'b', warning='WARNING: skipping test file c.py: no module')
    assert world.call('--smallest=7%') == 0
    on = ['--nodelist=n1,n2']
    assert world.ran == [
        ('1-before', 'old', None), ('1-after', 'new', {A: on, B: []}), ('2-after', 'new', {A: on, B: []}),
        ('2-before', 'old', {A: on, B: []}), ('3-before', 'old', {A: on}), ('3-after', 'new', {A: on}),
    ]  # fmt: skip
    assert world.compared[-1] == ([('u1', 'u2'), ('u4', 'u3'), ('u5', 'u6')], 0.07)
    assert [one[0] for one in world.stored] == [2, 2, 2, 2, 1, 1]
    said = capsys.readouterr()
    assert 'before, 1 of 16' in said.out and '2 cases undecided' in said.out and '1 case undecided' in said.out
    assert said.out.endswith('a table of 0\n') and 'c.py: no module' in said.err
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
    assert world.ran[1][2] == {A: [], B: []}


def test_where_the_first_session_measured_nothing_all_run_in_the_second(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, answer(0), entries=[case('a ~fixture')])
    world.call()
    assert [cases for *_, cases in world.ran] == [None, None]


def test_what_left_trials_out_is_stored_with_its_session(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, answer(0), entries=[ran('a', ['n1'], trials_left_out='4 of 5 trials')])
    assert world.call() == 0
    assert world.stored[0] == (2, ['a: 4 of 5 trials'])


@each_row('left', ['', 'rm "$file"; '])
def test_a_round_in_which_reframe_was_killed_does_not_count(left, monkeypatch, tmp_path, capsys):
    """It lacks cases, which says nothing of the change: the other rounds decide. Killed, it may leave no report."""
    ends = f'[ "$(wc -l < states)" != 1 ] || {{ {left}kill -KILL $$; }}'
    world = World(monkeypatch, tmp_path / f'left{len(left)}', answer(0), ends=ends)
    assert world.call() == 0
    assert [name for name, *_ in world.ran] == ['1-before', '2-after', '2-before']
    assert world.compared == [([('u3', 'u2')], 0.05)]
    number, (ended,) = world.stored[0]
    assert number == 2 and 'SIGKILL' in ended
    assert 'round 1 does not count: before: ReFrame was ended by SIGKILL' in capsys.readouterr().out


def test_where_no_round_counts_nothing_can_be_told(monkeypatch, tmp_path, capsys):
    world = World(monkeypatch, tmp_path, ends='kill -SEGV $$')
    assert world.call('--rounds=3') == 3 and len(world.ran) == 3
    assert 'round 3 does not count' in capsys.readouterr().out


@pytest.mark.parametrize(('sessions', 'number'), [(1, 1), (3, 2)])
def test_a_signal_ends_it_after_what_was_measured_is_stored(sessions, number, monkeypatch, tmp_path):
    ends = f'[ "$(wc -l < states)" -lt {sessions} ] || {{ sleep 0.3; kill -TERM $PPID; exec sleep 60; }}'
    world = World(monkeypatch, tmp_path, answer(3, A), ends=ends)
    with pytest.raises(InputError, match=f'round {number} of 16: told to end by SIGTERM'):
        world.call()
    assert world.stored[-1][1] == ['told to end by SIGTERM'] and len(world.stored) == len(world.ran) == sessions


def test_where_the_time_ends_in_a_later_round_the_rounds_before_it_decide(monkeypatch, tmp_path, capsys):
    ends = '[ "$(wc -l < states)" -lt 3 ] || exec sleep 60'
    world = World(monkeypatch, tmp_path, answer(3, A), ends=ends, clock=time.perf_counter)
    assert world.call('--duration=3s') == 3 and len(world.ran) == 3
    assert 'ended in round 2 of 16: the time budget is used up; the rounds before it' in capsys.readouterr().out


def test_without_a_case_or_a_report_nothing_is_compared(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path, entries=[], ends='exit 7')
    with pytest.raises(InputError, match=r'before: .* exit code 7'):
        world.call()
    world.reframe.lists()
    world.results = tmp_path / 'none'
    with pytest.raises(InputError, match='no case can run here in mode quick'):
        world.call()


def test_a_name_that_no_check_has_is_told_with_the_nearest_one(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    world.reframe.lists()
    (world.reframe.folder / 'checks').write_text('no list')
    described = Partition('p', {'scheduler': 'local', 'processor': {'num_cpus': 2}}, ('e',))
    words = parse(['--before=true', '--after=false', '-n', 'HPC'])
    with pytest.raises(InputError, match=r'no case can run here .* -n HPC: did you mean HPC'):
        compare_change(Site('s', '', (), {'p': described}, {}), words, world.results)
