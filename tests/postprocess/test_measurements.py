# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that no ReFrame made: tables, readers of other packages, and a loss that must be found."""

import duckdb
import pytest
from run_reports import BEGAN, DAY
from saved_files import assert_is_refused, ingest, numbers

from postprocess.readers.measurements import readers
from postprocess.results.store import Store

TABLE = """\
session,time,partition,environ,check,params,metric,dims,unit,better,value,node,trial
a,2026-11-01T02:00:00+01:00,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,,95.125,n1,1
a,2026-11-01T02:00:00+01:00,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,,95.5,n1,2
a,2026-11-01T02:00:00+01:00,cpu,gnu,Solve,,time,,s,,12.25,n2,
b,1793498400,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,higher,94.75,n1,1
"""


EXPECTED_OF_TABLE = [
    {
        ('Stream', 'size=8,threads=2', 'kernel=triad', 'rate'): (95.3125, 'GB/s', 'higher', 2),
        ('Solve', '', '', 'time'): (12.25, 's', 'lower', 1),
    },
    {('Stream', 'size=8,threads=2', 'kernel=triad', 'rate'): (94.75, 'GB/s', 'higher', 1)},
]


@pytest.mark.parametrize('kind', ['csv', 'jsonl', 'parquet'])
def test_a_table_in_each_format_becomes_the_same_sessions(work, tmp_path, kind):
    (tmp_path / 'a.csv').write_text(TABLE)
    path = tmp_path / f'a.{kind}'
    if kind != 'csv':
        options = {'jsonl': '', 'parquet': '(FORMAT parquet)'}[kind] or '(FORMAT json)'
        duckdb.sql(f"COPY (FROM read_csv('{tmp_path}/a.csv', all_varchar = true)) TO '{path}' {options}")
    assert ingest(work, path, 'table').count(' of box: ') == 2
    assert numbers(work) == EXPECTED_OF_TABLE
    first, second = sorted(Store(work.results).sessions('box'), key=lambda one: one.started)
    assert {case.check: case.trials for case in Store(work.results).cases(first)} == {'Stream': 2, 'Solve': 1}
    assert f'{first.started:%Y-%m-%d %H:%M}' == '2026-11-01 01:00' and first.session[:8] != second.session[:8]
    assert 'nothing changed' in ingest(work, path, 'table')


@pytest.mark.parametrize(('name', 'text', 'said'), [
    ('table', 'check,metric\nA,b\n', 'found no value'),
    ('table', 'check,metric,value,colour\nA,b,1,red\n', 'found colour'),
    ('table', 'check,metric,value,better\nA,b,1,up\n', 'expected higher or lower'),
    ('table', 'check,metric,value\nA,b,fast\n', 'row 1'),
    ('table', 'check,metric,value,params\nA,b,1,size\n', 'expected name=value'),
    ('table', 'check,metric,value,time\nA,b,1,yesterday\n', 'yesterday'),
    ('table', 'check,metric,value,time\nA,b,1,99999999999999\n', 'a.csv'),
    ('table', 'check,metric,value\n', 'has no number'),
    ('table', 'check,metric,value\nA,b,1\nA,c,1\nA,b,2\n', 'trial 1 of b - is there twice (row 1 and row 3)'),
    ('table', 'check,metric,value,unit\nA,b,1,s\nA,b,2,ms\n', 'b has several units or directions (row 1 and row 2)'),
    ('table', 'check,metric,value,trial\nA,b,1,0\n', 'expected a number from 1 on'),
])  # fmt: skip
def test_a_file_that_is_wrong_or_incomplete_is_named_and_nothing_is_stored(work, tmp_path, name, text, said):
    assert_is_refused(work, tmp_path / 'a.csv', name, text, said)


def test_a_loss_of_7_percent_is_found_the_same_night_and_so_is_a_check_that_is_gone(work, tmp_path):
    """Beside a baseline of ten nights of two checks; a file of other checks lacks nothing."""

    def night(number, checks='ab', factor=1.0):
        path, level = tmp_path / f'{number}.csv', 100 + number % 3 * 0.3
        rows = [f'n{number},{BEGAN + number * DAY},cpu,{check},rate,GB/s,{level * factor}\n' for check in checks]
        path.write_text('session,time,partition,check,metric,unit,value\n' + ''.join(rows))
        return path

    def compared(*options):
        answer = work.run('compare', '--site', 'box', *options)
        return answer.exit_code, ' '.join(answer.stdout.split())

    ingest(work, night(0), 'table', *map(night, range(1, 10)))
    for step in ('propose', 'accept'):
        assert work.run('record', step, '--site', 'box').exit_code == 0
    ingest(work, night(10), 'table')
    assert compared()[0] == 0
    ingest(work, night(11, factor=0.93), 'table')
    code, told = compared()
    assert code == 1 and '1 incident open' in told and 'ci/nightly' not in told, told
    assert 'SYSTEM cpu/default: 6.7 % less' in told and 'a - rate' in told
    ingest(work, night(12, 'a'), 'table')
    day_before, last = (session.short_name for session in Store(work.results).sessions('box')[-2:])
    for options, said in (((), '1 missing'), (('--coverage',), '1 vanished'), ((day_before, last), '1 missing')):
        code, told = compared(*options)
        assert code == 1 and said in told, told
    ingest(work, night(13), 'table')
    assert compared()[0] == 0
    ingest(work, night(14, 'c'), 'table')  # a file of its own, never measured together with the others
    code, told = compared()
    assert code == 0 and '1 missing' not in told, told


def test_a_package_registers_a_format(work, tmp_path, monkeypatch):
    (tmp_path / 'ours.py').write_text(
        'from plumbline.measurement import Measurement\n'
        'def read(path):\n    yield Measurement("Ours", "rate", float(path.read_text()), "GB/s")\n'
    )
    (tmp_path / 'ours-1.dist-info').mkdir()
    (tmp_path / 'ours-1.dist-info/METADATA').write_text('Metadata-Version: 2.1\nName: ours\nVersion: 1\n')
    (tmp_path / 'ours-1.dist-info/entry_points.txt').write_text('[plumbline.readers]\nours = ours:read\n')
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / 'a.txt').write_text('95.5')
    ingest(work, tmp_path / 'a.txt', 'ours')
    assert numbers(work) == [{('Ours', '', '', 'rate'): (95.5, 'GB/s', 'higher', 1)}]
    assert 'ours' in ingest(work, tmp_path / 'a.txt', 'our', code=2)


def test_a_trial_without_its_value_fails(work, tmp_path):
    (tmp_path / 'a.csv').write_text('check,metric,value,trial\nA,b,1,1\nA,b,,2\n')
    ingest(work, tmp_path / 'a.csv', 'table')
    red = work.run('compare', '--site', 'box')
    told = ' '.join(red.stdout.split())
    assert red.exit_code == 1 and 'b has no value (row 2, trial 2)' in told, red.output


def test_a_wrong_format_lists_all_and_a_table_without_one_names_the_option(work, tmp_path):
    path = tmp_path / 'some.csv'
    path.write_text('check,metric,value\nA,b,1\n')
    told = work.run('ingest', path, '--format', 'os', '--site', 'x')
    assert told.exit_code == 2 and all(name in told.stderr for name in readers()), told.stderr
    assert 'did you mean osu?' in told.stderr
    told = work.run('ingest', path)
    assert told.exit_code == 2 and 'name the format of another tool with --format' in told.stderr, told.stderr
