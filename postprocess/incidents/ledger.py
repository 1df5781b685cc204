# SPDX-License-Identifier: BSD-3-Clause
"""The ledger: one JSON file for each incident of a site, ``<results>/incidents/<site>/<id>.json``."""

from __future__ import annotations

import getpass
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.errors import InputError, did_you_mean
from plumbline.files import write_text
from postprocess.incidents import correction
from postprocess.incidents.correction import Began, Selection
from postprocess.incidents.incident import from_dict, frozen
from postprocess.incidents.known import Acknowledged, Known, Seen, last_day, without
from postprocess.results.files import listed
from postprocess.results.store import Session, Store

_SCHEMA = 1


def read_ledger(results: Path, site: str) -> list[Known]:
    """Return the incidents of a site, the first found first. Raises InputError for a file that cannot be used.

    After an interrupted correction, a file that was to be removed and a file that was written too early are ignored.
    What only forgotten sessions showed is left out, and stays in the files for the case that they are restored.
    """
    incidents = [_read(results, path) for path in _files(results, site)]
    done = {(incident.id, correction) for incident in incidents for correction in incident.corrections}
    held = {id for incident in incidents for id in incident.ids - {incident.id}}
    early = {
        correction.made
        for id, correction in done
        if id == correction.made
        and any(other.id == correction.before[0].id and (other.id, correction) not in done for other in incidents)
    }
    incidents = [incident for incident in incidents if incident.id not in held | early]
    if forgotten := {gone.session for gone in Store(results).forgotten(site)}:
        incidents = without(incidents, forgotten)
    return sorted(incidents, key=lambda one: (one.seen[one.first].started, one.id))


def faults(store: Store) -> Iterator[str]:
    """Yield a sentence for each file of the ledger that cannot be used, and for each judged session that is lost."""
    results = store.folder.parent
    for site in sorted({*sites(results), *(path.stem for path in (results / 'judged').glob('*.txt'))}):
        try:
            for path in _files(results, site):
                try:
                    _read(results, path)
                except InputError as error:
                    yield f'{error}'
            judged = {line.partition(' ')[0] for line in _judged(results, site)}
        except InputError as error:
            yield f'{error}'
            continue
        with suppress(InputError):  # a damaged list of sessions, which the check of the store names
            known = {session.session for session in store.sessions(site)}
            for session in sorted(judged - known - {gone.session for gone in store.forgotten(site)}):
                yield f'session {session} of {site} was judged and is not in the store: ingest its report again'


def write(results: Path, site: str, before: Sequence[Known], after: Sequence[Known]) -> None:
    """Replace the files of the incidents that changed; remove the files of incidents that no longer exist."""
    old = {incident.id: incident for incident in before}
    for incident in after:
        if old.pop(incident.id, None) != incident:
            write_text(_folder(results, site) / f'{incident.id}.json', _to_json(incident))
    for id in {*old, *(id for incident in after for id in incident.ids - {incident.id})}:
        (_folder(results, site) / f'{id}.json').unlink(missing_ok=True)


def was_judged(results: Path, session: Session) -> bool:
    """Return True if the session was judged before with the same reports. Raises InputError."""
    return f'{session.session} {session.runs}' in _judged(results, session.site)


def note_judged(results: Path, session: Session) -> None:
    """Note that a session was judged. Raises InputError for a damaged file.

    If the file cannot be written, the session is judged again the next time.
    """
    judged = _judged(results, session.site)
    name = f'{session.session} {session.runs}'
    if name not in judged:
        with suppress(InputError):
            write_text(_judged_file(results, session.site), ''.join(f'{line}\n' for line in [*sorted(judged), name]))


def judge_again(results: Path, site: str, session: str) -> None:
    """Note that a session was not judged, so that the next command on it enters its findings. Raises InputError."""
    judged = _judged(results, site)
    others = [line for line in sorted(judged) if line.partition(' ')[0] != session]
    if len(others) < len(judged):
        write_text(_judged_file(results, site), ''.join(f'{line}\n' for line in others))


