# SPDX-License-Identifier: BSD-3-Clause
"""The table of renames: names of today for those of any time before, and which tables are refused."""

import re

import pytest

from plumbline import renames
from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import tolerance_for
from plumbline.references import load_references
from plumbline.renames import COLUMNS, every_id, today

CHAINS = """\
value,Memory,kernel=dgemm,kernel=gemm,1.4.0
check,,Stream,Memory,1.3.0
metric,Stream,triad,bandwidth,1.1.0
metric,Memory,bandwidth,rate,1.3.0
check,,STREAM,Stream,1.2.0
param,STREAM,type,kernel,1.1.0
value,STREAM,type=mm,type=dgemm,1.0.1
"""


def series(check, metric, **params):
    return SeriesId('cpu', 'system', check, tuple(sorted(params.items())), metric, (('threads', '4'),))


@pytest.fixture
def table(tmp_path, monkeypatch):
    def write(text):
        path = tmp_path / 'renames.csv'
        path.write_text(f'{",".join(COLUMNS)}\n{text}')
        monkeypatch.setattr(renames, 'TABLE', path)
        return path

    return write


def test_the_table_of_this_version_is_right():
    assert isinstance(renames.renames(), dict)


def test_a_name_of_any_time_becomes_that_of_today(table):
    table(CHAINS)
    now = series('Memory', 'rate', kernel='gemm', size='8')
    for earlier in (
        series('STREAM', 'triad', type='mm', size='8'),
        series('STREAM', 'bandwidth', kernel='mm', size='8'),
        series('Stream', 'bandwidth', type='dgemm', size='8'),
        series('Memory', 'rate', kernel='dgemm', size='8'),
        now,
    ):
        assert today(earlier) == now
        assert earlier in list(every_id(now))
    other = series('Copy', 'triad', type='mm')
    assert today(other) == other and list(every_id(other)) == [other]
    assert today(series('STREAM', 'copy', size='mm')) == series('Memory', 'copy', size='mm')


def test_a_rule_of_a_site_that_has_the_old_name_still_holds(table):
    policy = {'rules': [{'check': 'STREAM', 'metric': 'tri*', 'params': 'type=mm', 'floor': 0.2, 'cap': 0.3}]}
    now = series('Memory', 'rate', kernel='gemm')
    assert tolerance_for(policy, now).floor < 0.2
    table(CHAINS)
    found = tolerance_for(policy, now)
    assert (found.floor, found.cap) == (0.2, 0.3)
    assert tolerance_for(policy, series('Memory', 'copy', kernel='gemm')).floor < 0.2


REFERENCE = 'cpu,system,{},{},{},threads=4,GB/s,higher,100,,,published,paper,2026-01-01,,,'
HEADER = 'partition,environ,check,params,metric,dims,unit,better,mean,std,n,kind,source,recorded_at,mode,note,software'


@pytest.mark.parametrize(
    'words', [('STREAM', 'type=mm', 'triad'), ('*', 'kernel=dgemm', 'bandwidth'), ('Stream', '*', '*')]
)
def test_a_reference_under_an_old_name_applies(table, tmp_path, words):
    table(CHAINS)
    (tmp_path / 'cluster').mkdir()
    row = REFERENCE.format(*words).removesuffix(',') + ','
    (tmp_path / 'cluster/published.csv').write_text(f'{HEADER}\n{row}\n')
    found = load_references('cluster', tmp_path).find(series('Memory', 'rate', kernel='gemm'))
    assert found and found.mean == 100
    assert load_references('cluster', tmp_path).find(series('Memory', 'rate', kernel='gemv')) is (
        found if words[1] == '*' else None
    )


@pytest.mark.parametrize(
    ('text', 'line', 'says'),
    [
        ('check,,A,B,1.1.0\ncheck,,B,A,1.2.0\n', 3, "'A' is an old name of itself"),
        ('check,,A,A,1.1.0\n', 2, "'A' is an old name of itself"),
        ('metric,A,x,y,1.1.0\nmetric,A,y,z,1.1.0\nmetric,A,z,x,1.1.0\n', 4, "'x' is an old name of itself"),
        ('check,,A,C,1.1.0\ncheck,,B,C,1.2.0\n', 3, "'B' and 'A' of line 2 would both be 'C'"),
        ('check,,A,B,1.1.0\nmetric,B,x,z,1.1.0\nmetric,A,y,z,1.1.0\n', 4, "'y' and 'x' of line 3 would both be 'z'"),
        ('param,A,x,y,1.1.0\nparam,A,x,z,1.1.0\n', 3, "'x' has another new name, 'y' of line 2"),
        ('value,A,p=x,q=y,1.1.0\n', 2, "expected two values of one param, found 'p=x' and 'q=y'"),
        ('value,A,x,y,1.1.0\n', 2, "old: expected name=value, found 'x'"),
        ('metrics,A,x,y,1.1.0\n', 2, "expected one of check, metric, param, value; found 'metrics'"),
        ('metric,,x,y,1.1.0\n', 2, 'check: expected the check of a metric'),
        ('check,A,A,B,1.1.0\n', 2, 'and nothing for a check'),
        ('metric,A,x,,1.1.0\n', 2, "new: expected a name, found ''"),
        ('metric,A,x,y,next\n', 2, "since: expected a version such as 1.2.0, found 'next'"),
        ('metric,A,x,y\n', 2, 'expected 5 fields'),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(table, text, line, says):
    path = table(text)
    with pytest.raises(InputError, match=re.escape(says)) as told:
        today(series('A', 'x'))
    assert str(told.value).startswith(f'{path}:{line}: ')


def test_a_table_that_is_none_is_refused(table):
    path = table('')
    path.write_text('old,new\n')
    with pytest.raises(InputError, match=':1: expected the columns kind,check,old,new,since'):
        today(series('A', 'x'))
