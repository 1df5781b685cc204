# SPDX-License-Identifier: BSD-3-Clause
"""Choose rows of a baseline by shell patterns."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from plumbline.identity import SeriesId
from plumbline.renames import every_id

_SHOWN = 3  # patterns of a command


def selected(patterns: Iterable[str], of: SeriesId) -> bool:
    """Return True if a shell pattern matches the check, check and metric, or the whole name of the series.

    The names from before a rename match, too.
    """
    texts = {
        text
        for one in every_id(of)
        for text in (
            one.check,
            f'{one.check} {one.metric}',
            f'{one.check} {one.name}',
            f'{one.case} {one.metric}',
            str(one),
        )
    }
    return any(pattern in texts or any(fnmatchcase(text, pattern) for text in texts) for pattern in patterns)


def command_of(gone: Collection[SeriesId], others: Collection[SeriesId]) -> str:
    """Return the command that retires the rows of some series and of none of the `others`, in few patterns.

    It is without ``plumbline`` and its options; of more than three patterns it has the first.
    """
    patterns: list[str] = []
    for of in sorted(gone):
        if not selected(patterns, of):
            forms = (of.check, f'{of.check} {of.metric}', f'{of.partition}/{of.environ} {of.check} *', f'{of.case} *')
            exact = (one for one in forms if not any(selected([one], other) for other in others))
            patterns.append(next(exact, str(of)))
    return f'record retire {shlex.join(patterns[:_SHOWN])} --why REASON'
