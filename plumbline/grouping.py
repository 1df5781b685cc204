# SPDX-License-Identifier: BSD-3-Clause
"""Find the common causes of bad results: the node, device, place, check, environ or partition that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: A scope, such as ``('node', 'n3')``; the first word is its kind.
Key = tuple[Hashable, ...]


class Named(NamedTuple):
    """What a job names as slow, with the evidence as `text`.

    `kind`: settings, loopback, node, rail, plane, pair, uplink, place, group. `rail`: the rail of the node, if only
    one is slow.
    """

    kind: str
    where: str
    nodes: tuple[str, ...]
    text: str
    rail: int | None = None


@dataclass(frozen=True)
class Group:
    """One scope and the bad things that it explains. `places`: their indices in the sequence `bad`."""

    key: Key
    places: tuple[int, ...]


def explain(
    bad: Sequence[Sequence[Key]], healthy: Iterable[Iterable[Key]], cost: Mapping[str, float] | None = None
) -> list[Group]:
    """Return a few scopes that together hold everything bad and little that is healthy.

    `bad`: the scopes of each bad thing; `healthy`: the scopes of each healthy thing. Greedy: take the scope with the
    largest surplus of bad over healthy things, remove the bad things that it explains, repeat. On a tie the kind that
    is first in `bad` wins, so name narrow kinds first. A bad thing that no scope explains is grouped by its first
    scope. `cost`: the weight of a healthy thing by the kind of its scope, 1 by default.
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
    remaining, groups = set(range(len(bad))), []
    while remaining:
        key = max(members, key=lambda key: (len(members[key]) - against[key], -order[key[0]]), default=())
        if not key or len(members[key]) <= against[key]:
            break
        groups.append(Group(key, tuple(sorted(members[key]))))
        remaining -= members[key]
        taken = members.pop(key)
        for other in {other for place in taken for other in bad[place]} - {key}:
            members[other] -= taken
            if not members[other]:
                del members[other]
    unexplained: dict[Key, list[int]] = {}
    for place in sorted(remaining):
        unexplained.setdefault(bad[place][0], []).append(place)
    return groups + [Group(key, tuple(places)) for key, places in unexplained.items()]
