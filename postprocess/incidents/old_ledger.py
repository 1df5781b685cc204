# SPDX-License-Identifier: BSD-3-Clause
"""Take over the ledger that versions before 1.0 kept, a file for each incident: as findings of sessions and as notes.

The files are kept in ``<results>/incidents/<site>.before``.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.identity import SeriesId
from postprocess.incidents import notes
from postprocess.incidents.fold import Look, NightFacts, id_of
from postprocess.incidents.incident import Incident, Scope, Value, together
from postprocess.incidents.notes import Began, Note, Selection, What
from postprocess.incidents.rows import TABLE, facts_to_json, to_row
from postprocess.results import judged
from postprocess.results.store import Session, Store


def take_over(store: Store, site: str) -> None:
    """Convert the ledger of a site, if there is one of the old kind. Raises InputError."""
    folder = store.folder.parent / 'incidents' / site
    if not folder.is_dir():
        return
    if not os.access(folder.parent, os.W_OK):
        raise InputError(
            f'{folder}: of an earlier version: it is read once somebody who may write there runs `plumbline status`'
        )
    files = {values['id']: values for values in map(_read, sorted(folder.glob('*.json')))}
    sessions = {session.session: session for session in store.sessions(site)}
    lines = [notes.to_line(note) for values in files.values() for note in _notes(values, files, [*sessions.values()])]
    for values in [*files.values()]:
        _put_together(values, files)
    shown: dict[str, list[Incident]] = defaultdict(list)
    facts = {uuid: NightFacts(session.runs) for uuid, session in sessions.items()}
    leaves = [leaf for values in files.values() for leaf in values.get('parts') or [values]]
    for leaf in leaves:
        incident = leaf['incident']
        for uuid, seen in leaf['seen'].items():
            if uuid not in sessions:
                continue
            if seen['bad']:
                finding = _of_session(incident, seen)
                facts[uuid].ids[id_of(finding, uuid, set())] = leaf['id']
                shown[uuid].append(finding)
            if seen['healthy']:
                facts[uuid].looks[leaf['id']] = Look((), tuple(seen['healthy']))
    for uuid in {uuid for leaf in leaves for uuid in leaf['seen']} & sessions.keys():
        rows = map(to_row, shown[uuid])
        judged.write(store, TABLE, sessions[uuid], 'an earlier version', rows, facts_to_json(facts[uuid]))
    write_text(notes.path_of(store.folder.parent, site), ''.join(lines))
    try:
        os.replace(folder, aside := folder.with_name(f'{site}.before'))
    except OSError as error:
        raise InputError(f'{aside}: cannot be put there: {error.strerror}; move it away') from None


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a file, with `Incident` in it. Raises InputError."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
        for each in (values, *values.get('parts', ())):
            each['incident'] = _incident(each['incident'])
        return values
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InputError(f'{path}: not an incident of the ledger, or damaged ({error}): repair or remove it') from None


def _incident(values: Mapping[str, Any]) -> Incident:
    """Return an incident of the ledger. Raises KeyError, TypeError, ValueError."""
    own = {name: _frozen(value) for name, value in values.items() if name in Incident.__dataclass_fields__}
    rows = {SeriesId.from_row(row): row for row in values['series']}
    numbers = {
        of: Value(**{name: _frozen(row[name]) for name in Value.__dataclass_fields__ if name in row})
        for of, row in rows.items()
        if 'unit' in row  # rows without a unit were not judged
    }
    where = Scope(**{name: _frozen(value) for name, value in values['where'].items()})
    return Incident(**own | {'where': where, 'series': tuple(rows), 'values': numbers})


def _of_session(incident: Incident, seen: Mapping[str, Any]) -> Incident:
    """Return an incident as one session showed it."""
    nodes = tuple(node for node in seen['bad'] if node) if incident.where.nodes else ()
    where = replace(incident.where, nodes=nodes)
    return replace(incident, where=where, loss=seen['loss'], interval=_frozen(seen['interval']))


def _put_together(values: Mapping[str, Any], files: dict[str, dict[str, Any]]) -> None:
    """Let an incident be whole again of which parts were split off: the notes split it."""
    for correction in reversed(values.get('corrections', ())):
        part = files.pop(correction['made'], None) if correction['made'] not in ('', values['id']) else None
        if part and not (values.get('parts') or part.get('parts')):
            _put_together(part, files)
            whole = together([values['incident'], part['incident']])
            both = part['seen'] | {
                uuid: seen
                | {name: sorted({*seen[name], *part['seen'].get(uuid, seen)[name]}) for name in ('bad', 'healthy')}
                for uuid, seen in values['seen'].items()
            }
            seen = dict(sorted(both.items(), key=lambda item: item[1]['started']))
            files[values['id']] = {**values, 'incident': whole, 'seen': seen}


def _notes(
    values: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]], sessions: Sequence[Session]
) -> Iterator[Note]:
    """Yield what persons noted on an incident."""
    id, acknowledged = values['id'], values['acknowledged']

    def note(what: What, ids: Sequence[str], by: Mapping[str, Any], **more: Any) -> Note:
        """Return a note that counts from the last session up to its day."""
        after = max((one.key for one in sessions if one.day <= by['day']), default='')
        return Note(what, tuple(ids), by['why'], by['by'], by['day'], after, **more)

    for one in values.get('corrections', ()):
        if one['what'] == 'merged':
            yield note('merged', [was['id'] for was in one['before']], one)
        elif one['what'] == 'dated' and values.get('dated'):
            yield note('dated', [id], one, began={id: Began(**values['dated'])})
        elif one['made'] not in ('', id) and (part := files.get(one['made'])):
            yield note('split', [id], one, made=one['made'], part=Selection(**part['only'][-1]))
    if acknowledged:
        yield note('acknowledged', [id], acknowledged, until=acknowledged['until'])


def _frozen(value: Any) -> Any:
    """Convert a list of JSON to a tuple."""
    return tuple(value) if isinstance(value, list) else value
