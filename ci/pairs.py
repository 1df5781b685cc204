# SPDX-License-Identifier: BSD-3-Clause
"""Compare pairs of sessions before and after a change, in a process beside the command."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci.isolated import isolated

if TYPE_CHECKING:
    from plumbline.identity import SeriesId


@dataclass(frozen=True)
class PairsOutcome:
    """The result of comparing pairs of sessions: table with summary, exit code, and the cases not yet decided.

    Each case is (partition, environ, name) as ReFrame names them. `worst`: the metric that lost most for certain, and
    how much, in words. `preloaded`: the libraries that each job before the change loaded ahead of its own (LD_PRELOAD).
    `wrong`: how many metrics are worse, with its interval, in words for states that are one.
    """

    text: str
    exit_code: int
    undecided: frozenset[tuple[str, str, str]]
    worst: str = ''
    preloaded: frozenset[str] = frozenset()
    wrong: str = ''


@isolated
def compare_pairs(
    results: Path, pairs: Sequence[tuple[str, str]], smallest: float, only: Collection[SeriesId] = ()
) -> PairsOutcome:
    """Compare the sessions before and after a change, in the series `only`, all of them by default.

    `smallest`: the share of performance whose loss matters.
    """
    from postprocess.results.store import Store
    from postprocess.verdicts.before_after import compare_pairs
    from postprocess.verdicts.same import worse_in_words
    from postprocess.views.verdicts import comparison

    store = Store(results)
    sessions = [(store.find(before), store.find(after)) for before, after in pairs]
    compared = compare_pairs(store, sessions, smallest, only)
    names = {case.id: (case.partition, case.environ, case.name) for case in store.cases(sessions[0][1])}
    undecided = frozenset(names[verdict.id.case] for verdict in compared.verdicts if verdict.verdict == 'warning')
    worst = next((f'{row.id.name}: {row.cause}' for row in compared.verdicts if row.verdict == 'regressed'), '')
    facts = [case.provenance.items() for before, _ in sessions for case in store.cases(before)]
    loaded = [{value for name, value in of_job if name.startswith('preloaded_')} for of_job in facts]
    preloaded = frozenset(set.intersection(*loaded)) if loaded else frozenset()
    table, wrong = comparison(compared).render('table'), worse_in_words(compared.counts)
    return PairsOutcome(table, compared.exit_code, undecided, worst, preloaded, wrong)
