# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline incidents`, `show` and `acknowledge`."""

import csv
import io
import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_reports import SITE
from simulated_site import METRICS, OSU, slow_node, three_causes
from test_incidents import failed


def test_show_tells_all_of_an_incident(site):
    site.run(three_causes, lambda check: {'stack_lock': 'b' if check in OSU else 'a'})
    listed = site.judged(1)
    for one in listed:
        text = site.work.run('incidents show', one['id'][:4]).stdout
        assert one['id'] in text and one['what'].split(' in ')[0] in ' '.join(text.split())
        assert all(check in text for check in one['checks'])
        assert f'plumbline incidents acknowledge {one["id"]}' in ' '.join(text.split())
    slow = next(one for one in listed if one['kind'] == 'NODE')
    shown = json.loads(site.work.run('incidents show', slow['id'], '--format', 'json').stdout)
    assert len(shown['series']) == shown['metrics'] == slow['metrics'] == METRICS
    for row in shown['series']:
        assert row['value'] == pytest.approx(80, rel=0.01)
        assert (row['expected'], row['unit'], row['n']) == (100, 'GB/s', 3)
        assert 15 < row['loss_low'] < row['loss'] < row['loss_high'] < 25


def test_the_list_begins_with_what_is_open(site):
    site.run(three_causes)
    site.judged(1)
    result = site.work.run('incidents', '--format', 'csv')
    assert result.exit_code == 1
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row['state'] for row in rows] == ['open'] * 3
    site.work.run('incidents acknowledge', rows[0]['id'], '--why', 'x', '--until', '2026-12-31')
    rows = list(csv.DictReader(io.StringIO(site.work.run('incidents', '--format', 'csv').stdout)))
    assert [row['state'] for row in rows] == ['open', 'open', 'acknowledged']


def test_without_an_incident_the_list_is_empty(young):
    young.run()
    young.judged(0)
    result = young.work.run('incidents')
    assert (result.exit_code, result.stdout) == (0, '0 incidents, 0 open\n')


def test_no_incident_is_no_answer_where_no_session_is(young):
    result = young.work.run('incidents')
    assert result.exit_code == 2 and str(young.work.results) in result.stderr
    young.run()
    result = young.work.run('incidents', '--site', 'nosuch')
    assert result.exit_code == 2 and 'nosuch' in result.stderr


@pytest.mark.parametrize(
    ('words', 'says'),
    [
        (('show', 'ffff'), "no incident has the id 'ffff'"),
        (('acknowledge', 'ffff', '--why', 'x', '--until', '2026-12-31'), "no incident has the id 'ffff'"),
        (('show', ''), "no incident has the id ''"),
        (('acknowledge', 'ID', '--why', 'x', '--until', 'soon'), '--until: expected a day such as 2026-12-31'),
        (('acknowledge', 'ID', '--why', 'x', '--until', '2020-01-01'), '2020-01-01 is before the last session'),
        (('acknowledge', 'ID', '--why', ' ', '--until', '2026-12-31'), '--why: expected a reason'),
    ],
)
def test_a_wrong_word_is_one_sentence(site, words, says):
    site.run(slow_node(0.5))
    (one,) = site.judged(1)
    result = site.work.run('incidents', *(one['id'] if word == 'ID' else word for word in words))
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.count('\n') == 1


def test_a_damaged_file_of_the_ledger_is_named(young):
    young.run()
    path = young.work.results / f'incidents/{SITE}.jsonl'
    path.parent.mkdir(parents=True)
    path.write_text('{}\n')
    for command in ('compare', 'incidents', 'report', 'status'):
        result = young.work.run(command)
        assert result.exit_code == 2, command
        assert str(path) in result.stderr
    assert 'incidents  not known\n' in result.stdout
    assert young.work.run('store check').exit_code == 1


def test_a_flipped_bit_of_what_a_session_showed_is_said_by_each_command(young):
    """Of 8 bits over the file of a session before the newest; what is said is the file."""
    young.run(slow_node(0.5))
    (one,) = young.judged(1)
    (path,) = young.work.results.glob('store/findings/*/*/*.parquet')
    young.run(slow_node(0.5))
    whole = path.read_bytes()
    told = 0
    for number in range(8):
        place = number * (len(whole) - 1) // 7
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << number % 8]) + whole[place + 1 :])
        listed, checked, shown = (young.work.run(words) for words in ('incidents', 'store check', 'status'))
        if listed.exit_code != 2:  # the bit is one that Parquet does not read, such as of its writer's name
            assert one['id'] in listed.stdout
            continue
        told += 1
        assert shown.exit_code == 2 and ' open' not in shown.stdout
        assert str(path) in listed.stderr and str(path) in shown.stderr and str(path) in checked.stdout
    assert told > 3


