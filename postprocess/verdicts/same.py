# SPDX-License-Identifier: BSD-3-Clause
"""How often a comparison is wrong on this machine: sessions of one state, compared as if there were two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plumbline.errors import InputError
from postprocess.results.store import Session, Store
from postprocess.statistics.distributions import proportion
from postprocess.text import number
from postprocess.verdicts.before_after import compare_windows
from postprocess.verdicts.verdict import BAD, Comparison, VerdictName

_NOT_JUDGED = ('no_reference', 'informational')


@dataclass(frozen=True)
class Pair:
    """Two sessions of one state and what their comparison says: `worse` metrics, and the `worst` in words."""

    before: Session
    after: Session
    exit_code: int
    word: str
    worse: int
    worst: str


def compare_same(store: Store, sessions: Sequence[Session], root: Path | None = None) -> list[Pair]:
    """Compare each session with the next one of the same mode and selection; no session is in two pairs.

    Raises InputError if there is no such pair.
    """
    waiting: dict[tuple[str | None, tuple[str, ...]], Session] = {}
    pairs: list[Pair] = []
    for session in sorted(sessions, key=lambda each: (each.started, each.session)):
        kind = session.mode, tuple(sorted(session.selection))
        if before := waiting.pop(kind, None):
            pairs.append(_pair(before, session, compare_windows(store, [before], [session], root)))
        else:
            waiting[kind] = session
    if not pairs:
        raise InputError(f'{store.folder}: no two of these sessions have the same mode and selection of cases')
    return pairs


def _pair(before: Session, after: Session, found: Comparison) -> Pair:
    bad = [row for row in found.series if row.verdict in BAD]
    worst = f'{bad[0].id.what}: {bad[0].cause}' if bad else '; '.join(map(str, found.problems))
    return Pair(before, after, found.exit_code, found.word, len(bad), worst)


def share_in_words(times: int, of: int) -> str:
    """Return how often something happened, with the 95 % interval of its probability."""
    low, high = proportion(times, of)
    return f'{times} of {of}, {number(100 * times / of)} % (95 % interval {100 * low:.1f} to {100 * high:.1f} %)'


def worse_in_words(counts: Mapping[VerdictName, int]) -> str:
    """Return how many metrics of a comparison of one state with itself were told as worse; empty without any."""
    of = sum(n for verdict, n in counts.items() if verdict not in _NOT_JUDGED)
    worse = sum(n for verdict, n in counts.items() if verdict in BAD)
    return f'the same state twice: told as worse or lost, {share_in_words(worse, of)} of the metrics' if of else ''
