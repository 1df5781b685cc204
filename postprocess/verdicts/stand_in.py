# SPDX-License-Identifier: BSD-3-Clause
"""Judge series without a baseline by what stands in for one, so that slow nodes are found from the first nights on.

The baseline that the first sessions of the site would give stands in for one that nobody recorded, or of too few
sessions to tell the levels of single nodes. Before there are enough sessions, the same series on the other nodes of
tonight does. Else equal parts of a node, such as its GPUs, are compared with each other, also where they have a
baseline, since a part may be slow from its first day on. A series of fewer nodes is not judged: a single job proves
nothing, and no further ones run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy
from numpy import ndarray

from plumbline.identity import Pairs, Quantity, SeriesId
from plumbline.limits import limits, tolerance_for
from plumbline.references import Reference
from postprocess.results.store import Session, Store
from postprocess.statistics.distributions import spread_around_median
from postprocess.statistics.method import METHOD
from postprocess.text import count
from postprocess.verdicts.baseline import stand_ins
from postprocess.verdicts.candidates import Accused
from postprocess.verdicts.compare import site_policy
from postprocess.verdicts.decide import Facts, decide
from postprocess.verdicts.measured import Measured, measured
from postprocess.verdicts.together import judge_together
from postprocess.verdicts.verdict import BAD, Comparison, Verdict, worst_first

FIRST = 20  # first sessions of a site, of the mode of tonight, that stand in for a baseline
FEWEST_SESSIONS = 4  # fewest of them for a series
FEWEST_NODES = 4  # fewest nodes that are compared with each other
#: Dims and params that name one of several equal parts of a node. Parts are comparable if only their numbers differ, as
#: in ``socket0`` and ``socket1``; pairs of GPUs are comparable within a link class.
PARTS = ('device', 'domain', 'layout')
PAIR, LINK_CLASS = 'pair', 'link_class'

_NEVER = '9999-12-31'  # a level of tonight says nothing of sessions before
_Key = tuple[SeriesId, int | None]  # a series of a case, by the `case_id` of its first job


def with_stand_ins(
    store: Store, comparison: Comparison, earlier: Sequence[Session],
    accused_in: Callable[[Sequence[Session]], Accused], root: Path | None = None,
) -> Comparison:  # fmt: skip
    """Return the comparison of a session with the verdicts that stand-ins give to what has no baseline.

    `earlier`: the sessions before. `accused_in`: returns what was wrong in some of them, which does not stand in for
    anything. Raises InputError, SiteError.
    """
    session, cases = comparison.session, store.cases(comparison.session)
    judged: dict[_Key, Verdict] = {(row.id, row.case_id): row for row in comparison.verdicts}
    rows = [
        row
        for row in measured(cases, store.metrics(session))
        if row.judged and row.status == 'measured' and row.value > 0
    ]
    nodes: dict[SeriesId, set[tuple[str, ...]]] = {}
    for row in rows:
        nodes.setdefault(row.id, set()).add(tuple(sorted(row.nodes)))
    alone = [
        row for row in rows if len(nodes[row.id]) >= FEWEST_NODES and not _is_recorded(judged[row.id, row.case_id])
    ]
    first = [one for one in earlier if one.mode == session.mode][:FIRST]
    accused = accused_in(first)
    references = [*_of_sessions(store, alone, first, accused, root)]
    known = {row.id for row, _ in references}
    references += _of_nodes([row for row in alone if row.id not in known])
    known = {row.id for row, _ in references}
    references += _of_parts([row for row in rows if row.id not in known])
    if not references:
        return comparison
    policy = site_policy(session, root)
    facts: list[Facts] = []
    for row, reference in references:
        tolerance = tolerance_for(policy, row.id, **row.stated)
        facts.append(Facts(row, [(reference, limits(reference, tolerance))], session.session, tolerance=tolerance))
    facts, common, _, _ = judge_together(store, session, facts, [*enumerate(facts)], cases, 0.0, accused)
    found: dict[_Key, Verdict] = {}
    for one in map(decide, facts):
        key = one.id, one.case_id
        before = found.get(key, judged[key])
        if before.verdict not in BAD and (one.verdict == 'regressed' or before.reference is None):
            found[key] = one
    verdicts = [found.get((row.id, row.case_id), row) for row in comparison.verdicts]
    return replace(comparison, verdicts=worst_first(verdicts), common=[*comparison.common, *common])


def _is_recorded(verdict: Verdict) -> bool:
    """Return True if a series has a baseline of enough sessions to tell the level of each node."""
    reference = verdict.reference
    return reference is not None and reference.kind == 'baseline' and (reference.n or 0) >= FEWEST_SESSIONS


def _of_sessions(
    store: Store, rows: Sequence[Measured], sessions: Sequence[Session], accused: Accused, root: Path | None
) -> Iterator[tuple[Measured, Reference]]:
    """Yield the rows that enough of some sessions measured, each with the baseline that these sessions would give."""
    if not rows or len(sessions) < FEWEST_SESSIONS:
        return
    known = stand_ins(store, sessions, {row.id for row in rows}, accused, root)
    references = {
        id: replace(of, kind='session', source=f'the first {count(of.n or 0, "session")}')
        for id, of in known.items()
        if (of.n or 0) >= FEWEST_SESSIONS
    }
    for row in rows:
        reference = references.get(row.id)
        if reference and not reference.mismatch(row.quantity):
            yield row, reference


def _of_nodes(rows: Iterable[Measured]) -> Iterator[tuple[Measured, Reference]]:
    """Yield each row with the median of the nodes that measured the same."""
    groups: dict[tuple[SeriesId, Quantity], list[Measured]] = {}
    for row in rows:
        groups.setdefault((row.id, row.quantity), []).append(row)
    for own in groups.values():
        values = numpy.array([_performance(row) for row in own])
        middle = numpy.full(len(own), numpy.median(values))
        yield from _around(own, values, middle, f'the median of {len(own)} nodes tonight')


def _of_parts(rows: Iterable[Measured]) -> Iterator[tuple[Measured, Reference]]:
    """Yield the rows that measure one of several equal parts of a node, each with the median of the other parts."""
    groups: dict[tuple[object, ...], dict[tuple[tuple[str, ...], str], Measured]] = {}
    for row in rows:
        if of := part_of(row.id):
            rest, part = of
            groups.setdefault((rest, row.quantity), {})[row.nodes, part] = row
    for own in groups.values():
        nodes, parts = ({name: i for i, name in enumerate(sorted(set(names)))} for names in zip(*own, strict=True))
        at = tuple(numpy.array([(nodes[node], parts[part]) for node, part in own]).T)
        now = numpy.array([_performance(row) for row in own.values()])
        values = numpy.full((len(nodes), len(parts)), numpy.nan)
        values[at] = now
        apart = values - _of_others(values)
        if len(nodes) >= FEWEST_NODES:
            apart -= _median(apart.T)  # the first device may be slower in every node
        known = numpy.isfinite(apart[at])
        several = [row for row, is_known in zip(own.values(), known, strict=True) if is_known]
        if several:
            yield from _around(several, now[known], (now - apart[at])[known], 'the equal parts of its node')


def part_of(id: SeriesId) -> tuple[SeriesId, str] | None:
    """Return a series without the part of a node that it names, and the part; None if it names none."""
    is_linked = any(name == LINK_CLASS for name, _ in id.params)
    for name, value in (*id.params, *id.dims):
        if name in PARTS or (name == PAIR and is_linked):
            alike = value.rstrip('0123456789') if name in PARTS else ''
            rest = replace(id, params=_without(id.params, name), dims=(*_without(id.dims, name), (name, alike)))
            return (rest, value) if alike != value else None
    return None


def _without(pairs: Pairs, name: str) -> Pairs:
    """Return the pairs without the one called `name`."""
    return tuple(pair for pair in pairs if pair[0] != name)


def _of_others(values: ndarray) -> ndarray:
    """Return for each of nodes x parts the median of the other parts of the node; NaN without any."""
    parts = range(values.shape[1])
    return numpy.stack([_median(numpy.delete(values, part, axis=1)) for part in parts], axis=1)


def _median(values: ndarray) -> ndarray:
    """Return the median of the numbers in each row; NaN without any."""
    found = numpy.full(len(values), numpy.nan)
    there = numpy.isfinite(values).any(axis=1)
    found[there] = numpy.nanmedian(values[there], axis=1)
    return found


def _performance(row: Measured) -> float:
    """Return the logarithm of the performance that a row measured."""
    return row.quantity.sign * math.log(row.value)


def _around(
    rows: Sequence[Measured], values: ndarray, middles: ndarray, source: str
) -> Iterator[tuple[Measured, Reference]]:
    """Yield each row with a reference of the level `middles`, and of the spread of all `values` around theirs.

    Of fewer values than `FEWEST_NODES`, one slow part would determine the spread: then the usual one of the metric
    holds.
    """
    spread, df = spread_around_median(values - middles) if len(rows) >= FEWEST_NODES else (None, None)
    # the usual spread joins that of few values, so these need not show a loss that no spread explains
    n = max(len(rows), METHOD.short)
    for row, middle in zip(rows, middles.tolist(), strict=True):
        yield row, Reference(
            row.id, row.quantity, math.exp(row.quantity.sign * middle), None, n, 'session', source,
            recorded_at=_NEVER, spread=spread, df=df, spread_n=n,
        )  # fmt: skip
