"""What a site measured over its sessions: a series for each metric, and the facts that went with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa

from plumbline.limits import Tolerance, tolerance_for
from plumbline.paths import SITES
from postprocess.results.reports import one_line
from postprocess.results.store import Session, Store
from postprocess.verdicts.compare import site_policy

# Logarithms of the numbers are taken, so they must be above zero.
_COUNTS = "status = 'measured' AND judged AND mean > 0"
_CASE = '"partition", environ, "check", params'
_METRIC = f'{_CASE}, metric, metrics.dims, unit, better'
_SHOWN = {'environ': 'stack', 'params': '"case"'}
# Grouping by a hash of the names takes half the time of grouping by them; 64 bits are enough to tell them apart.
_NAMES = ', '.join(f'any_value({name}) AS {_SHOWN.get(name, name)}' for name in (*_CASE.split(', '), 'unit', 'better'))
_NAMES += ", any_value(if(metrics.dims = '-', metric, metric || ' ' || metrics.dims)) AS metric"
_BY_NAME = attrgetter(*(f'of.{name}' for name in ('partition', 'stack', 'check', 'case', 'metric', 'unit', 'better')))
_LISTS = {'nights': numpy.int32, 'values': numpy.float64, 'nodes': numpy.int32}


@dataclass(frozen=True)
class Metric:
    """What a series is of."""

    partition: str
    stack: str
    check: str
    case: str
    metric: str
    unit: str
    better: str

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return 1 if self.better == 'higher' else -1

    def __str__(self) -> str:
        return f'{self.partition}/{self.stack} {self.check} {self.case} {self.metric}'


@dataclass(frozen=True, eq=False)
class Series:
    """The values of a metric: that of night ``nights[i]`` is the median over its cases, or over those on ``nodes[i]``.

    A night is the place of a session among those asked for, a node one in the list that comes with the series.
    """

    of: Metric
    nights: numpy.ndarray
    values: numpy.ndarray
    nodes: numpy.ndarray | None = None

    @property
    def performance(self) -> numpy.ndarray:
        """Natural logarithm of the values, negated where lower is better: whatever the metric, a loss is a fall."""
        return self.of.sign * numpy.log(self.values)


def by_night(store: Store, sessions: Sequence[Session]) -> list[Series]:
    """A series for each metric over all nodes, in the order of the nights."""
    found = store.query(
        f"""
        SELECT {_NAMES}, list(night::INT) AS nights, list(mean) AS "values"
        FROM metrics JOIN cases USING (night, case_id) WHERE {_COUNTS} GROUP BY hash({_METRIC})
        """,
        sessions,
    )
    return [_medians(series) for series in _series(found)]


def by_node(store: Store, sessions: Sequence[Session]) -> tuple[list[Series], list[str]]:
    """A series for each metric with the values of every node, and the nodes; a case on several is of ``n1,n2``."""
    nodes = store.query(
        """
        SELECT DISTINCT array_to_string(list_sort(nodes), ',') AS node
        FROM cases WHERE NOT fixture AND len(nodes) > 0 ORDER BY node
        """,
        sessions,
    )
    names = nodes['node'].to_pylist()
    found = store.query(
        f"""
        SELECT {_NAMES}, list(night::INT) AS nights, list(mean) AS "values", list(number::INT) AS nodes
        FROM metrics
        JOIN cases USING (night, case_id)
        JOIN numbers ON numbers.node = array_to_string(list_sort(cases.nodes), ',')
        WHERE {_COUNTS} GROUP BY hash({_METRIC})
        """,
        sessions,
        numbers={'node': names, 'number': list(range(len(names)))},
    )
    return _series(found), names


def _medians(series: Series) -> Series:
    """Sorted, and one value a night."""
    order = numpy.argsort(series.nights, kind='stable')
    nights, values = series.nights[order], series.values[order]
    if (nights[1:] > nights[:-1]).all():
        return Series(series.of, nights, values)
    own, first = numpy.unique(nights, return_index=True)
    return Series(series.of, own, numpy.array([numpy.median(part) for part in numpy.split(values, first[1:])]))


def _series(table: pa.Table) -> list[Series]:
    """From a row a series: its names, then lists of numbers."""
    lists = {name: kind for name, kind in _LISTS.items() if name in table.column_names}
    names = table.drop_columns(list(lists)).to_pylist()
    columns = [_numbers(table[name].combine_chunks(), kind) for name, kind in lists.items()] if names else ()
    series = [Series(Metric(**name), *arrays) for name, *arrays in zip(names, *columns, strict=True)]
    return sorted(series, key=_BY_NAME)


def _numbers(column: pa.ListArray, kind: type) -> Iterator[numpy.ndarray]:
    """The lists of a column as arrays, without a copy and without pandas, which pyarrow's own way imports."""
    flat = numpy.frombuffer(column.values.buffers()[1], kind)
    return numpy.split(flat[: column.offsets[-1].as_py()], column.offsets.to_pylist()[1:-1])


