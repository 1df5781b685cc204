# SPDX-License-Identifier: BSD-3-Clause
"""Post-processing: results store, verdicts, history, reports, and the command line ``plumbline``.

:func:`open_results` is the public interface for notebooks and scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from postprocess.results.frames import Results


def open_results(path: str | Path | None = None) -> Results:
    """Return the results below the directory `path`; None: ``$PLUMBLINE_RESULTS``, else that of the checkout."""
    from postprocess.results.frames import Results  # the command line does not pay for it

    return Results(path)
