# SPDX-License-Identifier: BSD-3-Clause
"""Sets of series that are also judged together: the points of a curve, and what shares a place or check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy
from numpy import ndarray

from plumbline.identity import to_text
from plumbline.units import number_in
from postprocess.results.rows import CaseRow
from postprocess.statistics.groups import Groups
from postprocess.verdicts.decide import Facts
from postprocess.verdicts.measured import Measured

_FEWEST = 3  # fewest series of a group, and fewest points of a range of a curve


def sizes_of(cases: Iterable[CaseRow]) -> dict[int, frozenset[str]]:
    """Return `case_id` -> the dims that are a size; along such a dim a metric is a curve."""
    return {
        case.case_id: frozenset(name for name, dim in case.dims.items() if dim.get('kind') == 'size') for case in cases
    }


def curves_of(rows: Sequence[Facts], sizes: dict[int, frozenset[str]]) -> dict[tuple[Any, ...], list[int]]:
    """Return curve -> indices of its rows, ascending by size; `sizes` as `sizes_of` returns them."""
    curves: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for index, row in enumerate(rows):
        id = row.measured.id
        for name, value in id.dims:
            if name in sizes.get(row.measured.case_id, ()) and (size := number_in(value)) is not None:
                others = tuple(pair for pair in id.dims if pair[0] != name)
                key = id.case, row.measured.nodes, id.metric, others, name, row.reference.kind
                curves.setdefault(key, []).append((size, index))
    return {key: [index for _, index in sorted(points)] for key, points in curves.items() if len(points) >= _FEWEST}


def weights_of(rows: Sequence[Facts], curves: dict[tuple[Any, ...], list[int]]) -> ndarray:
    """Return the weight of each row: 1, or 1 / points for a point of a curve that the check does not name itself."""
    weights = numpy.ones(len(rows))
    for points in curves.values():
        for index in points:
            if not rows[index].measured.judged:
                weights[index] = 1 / len(points)
    return weights


def groups_of(rows: Sequence[Facts], curves: dict[tuple[Any, ...], list[int]]) -> tuple[Groups, list[str]]:
    """Return the groups of rows that share a place or check, and their names.

    Of groups with equal members, only the widest is returned.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    cases = Counter(id for id, _ in {(row.measured.id.case, row.measured.case_id) for row in rows})
    for index, row in enumerate(rows):
        for kind, where in _commons(row.measured, cases[row.measured.id.case] > 1):
            groups.setdefault((kind, where), []).append(index)
    sets = [(kind, where, points) for (kind, where), points in sorted(groups.items(), key=lambda item: _order(item[0]))]
    for key, points in curves.items():
        sets += [('curve', _range(rows, key, part), part) for part in _ranges(points)]
    named: dict[tuple[int, ...], tuple[str, str]] = {}
    for kind, where, points in sets:
        if len(points) >= _FEWEST:
            named.setdefault(tuple(points), (kind, where))
    members = [numpy.array(points) for points in named]
    return Groups([kind for kind, _ in named.values()], members), [where for _, where in named.values()]


_KINDS = ('partition', 'environ', 'check', 'case', 'link_class', 'node')


def _order(key: tuple[str, str]) -> tuple[int, str]:
    """Return the key that sorts groups from the widest kind to the narrowest, then by name."""
    return _KINDS.index(key[0]), key[1]


def _commons(measured: Measured, is_swept: bool) -> Iterable[tuple[str, str]]:
    """Yield (kind, name) of each group that a series belongs to; `is_swept`: its case ran on several nodes."""
    series = measured.id
    yield 'partition', series.partition
    yield 'environ', f'{series.partition}/{series.environ}'
    yield 'check', f'{series.partition}/{series.environ} {series.check}'
    yield 'case', str(series.case)
    for name, value in (*series.params, *series.dims):
        if name == 'link_class':
            yield 'link_class', f'{series.partition} {value}'
    # a sweep of three cases shows a node of 16 that lost 3 % in 59 of 60 nights, by `judge_nodes` alone in 19
    if is_swept and len(measured.nodes) == 1:
        yield 'node', measured.nodes[0]


def _ranges(points: list[int]) -> Iterable[list[int]]:
    """Yield the whole curve, then its halves and its quarters, each overlapping the next by half."""
    length = len(points)
    while length >= _FEWEST:
        step = max(length // 2, 1)
        yield from (points[first : first + length] for first in range(0, len(points) - length + 1, step))
        length //= 2


def _range(rows: Sequence[Facts], key: tuple[Any, ...], part: list[int]) -> str:
    """Return the name of a range of a curve: case, metric, and first and last size."""
    case, _, metric, others, size, _ = key
    first, last = (dict(rows[index].measured.id.dims)[size] for index in (part[0], part[-1]))
    more = f' {to_text(others)}' if others else ''
    return f'{case} {metric}{more} {size}={first}..{last}'
