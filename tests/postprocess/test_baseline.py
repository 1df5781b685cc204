# SPDX-License-Identifier: BSD-3-Clause
"""From sessions to the baseline, with a look between."""

import csv
import io
import json
import math
import re

import numpy
import pytest
from run_reports import BEGAN, baseline, case, metric, nights, on_nodes, record, reference, report

from plumbline.references import COLUMNS, RECORDED

TRIAD = [100.0, 101.5, 99.1234567]


def test_propose_and_accept_make_the_session_its_own_baseline(work):
    entry = case(
        metrics={'triad': metric(TRIAD), 'flat': metric([5.0, 5.0])}, tags=('acceptance', 'nightly'),
        nodes=('n1', 'n2'), provenance={'binary_sha256': '0123456789abcdef' * 4},
    )  # fmt: skip
    work.ingest(report(entry, mode='nightly'))
    assert work.compare()['counts'] == {'no_reference': 2}
    assert work.run('record propose').exit_code == 0
    assert not work.baseline.exists()
    accepted = work.run('record accept')
    assert accepted.exit_code == 0
    assert accepted.stdout.splitlines()[-1].startswith(f'{work.baseline}: 2 added, 0 changed, 0 as before')
    row = baseline(work)['triad']
    assert row.mean == pytest.approx(numpy.mean(TRIAD), rel=1e-5)
    assert row.std == pytest.approx(numpy.std(TRIAD, ddof=1), rel=1e-5)
    assert (row.n, row.id.environ, row.mode, row.recorded_at) == (1, 'system', 'nightly', '2026-11-21')
    assert (row.spread, row.df, row.spread_n) == (None, None, None)  # nothing is known of the next night
    assert row.source == 'session aaaa1111 on login1'
    assert row.note.startswith('binary 0123456789ab; 2 nodes; one session: ')
    assert work.compare()['counts'] == {'ok': 2}


def test_accepting_keeps_other_rows_and_sorts(work):
    kept = reference(metric='zeta', note='kept, as it is')
    work.reference(kept, reference(metric='triad', mean='50'))
    work.ingest(report(case(metrics={'triad': metric(TRIAD), 'alpha': metric([1.0, 2.0])})))
    work.run('record propose')
    assert ': 1 added, 1 changed, 1 as before' in work.run('record accept').stdout
    with work.baseline.open(newline='') as stream:
        rows = list(csv.DictReader(stream))
    assert [row['metric'] for row in rows] == ['alpha', 'triad', 'zeta']
    assert rows[2] == kept | dict.fromkeys(RECORDED, '')
    assert rows[1]['mean'] == '100.208'
    assert tuple(rows[0]) == COLUMNS + RECORDED


def test_the_proposal_shows_old_and_new(work):
    work.reference(reference(mean='50', std='0.5'))
    work.ingest(report(case(metrics={'triad': metric(TRIAD), 'copy': metric([1.0, 2.0])})))
    copy, triad = json.loads(work.run('record propose', '--format', 'json').stdout)['changes']
    assert (copy['change'], copy['old_mean']) == ('new', None)
    assert (triad['change'], triad['old_mean']) == ('changed', 50)
    assert triad['old_limit'] < 50 < triad['limit'] < triad['mean']
    assert triad['difference'] == pytest.approx(100.416, abs=1e-3)
    table = work.run('record propose').stdout
    assert '+100.4 %' in table and '50 ± 0.5 GB/s' in table
    rows = list(csv.DictReader(io.StringIO(work.run('record propose', '--format', 'csv').stdout)))
    assert [row['metric'] for row in rows] == ['copy', 'triad']


def test_a_value_is_the_mean_of_a_session(work):
    work.ingest(
        report(case(metrics={'triad': metric([100.0])}), uuid='aaaa'),
        report(case(metrics={'triad': metric([104.0, 102.0])}, nodes=('n2',)), uuid='bbbb', began=BEGAN + 86400),
    )
    row = record(work, 'aaaa', 'bbbb', 'aaaa')['triad']
    assert (row.mean, row.std, row.n) == (101.5, pytest.approx(3 / 2**0.5, rel=1e-5), 2)
    # of few series, the usual spread of 2 % counts as one of 4 degrees of freedom
    spread = math.sqrt((4 * 0.02**2 + math.log(1.03) ** 2 / 2) / 5)
    assert (row.spread, row.df, row.spread_n) == (pytest.approx(spread, rel=1e-5), 5, 2)
    assert row.source == 'session aaaa, bbbb on login1'
    assert row.provenance == 'dates=2026-11-21..2026-11-22; nodes=n[1-2]; sessions=aaaa, bbbb'


