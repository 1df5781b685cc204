# SPDX-License-Identifier: BSD-3-Clause
"""The store over months and years: later schemas, many processes, ReFrame's results database."""

import json
import math
import os
import sqlite3
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from run_reports import BEGAN, DAY, SITE, case, metric, report

from plumbline.causes import Cause
from plumbline.errors import InputError
from postprocess.results.database import _own_folder
from postprocess.results.files import to_arrow
from postprocess.results.rows import CaseRow, columns_of, typed
from postprocess.results.store import Store

ROOT = Path(__file__).resolve().parent.parent.parent


def night(number, value=100.0):
    """A session of one case, so many days after the first."""
    entry = case(metrics={'triad': metric([value, value + 1])})
    return report(entry, uuid=f'{number:04}'.replace('-', 'minus'), began=BEGAN + number * DAY)


@pytest.mark.parametrize(
    ('sql', 'rows'),
    [
        ('SELECT night, "check" FROM cases ORDER BY night', [(0, 'STREAM'), (1, 'STREAM')]),
        ('WITH names AS (SELECT name FROM part) SELECT name FROM names ORDER BY name', [('a',), ('b',)]),
        (
            """
            -- a comment, and a part WITH a name

            WITH own AS (SELECT night, mean FROM metrics WHERE mean > 90), other AS (FROM own)
            SELECT night, mean, name FROM other JOIN part USING (night)
            """,
            [(0, 100.5, 'a')],
        ),
    ],
)  # fmt: skip
def test_rows_that_are_selected_are_those_of_a_query(work, sql, rows):
    work.ingest(night(0, 100.0), night(1, 50.0))
    store, part = Store(work.results), {'night': [0, 1], 'name': ['a', 'b']}
    selected = store.select(sql, store.sessions(SITE), part=part)
    assert [tuple(row.values()) for row in selected] == rows
    assert selected == store.query(sql, store.sessions(SITE), part=part).to_pylist()


def test_the_latest_session_of_several_sites_is_that_of_this_host(work, monkeypatch):
    work.ingest(report(case(), uuid='1'), report(case(site='elsewhere'), uuid='2'))
    with pytest.raises(InputError, match=f'several sites, {SITE}, elsewhere: name one with --site'):
        Store(work.results).find()
    assert Store(work.results).find('latest', 'elsewhere').session == '2'
    (work.sites / 'elsewhere').mkdir()
    (work.sites / 'elsewhere/site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text())
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    monkeypatch.setenv('PLUMBLINE_SITE', 'elsewhere')
    assert Store(work.results).find().site == 'elsewhere'


def database(work, *reports):
    """A results database with the tables that ReFrame 4.10.4 makes."""
    path = work.reports / 'results.db'
    with sqlite3.connect(path) as connection:
        connection.execute(
            'CREATE TABLE sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, '
            'json_blob TEXT, report_file TEXT)'
        )
        for text in reports:
            connection.execute('INSERT INTO sessions VALUES (?, 0, 0, ?, ?)', (*text, None)[:3])
    connection.close()
    return path


def test_a_results_database_is_a_source(work):
    texts = [(name, work.write(night(i)).read_text()) for i, name in enumerate(('0000', '0001', '0002'))]
    work.ingest(night(1))
    path = database(work, *texts, ('0003', '{"cut'))
    result = work.run('ingest', path)
    assert result.exit_code == 2  # for the last one
    assert f'{path}: session 0003: not valid JSON' in result.stderr
    assert 'session 0000' in result.stdout
    assert 'session 0001' not in result.stdout  # there already, from its report
    store = Store(work.results)
    assert [store.find(name).source for name in ('0000', '0001', '0002')] == ['database', 'report', 'database']
    assert 'nothing changed' in work.run('ingest', work.reports / '0002.json').stdout
    path.unlink()
    assert 'nothing new' in work.run('ingest', database(work, *texts)).stdout


def test_reruns_and_comparisons_of_a_change_in_a_results_database_are_no_nights(work):
    places = ('reports/0.json', 'reports/parts/1-retry.json', 'changes/20261122T000000Z/reports/1-before.json')
    texts = [(f'000{i}', work.write(night(i)).read_text(), f'/r/{place}') for i, place in enumerate(places)]
    assert 'session 0000' in work.run('ingest', database(work, *texts)).stdout
    assert [session.session for session in Store(work.results).sessions(SITE)] == ['0000']


def test_a_database_of_something_else_is_named(work):
    path = work.reports / 'other.db'
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE birds(name TEXT)')
    connection.close()
    result = work.run('ingest', path)
    assert result.exit_code == 2
    assert result.stderr == f"plumbline: {path}: not a usable results database of ReFrame's: no such table: sessions\n"


def test_what_a_case_holds_as_mappings_is_json_in_the_store():
    row = CaseRow(
        1, 'cpu', 'system', 'STREAM', (('size', 'big'),), 'STREAM', 'fail', dims={'b': {}, 'a': {}},
        figures={'triad': {'peak': math.inf}}, provenance={'b': 'µ', 'a': '\udcff'}, causes=[Cause('said', 'x')],
    )  # fmt: skip
    table = to_arrow('cases', 's', columns_of([row]))
    (stored,) = table.to_pylist()
    assert (stored['params'], stored['dims'], stored['health']) == ('size=big', '{"b": {}, "a": {}}', '{}')
    assert stored['provenance'] == '{"a": "?", "b": "µ"}' and json.loads(stored['causes'])[0]['what'] == 'x'
    expected = row._replace(provenance={'a': '?', 'b': 'µ'}, causes=(Cause('said', 'x'),))
    assert typed(CaseRow, table) == [expected]
    (older,) = typed(CaseRow, table.drop_columns(['causes', 'health']))
    assert older == expected._replace(causes=())
    said = pa.array(['no memory'], pa.string())
    for phase, causes in (('sanity', [Cause('said', 'no memory')]), ('performance', ())):
        of_phase = table.set_column(table.column_names.index('fail_phase'), 'fail_phase', pa.array([phase]))
        (older,) = typed(CaseRow, of_phase.drop_columns(['causes']).append_column('fail_reason', said))
        assert older.causes == causes, phase
    nothing = table.set_column(table.column_names.index('dims'), 'dims', pa.nulls(1, pa.string()))
    assert typed(CaseRow, nothing)[0].dims == {}


def test_a_command_to_type_names_results_that_only_this_process_knows(tmp_path, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_RESULTS', str(tmp_path))  # as `ci/nightly --results` does for its steps
    assert Store(tmp_path).command('record propose', 'box') == f'`plumbline record propose --results={tmp_path}`'
    assert '--results' not in Store(ROOT / 'results').command('record propose', 'box')


def test_what_does_not_fit_into_memory_goes_where_no_other_user_may_look(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    before = os.umask(0)
    try:
        own = Path(_own_folder())
        assert own.stat().st_mode & 0o777 == 0o700 and _own_folder() == str(own)
        own.chmod(0o777)  # as another user would make it, who was first
        other = Path(_own_folder())
        assert other != own and other.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
