# SPDX-License-Identifier: BSD-3-Clause
"""What the runs of a trial wrote, for the person who reads the output of the job."""

import subprocess

import pytest

from plumbline.paths import ROOT

SHOW = ROOT / 'checks/core/job/parts/show.sh'


@pytest.mark.parametrize(('size', 'cut'), [(99_999, False), (100_000, False), (100_001, True)])
def test_a_long_output_is_cut_and_says_so(tmp_path, size, cut):
    """Its size is that in bytes: each of these letters has two of them."""
    run = tmp_path / 'trial_1/run'
    run.mkdir(parents=True)
    text = ('a' * (size % 2) + '\u00e9' * (size // 2)).encode()
    (run / 'stdout').write_bytes(text)
    (run / 'stderr').write_bytes(b'')
    answer = subprocess.run(['bash', SHOW, '3', 'trial_1', 'stdout'], cwd=tmp_path, capture_output=True, check=False)
    assert (answer.returncode, answer.stderr) == (3, b'')
    more = b'== cut after 100000 of 100001 bytes; the evidence of the case has more\n' if cut else b''
    assert answer.stdout == b'== trial_1, run: stdout\n' + text[:100_000] + more
