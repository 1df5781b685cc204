"""What a nightly run keeps and for how long."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

from ci.session import STAGE

SUMMARY = 'summary.txt'  # below the results: what the last night said
STAGES_FOR = 7  # days that the stage directories of a night stay
LAST = 5  # files and folders of each kind that stay however old they look: the clock may have been set forward
LARGEST_LOG = 20 * 2**20  # bytes of one of ReFrame's performance logs before it is begun anew; the store has it all


def tidy(results: Path, days: int):
    """Removes logs and JUnit files of so many days, old stage directories, and all but one full performance log. Run
    reports stay: they are what the store can be built from."""
    for path in (*but_the_last(results / 'logs', '*'), *but_the_last(results / 'reports', '*.xml')):
        if age_in_days(path) > days:
            with suppress(OSError):
                path.unlink()
    for folder in (results / STAGE).glob('*'):
        if not any(path.is_file() for path in folder.rglob('*')):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in but_the_last(results / STAGE, '*'):
        if age_in_days(folder) > min(days, STAGES_FOR):
            shutil.rmtree(folder, ignore_errors=True)
    for path in (results / 'perflogs').rglob('*.log'):
        with suppress(OSError):
            if path.stat().st_size > LARGEST_LOG:
                path.replace(path.with_suffix('.log.1'))


def but_the_last(folder: Path, names: str) -> list[Path]:
    return sorted(folder.glob(names), key=age_in_days)[LAST:]


def age_in_days(path: Path) -> float:
    """Since it was last written; below 0 where the clock went back, and 0 where it is gone."""
    try:
        return (time.time() - path.stat().st_mtime) / 86400
    except OSError:
        return 0.0