def test_all_sessions_of_some_days_become_a_baseline_that_gates(work):
    """An outlying night is dropped and counted."""
    nights(work, [100, 101, 99, 100.5, 99.5, 70, 100.2, 99.8, 30])
    row = record(work, '2026-11-21..2026-11-28')['triad']
    assert (row.n, row.mean) == (7, pytest.approx(100, abs=0.01))
    assert row.source == '7 sessions of 2026-11-21..2026-11-28 on login1'
    assert row.note == '1 node; 1 outlying value dropped'
    document = work.compare()
    (row,) = document['verdicts']
    assert (row['verdict'], row['gate'], document['exit_code']) == ('regressed', 'gated', 1)
    for days, words in (('2026-10-01..2026-10-31', 'no session started'), ('2026-11..', 'expected two days')):
        answer = work.run('record propose', days)
        assert answer.exit_code == 2 and words in answer.stderr


def test_an_epoch_moves_the_mean_and_keeps_the_spread(work):
    nights(work, [100, 101, 99, 100.5, 99.5, 100.1, 100.3, 99.8])
    before = record(work)['triad']
    nights(work, [80], first=10)
    assert work.verdicts() == {('STREAM', 'size=big', 'triad'): 'regressed'}
    refused = work.run('record propose', 'night10')
    assert refused.exit_code == 1 and 'not healed' in refused.stdout
    after = record(work, '--epoch', 'OFED 24.10, "new"')['triad']
    assert (after.mean, after.n, after.epoch) == (80, 1, 'OFED 24.10, "new"')
    assert (after.spread, after.df, after.spread_n) == (before.spread, before.df, 8)
    nights(work, [50], first=11)
    (row,) = work.compare()['verdicts']
    assert (row['verdict'], row['gate'], row['epoch']) == ('regressed', 'gated', 'OFED 24.10, "new"')
    # What comes next is of the new level, and keeps the spread until as many sessions show another one
    for night, value in enumerate([80.4, 80.2, 79.8, 79.9, 80.1], 12):
        nights(work, [value], first=night)
        assert work.compare()['counts'] == {'ok': 1}  # the fifth closes the incident of night 11
    document = json.loads(work.run('record propose', '--format', 'json').stdout)
    assert document['taken'][0] == 'night10'
    (new,) = document['changes']
    assert (new['n'], new['epoch'], new['spread_n'], new['spread']) == (6, after.epoch, 8, before.spread)
    assert new['mean'] == pytest.approx(80, abs=0.1)


def test_the_next_baseline_continues_the_one_in_force(work):
    """Without names, a baseline goes on from its first session; one that was left out before it stays out."""
    nights(work, [60, 61, 100, 101])
    record(work, 'night02', 'night03')
    nights(work, [99 + i % 3 for i in range(30)], first=4)  # more than a comparison looks back
    answer = work.run('record propose')
    assert 'taken: 32 sessions of 2026-11-23 to 2026-12-24' in answer.stdout
    assert 'left out: session night00: ' in answer.stdout
    row = record(work)['triad']
    names = row.provenance.split('sessions=')[1].split(', ')
    assert (row.n, len(names), names[0], names[-1]) == (32, 31, 'night02', 'night33')
    nights(work, [100], first=34)
    assert record(work)['triad'].n == 33


def test_a_row_whose_dates_a_person_wrote_in_another_way_begins_with_all_sessions(work):
    nights(work, [100, 101])
    record(work, 'night01')
    work.baseline.write_text(work.baseline.read_text().replace('dates=', 'dates=about ').replace('sessions=', 'of='))
    assert record(work)['triad'].n == 2


BUSY = {'load_beside': '3.20', 'cpu_steal': '0.00'}