@dataclass(frozen=True)
class Policy:
    """The tolerances of a site for its metrics."""

    rules: dict[str, Any]

    @classmethod
    def of(cls, site: str, root: Path = SITES) -> Policy:
        """That of its ``site.yaml``; the defaults for a site that has none, such as that of another suite."""
        described = any((folder / site / 'site.yaml').exists() for folder in (root, SITES))
        return cls(site_policy(site, root) if described else {})

    def tolerance(self, metric: Metric) -> Tolerance:
        return tolerance_for(self.rules, metric.check, metric.case, metric.metric, metric.unit)


Facts = dict[str, tuple[str, ...]]


def facts(
    store: Store, sessions: Sequence[Session], wanted: Iterable[tuple[Metric, int]]
) -> dict[tuple[str, str, str, str, int], dict[str, Facts]]:
    """The provenance of the cases of `wanted` (a metric and a night): by node, each fact with the values it took.

    The keys are partition, stack, check, case and night. Nodes are named as in :func:`by_node`; ``*`` is all of them.
    """
    keys = sorted({(*_case(metric), night) for metric, night in wanted})
    if not keys:
        return {}
    names = ('partition', 'environ', 'check', 'params', 'night')
    rows = store.query(
        f"""
        SELECT DISTINCT {_CASE}, night, array_to_string(list_sort(nodes), ',') AS node, provenance
        FROM cases JOIN wanted USING ({_CASE}, night)
        """,
        sessions,
        wanted=dict(zip(names, map(list, zip(*keys, strict=True)), strict=True)),
    )
    found: dict[tuple, dict[str, dict[str, set[str]]]] = {}
    for *key, node, provenance in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        for fact, value in json.loads(provenance).items():
            for place in (node, '*'):
                found.setdefault(tuple(key), {}).setdefault(place, {}).setdefault(fact, set()).add(
                    one_line(str(value)) or ''
                )
    return {
        key: {
            node: {fact: tuple(sorted(values)) for fact, values in of_node.items()} for node, of_node in of_case.items()
        }
        for key, of_case in found.items()
    }


def facts_of(found: dict, metric: Metric, nights: Iterable[int], node: str = '*') -> list[Facts]:
    """Those of the nights that have any."""
    facts = (found.get((*_case(metric), night), {}).get(node) for night in nights)
    return [of_night for of_night in facts if of_night]


def changed(before: Sequence[Facts], after: Sequence[Facts]) -> list[str]:
    """What is different, as ``kernel: 6.1 -> 6.5``: facts that were the same on all nights of either side."""
    said = []
    for fact in sorted({fact for of_night in (*before, *after) for fact in of_night}) if before and after else ():
        old, new = ({of_night.get(fact, ()) for of_night in side} for side in (before, after))
        if len(old) == len(new) == 1 and old != new:
            was, became = (' and '.join(value) or 'nothing' for value in (*old, *new))
            said.append(f'{fact}: {was} -> {became}')
    return said


def unlike(found: dict, metric: Metric, night: int, node: str) -> list[str]:
    """What is different at a node, as ``governor: powersave, elsewhere performance``, where all others are alike."""
    of_case = found.get((*_case(metric), night), {})
    others = [facts for name, facts in of_case.items() if name not in (node, '*')]
    said = []
    for fact, mine in sorted(of_case.get(node, {}).items()):
        theirs = {facts.get(fact, ()) for facts in others}
        if len(theirs) == 1 and len(others) > 1 and mine not in theirs:
            said.append(f'{fact}: {" and ".join(mine)}, elsewhere {" and ".join(*theirs) or "nothing"}')
    return said


def _case(metric: Metric) -> tuple[str, str, str, str]:
    return metric.partition, metric.stack, metric.check, metric.case
