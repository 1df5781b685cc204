# SPDX-License-Identifier: BSD-3-Clause
"""Read the provenance of cases over sessions, and find differences between two times or between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

from plumbline.identity import CaseId
from postprocess.results.store import Session, Store
from postprocess.results.tables import NODE
from postprocess.text import one_line

_LIST = '; '  # between the entries of a fact that is a list
_SHOWN = 6  # most entries of such a list that a difference names
#: Most sessions before and after a change that are compared.
AROUND = 3
ALL = '*'  # stands for all nodes together in place of the name of a node
#: Shell patterns of facts on software, which do not change until someone changes the machine. Facts that match none of
#: the patterns here, such as load average, free memory and names of jobs, vary with the session and explain nothing.
SOFTWARE = (
    'stack', 'stack_*', 'binary', 'binary_*', 'package', 'library_*', 'kernel', 'driver*', '*_driver', 'firmware*',
    '*_firmware', 'microcode',
)  # fmt: skip
_SETTINGS = (
    'suite_version', 'check_code', 'site_file*', 'governor', 'smt_active', 'transparent_hugepages', 'cpu_model',
    'bios*', '*_version', 'numa_distances', 'nearest_numa_domain', 'hpl_dat',
)  # fmt: skip
#: Patterns of all facts that are compared.
FACTS = SOFTWARE + _SETTINGS
Facts = Mapping[str, tuple[str, ...]]  # fact -> the values that it had, sorted
_COLUMNS = '"partition", environ, "check", params, night'


class Difference(NamedTuple):
    """A fact that differs: `now`, and `was`: earlier, or with `elsewhere` on all other nodes; empty if unknown."""

    fact: str
    was: tuple[str, ...]
    now: tuple[str, ...]
    elsewhere: bool = False

    @property
    def of_software(self) -> bool:
        """True if the fact describes the software that ran."""
        return matches(self.fact, SOFTWARE)

    def __str__(self) -> str:
        """Return the difference as text: ``kernel: 6.1 -> 6.5`` or ``governor: powersave, elsewhere performance``.

        Of two lists, as ``stack_packages``, only what one of them has: ``openblas@0.3.21/a1 -> openblas@0.3.26/b2``.
        """
        if len(self.was) == len(self.now) == 1 and _LIST in self.was[0] + self.now[0]:
            lists = [values[0].split(_LIST) for values in (self.was, self.now)]
            was, now = (_others(*sides) or 'nothing' for sides in (lists, lists[::-1]))
        else:
            was, now = (' and '.join(values) or 'nothing' for values in (self.was, self.now))
        return f'{self.fact}: {now}, elsewhere {was}' if self.elsewhere else f'{self.fact}: {was} -> {now}'


def _others(mine: Sequence[str], theirs: Sequence[str]) -> str:
    """Return the entries of a list that the other one lacks, the first `_SHOWN` of them.

    Packages of the same version that were only built again, so that the hash behind ``/`` differs, count if no version
    differs.
    """
    differ, versions = [entry for entry in mine if entry not in theirs], {entry.partition('/')[0] for entry in theirs}
    differ = [entry for entry in differ if entry.partition('/')[0] not in versions] or differ
    return ', '.join(differ[:_SHOWN]) + (f' and {len(differ) - _SHOWN} more' if len(differ) > _SHOWN else '')


class Provenance:
    """The facts of some cases in some sessions, by node; a node is named as by `NODE`, or `ALL`."""

    def __init__(self, found: Mapping[tuple[CaseId, int], Mapping[str, Facts]]):
        self._found = found

    @classmethod
    def read(cls, store: Store, sessions: Sequence[Session], wanted: Iterable[tuple[CaseId, int]]) -> Provenance:
        """Read the facts of `wanted`: pairs of a case and an index in `sessions`."""
        wanted = list(wanted)
        places = sorted({n for _, n in wanted})  # only these few of all sessions are read
        at = {n: place for place, n in enumerate(places)}
        keys = sorted({(case, at[n]) for case, n in wanted})
        if not keys:
            return cls({})
        cases, nights = map(list, zip(*keys, strict=True))
        rows = store.select(
            f'SELECT DISTINCT {_COLUMNS}, {NODE} AS node, provenance FROM cases JOIN wanted USING ({_COLUMNS})',
            [sessions[n] for n in places],
            wanted={'id': cases, 'night': nights},
        )
        values: dict[tuple[CaseId, int], dict[str, dict[str, set[str]]]] = {}
        for row in rows:
            key = row['id'], places[row['night']]
            for fact, value in compared_in(row['provenance']):
                for name in (row['node'], ALL):
                    facts = values.setdefault(key, {}).setdefault(name, {})
                    facts.setdefault(fact, set()).add(value)
        return cls(
            {
                key: {node: {fact: tuple(sorted(of)) for fact, of in facts.items()} for node, facts in nodes.items()}
                for key, nodes in values.items()
            }
        )

    def change(self, case: CaseId, before: Iterable[int], after: Iterable[int], node: str = ALL) -> list[Difference]:
        """Return the differences between two groups of sessions.

        Only facts that are constant within each group count.
        """
        sides = [[facts for n in side if (facts := self._facts(case, n).get(node))] for side in (before, after)]
        return difference(*sides)

    def unlike(self, case: CaseId, session: int, node: str) -> list[Difference]:
        """Return the facts in which a node differs while all other nodes agree."""
        nodes = self._facts(case, session)
        others = [facts for name, facts in nodes.items() if name not in (node, ALL)]
        differences = []
        for fact, mine in sorted(nodes.get(node, {}).items()):
            theirs = {facts.get(fact, ()) for facts in others}
            if len(theirs) == 1 and len(others) > 1 and mine not in theirs:
                differences.append(Difference(fact, theirs.pop(), mine, elsewhere=True))
        return differences

    def _facts(self, case: CaseId, session: int) -> Mapping[str, Facts]:
        """Return node -> facts of a case in a session."""
        return self._found.get((case, session), {})


def around(last: int, first: int, sessions: int) -> tuple[range, range]:
    """Return the indices of the sessions up to `last` before a change and from `first` after it, of so many."""
    return range(max(last + 1 - AROUND, 0), last + 1), range(first, min(first + AROUND, sessions))


def compared_in(provenance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts of a case that are compared, and the value of each on one line."""
    for fact, value in provenance.items():
        if matches(fact, FACTS):
            yield fact, one_line(str(value)) or ''


@lru_cache(2**12)
def matches(fact: str, patterns: tuple[str, ...]) -> bool:
    """Return True if the name of a fact matches one of the patterns."""
    return any(fnmatchcase(fact, pattern) for pattern in patterns)


def difference(before: Sequence[Facts], after: Sequence[Facts]) -> list[Difference]:
    """Return the facts with one value in all of `before` and another in all of `after`; none if either is empty."""
    differences = []
    for fact in sorted({fact for facts in (*before, *after) for fact in facts}) if before and after else ():
        old, new = ({facts.get(fact, ()) for facts in side} for side in (before, after))
        if len(old) == len(new) == 1 and old != new:
            differences.append(Difference(fact, old.pop(), new.pop()))
    return differences
