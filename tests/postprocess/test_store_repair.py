# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline store repair`, and the part of the store that each night reads."""

import json
import shutil

import pytest
from run_reports import case, metric, report

from postprocess.readers import check
from postprocess.results.store import Store


@pytest.fixture
def stored(work):
    """A store of three sessions with a file each; the run report of the last one is gone."""
    (work.results / 'reports').mkdir(parents=True)
    for number, uuid in enumerate(('aaaa', 'bbbb', 'cccc')):
        content = report(case(metrics={'triad': metric([1.0, 2.0 + number])}), uuid=uuid)
        work.ingest(content, expected=7)
        shutil.copy(work.reports / f'{uuid}.json', work.results / 'reports')
    (work.results / 'reports/cccc.json').unlink()
    return work


def flip(path):
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)


def only(work, pattern):
    (path,) = work.results.glob(f'store/{pattern}')
    return path


def samples(work, uuid):
    store = Store(work.results)
    return [row['value'] for row in store.rows('samples', store.find(uuid))]


def repair(work):
    answer = work.run('store repair')
    return answer.exit_code, answer.stdout


def test_a_sound_store_is_left_alone(stored):
    assert repair(stored) == (0, 'nothing to repair\n')
    assert not (stored.results / 'store-damaged').exists()


@pytest.mark.parametrize('table', ['sessions', 'cases', 'samples'])
def test_a_damaged_session_comes_back_from_its_report_and_its_files_are_kept(stored, table):
    before = samples(stored, 'bbbb')
    flip(only(stored, f'{table}/*/*/bbbb.parquet'))
    code, said = repair(stored)
    assert code == 0 and 'session bbbb is ingested again: 2 samples' in said
    assert samples(stored, 'bbbb') == before == [1.0, 3.0]
    assert len(list(stored.results.glob('store-damaged/*/*/*/bbbb.parquet'))) == 4
    assert stored.run('store check').exit_code == 0 and repair(stored) == (0, 'nothing to repair\n')
    if table != 'sessions':  # what a report does not have comes from the stored row
        assert Store(stored.results).find('bbbb').expected == 7


def test_a_session_without_a_report_is_said_to_be_lost_and_the_others_stay(stored):
    flip(only(stored, 'metrics/*/*/cccc.parquet'))
    code, said = repair(stored)
    assert code == 1 and 'session cccc is lost' in said
    assert samples(stored, 'aaaa') == [1.0, 2.0]
    assert len(list(stored.results.glob('store-damaged/*/*/*/cccc.parquet'))) == 4


def test_a_report_that_was_changed_is_not_ingested(stored):
    path = stored.results / 'reports/bbbb.json'
    honest = path.read_text()
    path.write_text(honest.replace('3.0', '4.0'))
    assert path.read_text() != honest
    flip(only(stored, 'metrics/*/*/bbbb.parquet'))
    for _ in range(2):
        code, said = repair(stored)
        assert code == 1 and f'{path}: has changed since session bbbb was stored from it' in said
        assert 'bbbb is lost' not in said and not [*stored.results.glob('store/*/*/*/bbbb.parquet')]
    path.write_text(honest)
    code, said = repair(stored)
    assert code == 0 and samples(stored, 'bbbb') == [1.0, 3.0]


def test_a_repair_that_was_killed_goes_on(stored):
    """Killed when the file of the table sessions was moved and no other."""
    index = only(stored, 'sessions/*/*/bbbb.parquet')
    aside = stored.results / 'store-damaged' / index.relative_to(stored.results / 'store')
    aside.parent.mkdir(parents=True)
    shutil.move(index, aside)
    code, said = repair(stored)
    assert code == 0 and 'session bbbb is ingested again' in said
    assert samples(stored, 'bbbb') == [1.0, 3.0] and Store(stored.results).find('bbbb').expected == 7


def test_a_night_reads_what_was_read_longest_ago(stored, monkeypatch):
    store = Store(stored.results)
    monkeypatch.setattr(check.time, 'time', iter(range(100, 200)).__next__)
    for _ in range(3):
        assert check.part(store, seconds=-1) == []  # one file each
    read = json.loads((stored.results / 'store-read.json').read_text())
    assert sorted(read.values()) == [100, 101, 102]
    first = min(read, key=read.get)
    flip(stored.results / 'store' / first)
    (fault,) = check.part(store, seconds=-1)
    assert first in fault and 'damaged' in fault
    (stored.results / 'store-read.json').write_text('[]')
    assert len(check.part(store, seconds=60)) == 1
