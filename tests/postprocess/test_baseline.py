"""From sessions to the baseline, with a look between."""

import csv
import io
import json
import math

import numpy
import pytest
from run_reports import BEGAN, case, metric, reference, report

from plumbline.references import COLUMNS, RECORDED, read_references

TRIAD = [100.0, 101.5, 99.1234567]


def baseline(work):
    return {row.id.name: row for row in read_references(work.baseline, 'baseline')}


def test_propose_and_accept_make_the_session_its_own_baseline(work):
    entry = case(
        metrics={'triad': metric(TRIAD), 'flat': metric([5.0, 5.0])}, tags=('acceptance', 'nightly'),
        nodes=('n1', 'n2'), provenance={'binary_sha256': '0123456789abcdef' * 4},
    )  # fmt: skip
    work.ingest(report(entry, mode='nightly'))
    assert work.compare()['counts'] == {'no_reference': 2}
    proposed = work.run('record propose')
    assert proposed.exit_code == 0
    assert not work.baseline.exists()
    accepted = work.run('record accept')
    assert accepted.exit_code == 0
    assert accepted.stdout.startswith(f'{work.baseline}: 2 added, 0 changed, 0 as before')
    row = baseline(work)['triad']
    assert row.mean == pytest.approx(numpy.mean(TRIAD), rel=1e-5)
    assert row.std == pytest.approx(numpy.std(TRIAD, ddof=1), rel=1e-5)
    assert (row.n, row.id.environ, row.mode, row.kind, row.recorded_at) == (
        1,
        'system',
        'nightly',
        'baseline',
        '2026-11-21',
    )
    assert (row.spread, row.df, row.spread_n) == (None, None, None)  # nothing is known of the next night
    assert row.source == 'session aaaa1111 on login1'
    assert row.note == 'binary 0123456789ab; 2 nodes'
    assert baseline(work)['flat'].std == 0
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
    document = json.loads(work.run('record propose', '--format', 'json').stdout)
    copy, triad = document['changes']
    assert (copy['change'], copy['old_mean']) == ('new', None)
    assert (triad['change'], triad['old_mean']) == ('changed', 50)
    assert triad['old_limit'] < 50 < triad['limit'] < triad['mean']
    assert triad['difference'] == pytest.approx(100.416, abs=1e-3)
    table = work.run('record propose').stdout
    assert '+100.4 %' in table
    assert '50 ± 0.5 GB/s' in table
    rows = list(csv.DictReader(io.StringIO(work.run('record propose', '--format', 'csv').stdout)))
    assert [row['metric'] for row in rows] == ['copy', 'triad']


def nights(work, values, first=0, **fields):
    """Ingest a session a night, one for each of `values`, which is by metric or of the metric triad alone."""
    for night, value in enumerate(values, first):
        metrics = value if isinstance(value, dict) else {'triad': value}
        metrics = {name: metric([0.99 * mean, 1.01 * mean]) for name, mean in metrics.items()}
        work.ingest(
            report(case(metrics=metrics, **fields), uuid=f'night{night:02}', mode='quick', began=BEGAN + night * 86400)
        )


def test_a_value_is_the_mean_of_a_session(work):
    work.ingest(
        report(case(metrics={'triad': metric([100.0])}), uuid='aaaa'),
        report(case(metrics={'triad': metric([104.0, 102.0])}, nodes=('n2',)), uuid='bbbb', began=BEGAN + 86400),
    )
    assert work.run('record propose', 'aaaa', 'bbbb', 'aaaa').exit_code == 0
    work.run('record accept')
    row = baseline(work)['triad']
    assert (row.mean, row.std, row.n) == (101.5, pytest.approx(3 / 2**0.5, rel=1e-5), 2)
    assert (row.spread, row.df, row.spread_n) == (pytest.approx(math.log(1.03) / 2**0.5, rel=1e-5), 1, 2)
    assert row.source == 'session aaaa, bbbb on login1'
    assert row.provenance == 'dates=2026-11-21..2026-11-22; nodes=n[1-2]; sessions=aaaa, bbbb'


def test_all_sessions_of_some_days_become_a_baseline_that_gates(work):
    nights(work, [100, 101, 99, 100.5, 99.5, 30])
    assert work.run('record propose', '2026-11-21..2026-11-25').exit_code == 0
    work.run('record accept')
    assert baseline(work)['triad'].n == 5
    assert baseline(work)['triad'].source == '5 sessions of 2026-11-21..2026-11-25 on login1'
    document = work.compare()
    (row,) = document['verdicts']
    assert (row['verdict'], row['gate'], row['expected_n']) == ('regressed', 'gated', 5)
    for days, words in (('2026-10-01..2026-10-31', 'no session started'), ('2026-11..', 'expected two days')):
        answer = work.run('record propose', days)
        assert answer.exit_code == 2 and words in answer.stderr


