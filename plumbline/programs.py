# SPDX-License-Identifier: BSD-3-Clause
"""Find and run programs of this machine."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIME_LIMIT = 60.0  # seconds for a program that asks a driver or a scheduler


class TimedOut(ValueError):
    """Report that a program did not end within its time limit."""


def output_of(command: Sequence[str], time_limit: float | None = None, **options: Any) -> str:
    """Return the standard output of a program; `options` go to :func:`subprocess.run`.

    Raises ValueError if the program is absent or fails, :class:`TimedOut` if it does not end within `time_limit`
    seconds, :data:`TIME_LIMIT` by default.
    """
    limit = time_limit or TIME_LIMIT
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors='replace', timeout=limit, check=False,
            stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip
    except OSError as error:
        raise ValueError(f'cannot be run: {error.strerror}') from None
    except subprocess.TimeoutExpired:
        raise TimedOut(f'did not end within {limit:g} s') from None
    if done.returncode != 0:
        printed = (done.stderr + done.stdout).strip().splitlines() or ['nothing']
        errors = [line for line in printed if 'error' in line.lower()]  # ReFrame's last line says where its log is
        raise ValueError(f'ended with {done.returncode} and printed: {(errors or printed)[-1]}')
    return done.stdout


def find_reframe() -> str | None:
    """Return the path of ReFrame in this Python's environment, else on PATH; None if it is in neither."""
    sibling = Path(sys.executable).with_name('reframe')
    return str(sibling) if sibling.exists() else shutil.which('reframe')
