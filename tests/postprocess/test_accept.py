# SPDX-License-Identifier: BSD-3-Clause
"""What becomes a baseline, and what is refused."""

from run_reports import BEGAN, baseline, case, metric, record, reference, report

TRIAD = [100.0, 101.5, 99.1234567]


def test_what_the_numbers_were_measured_on_is_kept_with_them(work):
    for uuid, kernel in (('aaaa', '6.1'), ('bbbb', '6.12')):
        provenance = {'kernel': kernel, 'stack_lock': 'f00d', 'library_libmpi': '/usr/lib/libmpi.so.40', 'load': '0.1'}
        work.ingest(report(case(metrics={'triad': metric([1.0, 2.0])}, provenance=provenance), uuid=uuid))
    assert record(work, 'aaaa', 'bbbb')['triad'].provenance == (
        'dates=2026-11-21; kernel=6.1 | 6.12; library_libmpi=/usr/lib/libmpi.so.40; nodes=n1; sessions=aaaa, bbbb; '
        'stack_lock=f00d'
    )


def test_what_cannot_be_trusted_is_refused_and_named(work):
    metrics = {
        'good': metric([1.0, 2.0]), 'void': metric([1.0, 2.0], invalid='above the peak'), 'lost': metric(),
        'zero': metric([0.0, 0.0]), 'odd': metric([1.0, 2.0], unit='furlong'),
        'endless': metric([float('inf'), 1.0]),
    }  # fmt: skip
    failed = case(
        check='HPCC', metrics={'hpl': metric([1.0, 2.0])}, result='fail', fail_phase='sanity', fail_reason='x'
    )
    work.ingest(report(case(metrics=metrics, missing={'lost': 'no match'}), failed))
    result = work.run('record propose')
    assert result.exit_code == 0
    refused = [line for line in result.stdout.splitlines() if line.startswith('refused: ')]
    told = {
        'void': 'invalid: above the peak', 'lost': 'missing: no match', 'zero': 'above 0', 'odd': "unit 'furlong'",
        'endless': 'not a finite number', 'hpl': 'hpl: failed: x',
    }  # fmt: skip
    for name, why in told.items():
        assert sum(f' {name}: ' in line and why in line for line in refused) == 1, name
    work.run('record accept')
    assert set(baseline(work)) == {'good'}


def test_a_new_unit_may_become_the_new_baseline_and_has_no_spread_of_the_old_one(work):
    work.reference(reference(unit='MB/s'))
    work.ingest(report(case(metrics={'triad': metric([50.0], unit='MB/s')}), uuid='aaaa'))
    work.ingest(report(case(metrics={'triad': metric([50.0, 51.0])}), uuid='bbbb', began=BEGAN + 86400))
    row = record(work, 'bbbb', '--epoch', 'new units')['triad']
    assert (row.quantity.unit, row.spread) == ('GB/s', None)
    assert work.compare()['counts'] == {'ok': 1}


def test_units_that_differ_between_sessions_are_refused(work):
    work.ingest(
        report(case(metrics={'triad': metric([1.0, 2.0])}), uuid='aaaa'),
        report(case(metrics={'triad': metric([1.0, 2.0], unit='MB/s')}), uuid='bbbb'),
    )
    result = work.run('record propose', 'aaaa', 'bbbb')
    assert 'differs between the sessions' in result.stdout and 'record propose SESSION' in result.stdout
    assert result.exit_code == 1


def test_a_session_with_nothing_to_record_is_refused_whole(work):
    work.ingest(report(case(metrics={'triad': metric([1.0, 2.0], invalid='no')})))
    result = work.run('record propose')
    assert result.exit_code == 1
    assert 'session aaaa1111 holds nothing that can be recorded' in result.stderr
    assert not (work.results / 'proposals').exists()


def test_a_broken_proposal_leaves_the_baseline_as_it_is(work):
    work.reference(reference())
    before = work.baseline.read_bytes()
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    proposal = work.results / 'proposals' / 'cluster.csv'
    proposal.write_text(proposal.read_text().replace('100.208', '-3'))
    result = work.run('record accept')
    assert result.exit_code == 2 and f'{proposal}:2: mean' in result.stderr
    assert work.baseline.read_bytes() == before


def test_accept_for_a_site_that_has_no_folder(work):
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    (work.results / 'proposals' / 'cluster.csv').rename(work.results / 'proposals' / 'elsewhere.csv')
    result = work.run('record accept')
    assert result.exit_code == 2 and 'has no site elsewhere; it has cluster' in result.stderr


def test_a_merge_that_would_be_wrong_is_not_written(work, monkeypatch):
    work.reference(reference())
    before = work.baseline.read_bytes()
    work.ingest(report(case(metrics={'triad': metric(TRIAD)})))
    work.run('record propose')
    monkeypatch.setattr('postprocess.verdicts.proposals.to_baseline', lambda rows: 'partition\n')
    result = work.run('record accept')
    assert result.exit_code == 2 and f'{work.baseline}: not changed' in result.stderr
    assert work.baseline.read_bytes() == before


def test_every_point_of_a_curve_is_recorded_and_nothing_else_that_is_only_shown(work):
    names = [f'latency message_bytes={2**i}' for i in range(6)]
    metrics = {name: metric([1.0, 1.1], 'us', 'lower') | {'judged': name.endswith('=8')} for name in names}
    metrics |= {'latency domain=1': metric([1.0, 1.1], 'us', 'lower') | {'judged': False}}
    metrics |= {'shown': metric([1.0, 1.1]) | {'judged': False}}
    work.ingest(report(case(metrics=metrics, dims={'message_bytes': ('size', 'B'), 'domain': ('name', '')})))
    assert 'refused' not in work.run('record propose').stdout
    assert sorted(record(work)) == sorted(names)
    assert work.compare()['counts'] == {'ok': 6, 'informational': 2}
