# SPDX-License-Identifier: BSD-3-Clause
"""The details of each node on the page: how it differs from the others over the sessions, counters and commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy
from numpy import ndarray

from plumbline.site.schedulers import scheduler
from postprocess.history.digest import Digest
from postprocess.history.drain import drain
from postprocess.incidents import FAILING
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.health import counted, facts_by_node
from postprocess.verdicts.stand_in import FEWEST_NODES
from postprocess.views.series import SeriesRow
from postprocess.views.table import TableRow

_COUNTERS = {'clock_at_end', 'clock_throttled', 'counters_lacking'}  # facts that only a job that read counters has
_CELLS = 250_000  # most values of nodes on a page, the worst nodes first
# In each session, the value of each node that alone measured a series
_VALUES = """
    SELECT number, night, node, median(mean) AS value
    FROM measured JOIN wanted USING ("partition", environ, "check", params, metric, dims)
    WHERE len(nodes) = 1 AND mean > 0 GROUP BY ALL
"""


class Band(NamedTuple):
    """A series that many nodes measured alone, by session: median of the nodes, and the range of nine of ten nodes.

    `own`: node -> its values.
    """

    middle: ndarray
    low: ndarray
    high: ndarray
    own: dict[str, ndarray]


def bands(store: Store, sessions: Sequence[Session], series: Sequence[SeriesRow]) -> dict[int, Band]:
    """Return id -> band of each series that enough nodes measured; NaN in sessions without a value.

    Raises InputError if the store cannot be read.
    """
    on_nodes = [one for one in series if len(one.jobs) >= FEWEST_NODES]
    if not on_nodes:
        return {}
    wanted: dict[str, list[Any]] = {'id': [one.series for one in on_nodes], 'number': [one.id for one in on_nodes]}
    columns = store.query(_VALUES, sessions, wanted=wanted).to_pydict()
    own: dict[int, dict[str, ndarray]] = {}
    for id, night, node, value in zip(*columns.values(), strict=True):
        by_node = own.setdefault(id, {})
        if node not in by_node:
            by_node[node] = numpy.full(len(sessions), numpy.nan)
        by_node[node][night] = value
    by_id = {}
    for id, by_node in own.items():
        if len(by_node) >= FEWEST_NODES:
            table = numpy.array(list(by_node.values()))
            there = numpy.isfinite(table).any(axis=0)
            low, middle, high = numpy.full((3, len(sessions)), numpy.nan)
            low[there], middle[there], high[there] = numpy.nanquantile(table[:, there], (0.05, 0.5, 0.95), axis=0)
            by_id[id] = Band(middle, low, high, by_node)
    return by_id


def _counters(facts: Sequence[Mapping[str, str]]) -> str:
    """Return the counters of a node as text, or that all are zero; and which counters could not be read."""
    if words := counted(facts):
        return ', '.join(words)
    if not (read := [counter for counter in facts if counter.keys() & _COUNTERS]):
        return 'no counters were recorded'
    lacking = sorted({counter['counters_lacking'] for counter in read if 'counters_lacking' in counter})
    return f'no error and no throttling in {count(len(read), "job")}' + ''.join(
        f'; not readable: {counter}' for counter in lacking
    )


def node_pages(
    fleet: Sequence[TableRow], of_bands: Mapping[int, Band], histories: Mapping[int, Sequence[int]],
    cases: Mapping[int, CaseRow], digest: Digest,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Return node -> what its page shows; `histories`: id of a metric -> the indices of its sessions.

    ``own``: id of a metric -> difference of the node from the median of the nodes in each of these sessions, in 0.01 %.
    """
    ran: dict[str, list[int]] = {}
    facts: dict[str, list[Mapping[str, str]]] = {}
    slurm = set()
    for id, case in cases.items():
        for name in case.nodes:
            ran.setdefault(name, []).append(id)
            slurm |= {name} if scheduler(case.scheduler).is_slurm else set()
        for name, counters in facts_by_node(case.nodes, case.provenance, case.health).items():
            facts.setdefault(name, []).append(counters)
    incidents: dict[str, dict[str, str]] = {}
    for known in digest.of_state(*FAILING, 'acknowledged', 'suspected'):
        for name in {*known.incident.nodes, *known.incident.where.nodes}:
            incidents.setdefault(name, {})[known.id] = known.incident.what
    pages: dict[str, dict[str, Any]] = {}
    cells = 0
    for node in fleet:
        name, own = node['name'], {}
        for id in node['series']:
            band, at = of_bands.get(id), histories.get(id)
            if band and at is not None and name in band.own and cells < _CELLS:
                apart = 10_000 * (band.own[name][at] / band.middle[at] - 1)
                own[id] = [round(deviation) if abs(deviation) < 1e9 else None for deviation in apart.tolist()]
                cells += len(own[id])
        steps = []
        if name in slurm:
            steps.append(f'scontrol show node {shlex.quote(name)}')
            if node['drain'] or node['incidents']:
                event = f'{digest.day} incident {", ".join(node["incidents"])}'
                steps.append(drain(name, node['drain'] or event))
        pages[name] = {
            'metrics': node['series'], 'bad': node['fell_short'], 'own': own, 'place': node['places'],
            'incidents': incidents.get(name), 'steps': steps, 'cases': ran.get(name, []),
            'counted': _counters(facts.get(name, ())),
        }  # fmt: skip
    return {name: {key: value for key, value in page.items() if value} for name, page in pages.items()}
