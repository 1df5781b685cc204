# SPDX-License-Identifier: BSD-3-Clause
"""Store a session, and say what is known of it while it may go on; each step in a process beside the command."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ci.isolated import isolated
from plumbline.errors import InputError, SiteError
from plumbline.problems import Problem

if TYPE_CHECKING:
    from postprocess.verdicts.verdict import Again


@isolated
def store(
    results: Path, report: Path, expected: int, problems: Sequence[Problem], site: str | None = None
) -> list[str]:
    """Put a run report into the store; return a sentence for each session of it. Raises InputError.

    `expected`: how many cases were to run. `problems`: what went wrong outside the cases.
    """
    from postprocess.readers.ingest import ingest
    from postprocess.results.store import Store

    sentences = []
    for sentence in ingest(Store(results), [report], site, expected, problems):
        if isinstance(sentence, InputError):
            raise sentence
        sentences.append(sentence)
    return sentences


@isolated
def first_verdict(results: Path, uuid: str) -> str:
    """Return the verdict in one line on a session of which further jobs are to run; it makes no incident yet."""
    from postprocess.history.digest import Digest
    from postprocess.history.verdicts import verdicts_of
    from postprocess.results.store import Store
    from postprocess.views.verdicts import verdict_of

    store = Store(results)
    compared = verdicts_of(store, store.find(uuid))
    return verdict_of(compared if compared.exit_code else Digest(compared))


@isolated
def in_doubt(results: Path, uuid: str) -> tuple[Again, ...]:
    """Return the further jobs that should run before the answer on a session is final."""
    from postprocess.history.findings import findings_of
    from postprocess.history.verdicts import verdicts_of
    from postprocess.incidents.ledger import Ledger
    from postprocess.incidents.recheck import rechecks
    from postprocess.results.store import Store

    store = Store(results)
    session = store.find(uuid)
    comparison = verdicts_of(store, session)
    with suppress(InputError, SiteError):  # a ledger that cannot be read is a fault of the verdict, after these jobs
        ledger = Ledger(store, session.site, session)
        if not ledger.facts_of(session):  # of a night that is killed among them, this is what is told
            findings_of(store, ledger, comparison)
        return (*rechecks(store, ledger.before(session).known, comparison), *comparison.again)
    return comparison.again
