# SPDX-License-Identifier: BSD-3-Clause
"""The incidents of a published site, as its first screen shows them."""

from __future__ import annotations

from collections.abc import Mapping

from plumbline.identity import SeriesId
from postprocess.extras.publish.data import Content
from postprocess.history.digest import Digest
from postprocess.incidents import ledger
from postprocess.incidents.known import Known, in_order
from postprocess.incidents.words import commands, since

_METRICS = 50  # most metrics of an incident that are named
_NODES = 200  # most nodes of an incident that are named


def entries(before: Mapping[str, Content], digest: Digest, numbers: Mapping[SeriesId, int]) -> dict[str, Content]:
    """Return id -> entry of each incident, the most urgent first; the address of an incident never changes.

    `before`: the entries that were published. One whose incident no longer exists is closed, or a part of another one.
    Raises InputError if the ledger cannot be read.
    """
    every = (*ledger.read_ledger(digest.results, digest.comparison.session.site), *digest.known)
    known = {incident.id: incident for incident in every}
    held = {id: f'is part of {incident.id}' for incident in known.values() for id in incident.ids - {incident.id}}
    gone = {
        id: incident | {'state': 'closed', 'since': held.get(id, incident['since'])}
        for id, incident in before.items()
        if id not in known
    }
    return {one.id: _entry(one, digest, numbers) for one in in_order(known.values(), digest.day)} | gone


def _entry(known: Known, digest: Digest, numbers: Mapping[SeriesId, int]) -> Content:
    """Return the entry of an incident."""
    of, when = known.incident, digest.when
    return {
        'state': known.state(when), 'kind': of.kind, 'where': str(of.where), 'what': of.what, 'size': of.size,
        'day': of.day, 'since': since(known, when), 'corrected': known.corrected,
        'changed': list(of.changed), 'nodes': list(of.nodes[:_NODES]),
        'evidence': list(of.evidence[:5]), 'next': commands(known, when, digest.results)[0],
        'sessions': [uuid for uuid, seen in known.seen.items() if seen.bad],
        'series': [numbers[series] for series in of.series if series in numbers][:_METRICS],
    }  # fmt: skip
