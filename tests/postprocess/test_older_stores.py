"""Stores of earlier schemas: the same rows as from the same run reports today, whatever the way they are read."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_reports import SITE, Workplace, case, metric, report

from plumbline.migration import metric_and_dims
from postprocess.results.store import Store
from postprocess.results.tables import SCHEMA

OLD = Path(__file__).parent.parent / 'data' / 'store-schema-2'


@pytest.fixture(params=[1, 2, 3, 4])
def old(work, request):
    """The recorded store, as either schema wrote it: three sessions, of which two are compacted."""
    shutil.copytree((OLD.with_name('store-schema-3') if request.param > 2 else OLD) / 'store', work.results / 'store')
    if request.param == 1:
        for path in work.results.rglob('*.parquet'):
            rows = pq.ParquetFile(path).read()
            rows = rows.drop_columns([name for name in ('judged', 'source') if name in rows.column_names])
            pq.write_table(rows.set_column(0, 'schema', pa.array([1] * len(rows), pa.int32())), path)
    if request.param == 4:
        for path in work.results.rglob('*.parquet'):
            rows = pq.ParquetFile(path).read()
            rows = rows.set_column(0, 'schema', pa.array([4] * len(rows), pa.int32()))
            if 'cases' in path.parts:
                rows = rows.append_column('round', pa.array([0] * len(rows), pa.int32()))
            pq.write_table(rows, path)
    return work


@pytest.fixture(scope='module')
def today(tmp_path_factory):
    """The same run reports, ingested by this version."""
    work = Workplace(tmp_path_factory.mktemp('today'))
    work.run('ingest', *sorted((OLD / 'reports').glob('*.json')))
    return Store(work.results)


def rows(store, table, session, **without):
    """Rows that can be compared: JSON parsed, NaN equal to NaN."""
    found = store.rows(table, store.find(session))
    parsed = ('placement', 'provenance', *(('dims',) if table == 'cases' else ()))
    return [
        {key: json.loads(value) if key in parsed else str(value) for key, value in row.items() if key not in without}
        for row in found
    ]


@pytest.mark.parametrize('table', ['samples', 'metrics', 'cases'])
@pytest.mark.parametrize('session', ['00000000', '00000001', '00000002'])
def test_each_session_has_the_rows_that_its_report_gives_today(old, today, table, session, request):
    first_schema = request.node.callspec.params['old'] == 1
    without = {'judged': 1} if first_schema else {}  # schema 1 did not keep it
    expected = rows(today, table, session, **without)
    assert expected
    assert rows(Store(old.results), table, session, **without) == expected


def test_sessions_say_what_was_selected(old):
    sessions = Store(old.results).sessions(SITE)
    assert [session.narrowed_by for session in sessions] == [[], ['--name'], []]
    assert sessions[1].selection == ['mode=nightly', 'name=OsuLatency']
    assert {session.source for session in sessions} == {'report'}


def test_nothing_is_lost_and_every_number_is_the_same(old):
    """Against the files themselves, so that a mistake that both ways of reading share is seen."""
    store = Store(old.results)
    sessions = store.sessions(SITE)
    files = sorted((OLD / 'store' / 'samples').rglob('*.parquet'))
    before = pa.concat_tables(pq.ParquetFile(path).read() for path in files).to_pylist()
    checks = {(s.session, row['case_id']): row['check'] for s in sessions for row in store.rows('cases', s)}
    expected = Counter(
        (row['session'], row['case_id'], *metric_and_dims(checks[row['session'], row['case_id']], row['metric']),
         row['trial'], row['node'], row['value'])
        for row in before
    )  # fmt: skip
    found = store.query('FROM samples', sessions).to_pylist()
    keys = ('session', 'case_id', 'metric', 'dims', 'trial', 'node', 'value')
    as_text = Counter(tuple(str(row[key]) for key in keys) for row in found)
    assert sum(expected.values()) == len(before) == len(found)
    assert {(*key[:3], *key[4:]) for key in as_text} == {
        (key[0], str(key[1]), key[2], *map(str, key[4:])) for key in expected
    }


def test_old_and_new_sessions_are_one_history(old):
    old.ingest(report(case('OsuLatency', 'place=nodes', {'latency_8': metric([4.0], 'us', 'lower')}), uuid='ffff'))
    store = Store(old.results)
    found = store.query(
        """
        SELECT night, metric, metrics.dims, status, mean FROM metrics JOIN cases USING (night, case_id)
        WHERE "check" = 'OsuLatency' AND metrics.metric || metrics.dims IN (?, ?) ORDER BY night
        """.replace('(?, ?)', "('latency_8-', 'latencymessage_bytes=8')"),
        store.sessions(SITE),
    ).to_pylist()
    assert [row['night'] for row in found] == [0, 1, 2, 3]
    assert len({(row['metric'], row['dims']) for row in found}) == 1
    assert {row['status'] for row in found} == {'measured'}


def test_statuses_are_those_of_the_cases(old):
    store = Store(old.results)
    sql = 'SELECT night, status, count(*) AS n FROM metrics GROUP BY ALL ORDER BY ALL'
    found = store.query(sql, store.sessions(SITE))
    counts = {(row['night'], row['status']): row['n'] for row in found.to_pylist()}
    assert counts[0, 'invalid'] == 1
    assert counts[1, 'failed'] == 2
    assert [counts[night, 'missing'] for night in range(3)] == [1, 1, 1]
    of_cases = store.query('SELECT count(*) AS n FROM cases', store.sessions(SITE)).to_pylist()
    assert of_cases == [{'n': 27}]


def test_commands_read_them_and_a_month_that_is_over_is_rewritten(old):
    for command in ('compare', 'trend', 'fleet', 'report'):
        assert old.run(command).exit_code in (0, 1)
    tables = ('samples', 'metrics', 'cases')
    before = [rows(Store(old.results), table, '00000001') for table in tables]
    store = Store(old.results)
    assert store.compact(SITE) == ['2026-10']
    assert store.find('00000001').schema == SCHEMA
    assert store.find('00000002').schema < SCHEMA  # of the last month
    assert [rows(store, table, '00000001') for table in tables] == before
    assert store.compact(SITE) == []
