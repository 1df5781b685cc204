# SPDX-License-Identifier: BSD-3-Clause
"""What released versions wrote is read by this one: run reports, store, ledger of incidents and baseline."""

import csv
import io
import json
import os
import shutil

import pytest
from run_reports import SITE, Workplace, rows_of
from scratch import ROOT

from plumbline.references import read_references
from postprocess.results import old_layout
from postprocess.results.store import Store
from postprocess.results.tables import TABLES

RELEASES = ROOT / 'tests/data/releases'
BEFORE = ROOT / 'tests/data/before-1.0/store'  #: the same sessions as the last development version stored them
#: Of the sessions 00000000 to 00000002, in which each number is 0, 1 and 2 % more than in the first.
ROWS = {'samples': [45, 45, 45], 'metrics': [28, 28, 28], 'cases': [9, 9, 9], 'sessions': [1, 1, 1]}
STATUSES = {
    '00000000': {'measured': 26, 'invalid': 1, 'missing': 1},
    '00000001': {'measured': 25, 'failed': 2, 'missing': 1},
    '00000002': {'measured': 27, 'missing': 1},
}


@pytest.fixture(params=sorted(path.name for path in RELEASES.iterdir()))
def release(request):
    return RELEASES / request.param


@pytest.fixture
def written(work, release):
    """A results directory and a folder of sites as a released version left them."""
    for name in ('store', 'incidents', 'judged'):
        shutil.copytree(release / name, work.results / name)
    shutil.rmtree(work.sites)
    shutil.copytree(release / 'sites', work.sites)
    return work


@pytest.fixture
def ingested(tmp_path, release):
    """The run reports of a released version, ingested by this one."""
    (tmp_path / 'today').mkdir()
    work = Workplace(tmp_path / 'today')
    assert work.run('ingest', *sorted((release / 'reports').glob('*.json'))).exit_code == 0
    return work


def test_every_row_of_the_store_is_there(written):
    store = Store(written.results)
    sessions = [store.find(uuid) for uuid in STATUSES]
    assert {table: [len(rows_of(store, table, session)) for session in sessions] for table in TABLES} == ROWS
    for uuid, expected in STATUSES.items():
        statuses = [row['status'] for row in rows_of(store, 'metrics', store.find(uuid))]
        assert {status: statuses.count(status) for status in expected} == expected
    sql = """
        SELECT night, mean, n FROM metrics JOIN cases USING (night, case_id) WHERE "check" = 'OsuDeviceLatency'
        AND metric = 'latency' AND metrics.dims = 'message_bytes=8,pair=0-10' ORDER BY night
    """
    found = store.query(sql, store.sessions(SITE)).to_pylist()
    assert [(row['night'], round(row['mean'], 4), row['n']) for row in found] == [
        (0, 2.55, 2), (1, 2.5755, 2), (2, 2.601, 2),
    ]  # fmt: skip


def as_read(store, table, uuid):
    """Rows that can be compared: NaN equal to NaN, without the columns that one of two versions has."""
    rows = rows_of(store, table, store.find(uuid))
    return [{key: str(value) for key, value in row.items() if key not in ('causes', 'fail_reason')} for row in rows]


def as_stored(results):
    """The bytes of each file of the store."""
    return {path.relative_to(results): path.read_bytes() for path in sorted((results / 'store').rglob('*.parquet'))}


def test_a_store_of_a_version_before_is_converted_in_one_step(written):
    """Months in one file, and checksums beside the files: told by each command, and the rows are those of today."""
    today = as_stored(written.results)
    shutil.rmtree(written.results / 'store')
    shutil.copytree(BEFORE, written.results / 'store')
    before = as_stored(written.results)
    for command in ('status', 'compare', 'incidents', 'store check'):
        told = written.run(command)
        assert told.exit_code in (1, 2) and '`plumbline store repair` converts the store' in told.output, command
    assert written.run('store repair').exit_code == 0
    assert written.run('store check').exit_code == 0
    aside = written.results / 'store-before'
    kept = {path.relative_to(aside) for path in aside.glob('*/*/*/*.parquet')}
    assert kept == {path.relative_to('store') for path in before}
    stored = Store(written.results)
    shutil.copytree(RELEASES / '1.0/store', written.results.parent / 'today/store')
    for uuid in STATUSES:
        for table in ('samples', 'metrics', 'cases'):
            assert as_read(stored, table, uuid) == as_read(Store(written.results.parent / 'today'), table, uuid)
    assert {path.name for path in today} >= {f'{uuid}.parquet' for uuid in STATUSES}
    shown = written.run('incidents show', 'e4c13c').stdout
    assert 'the second board comes in January' in ' '.join(shown.split())


