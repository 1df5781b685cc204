# SPDX-License-Identifier: BSD-3-Clause
"""The program `cheat`, which leaves the CPUs it was given: see cheat.c."""

import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(folder: Path) -> str:
    """The path of the program; the test is skipped where there is no compiler."""
    if (gcc := shutil.which('gcc')) is None:
        pytest.skip('gcc is not installed')
    subprocess.run([gcc, '-O1', '-pthread', Path(__file__).with_name('cheat.c'), '-o', folder / 'cheat'], check=True)
    return str(folder / 'cheat')