@pytest.fixture
def two_nights(young):
    """A site whose node n3 is slow in two nights, and what the first of them showed."""
    young.run(slow_node(0.5))
    (one,) = young.judged(1)
    (path,) = young.work.results.glob('store/findings/*/*/*.parquet')
    young.run(slow_node(0.5))
    assert young.judged(1)[0]['id'] == one['id']
    return young, path


@pytest.mark.parametrize('kind', ['missing', 'of another version'])
def test_what_a_night_before_showed_is_not_lost_in_silence(two_nights, kind):
    """Each command says it, tonight's incident is told all the same, and judging that night again mends it."""
    site, path = two_nights
    before = [one['id'] for one in json.loads(site.work.run('incidents --format json').stdout)]
    if kind == 'missing':
        path.unlink()
    else:
        rows = pq.read_table(path)
        pq.write_table(rows.drop_columns(['cost']), path)
    for command in ('incidents', 'status', 'report'):
        told = site.work.run(command)
        assert told.exit_code == 2 and str(path) in told.stderr, command
    told = site.work.run('compare', '--summary')
    assert told.exit_code == 2 and str(path) in told.stderr and 'NODE n3' in told.stdout
    assert site.work.run('store check').exit_code == 1
    assert site.work.run(f'compare {path.stem}').exit_code == 1
    assert [one['id'] for one in json.loads(site.work.run('incidents --format json').stdout)] == before
    assert site.work.run('store check').exit_code == 0


def test_a_column_of_an_earlier_version_is_left_alone(two_nights):
    site, path = two_nights
    before = site.work.run('incidents --format json').stdout
    rows = pq.read_table(path)
    pq.write_table(rows.append_column('levels', pa.array([[]] * len(rows), pa.list_(pa.string()))), path)
    assert site.work.run('incidents --format json').stdout == before
    assert site.work.run('compare', '--summary').exit_code == 1


def test_what_could_not_be_kept_is_a_fault(young):
    """Tonight's incident is told, though the next night will not know it."""
    young.run(slow_node(0.5))
    (young.work.results / 'store/findings').write_text('in the place of a folder')
    told = young.work.run('compare', '--summary')
    assert told.exit_code == 2 and 'NODE n3' in told.stdout
    assert 'the incidents were not kept' in told.stderr and str(young.work.results / 'store/findings') in told.stderr


def test_incidents_are_followed_while_the_nodes_cannot_be_compared(young):
    """The fault is said by each command, and when it is mended the session is looked at again."""
    young.healthy()
    locations = young.work.sites / SITE / 'locations.csv'
    locations.write_text('x\n')
    dead = {'n3': failed('n3', 'lost')}
    ids = set()
    for _ in range(2):
        young.run(replaced=dead)
        for _ in range(2):
            told = young.work.run('compare', '--summary')
            assert told.exit_code == 2 and 'the nodes were not compared' in told.stderr
        ids |= {one['id'] for one in json.loads(young.work.run('incidents --format json').stdout)}
    assert len(ids) == 1
    locations.unlink()
    (one,) = young.judged(1)
    assert {one['id']} == ids and one['sessions'] == 2


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become a user whom modes keep out')
def test_a_ledger_that_may_not_be_read_is_not_an_empty_one(young):
    young.run(slow_node(0.5))
    young.judged(1)
    assert young.work.run('incidents').exit_code == 1
    with tempfile.TemporaryDirectory() as results:  # which another user may enter
        shutil.copytree(young.work.results, results, dirs_exist_ok=True)
        folder = Path(results, 'store/findings')
        folder.chmod(0o700)
        Path(results).chmod(0o755)
        os.seteuid(65534)
        try:
            result = young.work.run('incidents', results=Path(results))
        finally:
            os.seteuid(0)
    assert result.exit_code == 2 and f'{folder}: cannot be read: Permission denied' in result.stderr
    assert '0 incidents' not in result.stdout