@pytest.mark.parametrize(('provenance', 'words', 'named'), [
    (BUSY, '3.2 CPUs were busy beside the benchmark', ()), (BUSY, '3.2 CPUs were busy beside the benchmark', ('aaaa',)),
    ({'load_beside': '0.00', 'cpu_steal': '7.50'}, 'the hypervisor took 7.5 % of the CPU time', ()),
    ({'load_beside': '0.00', 'clock_throttled': '12'}, 'heat lowered the clock 12 times', ()),
])  # fmt: skip
def test_a_busy_session_alone_needs_a_reason(work, provenance, words, named):
    work.ingest(report(case(metrics={'triad': metric(TRIAD)}, provenance=provenance), uuid='aaaa'))
    refused = work.run('record propose', *named)
    assert refused.exit_code == 1
    assert words in refused.stdout and '--although' in refused.stdout
    assert work.run('record accept').exit_code == 2  # there is nothing to accept
    row = record(work, *named, '--although', 'always so; here')['triad']
    assert words in row.note and row.note.endswith('although: always so, here')
    assert row.provenance.startswith('although=jobs: always so, here; dates=2026-11-21; ')


def test_a_baseline_of_busy_sessions_says_which_losses_it_will_not_see(work):
    nights(work, [100, 130, 80, 115], provenance=BUSY)
    proposed = work.run('record propose', '--although', 'always so')
    accepted = work.run('record accept')
    (noticed,) = json.loads(work.run('compare', '--coverage', '--format', 'json').stdout)['metrics']
    losses = {re.search(r'1 of 1 row .*in doubt.* above (\d+) %', answer.stdout)[1] for answer in (proposed, accepted)}
    assert losses == {f'{noticed["detectable"]:.0f}'}
    assert int(losses.pop()) > 25
    nights(work, [100, 101, 99], first=4)
    quiet = work.run('record propose', 'night04', 'night05', 'night06')
    assert 'in doubt' not in quiet.stdout + work.run('record accept').stdout


def test_a_reason_lets_busy_sessions_in_only_where_they_are_named_or_nothing_else_is_there(work):
    nights(work, [100, 101])
    nights(work, [80], first=2, provenance=BUSY)
    row = record(work, '--although', 'x')['triad']
    assert (row.n, 'although' in row.note) == (2, False)
    assert work.run('record propose', 'night01', 'night02').exit_code == 1
    row = record(work, 'night01', 'night02', '--although', 'x')['triad']
    assert (row.n, 'although: x' in row.note) == (2, True)


def test_a_node_with_an_open_incident_is_left_out_until_it_has_healed(work):
    work.reference(reference())

    def night(number, level=1):
        values = {f'n{node}': 100 * level if node == 3 else 100 + node for node in range(6)}
        work.ingest(report(*on_nodes(values), uuid=f'night{number}', began=BEGAN + number * 86400))
        return work.compare()

    night(0)
    assert night(1, 0.7)['exit_code'] == 1
    night(2)
    for number in (1, 2):  # bad, and not yet healed
        answer = work.run('record propose', f'night{number}')
        assert answer.exit_code == 1 and 'on n3' in answer.stdout
        assert f'left out: session night{number}: some of its jobs: incident ' in answer.stdout
        (row,) = json.loads(work.run('record propose', f'night{number}', '--format', 'json').stdout)['changes']
        assert 'nodes=n[0-2,4-5]' in row['provenance']
    for number in (3, 4, 5, 6):  # five healthy ones after one that was bad
        night(number)
    answer = work.run('record propose')
    assert answer.exit_code == 0 and answer.stdout.count('left out: ') == 1
    assert 'session night1: some of its jobs' in answer.stdout


def test_what_an_incident_holds_that_is_of_no_node_is_left_out(work):
    work.reference(reference())
    nights(work, [100, 101, 99, 70])
    assert work.compare()['exit_code'] == 1
    answer = work.run('record propose')
    assert re.search(r'left out: session night03: incident [0-9a-f]{6}: SYSTEM, not healed', answer.stdout)
    assert record(work)['triad'].n == 3
    row = record(work, 'night03', '--although', 'the new level', '--epoch', 'slow')['triad']
    assert row.mean == pytest.approx(70, rel=0.01)


def test_a_level_worse_than_the_one_in_force_needs_a_reason(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([50.0, 51.0]), 'copy': metric([1.0, 1.0])})))
    refused = work.run('record propose')
    assert refused.exit_code == 1
    assert '50.5 GB/s is worse' in refused.stdout and '49.5 % (session x)' in refused.stdout
    work.run('record accept')
    assert {name: row.mean for name, row in baseline(work).items()} == {'triad': 100, 'copy': 1}
    document = json.loads(work.run('record propose', '--format', 'json').stdout)
    assert [row['change'] for row in document['changes']] == ['same', 'withheld']
    assert document['withheld'] and document['changes'][1]['objections']
    row = record(work, '--although', 'half of the memory was sold')['triad']
    assert (row.mean, 'although: half of the memory was sold' in row.note) == (50.5, True)
    assert work.compare()['counts'] == {'ok': 2}


