# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline incidents`, `show` and `acknowledge`."""

import csv
import io
import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from run_reports import SITE
from simulated_site import METRICS, OSU, slow_node, three_causes
from test_incidents import failed


def test_without_an_incident_the_list_is_empty_and_without_a_session_it_is_no_answer(young):
    result = young.work.run('incidents')
    assert result.exit_code == 2 and str(young.work.results) in result.stderr
    young.run()
    young.judged(0)
    result = young.work.run('incidents')
    assert (result.exit_code, result.stdout) == (0, '0 incidents, 0 open\n')
    result = young.work.run('incidents', '--site', 'nosuch')
    assert result.exit_code == 2 and 'nosuch' in result.stderr


def test_show_tells_all_of_an_incident(site):
    site.run(three_causes, lambda check: {'stack_lock': 'b' if check in OSU else 'a'})
    listed = site.judged(1)
    for one in listed:
        text = ' '.join(site.work.run('incidents show', one['id'][:4]).stdout.split())
        assert one['what'].split(' in ')[0] in text and all(check in text for check in one['checks'])
        assert f'plumbline incidents acknowledge {one["id"]}' in text
    slow = next(one for one in listed if one['kind'] == 'NODE')
    shown = json.loads(site.work.run('incidents show', slow['id'], '--format', 'json').stdout)
    assert len(shown['series']) == shown['metrics'] == slow['metrics'] == METRICS
    for row in shown['series']:
        assert row['value'] == pytest.approx(80, rel=0.01)
        assert (row['expected'], row['unit'], row['n']) == (100, 'GB/s', 3)
        assert 15 < row['loss_low'] < row['loss'] < row['loss_high'] < 25
    site.work.run('incidents acknowledge', listed[0]['id'], '--why', 'x', '--until', '2026-12-31')
    result = site.work.run('incidents', '--format', 'csv')
    states = [row['state'] for row in csv.DictReader(io.StringIO(result.stdout))]
    assert (result.exit_code, states) == (1, ['open', 'open', 'acknowledged']), 'the list begins with what is open'


def test_a_wrong_word_is_one_sentence(site):
    site.run(slow_node(0.5))
    (one,) = site.judged(1)
    before = site.work.judged()
    for command, id, options, says in (
        ('show', 'ffff', (), "no incident has the id 'ffff'"),
        ('show', '', (), "no incident has the id ''"),
        ('acknowledge', 'ffff', ('--why', 'x', '--until', '2026-12-31'), "no incident has the id 'ffff'"),
        ('acknowledge', one['id'], ('--why', 'x', '--until', 'soon'), '--until: expected a day'),
        ('acknowledge', one['id'], ('--why', 'x', '--until', '2020-01-01'), '2020-01-01 is before the last session'),
        ('acknowledge', one['id'], ('--why', ' ', '--until', '2026-12-31'), '--why: expected a reason'),
    ):
        result = site.work.run('incidents', command, id, *options)
        assert result.exit_code == 2 and says in result.stderr and result.stderr.count('\n') == 1
    assert site.work.judged() == before


def test_a_damaged_file_of_the_ledger_is_named(young):
    young.run()
    path = young.work.results / f'incidents/{SITE}.jsonl'
    path.parent.mkdir(parents=True)
    path.write_text('{"later": 1}\n')
    assert 'later' in young.work.run('incidents').stderr, 'what this version does not know'
    path.write_text('{}\n')
    for command in ('compare', 'incidents', 'report', 'status'):
        result = young.work.run(command)
        assert result.exit_code == 2, command
        assert str(path) in result.stderr
    assert 'incidents  not known\n' in result.stdout
    assert young.work.run('store check').exit_code == 1


def drop_a_column(path):
    pq.write_table(pq.read_table(path).drop_columns(['cost']), path)


@pytest.mark.parametrize('damage', [Path.unlink, drop_a_column])
def test_what_a_night_before_showed_is_not_lost_in_silence(young, damage):
    """Each command says it, tonight's incident is told all the same, and judging that night again mends it."""
    young.run(slow_node(0.5))
    young.judged(1)
    (path,) = young.work.results.glob('store/findings/*/*/*.parquet')
    young.run(slow_node(0.5))
    before = [one['id'] for one in young.judged(1)]
    damage(path)
    for command in ('incidents', 'status', 'report'):
        told = young.work.run(command)
        assert told.exit_code == 2 and str(path) in told.stderr, command
    told = young.work.run('compare', '--summary')
    assert told.exit_code == 2 and str(path) in told.stderr and 'NODE n3' in told.stdout
    checked = young.work.run('store check')
    assert checked.exit_code == 1 and str(path) in checked.stdout
    assert young.work.run(f'compare {path.stem}').exit_code == 1
    assert [one['id'] for one in json.loads(young.work.run('incidents --format json').stdout)] == before
    assert young.work.run('store check').exit_code == 0


def test_findings_of_a_version_without_the_first_part_of_a_cause_are_read(young):
    young.run(slow_node(0.5))
    young.judged(1)
    (path,) = young.work.results.glob('store/findings/*/*/*.parquet')
    before = young.work.run('incidents --format json').stdout
    table = pq.read_table(path).drop_columns(['brief'])
    metadata = {name: text for name, text in table.schema.metadata.items() if name != b'whole'}  # as of that version
    pq.write_table(table.replace_schema_metadata(metadata), path)
    assert young.work.run('incidents --format json').stdout == before
    assert young.work.run('store check').exit_code == 0


def test_what_could_not_be_kept_is_a_fault(young):
    """Tonight's incident is told, though the next night will not know it."""
    young.run(slow_node(0.5))
    folder = young.work.results / 'store/findings'
    folder.write_text('in the place of a folder')
    told = young.work.run('compare', '--summary')
    assert told.exit_code == 2 and 'NODE n3' in told.stdout and str(folder) in told.stderr


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
