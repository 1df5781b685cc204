# SPDX-License-Identifier: BSD-3-Clause
"""Choose rows of a baseline by shell patterns."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from plumbline.identity import SeriesId

_SHOWN = 3  # most patterns in a command


def selected(patterns: Iterable[str], series: SeriesId) -> bool:
    """Return True if a shell pattern matches the check, the check and metric, or the whole name of the series."""
    texts = {
        series.check,
        f'{series.check} {series.metric}',
        f'{series.check} {series.name}',
        f'{series.case} {series.metric}',
        str(series),
    }
    return any(pattern in texts or any(fnmatchcase(text, pattern) for text in texts) for pattern in patterns)


def command_of(gone: Collection[SeriesId], others: Collection[SeriesId]) -> str:
    """Return the command that retires the series `gone` and none of the `others`, with as few patterns as possible.

    It has no ``plumbline`` and no options of it. If it needs more than three patterns, it has the first three.
    """
    patterns: list[str] = []
    for series in sorted(gone):
        if not selected(patterns, series):
            forms = (
                series.check,
                f'{series.check} {series.metric}',
                f'{series.partition}/{series.environ} {series.check} *',
                f'{series.case} *',
            )
            exact = (form for form in forms if not any(selected([form], other) for other in others))
            patterns.append(next(exact, str(series)))
    return f'record retire {shlex.join(patterns[:_SHOWN])} --why REASON'
