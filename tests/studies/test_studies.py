# SPDX-License-Identifier: BSD-3-Clause
"""Studies that no other test runs still work, in a small size."""

import os
import subprocess
import sys

import pytest
from scratch import ROOT


@pytest.mark.parametrize(
    'words', [['worlds', '--sites=1', '--only=Healthy nights: noise normal'], ['overhead', 'list', '--rounds=1']]
)
def test_a_study_prints_its_figures(words, tmp_path):
    path = f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}'
    home = os.environ | {'HOME': str(tmp_path), 'PATH': path}  # where plain ReFrame keeps what it detects here
    command = [sys.executable, '-m', 'studies', *words]
    answer = subprocess.run(command, cwd=ROOT, env=home, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len(answer.stdout.strip().splitlines()) > 1, 'it printed no figure'
