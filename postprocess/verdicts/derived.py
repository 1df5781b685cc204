"""What follows from the numbers of one session: scaling, rooflines, balance. Each with its formula and source."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from plumbline.identity import Pairs, to_text
from plumbline.units import UNITS
from postprocess.text import count, named

#: Checks that run on 1, 2, 4, ... nodes: metric of the rate, value of `size` -> how the work grows with the nodes
_SCALED = {'HPL': ('gflops', {'full': 'weak', 'strong': 'strong'}), 'HPCG': ('gflops', {'full': 'weak'})}
_SCALING = {'weak': 'Gustafson 1988, doi:10.1145/42411.42415', 'strong': 'Amdahl 1967, doi:10.1145/1465482.1465560'}
_ROOFLINE = 'Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785'
_ON_GPUS = ('nvidia', 'rocm')  # implementations, which the peaks of processors do not bound
_TRIAD = 1 / 12  # Flop a byte: 2 of three doubles


@dataclass(frozen=True)
class Derived:
    """A figure of a partition and environ. `what`: such as ``parallel efficiency``; `of`: what it is of, and where."""

    partition: str
    environ: str
    what: str
    of: str
    value: float
    unit: str
    formula: str
    source: str


def derived(rows: Iterable[Any]) -> list[Derived]:
    """Return the figures that follow from the numbers of a session, partition by partition.

    `rows`: each with id, quantity, value and nodes, such as a Measured or a Verdict.
    """
    places: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in rows:
        if row.value and math.isfinite(row.value):
            places[row.id.partition, row.id.environ].append(row)
    return [
        Derived(partition, environ, *figure)
        for (partition, environ), own in sorted(places.items())
        for figure in (*_scaling(own), *_hpcg_of_hpl(own), *_of_roofline(own), *_balance(own))
    ]


_Figure = tuple[str, str, float, str, str, str]


def _scaling(rows: Sequence[Any]) -> Iterator[_Figure]:
    """Yield speed-up and parallel efficiency against the fewest nodes that were measured, on nodes of the same set."""
    rates: dict[tuple[str, str, Pairs], dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        metric, kinds = _SCALED.get(row.id.check, ('', {}))
        of = dict(row.id.params)
        nodes, size = int(of.pop('num_nodes', '1')), of.get('size', '')
        if row.id.metric == metric and size in kinds:
            rates[row.id.check, size, tuple(of.items())][nodes].append(row)
    for (check, size, params), by_nodes in sorted(rates.items()):
        if size == 'strong':  # the problem that fills one node, which there is `full`
            full = tuple((name, 'full' if name == 'size' else value) for name, value in params)
            by_nodes = {**by_nodes, 1: rates.get((check, 'full', full), {}).get(1, [])}
        few, kind = min(n for n, own in by_nodes.items() if own), _SCALED[check][1][size]
        for nodes, several in sorted(by_nodes.items()):
            for row in several if nodes > few else ():
                among = [one for one in by_nodes[few] if set(one.nodes) <= set(row.nodes)]
                of_few = (among or by_nodes[few])[0]
                on = f': {named(row.nodes)} against {named(of_few.nodes)}' if row.nodes and of_few.nodes else ''
                what = f'{check} {to_text(params)}, {nodes} nodes against {few}{on}'
                speed_up, source = row.value / of_few.value, _SCALING[kind]
                yield f'speed-up, {kind} scaling', what, speed_up, '1', 'rate(n) / rate(m)', source
                efficiency, formula = speed_up * few / nodes, '(rate(n) / n) / (rate(m) / m)'
                yield f'parallel efficiency, {kind} scaling', what, efficiency, '1', formula, source


def _hpcg_of_hpl(rows: Sequence[Any]) -> Iterator[_Figure]:
    """Yield what HPCG reaches of HPL, on the same number of nodes and of the same size."""
    best: dict[str, dict[tuple[str, str], Any]] = {'HPL': {}, 'HPCG': {}}
    for row in rows:
        if row.id.check in best and row.id.metric == 'gflops':
            params = dict(row.id.params)
            at = params.get('size', ''), params.get('num_nodes', '1')
            known = best[row.id.check].get(at)
            if known is None or row.value > known.value:  # of several implementations
                best[row.id.check][at] = row
    for at, hpcg in sorted(best['HPCG'].items()):
        if hpl := best['HPL'].get(at):
            of = f'size={at[0]}, {count(int(at[1]), "node")}'
            source = 'Dongarra, Heroux and Luszczek 2016, doi:10.1177/1094342015593158'
            yield 'HPCG / HPL', of, hpcg.value / hpl.value, '1', 'HPCG gflops / HPL gflops', source


def _of_roofline(rows: Sequence[Any]) -> Iterator[_Figure]:
    """Yield the share of min(P, I x B) that programs of one node reach; P, B: the best rates of the session."""

    def best(check: str, metric: str, params: dict[str, str], dims: dict[str, str]) -> float:
        return max(
            (row.value * UNITS[row.quantity.unit] for row in rows if (row.id.check, row.id.metric) == (check, metric)
             and params.items() <= dict(row.id.params).items() and dims.items() <= dict(row.id.dims).items()),
            default=0.0,
        )  # fmt: skip

    peak = best('LikwidPeakFlops', 'flops', {'layout': 'node'}, {'precision': 'dp'})
    bandwidth = max(
        best('LikwidBandwidth', 'bandwidth', {'layout': 'node', 'level': 'memory'}, {}),
        best('BabelStreamHost', 'bandwidth', {}, {}),
    )
    if not peak or not bandwidth:
        return
    formula = f'rate / min(P, I x B); P = {peak / 1e9:.4g} GFlop/s, B = {bandwidth / 1e9:.4g} GB/s of this session'
    for row in rows:
        own = dict(row.id.params)
        if own.get('num_nodes', '1') != '1' or own.get('implementation') in _ON_GPUS:
            continue
        of, rate = f'{row.id.check} {to_text(row.id.params)}', row.value * UNITS[row.quantity.unit]
        if (row.id.check, row.id.metric) == ('HPL', 'gflops'):
            yield 'share of the roofline', f'{of}, I > P / B', rate / peak, '1', formula, _ROOFLINE
        elif (row.id.check, row.id.metric) == ('HPCG', 'raw_total_bandwidth'):
            gflops = next((o.value for o in rows if o.id.metric == 'gflops' and o.id.case == row.id.case), None)
            if gflops:
                intensity = gflops * 1e9 / rate
                share = gflops * 1e9 / min(peak, intensity * bandwidth)
                yield 'share of the roofline', f'{of}, I = {intensity:.3g} Flop/B', share, '1', formula, _ROOFLINE
        elif (row.id.check, row.id.metric) == ('NumaStream', 'triad_total'):
            share = rate * _TRIAD / min(peak, _TRIAD * bandwidth)
            yield 'share of the roofline', f'{of}, I = 1/12 Flop/B', share, '1', formula, _ROOFLINE


def _balance(rows: Sequence[Any]) -> Iterator[_Figure]:
    """Yield how evenly the threads of all NUMA domains work: mean / longest time of equal work."""
    times: dict[tuple[str, tuple[str, ...]], list[float]] = defaultdict(list)
    for row in rows:
        if (row.id.check, row.id.metric) == ('NumaStream', 'triad'):
            times[to_text(row.id.params), tuple(row.nodes)].append(1 / row.value)
    for (params, nodes), own in sorted(times.items()):
        if len(own) > 1:
            of = f'NumaStream {params}, {len(own)} domains' + (f' of {named(nodes)}' if nodes else '')
            source = '002 Table II, from the same times; load balance of POP, pop-coe.eu'
            yield 'thread balance', of, fmean(own) / max(own), '1', 'mean(1 / triad) / max(1 / triad)', source
