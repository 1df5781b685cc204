# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session once and keep the answer: its verdicts, its incidents and the incidents of the ledger."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from postprocess.history import kept
from postprocess.history.digest import Digest, digest
from postprocess.incidents import ledger
from postprocess.incidents.known import Known, in_order
from postprocess.results.store import Session, Store


def answer(
    store: Store, name: str = 'latest', site: str | None = None, root: Path | None = None, reruns: Sequence[Path] = (),
    late: bool = True,
) -> Digest:  # fmt: skip
    """Return the digest of the session whose uuid begins with `name`; see `Store.find` and `digest`.

    The digest of the newest session of a site is kept, and returned until one of its input files changes. Raises
    InputError and SiteError.
    """
    if not reruns and (kept_answer := _kept(store, name, site, root)):
        return kept_answer
    session = store.find(name, site)
    results, newest = store.folder.parent, store.find('latest', session.site).session == session.session
    before = kept.state(results, session.site, root)
    kept_answer = digest(store, session, root, late, reruns)
    if newest and not reruns and not kept_answer.faults and os.access(results, os.W_OK):
        after = kept.state(results, session.site, root)
        # else another process has changed a file meanwhile, and the answer may belong to either state
        if after.inputs == before.inputs and _of_ledger(results, session, kept_answer.day) == kept_answer.known:
            kept_answer.kept = True
            kept.write(results, session.site, kept.Head(session.session, after), kept_answer)
    return kept_answer


def _kept(store: Store, name: str, site: str | None, root: Path | None) -> Digest | None:
    """Return the kept answer on a session; None if one of its inputs changed or no answer is kept."""
    results, sites = store.folder.parent, [site] if site else store.sites()
    if len(sites) != 1 or (head := kept.head(results, sites[0])) is None or name not in ('latest', head.session):
        return None
    if (
        head.state != kept.state(results, sites[0], root)
        or (digest := kept.read_kept(results, sites[0], Digest)) is None
    ):
        return None
    return replace(digest, known=[replace(incident, results=results) for incident in digest.known])


def _of_ledger(results: Path, session: Session, day: str) -> list[Known]:
    """Return the incidents of the ledger that an answer shows: those not closed, and those that the session shows."""
    known = [
        incident
        for incident in ledger.read_ledger(results, session.site)
        if not incident.closed or session.session in incident.seen
    ]
    return in_order(known, day)
