# SPDX-License-Identifier: BSD-3-Clause
"""A damaged store: no command reads it in silence, `store check` names what is damaged, `store repair` what is lost."""

import gzip
import os
import random
import shutil
from pathlib import Path

import pytest
from run_reports import case, metric, report, rows_of

from plumbline.errors import InputError
from postprocess.readers import check as reading
from postprocess.results.store import Store
from postprocess.results.tables import TABLES


@pytest.fixture
def stored(work):
    work.ingest(*(report(case(metrics={'triad': metric([1.0, 2.0])}), uuid=uuid) for uuid in ('aaaa', 'bbbb')))
    return work


def check(work):
    found = work.run('store check')
    return found.exit_code, found.stdout


def hours_ago(path, hours=2):
    os.utime(path, (path.stat().st_mtime - hours * 3600,) * 2)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_store_as_it_was_written_is_said_to_be_so(stored):
    code, said = check(stored)
    assert (code, len(said.splitlines())) == (0, 1)
    assert '2 sessions' in said


@pytest.mark.parametrize('table', TABLES)
def test_a_damaged_and_a_removed_file_are_named_in_each_table(stored, table):
    for path in stored.results.glob('store/*/*/*/*.parquet'):
        hours_ago(path)  # of which the writer is gone
    damaged, removed = (next(stored.results.glob(f'store/{table}/*/*/{uuid}.parquet')) for uuid in ('aaaa', 'bbbb'))
    flip(damaged, 20)  # of the data of the first page
    code, said = check(stored)
    assert code == 1 and f'{damaged}: damaged' in said and 'bbbb' not in said
    removed.unlink()
    code, said = check(stored)
    assert code == 1 and 'missing' in said and 'bbbb' in said


def test_a_session_of_which_all_files_were_removed_is_missed_by_its_report(stored):
    reports = stored.results / 'reports'
    reports.mkdir(exist_ok=True)
    for uuid in ('aaaa', 'bbbb'):
        shutil.copy(stored.reports / f'{uuid}.json', reports)
    assert check(stored)[0] == 0
    for path in stored.results.glob('store/*/*/*/aaaa.parquet'):
        path.unlink()
    code, said = check(stored)
    assert code == 1
    assert 'aaaa.json' in said
    assert 'ingest the report again' in said


def test_files_of_a_killed_writer_are_removed_and_those_of_a_present_one_stay(stored):
    (path,) = stored.results.glob('store/samples/*/*/aaaa.parquet')
    killed, present = (path.with_name(f'.{name}.parquet.new.host.1') for name in ('killed', 'present'))
    for left in (killed, present):
        left.write_bytes(b'PAR1')
    hours_ago(killed)
    code, said = check(stored)
    assert code == 0
    assert str(killed) in said
    assert (killed.exists(), present.exists()) == (False, True)


def test_a_table_that_was_removed_is_named_at_once(stored):
    """Also where the other files are of the last hour: their writer makes the folder of the first table before."""
    shutil.rmtree(stored.results / 'store/sessions')
    code, said = check(stored)
    assert code == 1 and 'every file is as it was written' not in said
    for uuid in ('aaaa', 'bbbb'):
        assert f'cases/site=cluster/month=2026-11/{uuid}.parquet: its file of the table sessions is missing' in said


def test_a_store_that_was_removed_is_missed_by_the_list_of_judged_sessions(stored):
    stored.run('compare')
    shutil.rmtree(stored.results / 'store')
    code, said = check(stored)
    assert code == 1 and 'session bbbb of cluster was judged and is not in the store' in said


def test_a_run_report_that_was_changed_is_named(stored):
    (stored.results / 'reports').mkdir()
    path = Path(shutil.copy(stored.reports / 'bbbb.json', stored.results / 'reports'))
    assert check(stored)[0] == 0
    text = path.read_text()
    path.write_text(text.replace('2.0', '4.0', 1))
    code, said = check(stored)
    assert text != path.read_text() and code == 1
    assert f'{path}: has changed since session bbbb was stored' in said


def test_damaged_evidence_is_named(stored):
    folder = stored.results / 'evidence/cluster/2026-11'
    folder.mkdir(parents=True)
    for name in ('good', 'bad', 'cut'):
        (folder / f'{name}.tar.gz').write_bytes(gzip.compress(b'rate: 99.9991 GB/s'))
    assert check(stored)[0] == 0
    flip(folder / 'bad.tar.gz', 15)
    (folder / 'cut.tar.gz').write_bytes((folder / 'cut.tar.gz').read_bytes()[:-3])
    code, said = check(stored)
    assert code == 1 and 'good' not in said
    assert f'{folder / "bad.tar.gz"}: damaged' in said and f'{folder / "cut.tar.gz"}: damaged' in said


def everything(results):
    """All that the store answers: the rows of each table by pyarrow, and by DuckDB across sessions."""
    store = Store(results)
    sessions = [session for site in store.sites() for session in store.sessions(site)]
    rows = [rows_of(store, table, session) for session in sessions for table in TABLES]
    return rows + [store.query(f'SELECT * FROM {table} ORDER BY ALL', sessions).to_pylist() for table in TABLES]


