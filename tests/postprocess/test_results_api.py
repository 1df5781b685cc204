# SPDX-License-Identifier: BSD-3-Clause
"""The public interface: DataFrames of the store, the notebook about them, and what `plumbline export` writes."""

import csv
import io
import re
import shutil
import subprocess
import sys

import nbformat
import pandas
import pyarrow as pa
import pytest
from nbclient import NotebookClient
from rows import each_row
from run_reports import SITE, Workplace, case, metric, report
from scratch import ROOT

import postprocess
from plumbline.errors import InputError
from postprocess.results.frames import with_dims
from postprocess.results.store import Store

RELEASED = ROOT / 'tests/data/releases/1.0'


def test_sessions_and_cases_of_all_sites_or_one(results):
    sessions = results.sessions()
    assert sorted(zip(sessions['site'], sessions['session'], strict=True)) == [
        (SITE, '00000000'), (SITE, '00000001'), (SITE, '00000002'), ('other', '00000000'),
    ]  # fmt: skip
    assert results.sessions(site=SITE)['started'].is_monotonic_increasing
    cases = results.cases(site=SITE)
    assert len(cases) == 3 * 8  # fixtures are left out
    assert set(results.cases(site=SITE, check='Osu*')['check']) == {'OsuLatency', 'OsuDeviceLatency'}


def test_days_count_back_from_the_newest_session_of_each_site(results):
    newest = results.sessions(days=1)
    assert sorted(newest['site']) == [SITE, 'other']
    assert set(newest.loc[newest['site'] == SITE, 'session']) == {'00000002'}
    assert len(results.sessions(site=SITE, days=44)) == 2


def test_series_of_two_sites_with_the_same_uuid_stay_apart(results):
    other = results.metrics(site='other')
    assert other[['site', 'check', 'metric', 'mean', 'n', 'status']].values.tolist() == [
        ['other', 'STREAM', 'triad', 8.0, 2, 'measured']
    ]
    assert len(results.metrics()) == len(results.metrics(site=SITE)) + 1


def test_dims_become_columns(results):
    found = results.metrics(site=SITE, check='OsuDeviceLatency', dims=True)
    assert found['message_bytes'].dtype == 'Int64'
    curve = found[found['pair'] == '0-10'].set_index(['session', 'message_bytes'])['mean']
    assert curve['00000000', 8] == pytest.approx(2.55)
    assert found['pair'].isna().sum() == 3  # mpi_latency has no pair
    assert 'dims' not in found


def test_samples_have_the_identity_of_their_series(results):
    found = results.samples(site=SITE, check='BabelStreamThreads', dims=True)
    sample = found[(found['proc_bind'] == 'spread') & (found['threads'] == 16) & (found['session'] == '00000000')]
    assert sample[['metric', 'kernel', 'trial', 'node', 'value']].values.tolist() == [
        ['bandwidth', 'triad', 1, 'n1', 320]
    ]


def test_a_dim_with_the_name_of_a_column_is_refused():
    with pytest.raises(ValueError, match='node'):
        next(with_dims([pa.table({'node': ['n1'], 'dims': ['node=3']})], ['node=3']))


def test_a_store_without_sessions_is_empty_and_a_damaged_one_an_error(work, results):
    assert postprocess.open_results(work.results / 'nothing').metrics(dims=True).empty
    next(work.results.glob('store/metrics/*/*/*.parquet')).write_bytes(b'PAR1')
    with pytest.raises(InputError, match='damaged'):
        results.metrics()


def test_the_notebook_of_the_documentation_runs(monkeypatch, tmp_path):
    monkeypatch.delenv('PLUMBLINE_RESULTS', raising=False)
    shutil.copytree(RELEASED, tmp_path / 'tests/data/releases/1.0')  # its pictures are of a judged session
    (tmp_path / 'docs').mkdir()
    notebook = nbformat.read(ROOT / 'docs/results.ipynb', as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == 'code']
    assert code and all(cell.outputs for cell in code)
    NotebookClient(notebook, timeout=300, resources={'metadata': {'path': str(tmp_path / 'docs')}}).execute()


# plumbline export


