# SPDX-License-Identifier: BSD-3-Clause
"""A rename by a line of the table keeps the history: store, references, incidents, and what commands show of them."""

import json
import shutil

import pytest
from run_reports import BEGAN, SITE, Workplace, all_nights_over, case, metric, reference, report

from plumbline import renames
from plumbline.references import _read_once
from plumbline.renames import COLUMNS
from postprocess import open_results
from postprocess.history import kept
from postprocess.papers.tables import paper_tables
from postprocess.report.site_data import site_content
from postprocess.results.store import Store

NIGHTS = 12
OLD = ('STREAM', 'size=big,threads=4', 'triad')
#: Lines of the table, and the check, params and metric of the nights after it.
RENAMES = {
    'check': (['check,,STREAM,Memory,1.1.0'], ('Memory', OLD[1], 'triad')),
    'metric': (['metric,STREAM,triad,rate,1.1.0'], ('STREAM', OLD[1], 'rate')),
    'param': (['param,STREAM,size,width,1.1.0'], ('STREAM', 'threads=4,width=big', 'triad')),
    'value': (['value,STREAM,size=big,size=large,1.1.0'], ('STREAM', 'size=large,threads=4', 'triad')),
    'all, two of them twice': (
        [
            'check,,STREAM,Stream,1.1.0', 'check,,Stream,Memory,1.2.0', 'metric,STREAM,triad,bandwidth,1.1.0',
            'metric,Memory,bandwidth,rate,1.3.0', 'param,Stream,size,width,1.2.0',
            'value,STREAM,size=big,size=large,1.1.0',
        ],
        ('Memory', 'threads=4,width=large', 'rate'),
    ),
}  # fmt: skip


def night(work, number, value, names):
    check, params, of_value = names
    metrics = {name: metric([0.999 * level, 1.001 * level]) for name, level in ((of_value, value), ('copy', 90.0))}
    entry = case(check=check, parameters=params, metrics=metrics)
    work.ingest(report(entry, uuid=f'night{number:03}', mode='quick', began=BEGAN + number * 86400))


@pytest.fixture
def rename(tmp_path, monkeypatch):
    """Write a table of renames, and be the version that has it."""
    folder = tmp_path / 'plumbline'
    folder.mkdir()
    monkeypatch.setattr(kept, '_CODE', (*kept._CODE, folder))  # where the real table is

    def write(lines):
        path = folder / 'renames.csv'
        path.write_text('\n'.join([','.join(COLUMNS), *lines, '']))
        monkeypatch.setattr(renames, 'TABLE', path)
        _read_once.cache_clear()  # of the process: a command runs with one table
        return path

    return write


@pytest.fixture(scope='module')
def twelve_nights(tmp_path_factory):
    work = Workplace(tmp_path_factory.mktemp('twelve'))
    rows = {'check': OLD[0], 'params': OLD[1]}
    work.reference(reference(**rows), reference(**rows, metric='copy', mean=90, std=0.9))
    with all_nights_over():
        for number in range(NIGHTS):
            night(work, number, 80.0 if number == NIGHTS - 1 else 100 + 0.1 * (number % 3), OLD)
            if number >= NIGHTS - 2:
                work.compare()
    return work.results.parent


@pytest.fixture
def stored(twelve_nights, tmp_path):
    """Twelve nights under the old name; a reference of 100, and a loss of 20 % in the last one."""
    shutil.copytree(twelve_nights, tmp_path, dirs_exist_ok=True)
    return Workplace(tmp_path)


def listed(work):
    return json.loads(work.run('incidents', '--format', 'json').stdout)


def files_of(work):
    found = [*work.results.glob('store/**/*.parquet'), *work.sites.rglob('*.csv')]
    return {path: path.read_bytes() for path in found}


@pytest.mark.parametrize('kind', RENAMES)
def test_the_night_after_a_rename_goes_on_with_the_history(stored, rename, kind):
    lines, (check, params, name) = RENAMES[kind]
    (before,) = listed(stored)
    acknowledged = stored.run('incidents acknowledge', before['id'], '--why', 'a dimm', '--until', '2050-01-01')
    assert acknowledged.exit_code == 0
    rename(lines)
    files = files_of(stored)
    night(stored, NIGHTS, 80.0, (check, params, name))
    document = stored.compare()
    rows = {(row['check'], row['params'], row['metric']): row for row in document['verdicts']}
    assert {key: row['verdict'] for key, row in rows.items()} == {
        (check, params, name): 'regressed', (check, params, 'copy'): 'ok'
    }  # fmt: skip
    assert rows[check, params, name]['expected'] == 100
    (known,) = listed(stored)
    assert (known['id'], known['state'], known['sessions'], known['since']) == (
        before['id'], 'acknowledged', 2, before['since'],
    )  # fmt: skip
    assert known['checks'] == [check]
    shown = json.loads(stored.run('incidents show', known['id'], '--format', 'json').stdout)
    assert [(row['check'], row['params'], row['metric']) for row in shown['series']] == [(check, params, name)]
    assert 'missing' not in stored.run('status').stdout
    trend = json.loads(stored.run('trend', '--days', '99', '--format', 'json').stdout)
    assert (trend['sessions'], trend['metrics']) == (NIGHTS + 1, 2)
    frame = open_results(stored.results).metrics()
    assert frame.groupby(['check', 'params', 'metric']).size().to_dict() == {
        (check, params, name): NIGHTS + 1, (check, params, 'copy'): NIGHTS + 1
    }  # fmt: skip
    page = stored.results.parent / 'report.html'
    stored.run('report', '--output', page)
    assert OLD[2] not in page.read_text() or name == OLD[2]
    assert {path: content for path, content in files_of(stored).items() if path in files} == files