def _judged(results: Path, site: str) -> set[str]:
    """Return the judged sessions, as uuid and number of reports.

    A session with a further report, of cases that ran again, counts as not judged.
    """
    path = _judged_file(results, site)
    try:
        return set(path.read_text(encoding='utf-8').splitlines())
    except FileNotFoundError:
        return set()
    except (OSError, ValueError) as error:
        raise InputError(f'{path}: cannot be read: {error}; remove it, or repair it') from None


def _judged_file(results: Path, site: str) -> Path:
    """Return the path of the file that names the judged sessions of a site."""
    return results / 'judged' / f'{site}.txt'


def sites(results: Path) -> list[str]:
    """Return the names of the sites that have incidents. Raises InputError."""
    return sorted(path.name for path in listed(results / 'incidents') if path.is_dir())


def find(results: Path, id: str, site: str | None = None) -> tuple[str, Known]:
    """Return the site and the incident for which its id, or the id of a part, begins with `id`.

    Raises InputError unless exactly one incident matches.
    """
    matching = [
        (name, incident)
        for name in ([site] if site else sites(results))
        for incident in read_ledger(results, name)
        if any(known.startswith(id) for known in incident.ids)
    ]
    if len(matching) == 1 and id:
        return matching[0]
    if matching and id:
        raise InputError(f'{id!r} is the beginning of several incidents: {", ".join(one.id for _, one in matching)}')
    known = [
        known_id for name in sites(results) for incident in read_ledger(results, name) for known_id in incident.ids
    ]
    guess = did_you_mean(id, known)
    raise InputError(f'{results / "incidents"}: no incident has the id {id!r}{guess}; `plumbline incidents` lists them')


def acknowledge(results: Path, id: str, why: str, until: str, site: str | None = None) -> Known:
    """Note why an incident may stay, and until which day; return it. Raises InputError."""
    name, known = find(results, id, site)
    day = last_day(read_ledger(results, name))
    why = reason(why)
    try:
        until = date.fromisoformat(until).isoformat()
    except ValueError:
        raise InputError(f'--until: expected a day such as 2026-12-31, found {until!r}') from None
    if until < day:
        raise InputError(f'--until: {until} is before the last session, which was on {day}')
    if known.closed:
        raise InputError(f'incident {known.id} was closed on {known.closed}: there is nothing to acknowledge')
    noted = Acknowledged(why, until, user(), day, known.last_bad, len(known.incident.series))
    done = replace(known, acknowledged=noted)
    write(results, name, [known], [done])
    return done


def reason(why: str) -> str:
    """Return the reason of a person on one line. Raises InputError for an empty text."""
    if not why.strip():
        raise InputError('--why: expected a reason, found an empty text')
    return ' '.join(why.split())


def user() -> str:
    """Return the name of the user; empty if there is none, for example in a container."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return ''


def _folder(results: Path, site: str) -> Path:
    """Return the folder with the incidents of a site."""
    return results / 'incidents' / site


def _files(results: Path, site: str) -> list[Path]:
    """Return the files of the incidents of a site. Raises InputError if their folder cannot be read."""
    return sorted(path for path in listed(_folder(results, site)) if path.suffix == '.json' and path.stem[:1] != '.')


def _to_json(known: Known) -> str:
    """Return the text of the file of an incident."""
    values = {'schema': _SCHEMA, **_to_dict(known)}
    return json.dumps({'digest': _digest(values), **values}, indent=1, ensure_ascii=False) + '\n'


def _digest(values: Mapping[str, Any]) -> str:
    """Return a checksum of the values of a file, by which a changed bit is found where the file is still JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _to_dict(known: Known) -> dict[str, Any]:
    """Return an incident as plain values for JSON."""
    values: dict[str, Any] = {'id': known.id, 'incident': known.incident.to_dict()}
    values |= {'seen': {uuid: vars(seen) for uuid, seen in known.seen.items()}}
    values |= {'acknowledged': known.acknowledged and asdict(known.acknowledged), 'closes_after': known.closes_after}
    corrected = {
        'before': known.before, 'parts': [_to_dict(part) for part in known.parts],
        'only': [asdict(by) for by in known.only], 'without': [asdict(by) for by in known.without],
        'dated': known.dated and asdict(known.dated), 'corrections': [asdict(done) for done in known.corrections],
    }  # fmt: skip
    return values | {name: value for name, value in corrected.items() if value}


