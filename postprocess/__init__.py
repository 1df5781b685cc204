# SPDX-License-Identifier: BSD-3-Clause
"""Post-processing: results store, verdicts, history, reports, and the command line ``plumbline``.

:func:`open_results`, :func:`draw_history` and :func:`draw_curves` are the public interface for notebooks and scripts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from postprocess.results.frames import Results
    from postprocess.results.store import Session, Store

_PICTURES = 'postprocess.extras.pictures.draw'  # looked up when a picture is drawn: it may be removed


def open_results(path: str | Path | None = None, references: Path | None = None) -> Results:
    """Return the results below the directory `path`; None: ``$PLUMBLINE_RESULTS``, else the results of the checkout.

    `references`: a folder of site folders by which sessions are judged, in place of those of the checkout.
    """
    from postprocess.results.frames import Results  # imported here, so that the command line starts without it

    def judge(store: Store, table: str, sessions: Sequence[Session]) -> None:
        from postprocess.history.findings import judge_all  # takes longer than to read a table

        judge_all(store, table, sessions, references)

    return Results(path, judge)


def draw_history(results: Results, what: str, site: str | None = None, days: int = 90) -> Any:
    """Draw the history of the series that the shell pattern `what` matches; see docs/results-api.md."""
    return import_module(_PICTURES).draw_history(results.store, what, site, days)


def draw_curves(results: Results, what: str, site: str | None = None, session: str = 'latest') -> Any:
    """Draw the curves over sizes or counts of one session of the series that the shell pattern `what` matches."""
    return import_module(_PICTURES).draw_curves(results.store, what, site, session)
