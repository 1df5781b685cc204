# SPDX-License-Identifier: BSD-3-Clause
"""Find nodes that lost about equally in one session from one cause: they share a place, or are half of all nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from postprocess.incidents.draft import Draft, JudgedSession
from postprocess.incidents.incident import in_names
from postprocess.incidents.known import WORSE
from postprocess.incidents.part import Part, likeness
from postprocess.statistics.pooled import pooled

_FEWEST = 3  # fewest nodes with one cause: two may be slow by chance
_BY_CHANCE = 0.01  # largest chance at which slow nodes at one place of the site have the place as their cause


def joined(drafts: Sequence[Draft], known: Sequence[Part], night: JudgedSession) -> list[Draft]:
    """Return the drafts; drafts of nodes with one cause become one draft, of a place such as a rack or of no place.

    A node that is `known` to be slow by itself keeps its own draft.
    """
    of_nodes = [draft for draft in drafts if draft.slow_node and not _is_known(draft, known)]
    together: list[Draft] = []
    for part in {draft.where.partition: None for draft in of_nodes}:
        own = [draft for draft in of_nodes if draft.where.partition == part]
        together += _of_partition(own, night.nodes[part], night)
    taken = {node for draft in together for node in draft.nodes}
    others = [draft for draft in drafts if not (draft in of_nodes and draft.nodes <= taken)]
    return [*others, *together]


def _is_known(one: Draft, known: Sequence[Part]) -> bool:
    """Return True if an incident in the ledger already has the loss of this node."""
    incident = one.finish()
    return any(of.incident.where.nodes == one.where.nodes and likeness(of.incident, incident) for of in known)


def _of_partition(drafts: Sequence[Draft], measured: set[str], night: JudgedSession) -> list[Draft]:
    """Return a draft for each cause in common of the drafts of a partition; `measured`: its nodes that ran tonight."""
    joint = []
    alike = _alike(drafts)
    slow = {node for draft in alike for node in draft.where.nodes}
    there = {
        place: {node for node in measured if place in night.places.get(node, ())} for place in night.places_of(slow)
    }

    def by_chance(place: str) -> float:
        """Return the chance that so many slow nodes are at a place; 1 for too few."""
        own = len(slow & there[place])
        return _chance(own, len(there[place]), len(slow), len(measured)) if own >= _FEWEST else 1.0

    for place in sorted(there, key=lambda place: (by_chance(place), place)):
        own = slow & there[place]
        if by_chance(place) * len(there) < _BY_CHANCE:
            joint.append(_one([draft for draft in alike if own.issuperset(draft.where.nodes)], place))
            slow -= own
    if len(slow) >= _FEWEST and 2 * len(slow) >= len(measured):
        joint.append(_one([draft for draft in alike if slow.issuperset(draft.where.nodes)], ''))
    return joint


def _alike(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts whose loss is close to the median loss, and whose checks most of these drafts share."""
    losses = [draft.finish().loss or 0.0 for draft in drafts]
    if not losses:
        return []
    middle = median(losses)
    near = [draft for draft, loss in zip(drafts, losses, strict=True) if middle / WORSE <= loss <= middle * WORSE]
    checks = [{of.check for of in draft.series} for draft in near]
    return [
        draft for draft, own in zip(near, checks, strict=True) if 2 * sum(bool(own & of) for of in checks) > len(near)
    ]


def _chance(own: int, there: int, slow: int, measured: int) -> float:
    """Return the chance that at least `own` of `slow` nodes are at a place that has `there` of the `measured` nodes."""
    ways = sum(math.comb(there, n) * math.comb(measured - there, slow - n) for n in range(own, min(there, slow) + 1))
    return ways / math.comb(measured, slow)


def _one(drafts: Sequence[Draft], place: str) -> Draft:
    """Return one draft for several drafts with one cause, at `place` if that is given."""
    first = max(drafts, key=lambda one: one.finish().severity)
    nodes = {node for draft in drafts for node in draft.where.nodes}
    rows = [row for draft in drafts for row in draft.rows]
    loss, interval = (None, None) if rows else pooled([(draft.loss or 0.0, draft.interval) for draft in drafts])
    return replace(
        first, where=replace(first.where, place=place, nodes=in_names(nodes)), rows=rows, nodes=nodes,
        cases={of for draft in drafts for of in draft.cases}, series={of for draft in drafts for of in draft.series},
        evidence=list(dict.fromkeys(line for draft in drafts for line in draft.evidence)),
        certain=any(draft.certain for draft in drafts),
        loss=loss, interval=interval,
    )  # fmt: skip
