# SPDX-License-Identifier: BSD-3-Clause
"""Group losses of performance by cause: a node, a device, what lies between them, a check, an environ, a partition."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from plumbline.grouping import Group, Key, explain
from plumbline.identity import CaseId, SeriesId
from postprocess.incidents.draft import Draft, JudgedSession, only, pooled_loss
from postprocess.incidents.incident import IncidentKind, Scope, in_names
from postprocess.incidents.known import WORSE
from postprocess.incidents.provenance import AROUND, Difference, Provenance
from postprocess.statistics.groups import MORE
from postprocess.verdicts.verdict import Common, Verdict

_FEW = 0.25  # weight of a healthy series as evidence against changed software: it may use an unchanged part of it
_OF_CASE = ('check', 'curve')  # kinds of losses in common whose series belong to one check
_OF_NODE = ('job', 'node', 'connection', 'device')  # kinds of scopes that belong to nodes
_OF_PLACE = ('place', 'fabric')  # kinds of scopes that belong to a place: a node of it may have left it
#: Kind of a loss in common -> kind of its incident; else SYSTEM if several jobs show it, or CASE.
_OF_COMMON: dict[str, IncidentKind] = {
    'node': 'NODE', 'link_class': 'FABRIC', 'partition': 'SYSTEM', 'environ': 'SYSTEM',
}  # fmt: skip
_DEVICES = ('device', 'gpu', 'domain')  # dims and params that name a part of a node
_FAMILY = re.compile(r'[A-Z]+[a-z]*')  # first word of the name of a check: Osu, Numa, Babel


def losses(night: JudgedSession) -> list[Draft]:
    """Return a draft for each cause of regressed series, and of losses that several series have in common.

    What else lost on a slow node has the same cause: the node is one draft, whose loss is that of the first one.
    """
    drafts: list[Draft] = []
    of_node: dict[str, Draft] = {}
    for draft in _causes(night):
        if first := of_node.get(draft.slow_node):
            first.rows += draft.rows
            first.cases |= draft.cases
            first.series |= draft.series
            first.certain |= draft.certain
            continue
        drafts.append(draft)
        if draft.slow_node:
            of_node[draft.slow_node] = draft
    return drafts


def _causes(night: JudgedSession) -> Iterator[Draft]:
    """Yield a draft for each cause of losses, a node maybe more than once.

    Losses in common come first, then scopes most of whose series regressed; any other series is assigned to its case.
    Two losses of equal size need not have one cause.
    """
    bad = [row for row in night.comparison.verdicts if row.verdict == 'regressed']
    together: set[int] = set()
    for common, rows in _in_common(night, bad):
        together |= {id(row) for row in rows}
        yield _common_draft(common, rows, night)
    bad = [row for row in bad if id(row) not in together]
    if not bad:
        return
    doubtful = _doubtful(night.comparison.verdicts, bad)
    unlike = {id(row) for row in doubtful}
    healthy = [row for row in night.comparison.verdicts if row.verdict in ('ok', 'improved') and id(row) not in unlike]
    software = _Software(night, {row.id.case for row in bad})
    cases, slow = (Counter(row.id for row in part) for part in (night.comparison.verdicts, [*bad, *doubtful]))
    guilty = [guilty_nodes(row, cases[row.id], slow[row.id], night.slow) for row in bad]
    scopes = [_loss_keys(row, night, software, *where_slow) for row, where_slow in zip(bad, guilty, strict=True)]
    well = [_loss_keys(row, night, software, row.nodes, False) for row in healthy]
    groups = explain(scopes, well, {'software': _FEW})
    besides: dict[Key, set[str]] = {}  # group -> nodes that show its cause and also a cause of their own
    own = {node for group in groups if group.key[0] in ('job', 'node') for node in group.key[1:]}
    more: dict[int, float] = {}
    for group in groups:
        more |= _lost_more(group, bad, own)
    if more:
        # it counts as slow on this node only, whatever others lost
        for place in more:
            guilty[place] = bad[place].nodes, True
            scopes[place] = _loss_keys(bad[place], night, software, *guilty[place])
        besides = {
            group.key: {node for place in more.keys() & set(group.places) for node in bad[place].nodes}
            for group in groups
        }
        groups = _apart(groups, set(more), scopes, well)
    for group in groups:
        rows = [bad[place] for place in group.places]
        draft = _loss_draft(group, rows, {node for place in group.places for node in guilty[place][0]}, night)
        draft.nodes |= besides.get(group.key, set())
        if set(group.places) <= more.keys() and (usual := median(more[place] for place in group.places)):
            _leave_out(draft, usual)
        yield draft


def _leave_out(draft: Draft, usual: float) -> None:
    """Let the loss of a draft be what it lost beside the `usual` loss, a share, that other nodes show, too."""
    loss, interval = pooled_loss(draft.rows)
    if loss is not None:
        own = [1 - (1 - size) / (1 - usual) for size in (loss, *(interval or ()))]
        draft.loss, draft.interval = own[0], (own[1], own[2]) if interval else None
        draft.evidence.append(f'beside a loss of {100 * usual:.1f} % that the same metrics show on other nodes')


def _doubtful(rows: Iterable[Verdict], bad: Iterable[Verdict]) -> list[Verdict]:
    """Return the rows within limits for which the loss of their series on other nodes is likelier than no loss."""
    losses: dict[SeriesId, list[float]] = defaultdict(list)
    for row in bad:
        losses[row.id].append(row.loss or 0.0)
    half = {series: median(own) / 2 for series, own in losses.items()}
    return [
        row for row in rows if row.verdict != 'regressed' and row.id in half and (row.loss or 0.0) > half[row.id] > 0
    ]


def _lost_more(group: Group, bad: Sequence[Verdict], slow: Collection[Hashable]) -> dict[int, float]:
    """Return the members of a group that lost more than the same series on most other nodes, each with the usual loss.

    They have a further cause. Their interval lies above the usual one, and above `WORSE` times the usual loss, except
    on nodes of `slow`, which have a cause of their own. Of a place, the usual loss counts as 0: the node need not share
    its cause. A group of one node has one cause, so the result is empty.
    """
    if group.key[0] in _OF_NODE:
        return {}
    same: dict[SeriesId, list[int]] = defaultdict(list)
    for place in group.places:
        same[bad[place].id].append(place)
    more = {}
    for places in same.values():
        usual = median(bad[place].loss or 0.0 for place in places)
        near = median((bad[place].interval or (0.0,))[-1] for place in places)
        for place in places:
            row = bad[place]
            is_slow = row.nodes and all(node in slow for node in row.nodes)
            if (row.interval or (0.0,))[0] > max(near, 0.0 if is_slow else WORSE * usual):
                more[place] = 0.0 if group.key[0] in _OF_PLACE else usual
    return more


def _apart(
    groups: Sequence[Group], more: set[int], scopes: Sequence[Sequence[Key]], well: Sequence[Sequence[Key]]
) -> list[Group]:
    """Return the groups without the members `more`, and new groups that explain these members."""
    remaining = [
        Group(group.key, tuple(place for place in group.places if place not in more))
        for group in groups
        if more & set(group.places)
    ]
    unexplained = sorted(set(range(len(scopes))) - {place for group in remaining for place in group.places})
    again = explain([scopes[place] for place in unexplained], well, {'software': _FEW})
    places = {group.key: group.places for group in remaining}
    for group in again:  # a node that has a cause of its own already keeps one
        places[group.key] = (*places.get(group.key, ()), *(unexplained[place] for place in group.places))
    return [Group(key, own) for key, own in places.items()]


def _in_common(night: JudgedSession, bad: Sequence[Verdict]) -> Iterator[tuple[Common, list[Verdict]]]:
    """Yield the losses in common with distinct causes, each with its verdicts.

    A regressed series of a job or curve belongs to the loss in common that covers most of the job or curve.
    """
    chosen: dict[Common, dict[int, Verdict]] = {}
    held: set[int] = set()
    for common in night.comparison.common:  # thinned by `highest`: wider ones come first, and have precedence
        own = {id(row): row for row in rows_that_share(common, night) if id(row) not in held}
        if own:
            chosen[common] = own
            held |= own.keys()
    jobs = Counter(row.case_id for row in bad if id(row) not in held)
    for common, own in chosen.items():
        there = Counter(row.case_id for row in own.values())
        joined = [
            row
            for row in bad
            if id(row) not in held
            and (there[row.case_id] if common.kind in _OF_CASE else there[row.case_id] > jobs[row.case_id])
        ]
        held |= {id(row) for row in joined}
        yield common, [*own.values(), *joined]


def rows_that_share(common: Common, night: JudgedSession) -> list[Verdict]:
    """Return the verdicts of the series that share a loss; of the node, if the loss is of one node.

    Series that lost significantly more are left out: than `MORE` times the loss or, on nodes that are slow by
    themselves, than the loss. On a slow node they have the same cause.
    """

    def most(row: Verdict) -> float:
        if common.kind == 'node':
            return math.inf
        return common.loss if row.nodes and night.slow.keys() >= {*row.nodes} else MORE * common.loss

    rows = (row for row in night.comparison.verdicts if row.loss is not None and common.holds(row))
    return [row for row in rows if (row.interval or (0.0,))[0] <= most(row)]


def _common_draft(common: Common, rows: list[Verdict], night: JudgedSession) -> Draft:
    """Return the draft of a loss in common."""
    where = Scope(night.session.site, only({row.id.partition for row in rows}), only({row.id.environ for row in rows}))
    kind = _OF_COMMON.get(common.kind) or ('SYSTEM' if len({row.case_id for row in rows}) > 1 else 'CASE')
    if common.kind == 'node':
        where = replace(where, environ='', nodes=(common.where,))
    elif common.kind == 'link_class':
        where = replace(where, environ='', link_class=only({_link_class(row.id) for row in rows}))
    elif common.kind == 'partition':
        where = replace(where, environ='')
    draft = _of_rows(kind, where, rows, {node for row in rows for node in row.nodes})
    draft.loss, draft.interval = common.loss, common.interval
    draft.evidence.append(str(common))
    return draft


class _Software:
    """The software that changed tonight for the checks that lost performance, by case and node."""

    def __init__(self, night: JudgedSession, cases: Iterable[CaseId]):
        checks = {case.check for case in cases}
        sessions = [*night.before[-AROUND:], night.session]
        self._before, self._tonight = range(len(sessions) - 1), len(sessions) - 1
        wanted = {case.id for case in night.cases if not case.fixture and case.check in checks}
        self._facts = Provenance.read(
            night.store, sessions, [(case, place) for case in wanted for place in range(len(sessions))]
        )

    def changes(self, case: CaseId, nodes: Iterable[str]) -> list[Difference]:
        """Return the changes of software for a case on some nodes."""
        name = ','.join(sorted(nodes))
        return [
            difference
            for difference in self._facts.change(case, self._before, [self._tonight], name)
            if difference.of_software
        ]


def guilty_nodes(
    row: Verdict, cases: int, slow_cases: int, known: Mapping[str, float] | None = None
) -> tuple[tuple[str, ...], bool]:
    """Return the nodes that all slow jobs of a series share, and True if jobs on other nodes were fast.

    No nodes if jobs on different nodes are slow. `cases`, `slow_cases`: in how many cases (in a sweep, one for each
    node) the series was measured, and in how many it is slow. `known`: node that is slow by itself -> its loss, which
    explains that jobs there are slow, unless the series lost significantly more.
    """
    if cases > 1:
        return (row.nodes, True) if row.nodes and 2 * slow_cases <= cases else ((), False)
    known, loss, expected = known or {}, row.loss, row.expected
    own = known.get(row.nodes[0]) if len(row.nodes) == 1 else None
    explained = own is not None and (row.interval or (0.0,))[0] <= WORSE * own
    measured = [job for job in row.jobs if job.status == 'measured' and job.value > 0]
    if len(measured) < 2 or loss is None or not expected:
        return row.nodes, explained
    slow: list[set[str]] = []
    fast: list[set[str]] = []
    for job in measured:
        lost = 1 - (job.value / expected) ** row.quantity.sign
        if lost <= loss / 2:
            fast.append(set(job.nodes))
        elif job.nodes == row.nodes or not known.keys() & job.nodes:
            slow.append(set(job.nodes))
    if not slow:
        return row.nodes, explained
    common = set.intersection(*slow) - set().union(*fast)
    return tuple(sorted(common)), bool(common and (fast or explained))


def _link_class(series: SeriesId) -> str:
    """Return the link class of a series; empty without one."""
    return dict((*series.params, *series.dims)).get('link_class', '')


def _loss_keys(
    row: Verdict, night: JudgedSession, software: _Software, nodes: Sequence[str], only_there: bool
) -> list[Key]:
    """Return the scopes that contain a series, the narrowest first; `only_there`: other nodes are healthy."""
    series = row.id
    place, pairs = (series.partition, series.environ), dict((*series.params, *series.dims))
    keys: list[Key] = []
    single = nodes[0] if len(nodes) == 1 else ''
    if len(nodes) <= 1:
        own = [f'{name} {pairs[name]}' for name in _DEVICES if name in pairs]
        keys += [('device', series.partition, single, part) for part in own]
    if only_there and night.several(series.partition):
        keys.append(('job', *nodes))
    if not only_there:
        keys += [('case', series.case), ('check', *place, series.check)]
        if family := _FAMILY.match(series.check):
            keys.append(('family', *place, family[0]))
        keys += [('environ', *place), ('partition', series.partition)]
        if link_class := _link_class(series):
            keys.append(('link', series.partition, link_class))
        keys += [('software', change) for change in software.changes(series.case, row.nodes)]
    if len(nodes) <= 1:  # one of the two of a pair
        own = [f'device {part}' for part in pairs.get('pair', '').split('-') if part]
        keys += [('device', series.partition, single, part) for part in own]
    if night.several(series.partition):
        # a single node is slow by itself, one of several nodes in its connection to others
        keys += [('node' if single else 'connection', node) for node in nodes]
        kind = 'place' if len(row.nodes) == 1 else 'fabric'
        for place_of_node in sorted(night.places_of(nodes or row.nodes)):
            keys += [
                (kind, place_of_node, *place, series.check),
                (kind, place_of_node),
            ]  # one check at this place, or all checks
    return keys


def _loss_draft(group: Group, rows: list[Verdict], nodes: set[str], night: JudgedSession) -> Draft:
    """Return the draft of a group of regressed series; `nodes`: the nodes that their slow jobs share."""
    kind, *names = group.key
    site = night.session.site
    partitions, environs = {row.id.partition for row in rows}, {row.id.environ for row in rows}
    where = Scope(site, only(partitions), only(environs))
    seen = {node for row in rows for node in row.nodes} | nodes
    if kind in ('node', 'connection'):
        return _of_rows('NODE', replace(where, environ='', nodes=(str(names[0]),)), rows, {str(names[0])})
    if kind == 'job':
        by = in_names(map(str, names))
        return _of_rows('FABRIC' if len(by) > 1 else 'NODE', replace(where, environ='', nodes=by), rows, set(by))
    if kind == 'device':
        by = (str(names[1]),) if names[1] else ()
        return _of_rows('DEVICE', replace(where, environ='', nodes=by, device=str(names[2])), rows, seen)
    if kind == 'link':
        return _of_rows('FABRIC', replace(where, environ='', link_class=str(names[1])), rows, seen)
    if kind in ('place', 'fabric'):
        by = in_names(nodes or seen) if kind == 'place' else ()
        scope = replace(where, environ='', nodes=by, place=str(names[0]))
        there = {node for node in seen if names[0] in night.places.get(node, ())}
        return _of_rows('NODE' if kind == 'place' else 'FABRIC', scope, rows, there or seen)
    if kind == 'partition':
        where = replace(where, environ='')
    if kind == 'case' and night.several(where.partition) and len({row.case_id for row in rows}) == 1:
        return _of_rows('CASE', where, rows, seen)  # one job of many; the others are healthy
    return _of_rows('SYSTEM', where, rows, seen)


def _of_rows(kind: IncidentKind, where: Scope, rows: list[Verdict], nodes: set[str]) -> Draft:
    """Return the draft of a loss from its verdicts."""
    series = {row.id for row in rows}
    return Draft(kind, where, 'loss', rows, cases={id.case for id in series}, series=series, nodes=nodes)
