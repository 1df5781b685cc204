# SPDX-License-Identifier: BSD-3-Clause
"""Judge series without a baseline by what stands in for one, so that slow nodes are found from the first nights on.

The baseline that the first sessions of the site would give stands in for one that nobody recorded, or of too few
sessions to tell the levels of single nodes. Before there are enough sessions, the same series on the other nodes of
tonight does. Else equal parts of a node, such as its GPUs, are compared with each other; of several nodes also where
they have a baseline, since that is of all nodes. A series of fewer nodes is not judged: a single job proves nothing,
and no further ones run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from numpy import ndarray

from plumbline.identity import Pairs, Quantity, SeriesId
from plumbline.limits import limits, tolerance_for
from plumbline.references import Reference
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.statistics.distributions import spread_around_median
from postprocess.statistics.method import METHOD
from postprocess.text import count
from postprocess.verdicts.baseline import stand_ins
from postprocess.verdicts.candidates import Accused
from postprocess.verdicts.decide import Facts, Loss
from postprocess.verdicts.measured import Measured
from postprocess.verdicts.together import judge_together
from postprocess.verdicts.verdict import Common

FIRST = 20  # first sessions of a site, of the mode of tonight, that stand in for a baseline
FEWEST_SESSIONS = 4  # fewest of them for a series
FEWEST_NODES = 4  # fewest nodes that are compared with each other
#: Dims and params that name one of several equal parts of a node. Parts are comparable if only their numbers differ, as
#: in ``socket0`` and ``socket1``; pairs of GPUs are comparable within a link class.
PARTS = ('device', 'domain', 'layout')
PAIR, LINK_CLASS = 'pair', 'link_class'

_NEVER = '9999-12-31'  # a level of tonight says nothing of sessions before


def first_sessions(store: Store, session: Session) -> list[Session]:
    """Return the sessions before `session` that may stand in for a baseline."""
    return [one for one in store.history(session)[:-1] if one.mode == session.mode][:FIRST]


def with_stand_ins(
    store: Store, session: Session, facts: Sequence[Facts], cases: list[CaseRow], policy: dict[str, Any],
    accused_in_first: Callable[[], Accused], root: Path | None = None,
) -> tuple[list[Facts], list[Common]]:  # fmt: skip
    """Return the facts with their losses against what stands in for a baseline, and the losses in common.

    `policy`: the tolerances of the site. `accused_in_first`: returns what was wrong in the `first_sessions`, which does
    not stand in for anything. Raises InputError, SiteError.
    """
    judged = [
        (place, of)
        for place, of in enumerate(facts)
        if of.measured.judged and of.measured.status == 'measured' and of.measured.value > 0
    ]
    nodes: dict[SeriesId, set[tuple[str, ...]]] = {}
    for _, of in judged:
        nodes.setdefault(of.measured.id, set()).add(tuple(sorted(of.measured.nodes)))
    several = {id for id, own in nodes.items() if len(own) >= FEWEST_NODES}
    alone = [of.measured for _, of in judged if of.measured.id in several and not _is_recorded(of)]
    first = first_sessions(store, session) if alone else []
    accused = accused_in_first() if len(first) >= FEWEST_SESSIONS else {}
    references = [*_of_sessions(store, alone, first, accused, root)]
    known = {row.id for row, _ in references}
    references += _of_nodes([row for row in alone if row.id not in known])
    known = {row.id for row, _ in references}
    # of few nodes, the baseline of a part is its own level, which a person accepted
    parts = [of.measured for _, of in judged if of.measured.id in several or not _is_recorded(of)]
    references += _of_parts([row for row in parts if row.id not in known])
    found, common = _compared(store, session, references, cases, policy, accused)
    with_losses = list(facts)
    for place, of in judged:
        if loss := found.get((of.measured.id, of.measured.case_id)):
            with_losses[place] = replace(of, stand_in=_with_own_gate(loss, of))
    return with_losses, common


def _with_own_gate(loss: Loss, of: Facts) -> Loss:
    """Return a loss with limits beyond which no value fails, unless the series has a reference of its own."""
    own = of.rules[0][1] if of.rules else None
    gate, detectable = (own.gate, own.detectable) if own else ('', None)
    return replace(loss, limits=loss.limits and replace(loss.limits, gate=gate, detectable=detectable))


def _compared(
    store: Store, session: Session, references: Sequence[tuple[Measured, Reference]], cases: list[CaseRow],
    policy: dict[str, Any], accused: Accused,
) -> tuple[dict[tuple[SeriesId, int], Loss], list[Common]]:  # fmt: skip
    """Return (series, case) -> its loss against its reference, and the losses in common."""
    facts: list[Facts] = []
    for row, reference in references:
        tolerance = tolerance_for(policy, row.id, **row.stated)
        facts.append(Facts(row, [(reference, limits(reference, tolerance))], session.session, tolerance=tolerance))
    facts, common, _, _ = judge_together(store, session, facts, [*enumerate(facts)], cases, 0.0, accused)
    return {(of.measured.id, of.measured.case_id): _with_common(of) for of in facts}, common


def _with_common(of: Facts) -> Loss:
    """Return the loss of a series; one that may share the loss of a group is in doubt."""
    return replace(of.loss, shows='warning', cause=of.common) if of.common and of.loss.shows == 'ok' else of.loss


def _is_recorded(of: Facts) -> bool:
    """Return True if a series has a baseline of enough sessions to tell the level of each node."""
    reference = of.loss.reference or (of.rules[0][0] if of.rules else None)
    return reference is not None and reference.kind == 'baseline' and (reference.n or 0) >= FEWEST_SESSIONS


def _of_sessions(
    store: Store, rows: Sequence[Measured], sessions: Sequence[Session], accused: Accused, root: Path | None
) -> Iterator[tuple[Measured, Reference]]:
    """Yield the rows that enough of some sessions measured, each with the baseline that these sessions would give."""
    if len(sessions) < FEWEST_SESSIONS:
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