def _read(results: Path, path: Path) -> Known:
    """Return the incident in a file. Raises InputError."""
    try:
        values = json.loads(path.read_text(encoding='utf-8'))
        later = values['schema'] > _SCHEMA
        first, digest = next(iter(values)), values.pop('digest', None)
        if first not in ('digest', 'schema') or (digest and digest != _digest(values)):
            raise ValueError('it is not as it was written; without the line "digest" it is read as it is')
        known = None if later else _from_dict(results, values)
        if known and known.id != path.stem:
            raise ValueError(f'its id is {known.id}')
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(f'{path}: not an incident of the ledger, or damaged ({error}): repair or remove it') from None
    if known is None:
        raise InputError(f'{path}: was written with schema {values["schema"]}: update Plumbline')
    return known


def _from_dict(results: Path, values: Mapping[str, Any]) -> Known:
    """Return the incident that :func:`_to_dict` wrote. Raises AttributeError, KeyError, TypeError or ValueError."""
    noted = values['acknowledged']
    return Known(
        values['id'], from_dict(values['incident']), {uuid: _seen(seen) for uuid, seen in values['seen'].items()},
        Acknowledged(**noted | {'seen': _seen(noted['seen'])}) if noted else None,
        values['closes_after'], tuple(values.get('before', ())), results,
        tuple(_from_dict(results, part) for part in values.get('parts', ())),
        tuple(Selection(**row) for row in values.get('only', ())),
        tuple(Selection(**row) for row in values.get('without', ())),
        Began(**values['dated']) if 'dated' in values else None,
        tuple(correction.from_dict(row) for row in values.get('corrections', ())),
    )  # fmt: skip


def _seen(values: dict[str, Any]) -> Seen:
    """Return an entry from its values in JSON."""
    return Seen(**{name: frozen(value) for name, value in values.items()})


# Nodes by session


class Entry(NamedTuple):
    """A node, or several joined by commas, that stood out in a session; `how`: names its incident."""

    date: str
    session: str
    node: str
    kind: str
    how: str


def entries(results: Path, site: str) -> list[Entry]:
    """Return the nodes that stood out, the oldest session first. Raises InputError for a file that cannot be used."""
    nodes = []
    for incident in read_ledger(results, site):
        for uuid, seen in incident.seen.items():
            nodes += [
                Entry(seen.day, uuid, node, incident.incident.kind, f'incident {incident.id}')
                for node in seen.bad
                if node
            ]
    return sorted(nodes)


def accused(results: Path, sessions: Sequence[Session], epoch: str) -> dict[str, dict[str, str]]:
    """Return the sessions that incidents make doubtful: session -> node (or case, if without nodes) -> incident.

    An incident makes all sessions doubtful from its first bad one until it healed. An `epoch`, a planned change of the
    machine, explains the incidents that began in `sessions`.
    """
    doubts: dict[str, dict[str, str]] = defaultdict(dict)
    own = {session.session for session in sessions}
    for site in {session.site for session in sessions}:
        for incident in read_ledger(results, site):
            if epoch and incident.first in own:
                continue
            what = f'incident {incident.id}: {incident.incident.kind}{"" if incident.closed else ", not healed"}'
            cases = {str(of.case) for of in incident.incident.series} if incident.incident.sort == 'loss' else set()
            began = min(seen.started for seen in incident.seen.values())
            for session in sessions:
                bad = set(incident.seen[session.session].bad) if session.session in incident.seen else set()
                lasts = session.session == incident.incident.since or f'{session.started:%Y-%m-%dT%H:%M:%S}' >= began
                bad |= set(incident.unhealed) if lasts and not incident.closed else set()
                names = bad - {''} | (cases if '' in bad else set())
                doubts[session.session] = dict.fromkeys(names, what) | doubts[session.session]
    return doubts