@pytest.mark.parametrize('flips', [16, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_is_read_as_another_value(stored, flips):
    """Bits of whole files, header, pages, statistics and footer, in files of all tables."""
    right = everything(stored.results)
    files = sorted((stored.results / 'store').rglob('*.parquet'))
    chance, silent = random.Random(7), []
    for _ in range(flips):
        path = chance.choice(files)
        content, at = bytearray(path.read_bytes()), os.stat(path)
        bit = chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        kept = path.read_bytes()
        path.write_bytes(content)
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns + 1))
        try:
            if everything(stored.results) != right:
                silent.append((path.name, bit))
        except InputError as error:
            assert str(stored.results) in str(error)
        path.write_bytes(kept)
    assert not silent
    assert everything(stored.results) == right


# Repair, and the part of the store that each night reads


@pytest.fixture
def reported(work):
    """A store of three sessions with a file each; the run report of the last one is gone."""
    (work.results / 'reports').mkdir(parents=True)
    for number, uuid in enumerate(('aaaa', 'bbbb', 'cccc')):
        content = report(case(metrics={'triad': metric([1.0, 2.0 + number])}), uuid=uuid)
        work.ingest(content, expected=7)
        shutil.copy(work.reports / f'{uuid}.json', work.results / 'reports')
    (work.results / 'reports/cccc.json').unlink()
    return work


def only(work, pattern):
    (path,) = work.results.glob(f'store/{pattern}')
    return path


def samples(work, uuid):
    store = Store(work.results)
    return [row['value'] for row in rows_of(store, 'samples', store.find(uuid))]


def repair(work):
    answer = work.run('store repair')
    return answer.exit_code, answer.stdout


def test_a_sound_store_is_left_alone(reported):
    assert repair(reported) == (0, 'nothing to repair\n')
    assert not (reported.results / 'store-damaged').exists()


@pytest.mark.parametrize('table', ['sessions', 'cases', 'samples'])
def test_a_damaged_session_comes_back_from_its_report_and_its_files_are_kept(reported, table):
    before = samples(reported, 'bbbb')
    flip(only(reported, f'{table}/*/*/bbbb.parquet'), 20)
    code, said = repair(reported)
    assert code == 0 and 'session bbbb is ingested again: 2 samples' in said
    assert samples(reported, 'bbbb') == before == [1.0, 3.0]
    assert len(list(reported.results.glob('store-damaged/*/*/*/bbbb.parquet'))) == 4
    assert reported.run('store check').exit_code == 0 and repair(reported) == (0, 'nothing to repair\n')
    if table != 'sessions':  # what a report does not have comes from the stored row
        assert Store(reported.results).find('bbbb').expected == 7


def test_a_session_without_a_report_is_said_to_be_lost_and_the_others_stay(reported):
    flip(only(reported, 'metrics/*/*/cccc.parquet'), 20)
    code, said = repair(reported)
    assert code == 1 and 'session cccc is lost' in said
    assert samples(reported, 'aaaa') == [1.0, 2.0]
    assert len(list(reported.results.glob('store-damaged/*/*/*/cccc.parquet'))) == 4


def test_a_report_that_was_changed_is_not_ingested(reported):
    path = reported.results / 'reports/bbbb.json'
    honest = path.read_text()
    path.write_text(honest.replace('3.0', '4.0'))
    assert path.read_text() != honest
    flip(only(reported, 'metrics/*/*/bbbb.parquet'), 20)
    for _ in range(2):
        code, said = repair(reported)
        assert code == 1 and f'{path}: has changed since session bbbb was stored from it' in said
        assert 'bbbb is lost' not in said and not [*reported.results.glob('store/*/*/*/bbbb.parquet')]
    path.write_text(honest)
    code, said = repair(reported)
    assert code == 0 and samples(reported, 'bbbb') == [1.0, 3.0]


def test_a_repair_that_was_killed_goes_on(reported):
    """Killed when the file of the table sessions was moved and no other."""
    index = only(reported, 'sessions/*/*/bbbb.parquet')
    aside = reported.results / 'store-damaged' / index.relative_to(reported.results / 'store')
    aside.parent.mkdir(parents=True)
    shutil.move(index, aside)
    code, said = repair(reported)
    assert code == 0 and 'session bbbb is ingested again' in said
    assert samples(reported, 'bbbb') == [1.0, 3.0] and Store(reported.results).find('bbbb').expected == 7


def test_a_night_reads_some_files_and_others_the_next_time(reported):
    store = Store(reported.results)
    damaged = only(reported, 'sessions/*/*/bbbb.parquet')
    flip(damaged, 20)
    found = {tuple(reading.part(store, seconds=-1)) for _ in range(99)}  # one file each
    (fault,) = found - {()}
    assert f'{damaged}' in fault[0] and 'damaged' in fault[0] and () in found
    assert len(reading.part(store, seconds=60)) == 1
