# SPDX-License-Identifier: BSD-3-Clause
"""The studies still work: each that has a small size runs at that size."""

import os
import subprocess
import sys

import pytest
from scratch import ROOT

from studies.__main__ import STUDIES

# `overhead case` and `overhead wide` start the same programs again as `overhead list`.
# test_mutations.py runs all of `mutations` on a room that takes a second.
LEFT_OUT = ('overhead wide', 'overhead case', 'mutations')
SLOW = ('store_speed year',)  # fourteen commands, each a process of its own


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW))
        for name, small in STUDIES.items()
        if small and name not in LEFT_OUT
    ],
)
def test_a_study_runs(name, tmp_path):
    command = [sys.executable, '-m', 'studies', '--brief', *name.split()]
    home = os.environ | {'HOME': str(tmp_path)}  # where plain ReFrame keeps what it detects of this machine
    answer = subprocess.run(command, cwd=ROOT, env=home, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len(answer.stdout.strip().splitlines()) > 1, 'it printed no figure'


def test_every_study_is_listed():
    pages = {'architecture', 'cli_reference', 'elsewhere_table'}  # they write what is shown, and study nothing
    pages |= {'product', 'public_histories'}  # parts of worlds and of public_series
    files = {path.stem for path in (ROOT / 'studies').glob('*.py')} - {'__main__', *pages}
    assert {name.split()[0] for name in STUDIES} == files