def test_fewer_than_five_sessions_only_warn(work):
    nights(work, [100, 101, 99, 100.5, 50])
    work.run('record propose', '2026-11-21..2026-11-24')
    work.run('record accept')
    document = work.compare()
    (row,) = document['verdicts']
    assert (row['verdict'], row['gate'], document['exit_code']) == ('warning', 'provisional', 0)
    assert 'of fewer than 5 sessions, only warns' in row['cause']
    work.reference(reference(kind='published', mode='', mean='100'), file='published.csv')
    document = work.compare()
    (row,) = document['verdicts']
    assert (row['verdict'], row['reference_kind'], document['exit_code']) == ('regressed', 'published', 1)


def test_an_outlying_night_is_dropped_and_counted(work):
    nights(work, [100, 101, 99, 100.5, 99.5, 70, 100.2, 99.8])
    work.run('record propose', '2026-11-21..2026-12-31')
    work.run('record accept')
    row = baseline(work)['triad']
    assert (row.n, row.mean) == (7, pytest.approx(100, abs=0.01))
    assert row.note == '1 node; 1 outlying value dropped'


def test_the_spread_of_few_sessions_is_drawn_towards_that_of_the_other_metrics(work):
    rng = numpy.random.default_rng(1)
    values = 100 * numpy.exp(0.01 * rng.standard_normal((5, 30)))
    nights(work, [{f'm{i}': value for i, value in enumerate(night)} for night in values])
    work.run('record propose', '2026-11-21..2026-12-31')
    work.run('record accept')
    rows = baseline(work)
    own = [row.std / row.mean for row in rows.values()]
    moderated = [row.spread for row in rows.values()]
    assert numpy.std(moderated) < 0.5 * numpy.std(own)
    assert numpy.mean(moderated) == pytest.approx(numpy.mean(own), rel=0.1)
    assert all(row.df > row.n and row.spread_n == row.n for row in rows.values())


def test_an_epoch_moves_the_mean_and_keeps_the_spread(work):
    nights(work, [100, 101, 99, 100.5, 99.5, 100.1])
    work.run('record propose', '2026-11-21..2026-12-31')
    work.run('record accept')
    before = baseline(work)['triad']
    nights(work, [80], first=10)
    assert work.verdicts() == {('STREAM', 'size=big', 'triad'): 'regressed'}
    work.run('record propose')
    accepted = work.run('record accept', '--epoch', 'OFED 24.10, "new"')
    assert accepted.exit_code == 0
    assert '-20.0 %' in accepted.stdout and '0 added, 1 changed' in accepted.stdout
    after = baseline(work)['triad']
    assert (after.mean, after.n, after.epoch) == (80, 1, 'OFED 24.10, "new"')
    assert (after.spread, after.df, after.spread_n) == (before.spread, before.df, 6)
    nights(work, [79.5], first=11)
    assert work.compare()['counts'] == {'ok': 1}
    nights(work, [70], first=12)
    (row,) = work.compare()['verdicts']
    assert (row['verdict'], row['gate'], row['epoch']) == ('regressed', 'gated', 'OFED 24.10, "new"')
    work.run('record propose', '2026-12-01..2026-12-02')
    work.run('record accept')
    assert baseline(work)['triad'].epoch == 'OFED 24.10, "new"'


def test_metrics_that_are_not_judged_are_never_in_a_baseline(work):
    metrics = {'peak': metric([1.0, 2.0]), 'at_8_bytes': metric([3.0, 4.0]) | {'judged': False}}
    work.ingest(report(case(metrics=metrics), mode='quick'))
    assert work.compare()['counts'] == {'no_reference': 1, 'informational': 1}
    assert 'refused' not in work.run('record propose').stdout
    work.run('record accept')
    assert set(baseline(work)) == {'peak'}
    document = work.compare()
    assert (document['counts'], document['exit_code']) == ({'ok': 1, 'informational': 1}, 0)


def test_what_the_numbers_were_measured_on_is_kept_with_them(work):
    for uuid, kernel in (('aaaa', '6.1'), ('bbbb', '6.12')):
        provenance = {'kernel': kernel, 'stack_lock': 'f00d', 'library_libmpi': '/usr/lib/libmpi.so.40', 'load': '0.1'}
        work.ingest(report(case(metrics={'triad': metric([1.0, 2.0])}, provenance=provenance), uuid=uuid))
    work.run('record propose', 'aaaa', 'bbbb')
    work.run('record accept')
    assert baseline(work)['triad'].provenance == (
        'dates=2026-11-21; kernel=6.1 | 6.12; library_libmpi=/usr/lib/libmpi.so.40; nodes=n1; sessions=aaaa, bbbb; '
        'stack_lock=f00d'
    )