@pytest.mark.parametrize('kept', [1, 5])
def test_a_conversion_that_was_killed_goes_on(work, kept, monkeypatch):
    """After so many files were put in place."""
    shutil.copytree(BEFORE, work.results / 'store')
    replace, calls = os.replace, iter(range(kept))
    monkeypatch.setattr(os, 'replace', lambda *words: replace(*words) if next(calls, None) is not None else no_more())
    with pytest.raises(KeyboardInterrupt):
        list(old_layout.convert(work.results / 'store'))
    monkeypatch.undo()
    list(old_layout.convert(work.results / 'store'))
    store = Store(work.results)
    assert {table: [len(rows_of(store, table, store.find(uuid))) for uuid in STATUSES] for table in TABLES} == ROWS
    assert not list(work.results.glob('store/**/*.sums')) and not list(work.results.glob('store/**/together*'))


def no_more():
    raise KeyboardInterrupt


def test_a_changed_bit_is_not_converted(work):
    shutil.copytree(BEFORE, work.results / 'store')
    path = next((work.results / 'store/metrics').glob('*/*/together*'))
    whole = path.read_bytes()
    path.write_bytes(whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])
    told = work.run('store repair')
    assert told.exit_code == 2 and f'{path}: its bytes are not those that were written' in told.stderr


@pytest.mark.parametrize('table', ['samples', 'metrics', 'cases'])
def test_a_report_gives_the_rows_that_were_stored(written, ingested, table):
    stored, today = Store(written.results), Store(ingested.results)
    for uuid in STATUSES:
        assert as_read(stored, table, uuid) == as_read(today, table, uuid)


def reasons(work):
    """Why cases of all sessions failed, as an export says it."""
    rows = csv.DictReader(io.StringIO(work.run('export --to csv --table cases').stdout))
    return [(row['session'], row['check'], row['fail_reason']) for row in rows if row['fail_reason']]


def test_why_a_case_failed_is_exported_as_it_was_stored(written, ingested, tmp_path):
    assert reasons(written) == reasons(ingested) != []
    (tmp_path / 'before').mkdir()
    before = Workplace(tmp_path / 'before')
    shutil.copytree(BEFORE, before.results / 'store')
    assert before.run('store repair').exit_code == 0
    assert reasons(before) == reasons(ingested)


def test_a_baseline_is_in_force(written):
    rows = {(row.id.check, row.id.metric, row.id.dims): row for row in read_references(written.baseline, 'baseline')}
    assert len(rows) == 27
    hpl = rows['HPL', 'gflops', ()]  # 500, 505 and 510 GFlop/s
    assert (hpl.mean, hpl.std, hpl.n, hpl.quantity.unit, hpl.kind) == (505.0, 5.0, 3, 'GFlop/s', 'baseline')
    assert hpl.sessions == set(STATUSES)
    document = written.compare('00000002')
    (judged,) = [row for row in document['verdicts'] if row['check'] == 'HPL']
    assert (judged['verdict'], judged['value'], judged['expected']) == ('ok', 510, 505)


def test_the_ledger_keeps_what_people_wrote_there(written):
    rows = list(csv.DictReader(io.StringIO(written.run('incidents', '--format', 'csv').stdout)))
    states = {row['id']: row['state'] for row in rows}
    assert states == {'e4c13c': 'acknowledged', 'ef7a9d': 'healing', 'b03544': 'healing'}
    shown = written.run('incidents show', 'e4c13c').stdout
    assert 'the second board comes in January' in ' '.join(shown.split())
    shown = written.run('incidents show', 'ef7a9d').stdout
    assert 'the file system was full a day before' in ' '.join(shown.split())
    document = json.loads(written.run('incidents show ef7a9d --format json').stdout)
    assert [(row['value'], row['unit'], row['n']) for row in document['series']] == 2 * [(1010.0, 'MB/s', 1)]
    before = written.judged()
    written.compare('00000001')  # was judged: it is read only
    assert written.judged() == before
    kept = {path.stem for path in (written.results / f'incidents/{SITE}.before').iterdir()}
    assert kept == states.keys(), 'the files of that version are kept'
    written.compare()
    rows = list(csv.DictReader(io.StringIO(written.run('incidents', '--format', 'csv').stdout)))
    assert states.items() <= {row['id']: row['state'] for row in rows}.items(), 'also after the newest was judged again'


@pytest.mark.parametrize('command', ['compare', 'trend', 'fleet', 'report', 'store check', 'export --to csv'])
def test_commands_read_a_store_of_an_earlier_release(written, command):
    assert written.run(command).exit_code in (0, 1)
