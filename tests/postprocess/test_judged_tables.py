# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts and findings of all sessions as DataFrames, and as `plumbline export` writes them."""

import csv
import io
import json
import re
import shutil

import duckdb
import pytest
from run_reports import case, metric, reference, report
from scratch import ROOT
from simulated_site import slow_node

import postprocess
from postprocess.results.store import Store
from postprocess.results.tables import JUDGED


@pytest.fixture
def slow(site, monkeypatch):
    """A site of 16 nodes; on one of them a benchmark loses 20 % in the last night, and another one's job fails."""
    failed = case(
        'OsuBcast', stack='other', metrics={f'm{i}': metric([]) for i in range(5)}, result='fail', fail_phase='sanity',
        fail_reason='no memory', nodes=('n5',),
    )  # fmt: skip
    failed['record']['causes'] = [{'code': 'oom-limit', 'what': 'no memory', 'nodes': 'n5'}]
    site.run(slow_node(0.8), replaced={'OsuBcast': failed})
    monkeypatch.setenv('PLUMBLINE_SITES', str(site.work.sites))
    return site.work


def test_what_a_person_corrects_changes_no_finding(slow):
    slow.compare()
    store = Store(slow.results)
    path = store.path('findings', store.find('latest'))
    before = path.read_bytes()
    (id,) = (one['id'] for one in json.loads(slow.run('incidents --format json').stdout) if one['kind'] == 'NODE')
    assert slow.run(f'incidents split {id}', '--metric', 'm1', '--why', 'x').exit_code == 0
    path.unlink()
    assert len(slow.compare()['incidents']) == 3
    assert path.read_bytes() == before


def test_the_query_of_the_documentation_says_how_often_each_node_was_in_doubt(slow):
    (code,) = re.findall(r'```python\n([^`]*duckdb[^`]*)```', (ROOT / 'docs/results-api.md').read_text())
    known = {'results': postprocess.open_results(slow.results), 'duckdb': duckdb}
    exec(code, known)
    frame = known['frame']
    assert frame[['node', 'nights']].values.tolist()[0] == ['n3', 1]
    assert not {'n1', 'n2'} & {*frame['node']}


def test_export_prints_both_tables(slow):
    def exported(*words):
        rows = csv.DictReader(io.StringIO(slow.run('export --to csv --days 1 --table', *words).stdout))
        return [row for row in rows if row['session'] == '00000005']

    rows = exported('verdicts', '--check', 'STREAM')
    assert len(rows) == 16 * 5
    facts = {(row['expected'], row['kind'], row['source'], row['unit']) for row in rows}
    assert facts == {('100.0', 'baseline', 'session x', 'GB/s')}
    bad = [row for row in rows if row['nodes'] == 'n3']
    assert {row['verdict'] for row in bad} <= {'regressed', 'warning'}
    row = bad[0]
    assert 75 < float(row['mean']) < 85 and float(row['loss_low']) < float(row['loss']) < float(row['loss_high'])
    assert [job['nodes'] for job in json.loads(row['jobs'])] == [['n3']]
    assert {row['code'] for row in exported('verdicts', '--check', 'OsuBcast')} == {'oom-limit'}
    assert {row['kind'] for row in exported('findings')} == {'NODE', 'CASE'}
    assert exported('findings', '--check', 'OsuL*') == []


def test_a_verdict_and_its_incident_have_a_code_though_no_record_names_a_cause(work, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    work.reference(
        reference(metric='other unit', unit='MB/s'), reference(metric='no number'), reference(metric='not declared'),
        reference(check='HPL'),
    )  # fmt: skip
    work.ingest(report(case(metrics={'other unit': metric([100.0]), 'no number': metric()}), mode='quick'))
    results = postprocess.open_results(work.results)
    frame = results.verdicts()
    codes = dict(zip(frame['check'] + ' ' + frame['metric'], frame['code'], strict=True))
    assert codes == {
        'STREAM other unit': 'reference', 'STREAM no number': 'lost-metric', 'STREAM not declared': 'lost-metric',
        'HPL triad': 'not-run',
    }  # fmt: skip
    assert sorted(results.findings()['code']) == ['lost-metric', 'lost-metric', 'not-run', 'reference']


def test_a_table_is_of_today(slow, judgings):
    """After another baseline, all that was stored is judged again before it is read."""
    results = postprocess.open_results(slow.results)
    assert len(results.verdicts()['session'].unique()) == 6 and len(judgings) == 6
    assert len(results.verdicts()) == len(results.verdicts(check='*')) and len(judgings) == 6
    slow.baseline.write_text(slow.baseline.read_text().replace('"100"', '"50"'))
    assert {*results.verdicts(days=0.5, check='STREAM')['verdict']} == {'improved'} and len(judgings) == 7


def test_a_store_of_a_release_without_these_tables_gets_them(work, monkeypatch):
    release = ROOT / 'tests/data/releases/1.0'
    shutil.copytree(release, work.results, dirs_exist_ok=True)
    monkeypatch.setenv('PLUMBLINE_SITES', str(release / 'sites'))
    frame = postprocess.open_results(work.results).verdicts(check='HPL')
    last = frame[frame['session'] == '00000002'].iloc[0]
    assert (last['verdict'], last['mean'], last['expected']) == ('ok', 510, 505)
    postprocess.open_results(work.results).findings()
    assert [len([*work.results.glob(f'store/{table}/*/*/*.parquet')]) for table in JUDGED] == [3, 3]
