# SPDX-License-Identifier: BSD-3-Clause
"""No file of a store that is not as it was written is read as if it were; what is there twice counts once."""

import os
import random
import shutil

import pytest
from run_reports import BEGAN, case, metric, report

from plumbline.errors import InputError
from postprocess.results.store import Store
from postprocess.results.tables import TABLES

SITE = 'cluster'
MONTH = 31 * 86400


def night(work, number, value=50.0):
    entry = case(metrics={'triad': metric([value, value + 1])})
    work.ingest(report(entry, uuid=f'night{number:02}', mode='quick', began=BEGAN + number * 86400))


def everything(results):
    """All that the store answers: the rows of each table by pyarrow, and by DuckDB across sessions."""
    store = Store(results)
    sessions = [session for site in store.sites() for session in store.sessions(site)]
    rows = [store.rows(table, session) for session in sessions for table in TABLES]
    return rows + [store.query(f'SELECT * FROM {table} ORDER BY ALL', sessions).to_pylist() for table in TABLES]


@pytest.mark.parametrize(
    ('together', 'flips'),
    [
        (False, 8),
        (True, 8),
        pytest.param(False, 500, marks=pytest.mark.slow),
        pytest.param(True, 500, marks=pytest.mark.slow),
    ],
)
def test_no_flipped_bit_is_read_as_another_value(work, together, flips):
    """Bits of whole files, header, pages, statistics and footer, in files of all tables."""
    for number in (0, 1) if together else (0,):
        night(work, number)
    if together:
        night(work, 40)
        Store(work.results).compact(Store(work.results).sites()[0])
    right = everything(work.results)
    files = sorted((work.results / 'store').rglob('*.parquet')) + sorted((work.results / 'store').rglob('*.sums'))
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
            if everything(work.results) != right:
                silent.append((path.name, bit))
        except InputError as error:
            assert str(work.results) in str(error)
        path.write_bytes(kept)
    assert not silent
    assert everything(work.results) == right


def test_a_session_that_two_files_hold_counts_once(work, tmp_path):
    """As after two stores were copied into one: each had put sessions of the month together, one of them in both."""
    for number in (0, 1, 40):
        night(work, number)
    site = Store(work.results).sites()[0]
    right = everything(work.results)
    shutil.copytree(work.results / 'store', tmp_path / 'other')
    Store(work.results).compact(site)  # night 0 and 1 in one file
    night(work, 2)
    other = tmp_path / 'results2'
    shutil.copytree(tmp_path / 'other', other / 'store')
    for path in (other / 'store').rglob('night01.*'):
        path.unlink()
    work.results, kept = other, work.results
    night(work, 3)
    work.results = kept
    Store(other).compact(site)  # night 0 and 3
    shutil.copytree(other / 'store', work.results / 'store', dirs_exist_ok=True)
    store = Store(work.results)
    sessions = store.sessions(site)
    assert [session.session for session in sessions] == ['night00', 'night01', 'night02', 'night03', 'night40']
    counted = store.query('SELECT session, count(*) AS n FROM samples GROUP BY session ORDER BY session', sessions)
    assert counted.to_pylist() == [{'session': session.session, 'n': 2} for session in sessions]
    assert work.run('store check').exit_code == 1
    assert 'holds session night00, which ' in work.run('store check').stdout
    assert [rows for rows in everything(work.results) if rows in right]
