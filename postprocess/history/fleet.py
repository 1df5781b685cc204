# SPDX-License-Identifier: BSD-3-Clause
"""Find what stands out in a session: nodes, connections between nodes, software, or the whole system."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy

from plumbline.files import write_text
from plumbline.grouping import Key, explain
from plumbline.identity import CaseId, Quantity, SeriesId, natural
from plumbline.limits import limits
from plumbline.references import References, load_references
from plumbline.site.locations import locations
from postprocess.history.nodes import ACCEPTED, FEWEST_NODES, Flag, NodeTable, Recorded, node_tables, outliers, until
from postprocess.history.series import by_node
from postprocess.incidents import ledger
from postprocess.incidents.incident import IncidentKind
from postprocess.incidents.provenance import ALL, Difference, Provenance
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.statistics.distributions import quantile
from postprocess.statistics.spread import LARGE
from postprocess.text import count, percent

_BEFORE = 3  # earlier sessions whose provenance and nodes are compared with those of the last session
_LATELY = 2  # sessions before the last: a node that also stood out in one of them is proposed for draining
Places = Mapping[str, set[str]]  # node -> its places, such as ``switch s3``


@dataclass(frozen=True)
class Event:
    """One thing that stands out.

    `kind`: SYSTEM, NODE, FABRIC or SOFTWARE; `where`: a node, nodes, a place or a partition. `series`: the worst of the
    `count` series that show it. `change`: of its performance, in %, the mean over the last `sessions` sessions. `how`:
    what it was compared with. `evidence`: further facts. `changes`: differences in provenance. `part`: the only part of
    the node that shows it, such as ``device 3``. `interval`: 95 % interval of the share of performance that was lost;
    None if it is not known.
    """

    kind: IncidentKind
    where: str
    series: SeriesId
    quantity: Quantity
    change: float
    count: int
    how: str
    evidence: tuple[str, ...] = ()
    changes: tuple[Difference, ...] = ()
    sessions: int = 1
    part: str = ''
    interval: tuple[float, float] | None = None

    @property
    def of_value(self) -> float:
        """The change of the values themselves, in %: a time grows when performance falls."""
        if self.quantity.better == 'higher':
            return self.change
        return 100 * (1 / (1 + max(self.change, -99.9) / 100) - 1)


@dataclass(frozen=True)
class Fleet:
    """The findings of a session on `nodes` nodes, compared over `sessions` sessions.

    `drain`: node -> reason of the proposal to drain it. `left_out`: what was not compared. `absent`: nodes that ran the
    single-node series in recent sessions, but not in this one.
    """

    session: Session
    nodes: int
    sessions: int
    events: list[Event]
    drain: dict[str, str]
    left_out: list[str]
    absent: list[str]


def fleet(store: Store, last: Session, days: int, stood_out: Sequence[ledger.Entry], root: Path | None = None) -> Fleet:
    """Compare the nodes of the session `last` with those of the `days` before it, and with the accepted sessions.

    `stood_out`: nodes in sessions before. Raises InputError if the store or the table of locations cannot be read,
    SiteError if a file of the site is wrong.
    """
    baselines = References(row for row in load_references(last.site, root).rows if row.kind == 'baseline')
    sessions, accepted = _with_accepted(store.history(last), store.history(last, days), baselines)
    earlier = {session.session for session in sessions[:-1]}
    located = locations(last.site, root)
    before = [entry for entry in stood_out if entry.session in earlier]
    cases = store.cases(last)
    compared = sessions
    if _most_nodes(cases) < FEWEST_NODES:  # only the parts of a node are compared, which needs no other session
        compared, accepted = sessions[-1:], set()
    places = {session.session: place for place, session in enumerate(compared)}
    histories, nodes = by_node(store, compared, root)
    tables = until(node_tables(histories, nodes, len(compared)), len(compared) - 1, len(compared))
    flagged = {(entry.node, places[entry.session]) for entry in before if entry.session in places}
    flags, systems = outliers(tables, recorded(baselines), flagged, accepted)
    measured = {
        node
        for table in tables
        for node, value in zip(table.nodes, table.performance[:, -1], strict=True)
        if numpy.isfinite(value)
    }
    events = _system_events(systems) + _node_events(flags, measured, located)
    events = _with_software(store, sessions, events)
    single = {node for names in measured for node in names.split(',')}
    ran = {node for case in cases for node in case.nodes}
    absent = sorted(_lately(tables) - ran, key=natural)
    return Fleet(last, len(single), len(sessions), events, _drain(events, before, sessions), _left_out(tables), absent)


def _most_nodes(cases: Sequence[CaseRow]) -> int:
    """Return the largest number of nodes, or sets of nodes, that ran the same case."""
    nodes: dict[CaseId, set[frozenset[str]]] = defaultdict(set)
    for case in cases:
        if not case.fixture:
            nodes[case.id].add(frozenset(case.nodes))
    return max(map(len, nodes.values()), default=0)


def _with_accepted(
    every: Sequence[Session], sessions: Sequence[Session], baselines: References
) -> tuple[list[Session], set[int]]:
    """Return the sessions together with the accepted ones, in order, and the indices of the sessions of the baseline.

    Accepted are the sessions that the baseline was recorded from, or the first ones if the store has none of these.
    """
    named = frozenset().union(*(row.sessions for row in baselines.rows))
    chosen = [session for session in every if session.short_name in named][:ACCEPTED]
    ids = {session.session for session in chosen or every[:ACCEPTED]}
    ids |= {session.session for session in sessions}
    accepted = [session for session in every if session.session in ids]
    of_baseline = {session.session for session in chosen}
    return accepted, {place for place, session in enumerate(accepted) if session.session in of_baseline}


def recorded(baselines: References) -> Recorded:
    """Return a function that returns the performance that the baselines of a site expect of a series."""

    def found(table: NodeTable) -> tuple[float, float] | None:
        """Return (expected performance, performance at the limit), logarithms; None without a baseline that gates."""
        row = baselines.find(table.series)
        if row is None or row.mismatch(table.quantity):
            return None
        bound = limits(row, table.tolerance)
        if not bound.gates:
            return None
        # 1 % of the healthy values of a single node are beyond this limit, so several sessions decide
        least = -math.log1p(-table.tolerance.floor)
        loss = max(float(quantile(0.99, bound.df)) * bound.sd, least) if bound.sd and bound.df else least
        level = table.quantity.sign * math.log(row.mean)
        return level, level - min(loss, max(-math.log1p(-LARGE), least))

    return found


def _event(kind: IncidentKind, where: str, flags: Sequence[Flag], *evidence: str) -> Event:
    """Return the event that several flags of one place make; it describes the worst flag."""
    worst = min(flags, key=lambda flag: flag.loss)
    number = len({(flag.series, flag.quantity) for flag in flags})
    change = 100 * math.expm1(worst.loss)
    parts = {flag.part for flag in flags}
    part = worst.part if len(parts) == 1 else ''
    ends = (-math.expm1(worst.loss + worst.error), -math.expm1(worst.loss - worst.error))
    return Event(
        kind, where, worst.series, worst.quantity, change, number, worst.how, evidence, (), worst.sessions, part,
        None if math.isnan(worst.error) else ends,
    )  # fmt: skip


def _system_events(systems: Iterable[Flag]) -> list[Event]:
    """Return one event for each partition whose whole fleet stands out."""
    groups = defaultdict(list)
    for flag in systems:
        groups[flag.series.partition].append(flag)
    events = []
    for partition, flags in groups.items():
        checks = sorted({flag.series.check for flag in flags})
        evidence = (f'checks: {", ".join(checks)}',) if len(checks) > 1 else ()
        events.append(_event('SYSTEM', partition, flags, *evidence))
    return sorted(events, key=lambda event: event.change)


def _node_events(flags: Iterable[Flag], measured: Iterable[str], located: Places) -> list[Event]:
    """Return one event for each node, and one for each scope that explains slow jobs over several nodes."""
    by_node: dict[str, list[Flag]] = defaultdict(list)
    for flag in flags:
        by_node[flag.node].append(flag)
    jobs = [names for names in by_node if ',' in names]
    events = []
    for node in (name for name in by_node if ',' not in name):
        own = [names for names in jobs if node in names.split(',')]
        evidence = [f'its jobs with other nodes are slow, too: {len(own)}'] if own else []
        events.append(_event('NODE', node, by_node[node], *evidence))
    slow = [names for names in jobs if not by_node.keys() & set(names.split(','))]
    healthy = [_scopes(names, located) for names in measured if ',' in names and names not in jobs]
    for group in explain([_scopes(names, located) for names in slow], healthy):
        own = [slow[place] for place in group.places]
        compared = len(own) + sum(group.key in scopes for scopes in healthy)
        evidence = [f'slow: {len(own)} of {compared} jobs over several nodes there']
        flags_of = [flag for names in own for flag in by_node[names]]
        kind, where = map(str, group.key)
        events.append(_event('NODE' if kind == 'node' else 'FABRIC', where, flags_of, *evidence))
    return sorted(events, key=lambda event: event.change)


def _scopes(names: str, located: Places) -> list[Key]:
    """Return the scopes that may make a job over several nodes slow: its connections, a node, or a place."""
    nodes = sorted(names.split(','))
    places = sorted({place for node in nodes for place in located.get(node, ())})
    return [('job', names), *(('node', node) for node in nodes), *(('place', place) for place in places)]


def _with_software(store: Store, sessions: Sequence[Session], events: list[Event]) -> list[Event]:
    """Return the events with the changed provenance of their worst series; events with a change become SOFTWARE."""
    last = len(sessions) - 1
    before = range(max(last - _BEFORE, 0), last)
    wanted = [(event.series.case, session) for event in events for session in (*before, last)]
    provenance = Provenance.read(store, sessions, wanted)
    changed = []
    for event in events:
        case = event.series.case
        if event.kind == 'SYSTEM':
            changes = provenance.change(case, before, [last])
        else:
            everywhere = provenance.change(case, before, [last], ALL)
            own = provenance.change(case, before, [last], event.where)
            changes = [change for change in own if change not in everywhere]
            changes = changes or provenance.unlike(case, last, event.where)
        kind = 'SOFTWARE' if changes else event.kind
        changed.append(replace(event, kind=kind, changes=tuple(changes)))
    return changed


def _drain(events: Iterable[Event], before: Sequence[ledger.Entry], sessions: Sequence[Session]) -> dict[str, str]:
    """Return node -> reason, for nodes that stand out now and in one of the two sessions before."""
    lately = {session.session for session in sessions[-1 - _LATELY : -1]}
    flagged = {entry.node for entry in before if entry.session in lately}
    day = sessions[-1].day
    return {
        event.where: f'{day} {event.series.check} {event.series.name} {percent(event.of_value)}, not for the first time'
        for event in events
        if event.kind == 'NODE' and event.where in flagged and ',' not in event.where
    }


def _lately(measured: Sequence[NodeTable]) -> set[str]:
    """Return the nodes that measured tonight's single-node series in most of the last `_BEFORE` sessions."""
    return {
        node
        for table in measured
        if numpy.isfinite(table.performance[:, -1]).sum() >= FEWEST_NODES
        for node, n in zip(
            table.nodes, numpy.isfinite(table.performance[:, -1 - _BEFORE : -1]).sum(axis=1), strict=True
        )
        if 2 * n > _BEFORE and ',' not in node
    }


def _left_out(measured: Sequence[NodeTable]) -> list[str]:
    """Return a sentence on the metrics of too few nodes; nothing without such metrics."""
    few = [table for table in measured if numpy.isfinite(table.performance[:, -1]).sum() < FEWEST_NODES]
    if not few:
        return []
    return [f'{count(len(few), "metric")} of fewer than {FEWEST_NODES} nodes: only the parts of a node are compared']


def write_drain(session: Session, drained: Mapping[str, str], results: Path) -> Path | None:
    """Write the proposal to drain nodes, as commands for a person to run.

    Return its path, or None without a proposal.
    """
    if not drained:
        return None
    path = results / 'proposals' / f'drain-{session.site}-{session.day}.txt'
    write_text(path, ''.join(f'{drain(node, reason)}\n' for node, reason in sorted(drained.items())))
    return path


def drain(node: str, reason: str) -> str:
    """Return Slurm's command that drains a node."""
    return f'scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={shlex.quote(f"plumbline {reason}")}'
