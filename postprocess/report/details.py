# SPDX-License-Identifier: BSD-3-Clause
"""Pack the details that the script of the page shows on demand: every series and case, histories and samples."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from plumbline.causes import sentence
from plumbline.identity import to_text
from plumbline.record import EXPERIMENTAL
from plumbline.site.schedulers import scheduler
from postprocess.history.digest import Digest
from postprocess.incidents.background import again, name_of
from postprocess.incidents.failures import UNPROVEN
from postprocess.incidents.words import with_options
from postprocess.report.nodes import Band, bands, node_pages
from postprocess.results.rows import CaseRow, Samples
from postprocess.results.store import Session, Store
from postprocess.text import count, number, percent, quantity
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
            id: _case(case, session, results, link) | ({'printed': outputs[id]} if id in outputs else {})
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
        [job.verdict, job.case_id, {node: _digits(value for *_, value in own) for node, own in by_node}]
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


def _case(case: CaseRow, session: Session, results: Path, link: Callable[[Path], str]) -> dict[str, Any]:
    """Return the details of a case."""
    parts = [case.job_id or 'no number', case.job_state, case.scheduler or 'no scheduler']
    trials = f'; trials {_digits(case.trial_seconds)}' if case.trial_seconds else ''
    facts = {
        'Job': f'{", ".join(filter(None, parts))}; result {case.result}',
        'Nodes': ', '.join(case.nodes) or 'none known',
        'Ended': f'{case.completed:%Y-%m-%d %H:%M:%S} UTC' if case.completed else '',
        'Seconds': f'{number(case.time_total) or "?"} in all{trials}',
        'Failed': sentence(case.causes),
        'Experimental': UNPROVEN if EXPERIMENTAL in case.tags else '',
        **{f'Placement {key}': value for key, value in case.placement.items()},
        **case.provenance,
    }
    nodes = case.nodes if scheduler(case.scheduler).is_slurm else ()
    command = again(session, case.partition, [name_of(case)], nodes)
    return {
        'name': f'{case.check} {to_text(case.params)} on {case.partition}/{case.environ}',
        'job': case.job_id or 'without a number',
        'facts': {key: str(value) for key, value in facts.items() if value not in (None, '')},
        'output': link(results / case.evidence) if case.evidence else '',
        'again': with_options(command, results, session.site) if command else '',
    }


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


def _digits(values: Iterable[float]) -> str:
    """Return samples as text, with six significant digits, separated by blanks."""
    return ' '.join(f'{value:.6g}' for value in values)
