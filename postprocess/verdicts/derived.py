# SPDX-License-Identifier: BSD-3-Clause
"""Derive figures from the numbers of one session: scaling, rooflines, balance; each with its formula and source.

The check states which metric is used for which figure: `figures` of :class:`plumbline.record.Record`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from plumbline.identity import Pairs, SeriesId, to_text
from plumbline.units import UNITS
from postprocess.results.rows import CaseRow
from postprocess.text import count, named, number

#: Name of the figure that is a value / the physical peak.
OF_PEAK = 'share of the peak'
_SCALING = {'weak': 'Gustafson 1988, doi:10.1145/42411.42415', 'strong': 'Amdahl 1967, doi:10.1145/1465482.1465560'}
_ROOFLINE = 'Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785'


@dataclass(frozen=True)
class Derived:
    """A derived figure of a partition and environ; `what`: its name, such as ``parallel efficiency``.

    `of`: case or metric.
    """

    partition: str
    environ: str
    what: str
    of: str
    value: float
    unit: str
    formula: str
    source: str


class _Row(NamedTuple):
    """A number of the session, and the figures for which its check uses it."""

    id: SeriesId
    value: float  # in its unit
    unit: str
    nodes: Sequence[str]
    figures: Mapping[str, Any]

    @property
    def base(self) -> float:
        """The value in the base unit of its unit, such as Flop/s for GFlop/s."""
        return self.value * UNITS[self.unit]

    @property
    def case(self) -> str:
        """The check and params as text."""
        return f'{self.id.check} {to_text(self.id.params)}'


def derived(rows: Iterable[Any], cases: Iterable[CaseRow]) -> list[Derived]:
    """Return the figures that follow from the numbers of a session, sorted by partition and environ.

    `rows`: with id, quantity, value and nodes, such as Measured or Verdict. `cases`: the session's rows of the table.
    """
    stated = {case.id: case.figures for case in cases}
    places: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in rows:
        if row.value and math.isfinite(row.value):
            figures = stated.get(row.id.case, {}).get(row.id.metric, {})
            of_dims = figures.get('dims', {}).items() <= dict(row.id.dims).items()
            places[row.id.partition, row.id.environ].append(
                _Row(row.id, row.value, row.quantity.unit, row.nodes, figures if of_dims else {})
            )
    kinds = _of_peaks, _scaling, _sparse_of_dense, _of_roofline, _balance, _under_caps
    return [
        Derived(partition, environ, *figure)
        for (partition, environ), own in sorted(places.items())
        for figures in kinds
        for figure in figures(own)
    ]


_Figure = tuple[str, str, float, str, str, str]


def _of_peaks(rows: Sequence[_Row]) -> Iterator[_Figure]:
    """Yield the share of the physical peak for each metric of a check, from the case with the largest share."""
    closest: dict[tuple[str, str], tuple[float, _Row]] = {}
    for row in rows:
        if peak := row.figures.get('peak'):
            share, key = row.value / peak, (row.id.check, row.id.metric)
            if key not in closest or share > closest[key][0]:
                closest[key] = share, row
    for _, (share, row) in sorted(closest.items()):
        formula = f'{number(row.value)} {row.unit} / {number(row.figures["peak"])} {row.unit}'
        yield OF_PEAK, row.id.what, share, '1', formula, 'peaks of the partition in site.yaml'


def _scaling(rows: Sequence[_Row]) -> Iterator[_Figure]:
    """Yield speed-up and parallel efficiency against the smallest number of nodes, if possible of the same set."""
    rates: dict[tuple[str, Pairs], dict[int, list[_Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if 'scaling' in row.figures:
            params_of_row = dict(row.id.params)
            nodes = int(params_of_row.pop('num_nodes', '1'))
            rates[row.id.check, tuple(params_of_row.items())][nodes].append(row)
    for (check, params), by_nodes in sorted(rates.items()):
        stated = next(iter(by_nodes.values()))[0].figures
        if 'one_node' in stated:  # the params of the one-node case that solves the same problem
            alone = tuple((dict(params) | stated['one_node']).items())
            by_nodes = {**by_nodes, 1: rates.get((check, alone), {}).get(1, [])}
        few = min(n for n, own in by_nodes.items() if own)
        for nodes, several in sorted(by_nodes.items()):
            for row in several if nodes > few else ():
                among = [smaller for smaller in by_nodes[few] if set(smaller.nodes) <= set(row.nodes)]
                of_few = (among or by_nodes[few])[0]
                on = f': {named(row.nodes)} against {named(of_few.nodes)}' if row.nodes and of_few.nodes else ''
                where, kind = f'{check} {to_text(params)}, {nodes} nodes against {few}{on}', stated['scaling']
                speed_up, source = row.value / of_few.value, _SCALING[kind]
                yield f'speed-up, {kind} scaling', where, speed_up, '1', 'rate(n) / rate(m)', source
                efficiency, formula = speed_up * few / nodes, '(rate(n) / n) / (rate(m) / m)'
                yield f'parallel efficiency, {kind} scaling', where, efficiency, '1', formula, source


def _sparse_of_dense(rows: Sequence[_Row]) -> Iterator[_Figure]:
    """Yield the rate of a sparse solver / the rate of a dense solver, for the same number of nodes and size."""
    best: dict[str, dict[tuple[str, str], _Row]] = {'dense': {}, 'sparse': {}}
    for row in rows:
        if solver := row.figures.get('solver'):
            params = dict(row.id.params)
            at = params.get('size', ''), params.get('num_nodes', '1')
            known = best[solver].get(at)
            if known is None or row.value > known.value:  # the best of several implementations
                best[solver][at] = row
    for at, sparse in sorted(best['sparse'].items()):
        if dense := best['dense'].get(at):
            where = f'size={at[0]}, {count(int(at[1]), "node")}'
            names = sparse.id.check, dense.id.check
            formula = ' / '.join(f'{row.id.check} {row.id.metric}' for row in (sparse, dense))
            source = 'Dongarra, Heroux and Luszczek 2016, doi:10.1177/1094342015593158'
            yield ' / '.join(names), where, sparse.base / dense.base, '1', formula, source


def _of_roofline(rows: Sequence[_Row]) -> Iterator[_Figure]:
    """Yield the share of min(P, I x B) that programs of one node reach; P and B are the best rates of the session."""
    peak, bandwidth = (
        max((row.base for row in rows if row.figures.get('roof') == roof), default=0.0)
        for roof in ('flops', 'bandwidth')
    )
    if not peak or not bandwidth:
        return
    formula = f'rate / min(P, I x B); P = {peak / 1e9:.4g} GFlop/s, B = {bandwidth / 1e9:.4g} GB/s of this session'
    for row in rows:
        intensity = row.figures.get('intensity')
        if intensity == 'high':
            at, share = 'I > P / B', row.base / peak
        elif isinstance(intensity, str):  # the name of the metric with the bytes that were moved
            moved = next(
                (other.base for other in rows if other.id.metric == intensity and other.id.case == row.id.case), None
            )
            if not moved:
                continue
            at, share = f'I = {row.base / moved:.3g} Flop/B', row.base / min(peak, row.base / moved * bandwidth)
        elif intensity:
            at, share = f'I = {intensity:.3g} Flop/B', row.base * intensity / min(peak, intensity * bandwidth)
        else:
            continue
        yield 'share of the roofline', f'{row.case}, {at}', share, '1', formula, _ROOFLINE


def _balance(rows: Sequence[_Row]) -> Iterator[_Figure]:
    """Yield how evenly the parts of a node work: mean time / longest time of equal work."""
    times: dict[tuple[str, str, tuple[str, ...]], list[float]] = defaultdict(list)
    for row in rows:
        if part := row.figures.get('balance'):
            times[row.case, part, tuple(row.nodes)].append(1 / row.value)
    for (case, part, nodes), own in sorted(times.items()):
        if len(own) > 1:
            where = f'{case}, {count(len(own), part)}' + (f' of {named(nodes)}' if nodes else '')
            source = '002 Table II, from the same times; load balance of POP, pop-coe.eu'
            yield 'thread balance', where, fmean(own) / max(own), '1', 'mean(1 / rate) / max(1 / rate)', source


def _under_caps(rows: Sequence[_Row]) -> Iterator[_Figure]:
    """Yield the power cap with the least energy for the same work, and the energy saved against the highest cap."""
    work: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)  # (case, unit) -> cap in W -> work per J
    for row in rows:
        if param := row.figures.get('capped'):
            params = dict(row.id.params)
            cap = int(params.pop(param))
            case = f'{row.id.check} {to_text(tuple(params.items()))}, {to_text(row.id.dims)}'
            work[case, row.unit][cap] = row.value
    for (case, unit), by_cap in sorted(work.items()):
        if len(by_cap) > 1:
            best, highest = max(by_cap, key=lambda cap: by_cap[cap]), max(by_cap)
            where, source = f'{case}, caps from {min(by_cap)} to {highest} W', '002 section IV-I'
            yield 'power cap of least energy', where, float(best), 'W', f'the cap with the most {unit}', source
            saved, formula = 1 - by_cap[highest] / by_cap[best], f'1 - {unit} at {highest} W / {unit} at {best} W'
            yield 'energy saved by a power cap', where, saved, '1', formula, source
