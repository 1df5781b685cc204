# SPDX-License-Identifier: BSD-3-Clause
"""A static site of all sessions of one or several clusters, for any web server and for a browser's file://.

``DIR/index.html`` lists the sites. Each site has a folder: ``index.html``; ``latest.svg`` and ``latest.json``;
``sessions/<uuid>.html``, the pages; ``data/site.js``, what the first screen shows; ``data/<month>.js``, the numbers of
the sessions of that month.

Published data are read back, so adding a session rewrites only the files of its month and the lists. The only file that
sites share is ``DIR/index.html``, which is computed from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from plumbline.files import write_text
from plumbline.identity import ID_COLUMNS, SeriesId
from postprocess.extras.publish import data
from postprocess.extras.publish.data import Content
from postprocess.extras.publish.incidents import entries
from postprocess.extras.publish.pages import refuse_foreign, write_pages
from postprocess.history.digest import Digest, add_history, judge
from postprocess.history.verdicts import verdicts_of
from postprocess.incidents.provenance import compared_in
from postprocess.report.page import page_of, to_html
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.verdict import Comparison
from postprocess.views.series import SeriesRow, series_rows, short
from postprocess.views.verdicts import verdict_of

_DAYS = 90  # days of history on the page of a session
_VALUES = 3  # most values of a fact in one session; a fact with more values differs between checks
_CODES = {
    'ok': 'o', 'improved': 'i', 'regressed': 'r', 'missing': 'm', 'failed': 'f', 'invalid': 'v', 'warning': 'w',
    'no_reference': 'n',
}  # fmt: skip


def publish(store: Store, site: str, folder: Path, root: Path | None = None, pages: int = 30) -> Iterator[str]:
    """Add the sessions of a site that `folder` lacks; yield a sentence for each of their months, and for faults.

    `pages`: number of the newest sessions that get a page of their own; all sessions have an address and their numbers.
    The last session is judged again, so that an incident acknowledged since is shown as such. Raises InputError, also
    if `folder` holds files that this version cannot read.
    """
    place, last = folder / site, store.find('latest', site)
    refuse_foreign(folder / 'index.html')
    refuse_foreign(place / 'index.html')
    content = data.read(place, 'site', sessions={}, incidents={}, series=[], months=[])
    names = (dict(zip(ID_COLUMNS, row, strict=False)) for row in content['series'])
    numbers = {SeriesId.from_row(row): number for number, row in enumerate(names)}
    for forgotten in store.forgotten(site):
        content['sessions'].pop(forgotten.session, None)
    runs = {uuid: one['runs'] for uuid, one in content['sessions'].items()}
    new = [one for one in store.sessions(site) if one == last or one.runs > runs.get(one.session, -1)]
    paged = {one.session for one in (*new[-pages:], last)}
    for month, sessions in groupby(new, key=lambda session: session.month):
        part, added = data.read(place, month, rows={}), 0
        for session in sessions:
            digest = judge(store, session.session, site, root, late=False) if session.session in paged else None
            comparison = digest.comparison if digest else verdicts_of(store, session, root)
            judged = [one for one in series_rows(comparison) if one.worst.verdict != 'informational']
            _list_series(content['series'], numbers, judged)
            part['rows'][session.session] = _row(judged, numbers, store, session)
            content['sessions'][session.session] = _session(comparison, digest)
            if digest:
                add_history(digest, store, root, _DAYS)
                page = page_of(digest, store, root, home=f'../index.html#session={session.session}')
                write_text(place / f'sessions/{session.session}.html', to_html(page))
                yield from digest.faults
            if digest and session == last:
                content['incidents'] = entries(content['incidents'], digest, numbers)
            added += session.session not in runs
        content['sessions'] = dict(sorted(content['sessions'].items(), key=lambda item: item[1]['at']))
        content['months'] = sorted({*content['months'], month})
        data.write(place, part, content)
        if added:
            yield f'{site}, {month}: {count(added, "session")}'
    write_pages(content, last.session, folder, site, root)


def _list_series(series: list[list[Any]], numbers: dict[SeriesId, int], judged: Iterable[SeriesRow]) -> None:
    """Enter the `judged` series into the list of all series, each at its permanent number."""
    for one in sorted(judged, key=lambda one: one.series.sort_key):
        number, of = numbers.setdefault(one.series, len(series)), one.quantity
        row = [*one.series.to_row().values(), of.unit, of.better, short(one.worst.expected), short(one.worst.limit)]
        series[number : number + 1] = [row]


def _row(judged: Iterable[SeriesRow], numbers: Mapping[SeriesId, int], store: Store, session: Session) -> Content:
    """Return the values of a session by the numbers of the series, their verdicts, and the session's software."""
    own = {numbers[metric.series]: metric for metric in judged}
    every = [own.get(number) for number in range(max(own, default=-1) + 1)]
    facts: dict[str, set[str]] = {}
    for row in store.select('SELECT DISTINCT provenance FROM cases', [session]):
        for fact, value in compared_in(row['provenance']):
            facts.setdefault(fact, set()).add(value)
    return {
        'values': [metric and short(metric.value) for metric in every],
        'verdicts': ''.join(_CODES[metric.worst.verdict] if metric else ' ' for metric in every),
        'facts': {fact: ', '.join(sorted(of)) for fact, of in sorted(facts.items()) if len(of) <= _VALUES},
    }


def _session(comparison: Comparison, found: Digest | None) -> Content:
    """Return the entry of a session in the list of sessions."""
    session = comparison.session
    word, _, said = verdict_of(found or comparison).partition(': ')
    return {
        'at': session.epoch, 'mode': session.mode, 'ran': session.ran, 'expected': session.expected,
        'runs': session.runs, 'word': word, 'said': said, 'page': found is not None,
        'problems': [*map(str, comparison.problems[:5])],
    }  # fmt: skip
