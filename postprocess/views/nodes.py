# SPDX-License-Identifier: BSD-3-Clause
"""The table of the nodes of a session, each compared with the other nodes that measured the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from plumbline.errors import InputError
from plumbline.identity import natural
from plumbline.site.locations import locations
from postprocess.incidents import FAILING
from postprocess.results.rows import CaseRow
from postprocess.text import count, percent
from postprocess.verdicts.stand_in import FEWEST_NODES
from postprocess.verdicts.verdict import BAD
from postprocess.views.series import SeriesRow
from postprocess.views.table import Column, TableRow, View

if TYPE_CHECKING:
    from postprocess.history.digest import Digest

#: The columns of a node, in the order of CSV, JSON and the page; `typical`, `furthest`: difference from others in %.
NODES = (
    Column('name', 'node', priority=1, link=('#n=', '')),
    Column('incidents', 'incident', width=6, priority=1, link=('#i', '')),
    Column('drain', 'drain', lambda why: 'proposed' if why else '', width=8),
    Column('bad', 'bad', number=True, sort='-bad', priority=1),
    Column('metrics', 'metrics', number=True, priority=3),
    Column('typical', 'typical', percent, number=True, priority=3),
    Column('furthest', 'furthest behind', percent, number=True, priority=1),
    Column('worst', 'metric', width=24, link=('#m', 'worst_id')),
    Column('before', 'before', priority=3),
    Column('places', 'place', width=14),
)


def places_of(site: str, root: Path | None = None) -> dict[str, list[str]]:
    """Return the places of each node as its site states them; empty if that cannot be read."""
    with suppress(InputError):  # the digest reports this error
        return {name: sorted(places, key=natural) for name, places in locations(site, root).items()}
    return {}


def node_rows(
    series: Sequence[SeriesRow], cases: Mapping[int, CaseRow], digest: Digest, root: Path | None = None
) -> list[TableRow]:
    """Return the nodes on which the judged ones of `series` were measured, the worst first, by the keys of `NODES`.

    `before`: the earlier days on which a node stood out; `drain`: why it might be drained; `worst`: the series that is
    furthest behind, `worst_id` its number. Besides, the numbers of all its `series`, and of those that `fell_short`.
    """
    session = digest.comparison.session
    metrics: dict[str, set[int]] = {}
    bad: dict[str, set[int]] = {}
    for one in series:
        for job in one.jobs if one.worst.verdict != 'informational' else ():
            for name in cases[job.case_id].nodes if job.case_id is not None else ():
                metrics.setdefault(name, set()).add(one.id)
                if job.verdict in BAD:
                    bad.setdefault(name, set()).add(one.id)
    incidents: dict[str, list[str]] = {}
    for known in digest.of_state(*FAILING, 'acknowledged', 'suspected'):
        for name in known.incident.own_nodes:
            incidents.setdefault(name, []).append(known.id)
    drain, places = digest.to_drain, places_of(session.site, root)
    compared = _beside(series)
    rows: list[TableRow] = []
    for name, measured in metrics.items():
        beside = compared.get(name, [])
        furthest, worst = min(beside, key=lambda one: one[0], default=(None, None))
        fell_short = sorted(bad.get(name, ()))
        rows.append({
            'name': name, 'incidents': incidents.get(name, []), 'drain': drain.get(name, ''),
            'bad': len(fell_short), 'metrics': len(measured),
            'typical': median(change for change, _ in beside) if beside else None, 'furthest': furthest,
            'worst': worst.series.what if worst else '', 'worst_id': worst.id if worst else None,
            'before': digest.before.get(name, []), 'places': ', '.join(places.get(name, ())),
            'series': sorted(measured), 'fell_short': fell_short,
        })  # fmt: skip
    return sorted(rows, key=lambda row: (not row['incidents'], row['furthest'] or 0.0, natural(row['name'])))


def _beside(series: Sequence[SeriesRow]) -> dict[str, list[tuple[float, SeriesRow]]]:
    """Return node -> how far each metric is from the median of the nodes that measured it alone, in %.

    Only metrics that enough nodes measured, and that are judged.
    """
    compared: dict[str, list[tuple[float, SeriesRow]]] = {}
    for one in series:
        values: dict[str, list[float]] = {}
        for job in (job for row in one.jobs for job in row.jobs if one.worst.verdict != 'informational'):
            if job.status == 'measured' and len(job.nodes) == 1 and job.value > 0:
                values.setdefault(job.nodes[0], []).append(job.value)
        if len(values) >= FEWEST_NODES:
            levels = {name: median(own) for name, own in values.items()}
            usual = median(levels.values())
            for name, level in levels.items():
                compared.setdefault(name, []).append((100 * one.quantity.sign * (level / usual - 1), one))
    return compared


def listing(rows: Sequence[TableRow], nodes: int, digest: Digest) -> View:
    """Return some of the `nodes` of a session, the worst first."""
    drain = digest.drain
    bad, guilty = sum(bool(row['bad']) for row in rows), sum(bool(row['incidents']) for row in rows)
    after = f'{count(nodes, "node")} in session {digest.comparison.session.session}: {guilty} with an incident'
    after += f', {bad} with metrics that fell short'
    proposal = f'{drain}: a proposal to drain {count(len(digest.to_drain), "node")}; no node was drained'
    return View(NODES, rows, after=after, notes=[proposal] if drain else [])
