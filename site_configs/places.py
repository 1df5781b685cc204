"""Where results go: one answer for the run, the post-processing and the nightly job."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def results_directory() -> Path:
    """``$PLUMBLINE_RESULTS``, else ``results/`` of this clone.

    ReFrame cannot start a local job below a path with a blank, so a clone in such a path gets ``~/plumbline-results``.
    """
    chosen = os.environ.get('PLUMBLINE_RESULTS')
    if chosen:
        return Path(chosen).absolute()
    return Path.home() / 'plumbline-results' if ' ' in str(ROOT) else ROOT / 'results'
