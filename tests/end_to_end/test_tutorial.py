# SPDX-License-Identifier: BSD-3-Clause
"""The check of docs/writing-checks.md: one file, and it is listed, stored, judged and drawn."""

import json
import shutil

import pytest
from browser import unpacked
from scratch import ROOT

from plumbline.identity import to_text

CHECK = 'checks/compute/openssl.py'


def test_the_page_shows_the_check_as_it_is():
    assert (ROOT / CHECK).read_text().rstrip() in (ROOT / 'docs/writing-checks.md').read_text()


def test_the_recorded_output_is_read(recorded):
    from checks.compute.openssl import hash_rate

    reading = hash_rate(1024, 'run').reading_of(recorded('openssl-3.0.19-speed.txt'))
    values = {to_text(dims): value for dims, value in reading.values.items()}
    assert values == {
        'algorithm=sha1,block_bytes=1024': pytest.approx(1371.60372),
        'algorithm=sha256,block_bytes=1024': pytest.approx(1237.35455),
        'algorithm=sha512,block_bytes=1024': pytest.approx(508.24271),
    }
    assert not reading.missing and not reading.faults
    cut = hash_rate(1024, 'run').reading_of(recorded('openssl-3.0.19-speed.txt').partition('sha512')[0])
    assert [to_text(dims) for dims in cut.missing] == ['algorithm=sha512,block_bytes=1024']


@pytest.mark.skipif(shutil.which('openssl') is None, reason='openssl is not installed')
def test_it_is_listed_stored_judged_and_drawn(clone):
    listed = clone.reframe('-l', checks=CHECK)
    assert 'OpenSSLSpeed' in listed.stdout
    case = clone.run_case('OpenSSLSpeed', '-S', 'trials=1', checks=CHECK)
    assert case['result'] == 'pass', case['fail_reason']
    (report,) = clone.results.glob('reports/*.json')
    assert clone.plumbline('ingest', report).returncode == 0
    assert clone.plumbline('record', 'propose', '--although', 'the tests share their machine').returncode == 0
    assert clone.plumbline('record', 'accept').returncode == 0
    assert (clone.results / f'{case["record"]["evidence"]}.keep').read_text() == 'baseline of demo\n'
    judged = json.loads(clone.plumbline('compare', '--format', 'json').stdout)
    rows = {row['dims']: row['verdict'] for row in judged['verdicts']}
    assert len(rows) == 9 and set(rows.values()) == {'ok'}
    assert rows['algorithm=sha256,block_bytes=1024'] == 'ok'
    assert clone.plumbline('report').returncode == 0
    page = (clone.results / 'report.html').read_text() + json.dumps(unpacked(clone.results / 'report.html'))
    assert 'over block_bytes (B)' in page and 'sha512' in page
    assert f'"output": "{case["record"]["evidence"]}"' in page