def test_of_two_levels_both_are_shown_and_the_worse_one_is_recorded(work):
    for night, value in enumerate([120.2, 95.1, 119.8, 120.1, 94.9, 120.0, 95.0, 119.9]):
        entry = case(metrics={'triad': metric([value], better='lower')})
        work.ingest(report(entry, uuid=f'night{night:02}', began=BEGAN + night * 86400))
    refused = work.run('record propose')
    assert refused.exit_code == 1
    two = 'two levels, 120 us in 5 sessions and 95 us in 3 sessions; the worse one is taken'
    assert two in refused.stdout
    assert work.run('record accept').exit_code == 2
    row = record(work, '--although', 'memory has two speeds')['triad']
    assert (row.mean, row.n, row.spread_n) == (pytest.approx(120, abs=0.1), 5, 5)
    assert row.spread < 0.02 and 'two levels' in row.note and row.note.endswith('although: memory has two speeds')
    assert work.run('record propose').exit_code == 0  # what was accepted is not asked again


def test_a_level_that_changed_once_asks_for_an_epoch(work):
    nights(work, [100, 100.2, 99.9, 100.1, 80, 80.1, 79.9])
    answer = work.run('record propose')
    assert answer.exit_code == 1
    assert 'it changed once, with session night04 of 2026-11-25' in answer.stdout and '--epoch' in answer.stdout


def test_one_session_states_what_its_check_calls_usual(work):
    work.ingest(report(case(metrics={'triad': metric([100.0]) | {'usual_spread': 0.01, 'floor': 0.03}})))
    row = record(work)['triad']
    assert (row.n, row.std, row.spread, row.usual_spread, row.floor) == (1, None, None, 0.01, 0.03)
    assert 'one session: ' in row.note and '0.01' in row.note


def first_night(work, value, looks):
    """A session whose case ran again with `looks`, which nothing chose; the first one of a machine."""
    first, *more = [case(metrics={'triad': metric([mean])}) for mean in (value, *looks)]
    content = report(first, uuid='night00', began=BEGAN)
    for number, entry in enumerate(more, 1):
        content['runs'].append(
            {'run_index': number, 'testcases': [entry | {'run_index': number, 'plumbline_purpose': 'look'}]}
        )
    work.ingest(content)


def test_of_a_machine_that_varies_much_one_session_never_says_that_more_would_change_little(work):
    first_night(work, 100.0, (30.0, 150.0))  # such that only a loss beyond the cap of 75 % is noticed
    said = work.run('record propose').stdout
    assert 'a loss of 75 %; after 2 more sessions' in said
    work.run('record accept')
    assert 'next 1 of 3 sessions' in ' '.join(work.run('status').stdout.split())


def test_jobs_that_ran_again_on_the_first_night_widen_the_limits_of_its_only_session(work):
    """By hand: the logarithms of 100, 80 and 125 vary by 0.2231^2; the jobs of a session have 0.3 of it in common.

    Fewer than ten series: drawn to the 2 % of the check as to four degrees of freedom:
    sqrt((4 x 0.02^2 + 2 x 0.2231^2 / 0.7) / 6) = 0.155.
    """
    first_night(work, 100.0, (80.0, 125.0))
    row = record(work)['triad']
    assert (row.mean, row.n, row.spread_n, row.df) == (100.0, 1, 1, 4.0)
    assert row.spread == pytest.approx(0.155, abs=0.001)
    assert 'further jobs show, 0.15' in row.note


def test_two_levels_within_the_first_night_are_told_and_the_worse_one_is_the_reference(work):
    """A machine that goes to and fro within minutes needs no reason of a person."""
    first_night(work, 120.1, (95.0, 119.8, 95.2, 120.0, 94.9, 119.9, 95.1))
    row = record(work)['triad']
    assert row.mean == pytest.approx(95.05, abs=0.01) and row.has_two_levels
    assert '95.05 GB/s in 4 jobs and 119.9 GB/s in 4 jobs' in row.note
    shown = ' '.join(work.run('status').stdout.split())
    assert '1 of them has two levels' in shown
