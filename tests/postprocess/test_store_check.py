# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline store check`: what is damaged or missing in a store is named, and what killed writers left is removed."""

import json
import os

import pytest
from run_reports import case, metric, report

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


def test_a_store_as_it_was_written_is_said_to_be_so(stored):
    code, said = check(stored)
    assert (code, len(said.splitlines())) == (0, 1)
    assert '2 sessions' in said


@pytest.mark.parametrize('table', TABLES)
def test_a_flipped_bit_is_found_in_each_table(stored, table):
    (path,) = stored.results.glob(f'store/{table}/*/*/aaaa.parquet')
    content = bytearray(path.read_bytes())
    content[20] ^= 1  # of the data of the first page
    path.write_bytes(content)
    code, said = check(stored)
    assert code == 1
    assert f'{path}: damaged' in said
    assert 'bbbb.parquet' not in said


@pytest.mark.parametrize('table', TABLES)
def test_a_removed_file_is_named(stored, table):
    for path in stored.results.glob('store/*/*/*/aaaa.parquet'):
        hours_ago(path)
    (path,) = stored.results.glob(f'store/{table}/*/*/aaaa.parquet')
    path.unlink()
    code, said = check(stored)
    assert code == 1
    assert 'missing' in said
    assert 'aaaa' in said


def test_a_session_of_which_all_files_were_removed_is_missed_by_its_report(stored):
    reports = stored.results / 'reports'
    reports.mkdir(exist_ok=True)
    for uuid in ('aaaa', 'bbbb'):
        (reports / f'{uuid}.json').write_text(json.dumps(report(uuid=uuid)))
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
