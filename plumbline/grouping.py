# SPDX-License-Identifier: BSD-3-Clause
"""Which common cause explains what is bad: the node, device, place, check, environ or partition that the bad share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: A scope, such as ``('node', 'n3')``; the first word is its kind.
Key = tuple[Hashable, ...]


class Named(NamedTuple):
    """What a job names as slow, with the evidence as `text`.

    `kind`: settings, loopback, node, rail, plane, pair, uplink, place, group. `rail`: of which rail of the node, where
    it is of one.
    """

    kind: str
    where: str
    nodes: tuple[str, ...]
    text: str
    rail: int | None = None


@dataclass(frozen=True)
class Group:
    """What is explained by one scope. `places`: of its members in the sequence that was explained."""

    key: Key
    places: tuple[int, ...]


def explain(
    bad: Sequence[Sequence[Key]], healthy: Iterable[Iterable[Key]], cost: Mapping[str, float] | None = None
) -> list[Group]:
    """Return few scopes that together hold all that is bad and little that is healthy.

    `bad` has the scopes of each bad thing, `healthy` of each healthy one. Again and again the scope is taken that has
    most bad things beyond its healthy ones. Of equal ones the kind counts that comes first in `bad`: name the narrow
    ones first. What no scope explains is grouped by the first scope that it names. `cost`: what a healthy thing in a
    scope of a kind counts, 1 unless given.
    """
    well = Counter(key for keys in healthy for key in set(keys))
    order: dict[Hashable, int] = {}
    for keys in bad:
        for position, key in enumerate(keys):
            order[key[0]] = max(order.get(key[0], 0), position)
    members: dict[Key, set[int]] = {}
    for place, keys in enumerate(bad):
        for key in keys:
            members.setdefault(key, set()).add(place)
    against = {key: (cost or {}).get(str(key[0]), 1.0) * well[key] for key in members}
    left, found = set(range(len(bad))), []
    while left:
        key = max(members, key=lambda key: (len(members[key]) - against[key], -order[key[0]]), default=())
        if not key or len(members[key]) <= against[key]:
            break
        found.append(Group(key, tuple(sorted(members[key]))))
        left -= members[key]
        taken = members.pop(key)
        for other in {other for place in taken for other in bad[place]} - {key}:
            members[other] -= taken
            if not members[other]:
                del members[other]
    unexplained: dict[Key, list[int]] = {}
    for place in sorted(left):
        unexplained.setdefault(bad[place][0], []).append(place)
    return found + [Group(key, tuple(places)) for key, places in unexplained.items()]
