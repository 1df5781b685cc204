# SPDX-License-Identifier: BSD-3-Clause
"""The table of the pairs of sessions of one state."""

from __future__ import annotations

from collections.abc import Sequence

from postprocess.text import count
from postprocess.verdicts.same import Pair, share_in_words
from postprocess.views.table import Column, View

_PAIRS = (
    Column('before', 'before', priority=1),
    Column('after', 'after', priority=1),
    Column('day', 'day'),
    Column('verdict', 'verdict', priority=1),
    Column('worse', 'worse', number=True),
    Column('worst', 'the worst', width=20),
)


def same(pairs: Sequence[Pair]) -> View:
    """Return the pairs that were not ok, and how often a pair was red."""
    red, undecided = (sum(pair.exit_code == code for pair in pairs) for code in (1, 3))
    sentence = f'red were {share_in_words(red, len(pairs))} of the pairs of sessions of the same state'
    sentence += f'; {count(undecided, "pair")} could not be decided' * bool(undecided)
    figures = {'pairs': len(pairs), 'red': red, 'undecided': undecided}
    rows = [
        {'before': pair.before.short_name, 'after': pair.after.short_name, 'day': pair.after.day, 'verdict': pair.word,
         'worse': pair.worse, 'worst': pair.worst}
        for pair in pairs if pair.exit_code
    ]  # fmt: skip
    return View(_PAIRS, rows, after=sentence, name='not_ok', document=figures)
