# SPDX-License-Identifier: BSD-3-Clause
"""Remove old or too large files of nightly runs."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

from ci.session import STAGE
from plumbline.evidence import prune

SUMMARY = 'summary.txt'  # below the results: the verdict of the last session as text
STAGE_DAYS = 7  # how long the stage directories of a session are kept
LAST = 5  # newest files of each kind that are always kept: the clock may have been set forward
LARGEST_LOG = 20 * 2**20  # bytes at which one of ReFrame's performance logs is rotated; the store has all its numbers


def tidy(results: Path, days: int, evidence: float) -> None:
    """Remove logs and JUnit files older than `days`, old stage directories, and evidence beyond `evidence` bytes.

    Run reports are kept: the store can be rebuilt from them. Full performance logs are rotated.
    """
    prune(results, evidence)
    for path in (*_but_the_last(results / 'logs', '*'), *_but_the_last(results / 'reports', '*.xml')):
        if _age_in_days(path) > days:
            with suppress(OSError):
                path.unlink()
    for folder in (results / STAGE).glob('*'):
        if not any(path.is_file() for path in folder.rglob('*')):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in _but_the_last(results / STAGE, '*'):
        if _age_in_days(folder) > min(days, STAGE_DAYS):
            shutil.rmtree(folder, ignore_errors=True)
    for path in (results / 'perflogs').rglob('*.log'):
        with suppress(OSError):
            if path.stat().st_size > LARGEST_LOG:
                path.replace(path.with_suffix('.log.1'))


def _but_the_last(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=_age_in_days)[LAST:]


def _age_in_days(path: Path) -> float:
    """Return the days since the last write; negative if the clock was set back, 0 if the path is gone."""
    try:
        return (time.time() - path.stat().st_mtime) / 86400
    except OSError:
        return 0.0
