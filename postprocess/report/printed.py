# SPDX-License-Identifier: BSD-3-Clause
"""Collect what programs printed in cases with bad verdicts, for the details of the page and for an incident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from postprocess.history.digest import Digest
from postprocess.incidents.known import Known
from postprocess.results.excerpts import MOST_LINES, Excerpt, Wanted, excerpt
from postprocess.results.rows import CaseRow, Samples
from postprocess.results.store import Store
from postprocess.results.tables import reached_its_end
from postprocess.verdicts.verdict import BAD, Verdict

_CASES = 30  # most cases on a page, the worst first: more than a reader opens
_MOST_TEXT = 120_000  # most characters on a page: if random, a quarter of the 0.5 MB of a page; tables are far smaller
_MOST_READ = 256 * 2**20  # most bytes of unpacked archives for a page: a second or two
_NO_ROOM = 'The page has no room for more output; all of it is in the archive.'
Cases = Mapping[int, CaseRow]


def archives_of(digest: Digest, cases: Cases) -> dict[str, dict[str, list[Verdict]]]:
    """Return incident -> archive of its evidence from this session -> verdicts of the incident in that archive."""
    rows: dict[str, list[Verdict]] = {}
    for row in digest.comparison.verdicts if digest.known else ():
        if row.case_id is not None:
            rows.setdefault(cases[row.case_id].evidence, []).append(row)
    by_incident: dict[str, dict[str, list[Verdict]]] = {}
    for incident in digest.known:
        for archive in incident.incident.archives:
            if own := [row for row in rows.get(archive, ()) if incident.incident.holds(row.id, row.nodes)]:
                by_incident.setdefault(incident.id, {})[archive] = own
    return by_incident


def printed(ids: Mapping[SeriesId, int], cases: Cases, digest: Digest, store: Store) -> dict[int, dict[str, Any]]:
    """Return case -> lines of its output, for cases that failed, are bad, warn, or are shown by an incident.

    `ids`: series -> its number on the page. If all verdicts are good, no archive is read.
    """
    wanted = _wanted(cases, digest)
    samples = store.samples(digest.comparison.session, list(wanted)[:_CASES]) if wanted else {}
    by_case: dict[int, dict[str, Any]] = {}
    text, unread = _MOST_TEXT, _MOST_READ
    for number, (id, rows) in enumerate(wanted.items()):
        case, shown = cases[id], Excerpt([], _NO_ROOM)
        if number < _CASES and text > 0 and unread > 0:
            lines = [_lines_of(row.id, row.quantity.sign, row.verdict == 'invalid', case, samples) for row in rows]
            shown = _shown(store, case, lines)
        text -= sum(len(line) for part in shown.parts for _, line in part.lines)
        unread -= shown.read
        numbers = {row.id.name: ids[row.id] for row in rows}
        parts = [
            {
                'caption': part.caption,
                'lines': part.lines,
                'marks': {numbers[name]: at for name, at in part.marks.items()},
            }
            for part in shown.parts
        ]
        by_case[id] = {'parts': parts, 'problem': shown.problem, 'of': sorted(numbers.values())}
    return by_case


def printed_of(known: Known, results: Path) -> Excerpt | None:
    """Return the lines of the first archive of an incident, which is in `results`; None without an archive."""
    incident = known.incident
    if not incident.archives:
        return None
    store, last = Store(results), [uuid for uuid, seen in known.seen.items() if seen.bad][-1:]
    with suppress(InputError):  # without the store, show the first trial
        for session in (stored for stored in store.sessions(incident.where.site) if stored.session in last):
            for case in store.cases(session):
                of_case, nodes = case.id, case.nodes
                own = [id for id in incident.series if id.case == of_case and incident.holds(id, nodes)]
                if own and case.evidence == incident.archives[0]:
                    samples = store.samples(session, [case.case_id])
                    lower = {id for id, value in incident.values.items() if value.better == 'lower'}
                    lines = [_lines_of(id, -1 if id in lower else 1, False, case, samples) for id in own]
                    return _shown(store, case, lines)
    return excerpt(results, incident.archives[0], [Wanted(id.name) for id in incident.series[:MOST_LINES]])


def _wanted(cases: Cases, digest: Digest) -> dict[int, list[Verdict]]:
    """Return case -> verdicts whose lines are shown: first those of incidents, then the worst first."""
    over = {incident.id for incident in digest.of_state('healing', 'closed')}
    by_incident = [
        row
        for id, by_archive in archives_of(digest, cases).items()
        if id not in over
        for rows in by_archive.values()
        for row in rows
    ]
    bad = [row for row in digest.comparison.verdicts if row.verdict in (*BAD, 'warning') and row.case_id is not None]
    by_case: dict[int, dict[SeriesId, Verdict]] = {}
    for row in [*by_incident, *bad]:
        if row.case_id is not None and cases[row.case_id].evidence:
            by_case.setdefault(row.case_id, {}).setdefault(row.id, row)
    return {id: list(by_archive.values()) for id, by_archive in by_case.items()}


def _lines_of(id: SeriesId, sign: int, invalid: bool, case: CaseRow, samples: Samples) -> Wanted:
    """Return the trial of a series to show: one without its number, else the worst; for an invalid series the best."""
    own = {trial: value for trial, _, value in samples.get((case.case_id, id.metric, id.dims), ())}
    if not own:
        return Wanted(id.name)
    if lacking := [trial for trial in range(1, (case.trials or 0) + 1) if trial not in own]:
        return Wanted(id.name, lacking[0])
    trial = min(own, key=lambda trial: (-sign if invalid else sign) * own[trial])
    return Wanted(id.name, trial, lost=False)


def _shown(store: Store, case: CaseRow, lines: Sequence[Wanted]) -> Excerpt:
    """Return the excerpt of the output of a case that has `lines`."""
    failed = not reached_its_end(case.result, case.fail_phase)
    return excerpt(store.folder.parent, case.evidence, lines[:MOST_LINES], case.nodes, failed)
