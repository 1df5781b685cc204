# SPDX-License-Identifier: BSD-3-Clause
"""No file of a store that is not as it was written is read as if it were."""

import os
import random

import pytest
from run_reports import BEGAN, case, metric, report

from plumbline.errors import InputError
from postprocess.results.store import Store
from postprocess.results.tables import TABLES


def night(work, number, value=50.0):
    entry = case(metrics={'triad': metric([value, value + 1])})
    work.ingest(report(entry, uuid=f'night{number:02}', mode='quick', began=BEGAN + number * 86400))


def everything(results):
    """All that the store answers: the rows of each table by pyarrow, and by DuckDB across sessions."""
    store = Store(results)
    sessions = [session for site in store.sites() for session in store.sessions(site)]
    rows = [store.rows(table, session) for session in sessions for table in TABLES]
    return rows + [store.query(f'SELECT * FROM {table} ORDER BY ALL', sessions).to_pylist() for table in TABLES]


@pytest.mark.parametrize('flips', [16, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_is_read_as_another_value(work, flips):
    """Bits of whole files, header, pages, statistics and footer, in files of all tables."""
    for number in (0, 1):
        night(work, number)
    right = everything(work.results)
    files = sorted((work.results / 'store').rglob('*.parquet'))
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
