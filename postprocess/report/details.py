# SPDX-License-Identifier: BSD-3-Clause
"""Pack the details that the script of the page shows on demand: every series and case, histories and samples."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from plumbline.identity import to_text
from postprocess.history.digest import Digest
from postprocess.report.cases import case_details
from postprocess.report.nodes import Band, bands, node_pages
from postprocess.results.rows import CaseRow, Samples
from postprocess.results.store import Store
from postprocess.text import count, number, percent, quantity, spaced
from postprocess.verdicts.stand_in import FEWEST_NODES
from postprocess.verdicts.verdict import BAD
from postprocess.views.series import SeriesRow, short
from postprocess.views.table import TableRow

_JOBS = 20  # most jobs of a series whose samples are shown, the worst first
_FEWEST_SESSIONS = 3  # fewest sessions of a history


def packed(content: Any) -> str:
    """Return a text, or values as JSON, deflated and in base64; details are half of the size of a page."""
    packable = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
    return base64.b64encode(zlib.compress(packable, 9)).decode()


def unfolded(
    series: Sequence[SeriesRow], cases: Mapping[int, CaseRow], fleet: Sequence[TableRow], store: Store,
    digest: Digest, outputs: Mapping[int, dict[str, Any]], link: Callable[[Path], str],
) -> dict[str, Any]:  # fmt: skip
    """Return what the details show: times of ``sessions``; ``metrics`` and ``cases`` by number, ``nodes`` by name.

    `outputs`: case -> what its programs printed. `link`: makes the address of a file.
    """
    session, results = digest.comparison.session, store.folder.parent
    shown = {job.case_id for one in series for job in one.jobs[:_JOBS] if job.case_id is not None}
    samples = store.samples(session, shown)
    of_bands = bands(store, digest.sessions, series)
    histories = _histories(series, cases, of_bands, digest)
    return {
        'sessions': [one.epoch for one in digest.sessions],
        'metrics': {one.id: _metric(one, samples) | histories.get(one.id, {}) for one in series},
        'cases': {
            id: case_details(case, session, results, link) | ({'printed': outputs[id]} if id in outputs else {})
            for id, case in cases.items()
        },
        'nodes': node_pages(fleet, of_bands, {id: of['at'] for id, of in histories.items()}, cases, digest),
    }


def _metric(one: SeriesRow, samples: Samples) -> dict[str, Any]:
    """Return the details of a series."""
    row, unit = one.worst, one.quantity.unit
    facts: dict[str, str] = {}
    if row.value is not None:
        facts['Measured'] = f'{quantity(row.value, row.measured.std, unit)}, {one.quantity.better} is better'
        facts['Measured'] += f'; n = {row.measured.n}'
        if row.measured.min is not None:
            facts['Measured'] += f', {number(row.measured.min)} to {number(row.measured.max)}'
        if len(one.jobs) > 1:
            facts['Measured'] += f': the worst of {len(one.jobs)} jobs, whose median is {number(one.value)}'
    if row.reference and row.limits:
        of, bound = row.reference, row.limits
        epoch = f', epoch {of.epoch}' if of.epoch else ''
        facts['Expected'] = f'{quantity(row.expected, of.std, unit)}, n = {of.n}; {of.kind}, {of.source}{epoch}'
        parts = [percent(row.deviation)] if row.ratio is not None else []
        if row.interval:
            low, high = (f'{100 * end:.1f}' for end in row.interval)
            over = f'over {count(row.window, "session")}'
            parts.append(f'performance lost {100 * (row.loss or 0):.1f} %, 95 % interval {low} to {high} %, {over}')
        if row.q is not None and row.verdict != 'ok':
            parts.append(f'p = {row.p:.2g}, q = {row.q:.2g}')
        facts['Change'] = '; '.join(parts)
        level = '' if row.limit is None else f'{number(row.limit)}, '
        notices = '' if bound.detectable is None else f', notices a loss of {100 * bound.detectable:.1f} %'
        facts['Limit'] = f'{level}{bound.why}; {(bound.gate or row.standing).replace("_", " ")}{notices}'
    jobs = [
        [job.verdict, job.case_id, {node: spaced(value for *_, value in own) for node, own in by_node}]
        for job in one.jobs[:_JOBS] if job.case_id is not None
        for by_node in [groupby(samples.get((job.case_id, one.series.metric, one.series.dims), ()), itemgetter(1))]
    ]  # fmt: skip
    detail = {
        'name': f'{one.series.check} {to_text(one.series.params)} {one.series.name}', 'unit': unit,
        'where': f'{one.series.partition}/{one.series.environ}', 'verdict': row.verdict, 'cause': row.cause,
        'deviation': percent(row.deviation), 'facts': facts, 'jobs': jobs, 'more': len(one.jobs[_JOBS:]),
        'limit': short(row.limit), 'expected': short(row.expected),
    }  # fmt: skip
    if len(one.jobs) >= FEWEST_NODES:  # each tick of the strip is a node
        detail['values'] = [drawn for other in one.jobs if (drawn := short(other.value)) is not None]
    return {key: value for key, value in detail.items() if value}


def _histories(
    series: Sequence[SeriesRow], cases: Mapping[int, CaseRow], of_bands: Mapping[int, Band], digest: Digest
) -> dict[int, dict[str, Any]]:
    """Return id -> history of each series that has one: sessions and values, with the changes found in it."""
    by_key = {(one.series, one.quantity): one for one in series}
    places = {session.session: place for place, session in enumerate(digest.sessions)}
    changes: dict[int, list[tuple[int, str]]] = {}
    for change in digest.trend.changes if digest.trend else ():
        if one := by_key.get((change.series, change.quantity)):
            changed = f', {change.with_it[0]}' if change.with_it else ''
            text = f'{percent(change.change)} {change.since.started.day} {change.since.started:%b}{changed}'
            changes.setdefault(one.id, []).append((places[change.since.session], text))
    histories: dict[int, dict[str, Any]] = {}
    for past in digest.histories:
        one, values = by_key.get((past.series, past.quantity)), [short(value) for value in past.values.tolist()]
        if one is None or len(values) < _FEWEST_SESSIONS or None in values:
            continue
        histories[one.id] = {'at': past.sessions.tolist(), 'history': values, 'changes': changes.get(one.id, [])}
        if one.worst.verdict in BAD:
            histories[one.id]['bad'] = short(one.worst.value)
        if band := of_bands.get(one.id):
            at = past.sessions
            histories[one.id] |= {'low': list(map(short, band.low[at])), 'high': list(map(short, band.high[at]))}
            names = cases[one.worst.case_id].nodes if one.worst.case_id is not None else []
            if len(names) == 1 and one.worst.verdict in BAD:
                histories[one.id]['node'] = names[0]
    return histories
