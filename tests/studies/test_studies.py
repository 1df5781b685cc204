# SPDX-License-Identifier: BSD-3-Clause
"""A study that no other test runs still works, in a small size."""

import subprocess
import sys

from scratch import ROOT


def test_worlds_print_their_figures():
    command = [sys.executable, '-m', 'studies', 'worlds', '--sites=1', '--only=Healthy nights: noise normal']
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len(answer.stdout.strip().splitlines()) > 1, 'it printed no figure'