def test_without_the_line_the_history_ends(stored):
    night(stored, NIGHTS, 80.0, ('STREAM', OLD[1], 'rate'))
    found = {row['metric']: row['verdict'] for row in stored.compare()['verdicts']}
    assert found == {'triad': 'missing', 'rate': 'no_reference', 'copy': 'ok'}


def test_an_old_session_is_judged_under_todays_name(stored, rename):
    rename(RENAMES['all, two of them twice'][0])
    found = {
        (row['check'], row['metric']): row['verdict'] for row in stored.compare(f'night{NIGHTS - 2:03}')['verdicts']
    }
    assert found == {('Memory', 'rate'): 'ok', ('Memory', 'copy'): 'ok'}


def test_a_baseline_is_proposed_from_nights_before_and_after(stored, rename):
    lines, names = RENAMES['metric']
    rename(lines)
    for number in range(5):  # the incident is closed after five
        night(stored, NIGHTS + number, 100.0, names)
        stored.compare()
    document = json.loads(stored.run('record propose', '--format', 'json').stdout)
    rows = {row['metric']: row for row in document['changes']}
    assert rows.keys() == {'rate', 'copy'} and document['ended'] == []
    assert rows['rate']['n'] == NIGHTS + 4  # the lossy one is left out


def test_a_row_is_retired_by_its_old_name_and_stays_so(stored, rename):
    lines, _ = RENAMES['metric']
    assert stored.run('record retire', 'STREAM triad', '--why', 'x').exit_code == 0
    rename(lines)
    retired = stored.sites / SITE / 'retired.csv'
    assert 'triad' in retired.read_text()
    assert stored.run('record retire', 'STREAM copy', '--why', 'x').exit_code == 0
    assert 'rate' in retired.read_text() and 'triad' not in retired.read_text()


def test_a_site_that_was_published_keeps_its_series(stored, rename):
    folder = stored.results.parent / 'site'
    assert stored.run('publish', folder).exit_code == 0
    before = site_content(folder / SITE / 'data/site.js', folder / SITE)['series']
    lines, (check, params, name) = RENAMES['all, two of them twice']
    rename(lines)
    night(stored, NIGHTS, 80.0, (check, params, name))
    assert stored.run('publish', folder).exit_code == 0
    after = site_content(folder / SITE / 'data/site.js', folder / SITE)['series']
    assert len(after) == len(before) == 2
    assert [row[2:5] for row in after] == [[check, params, {'triad': name}.get(row[4], row[4])] for row in before]


def test_a_table_of_a_paper_keeps_its_numbers(rename):
    rename([
        'check,,FPU_uKernel,FpuKernel,1.1.0', 'metric,FpuKernel,performance,rate,1.2.0',
        'param,FpuKernel,isa,instructions,1.2.0', 'value,FpuKernel,instructions=x86.sp,instructions=scalar,1.2.0',
    ])  # fmt: skip
    cells = paper_tables('mn5', ['marenostrum5'], None, 'latest')[0].cells
    row = cells[cells['row'] == 'x86.sp']  # Table 2 of the paper, as it is printed
    assert ' '.join(row['text']) == '1.93 3.20 2.69 8.00 2.98 4.00 100.00 11.90 2.41 152.70 0.08'


def test_a_metric_that_is_measured_under_both_names_is_refused(stored, rename):
    rename(['metric,STREAM,triad,copy,1.1.0'])
    (stored.sites / SITE / 'baseline.csv').unlink()
    result = stored.run('compare')
    assert result.exit_code == 2
    assert "renames.csv: STREAM has both 'triad' and 'copy': expected a new name that nothing had" in result.stderr


def test_two_cases_that_would_become_one_are_refused(work, rename):
    cases = [case(parameters=f'size={size}', metrics={'triad': metric([100.0])}) for size in ('big', 'large')]
    work.ingest(report(*cases))
    rename(['value,STREAM,size=big,size=large,1.1.0'])
    result = work.run('compare')
    assert result.exit_code == 2
    assert "has both 'STREAM size=big' and 'STREAM size=large': expected a new name" in result.stderr


def test_an_old_case_has_todays_name_for_reframe_and_its_record(work, rename):
    stated = {'triad': {'solver': 'dense'}}
    entry = case(
        metrics={'triad': metric([100.0])}, figures=stated, dims={'size': ('size', 'B')},
        display_name='STREAM %size=big %cpu.nid=n1',
    )  # fmt: skip
    work.ingest(report(entry))
    rename(RENAMES['all, two of them twice'][0])
    store = Store(work.results)
    (row,) = store.rows('cases', store.find())
    assert row['name'] == 'Memory %width=large %cpu.nid=n1'
    assert (json.loads(row['figures']), json.loads(row['dims'])) == (
        {'rate': {'solver': 'dense'}}, {'width': {'kind': 'size', 'unit': 'B'}},
    )  # fmt: skip
    assert [one['metric'] for one in store.rows('samples', store.find())] == ['rate']


@pytest.mark.parametrize('command', ['compare', 'incidents', 'trend'])
def test_a_wrong_table_is_told_by_commands(stored, rename, command):
    path = rename(['metric,STREAM,triad,rate,1.1.0', 'metric,STREAM,rate,triad,1.2.0'])
    result = stored.run(command)
    assert result.exit_code == 2
    assert result.stderr == f"plumbline: {path}:3: 'triad' is an old name of itself: expected one never used before\n"


def test_an_answer_is_kept_only_as_long_as_the_table_stays():
    assert any(renames.TABLE.is_relative_to(folder) for folder in kept._CODE)