def test_what_cannot_be_trusted_is_refused_and_named(work):
    metrics = {
        'good': metric([1.0, 2.0]), 'void': metric([1.0, 2.0], void='above the peak'), 'lost': metric(),
        'single': metric([1.0]), 'zero': metric([0.0, 0.0]), 'odd': metric([1.0, 2.0], unit='furlong'),
        'endless': metric([float('inf'), 1.0]),
    }  # fmt: skip
    failed = case(
        check='HPCC', metrics={'hpl': metric([1.0, 2.0])}, result='fail', fail_phase='sanity', fail_reason='x'
    )
    work.ingest(report(case(metrics=metrics, missing={'lost': 'no match'}), failed))
    result = work.run('record propose')
    assert result.exit_code == 0
    refused = [line for line in result.stdout.splitlines() if line.startswith('refused: ')]
    for name, why in (
        ('void', 'invalid: above the peak'), ('lost', 'missing: no match'), ('single', 'at least two'),
        ('zero', 'above 0'), ('odd', "unit 'furlong'"), ('endless', 'not a finite number'),
        ('hpl', 'failed in sanity: x'),
    ):  # fmt: skip
        assert sum(f' {name}: ' in line and why in line for line in refused) == 1, name
    work.run('record accept')
    assert set(baseline(work)) == {'good'}


def test_a_regressed_metric_may_become_the_new_baseline(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([50.0, 51.0])}, result='fail', fail_phase='performance')))
    assert work.compare()['counts'] == {'regressed': 1}
    work.run('record propose')
    work.run('record accept')
    assert work.compare()['counts'] == {'ok': 1}


def test_a_new_unit_may_become_the_new_baseline(work):
    work.reference(reference(unit='MB/s'))
    work.ingest(report(case(metrics={'triad': metric([50.0, 51.0])})))
    work.run('record propose')
    work.run('record accept')
    assert baseline(work)['triad'].quantity.unit == 'GB/s'


def test_units_that_differ_between_sessions_are_refused(work):
    work.ingest(
        report(case(metrics={'triad': metric([1.0, 2.0])}), uuid='aaaa'),
        report(case(metrics={'triad': metric([1.0, 2.0], unit='MB/s')}), uuid='bbbb'),
    )
    result = work.run('record propose', 'aaaa', 'bbbb')
    assert 'differs between the sessions' in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    'entry',
    [
        case(result='fail', fail_phase='setup', fail_reason='x'),
        case(metrics={'triad': metric([1.0, 2.0], void='no')}),
        case(metrics={'triad': metric([1.0])}),
    ],
)
def test_a_session_with_nothing_to_record_is_refused_whole(work, entry):
    work.ingest(report(entry))
    result = work.run('record propose')
    assert result.exit_code == 1
    assert 'session aaaa1111 holds nothing that can be recorded' in result.stderr
    assert not (work.results / 'proposals').exists()


def test_one_unusable_session_among_good_ones_is_said(work):
    work.ingest(
        report(case(metrics={'triad': metric(TRIAD)}), uuid='aaaa'),
        report(case(result='fail', fail_phase='run', fail_reason='x'), uuid='bbbb'),
    )
    result = work.run('record propose', 'aaaa', 'bbbb')
    assert result.exit_code == 1
    assert 'session bbbb holds nothing' in result.stderr


def test_a_proposal_is_accepted_once(work):
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    assert work.run('record accept').exit_code == 0
    again = work.run('record accept')
    assert again.exit_code == 2
    assert 'no proposal' in again.stderr


def test_a_broken_proposal_leaves_the_baseline_as_it_is(work):
    work.reference(reference())
    before = work.baseline.read_bytes()
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    proposal = work.results / 'proposals' / 'cluster.csv'
    proposal.write_text(proposal.read_text().replace('100.208', '-3'))
    result = work.run('record accept')
    assert result.exit_code == 2
    assert f'{proposal}:2: mean' in result.stderr
    assert work.baseline.read_bytes() == before


def test_accept_for_a_site_that_has_no_folder(work):
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    (work.results / 'proposals' / 'cluster.csv').rename(work.results / 'proposals' / 'elsewhere.csv')
    result = work.run('record accept')
    assert result.exit_code == 2
    assert 'has no site elsewhere; it has cluster' in result.stderr


def test_a_merge_that_would_be_wrong_is_not_written(work, monkeypatch):
    work.reference(reference())
    before = work.baseline.read_bytes()
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    monkeypatch.setattr('postprocess.verdicts.proposals.to_baseline', lambda rows: 'partition\n')
    result = work.run('record accept')
    assert result.exit_code == 2
    assert f'{work.baseline}: not changed' in result.stderr
    assert work.baseline.read_bytes() == before