def export(work, *words):
    return work.run('export', *words)


def test_export_as_csv_is_the_frame(work, results):
    found = export(work, '--to', 'csv', '--site', SITE, '--check', 'Osu*', '--dims')
    assert found.exit_code == 0, found.output
    frame = pandas.read_csv(io.StringIO(found.stdout), dtype={'session': str})
    assert frame['mean'].tolist() == results.metrics(site=SITE, check='Osu*', dims=True)['mean'].tolist()


@pytest.mark.parametrize('table', ['samples', 'metrics', 'cases', 'sessions'])
def test_export_as_parquet_is_the_frame(work, results, table, tmp_path):
    path = tmp_path / 'out.parquet'
    assert export(work, '--to', 'parquet', '--table', table, '-o', path).exit_code == 0
    frame = getattr(results, table)()
    assert len(pandas.read_parquet(path)) == len(frame) and frame['started'].notna().all()


@pytest.mark.parametrize(
    ('words', 'says'),
    [(['--to', 'parquet'], '--output'), (['--to', 'cvs'], 'expected one of csv, parquet'), ([], '--to')],
)
def test_export_says_what_it_needs(work, results, words, says):
    found = export(work, *words)
    assert found.exit_code == 2
    assert says in found.stderr


@pytest.mark.parametrize('words', ['export --to csv', 'compare --format csv', 'record propose --format csv'])
def test_no_dims_are_a_dash_in_every_table(work, words):
    work.ingest(report(case(metrics={'triad': metric([2.0])})))
    rows = [*csv.DictReader(io.StringIO(work.run(words).stdout))]
    assert [row['dims'] for row in rows] == ['-'], rows


@each_row('text', ["=cmd|'/C calc'!A0", '+1+1', '-2+3', '@SUM(A1)'])
def test_a_text_that_a_spreadsheet_would_run_is_quoted_and_a_number_is_not(text, tmp_path_factory):
    work = Workplace(tmp_path_factory.mktemp('formula'))
    entry = case(metrics={'triad': metric([-1.5, -2.5], unit=text, node=text)}, stack=text, check=text)
    work.ingest(report(entry, case('Lost', result='fail', fail_phase='sanity', fail_reason=text)))
    for words, columns in (
        ('export --to csv --table samples', ('check', 'environ', 'node')),
        ('export --to csv', ('check', 'environ', 'unit')),
        ('export --to csv --table cases', ('check', 'environ', 'fail_reason')),
        ('compare --format csv', ('check', 'environ', 'unit')),
    ):
        rows = [*csv.DictReader(io.StringIO(work.run(words).stdout))]
        for column in columns:
            assert "'" + text in {row[column] for row in rows} and text not in {row[column] for row in rows}, words
    assert re.findall(',(-[12].5)$', work.run('export --to csv --table samples').stdout, re.M) == ['-1.5', '-2.5']


@pytest.mark.parametrize('words', ['csv --table samples', 'csv --dims'])
def test_an_export_holds_the_rows_of_few_sessions_and_is_the_same(work, results, words, monkeypatch):
    whole, held = export(work, '--to', *words.split()).stdout, []
    monkeypatch.setattr('postprocess.results.store._CASES_AT_ONCE', 1)
    monkeypatch.setattr('postprocess.results.store._ROWS_AT_ONCE', 5)

    def seen(read):
        def reads(*arguments, **more):
            for table in read(*arguments, **more):
                held.append(table.num_rows)
                yield table

        return reads

    for name in ('query_portions', 'stream'):
        monkeypatch.setattr(Store, name, seen(getattr(Store, name)))
    assert export(work, '--to', *words.split()).stdout == whole
    of_all = whole.count('\n')
    assert len(held) >= 4 and max(held) < of_all / 2


def test_export_to_a_closed_output_is_an_error(work, results):
    command = [sys.executable, '-m', 'plumbline', 'export', '--to', 'csv', f'--results={work.results}']
    closed = subprocess.run(
        ['sh', '-c', 'exec "$@" >&-', 'sh', *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert closed.returncode == 2 and 'standard output is closed' in closed.stderr
