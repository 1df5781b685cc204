"""From sessions to the baseline, with a look between."""

import csv
import io
import json

import numpy
import pytest
from run_reports import BEGAN, case, metric, reference, report

from site_configs.references import COLUMNS, read_references

TRIAD = [100.0, 101.5, 99.1234567]


def baseline(work):
    return {row.metric: row for row in read_references(work.baseline, 'baseline')}


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
    assert (row.n, row.stack, row.mode, row.kind, row.recorded_at) == (3, 'system', 'nightly', 'baseline', '2026-11-21')
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
    assert rows[2] == kept
    assert rows[1]['mean'] == '100.208'
    assert tuple(rows[0]) == COLUMNS


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


def test_the_samples_of_several_sessions_count_together(work):
    work.ingest(
        report(case(metrics={'triad': metric([100.0])}), uuid='aaaa'),
        report(case(metrics={'triad': metric([104.0, 102.0])}), uuid='bbbb', began=BEGAN + 86400),
    )
    assert work.run('record propose', 'aaaa', 'bbbb', 'aaaa').exit_code == 0
    work.run('record accept')
    row = baseline(work)['triad']
    assert (row.mean, row.std, row.n) == (102, 2, 3)
    assert row.source == 'session aaaa, bbbb on login1'


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
        ('void', 'void: above the peak'), ('lost', 'missing: no match'), ('single', 'at least two'),
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
    assert baseline(work)['triad'].unit == 'GB/s'


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
    monkeypatch.setattr('postprocess.record.to_baseline', lambda rows: 'partition\n')
    result = work.run('record accept')
    assert result.exit_code == 2
    assert f'{work.baseline} was left as it is' in result.stderr
    assert work.baseline.read_bytes() == before
