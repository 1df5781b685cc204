# SPDX-License-Identifier: BSD-3-Clause
"""Run tests of another suite again by the command that ran them, and add what they measured to the run report."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.identity import name_pattern

REPORT = 'RFM_REPORT_FILE'  # ReFrame's variable; the option --report-file overrides it


def run(command: Sequence[str], report: Path, folder: str | None = None) -> int:
    """Run a command that runs ReFrame and makes it write its run report to `report`; return its exit code.

    Raises InputError if the command cannot be run or writes no report.
    """
    environment: Mapping[str, str] = os.environ | {REPORT: str(report)}
    try:
        ran = subprocess.run(command, env=environment, cwd=folder, check=False)
    except OSError as error:
        raise InputError(f'{command[0]}: cannot be run: {error.strerror}') from None
    if not report.exists():
        raise InputError(
            f'the command ended with exit code {ran.returncode} and wrote no run report: expected one in the file '
            f'that {REPORT} names, which --report-file overrides'
        )
    return ran.returncode


def run_again(report: Path, command: Sequence[str], names: Sequence[str]) -> None:
    """Run the tests called `names` once more and add them to `report` as a further run. Raises InputError."""
    content = _content(report)
    if 'uuid' not in content['session_info']:
        raise InputError(f'{report}: tests run again need ReFrame 4.7 or later, whose reports name their session')
    chosen = '|'.join(f'{name_pattern(name)}(%|$)' for name in names)  # of a test, not those that begin as it does
    with tempfile.TemporaryDirectory(prefix='plumbline-again-') as folder:
        further = Path(folder, 'report.json')
        run([*command, '-n', chosen], further, content['session_info'].get('workdir'))
        more = _content(further)
    content['runs'] += more['runs']
    for key in ('time_end', 'time_end_unix'):
        content['session_info'][key] = more['session_info'][key]
    write_text(report, json.dumps(content))


def _content(report: Path) -> dict[str, Any]:
    """Return the content of a run report. Raises InputError."""
    try:
        content = json.loads(report.read_text(encoding='utf-8'))
        if isinstance(content['runs'], list) and isinstance(content['session_info'], dict):
            return content
    except (OSError, ValueError, LookupError, TypeError):
        pass
    raise InputError(f'{report}: not a usable ReFrame run report')
