"""The ledger: incidents over the sessions of a site, a file each below ``<results>/incidents/<site>/``.

What a session says of an incident is kept by session, so judging a session again replaces what it said before; the
state follows from all of it. Earlier versions kept the nodes that stood out, a CSV file a session, below
``<results>/ledger/<site>/``: those stay readable.
"""

from __future__ import annotations

import csv
import getpass
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.identity import SeriesId, from_text, natural
from plumbline.migration import metric_and_dims
from postprocess.history.incidents.incident import Incident, from_dict
from postprocess.results.store import Session

#: Healthy sessions that measured it, after which an incident is closed.
HEALTHY = 3
#: How many times the loss of an acknowledged incident makes it a new one.
WORSE = 1.5
#: From what must be acted on to what is over.
STATES = ('open', 'acknowledged', 'suspected', 'closed')
_SCHEMA = 1
_DIGITS = 6  # of an id


@dataclass(frozen=True)
class Seen:
    """What one session says of an incident. `bad`, `healthy`: nodes, or one empty name where it is of no node."""

    started: str
    bad: tuple[str, ...]
    healthy: tuple[str, ...]
    loss: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def day(self) -> str:
        """The day of the session, UTC."""
        return self.started[:10]


@dataclass(frozen=True)
class Acknowledged:
    """Who knows of an incident, why it may stay and until when; `seen`: what it was then, of so many `series`."""

    why: str
    until: str
    by: str
    day: str
    seen: Seen
    series: int


@dataclass(frozen=True)
class Known:
    """An incident in the ledger: as its last bad session tells it, and what each session says of it."""

    id: str
    incident: Incident
    seen: dict[str, Seen] = field(default_factory=dict)
    acknowledged: Acknowledged | None = None

    @property
    def first(self) -> str:
        """The session that found it."""
        return next(iter(self.seen))

    @property
    def last_bad(self) -> Seen:
        """What the last session said that shows it."""
        return next(one for one in reversed(self.seen.values()) if one.bad)

    @property
    def sessions(self) -> int:
        """In how many sessions it is known, with those before it was found."""
        return self.incident.sessions + sum(bool(one.bad) for one in self.seen.values()) - 1

    @property
    def closed(self) -> str:
        """The day on which it was closed; empty while it is not."""
        needed = HEALTHY if self.incident.sort != 'session' and not self._suspected else 1
        days = [self._healed(name, needed) for name in {name for one in self.seen.values() for name in one.bad}]
        return max(days) if all(days) else ''

    @property
    def unhealed(self) -> list[str]:
        """The nodes, or one empty name, that have not been healthy for long enough."""
        names = {name for one in self.seen.values() for name in one.bad}
        return sorted((name for name in names if not self._healed(name, HEALTHY)), key=natural)

    @property
    def healthy_for(self) -> int:
        """In how many sessions it was healthy since it was last bad."""
        found = list(self.seen.values())
        return len(found) - 1 - max(place for place, one in enumerate(found) if one.bad)

    @property
    def _suspected(self) -> bool:
        return not self.incident.certain and sum(bool(one.bad) for one in self.seen.values()) < 2

    def _healed(self, name: str, needed: int) -> str:
        """Return the day since which a node is healthy after so many sessions; empty where it is not."""
        days: list[str] = []
        for one in self.seen.values():
            days = [] if name in one.bad else [*days, one.day] if name in one.healthy else days
        return days[needed - 1] if len(days) >= needed else ''

    def worse(self) -> str:
        """Return how it is worse than what was acknowledged; empty where it is not."""
        then, now = self.acknowledged, self.last_bad
        if then is None:
            return ''
        if further := sorted(set(now.bad) - set(then.seen.bad), key=natural):
            return f'not only {", ".join(then.seen.bad)}, but {", ".join(further)} too'
        if now.loss is not None and then.seen.loss is not None:
            beyond = now.interval and then.seen.interval and now.interval[0] > then.seen.interval[1]
            if beyond or now.loss > WORSE * then.seen.loss:
                return f'a loss of {100 * now.loss:.1f} %, acknowledged with {100 * then.seen.loss:.1f} %'
        if (n := len(self.incident.series)) > WORSE * then.series + 1:
            return f'{n} metrics, acknowledged with {then.series}'
        return ''

    def state(self, day: str) -> str:
        """Return which of `STATES` it has on a day (``2026-11-22``)."""
        if self.closed:
            return 'closed'
        if self._suspected:
            return 'suspected'
        if self.acknowledged and day <= self.acknowledged.until and not self.worse():
            return 'acknowledged'
        return 'open'


#: Return the nodes (or one empty name) of an incident that a session shows to be bad, and those to be healthy.
Again = Callable[[Incident], tuple[set[str], set[str]]]


def judge(known: Sequence[Known], session: Session, tonight: Sequence[Incident], again: Again) -> list[Known]:
    """Return the incidents of the ledger after a session, which shows those of `tonight`; closed ones stay as they are.

    What the session said before is replaced. An incident of tonight is the same as a known one if it is of the same
    sort and scope and they have checks in common, and is a new one otherwise.
    """
    started = f'{session.started:%Y-%m-%dT%H:%M:%S}'
    done, active = [], {}
    for one in known:
        before = {uuid: seen for uuid, seen in one.seen.items() if uuid != session.session}
        one = replace(one, seen=before if any(seen.bad for seen in before.values()) else {})
        if one.seen and one.closed:
            done.append(one)
        else:
            active[one.id] = one
    found: dict[str, list[Incident]] = {}
    earlier = list(active.values())
    for incident in tonight:
        likeness, id = max(((_likeness(one.incident, incident), one.id) for one in earlier), default=(0.0, ''))
        if not likeness:
            id = _id(incident, session, {one.id for one in done} | active.keys())
            active[id] = Known(id, incident)
        found.setdefault(id, []).append(incident)
    for id, one in active.items():
        if id in found:
            done.append(_seen_again(one, found[id], session.session, started, again))
        elif one.seen:  # one that only this session showed, and no longer does, is gone
            bad, healthy = again(one.incident)
            now = {session.session: Seen(started, _sorted(bad), _sorted(healthy), one.last_bad.loss if bad else None)}
            done.append(replace(one, seen=_in_order(one.seen | (now if bad or healthy else {}))))
    return done


def _seen_again(known: Known, tonight: Sequence[Incident], session: str, started: str, again: Again) -> Known:
    """Return a known incident with what tonight shows of it."""
    first, *others = sorted(tonight, key=lambda one: -one.severity)
    now = first
    for other in others:
        now = replace(
            now, checks=_sorted({*now.checks, *other.checks}), series=tuple(dict.fromkeys(now.series + other.series)),
            nodes=_sorted({*now.nodes, *other.nodes}), evidence=tuple(dict.fromkeys(now.evidence + other.evidence)),
            next_steps=tuple(dict.fromkeys(now.next_steps + other.next_steps)),
            where=replace(now.where, nodes=_sorted({*now.where.nodes, *other.where.nodes})),
        )  # fmt: skip
    bad = set(now.where.nodes) or {''}
    if known.seen:
        old = known.incident
        _, healthy = again(old)
        levels = {(level.series, level.node): level for level in (*now.levels, *old.levels)}  # the first ones count
        begun_before = old.day <= now.day
        now = replace(
            now, kind=old.kind if old.kind == 'SOFTWARE' else now.kind, levels=tuple(levels.values()),
            changed=old.changed or now.changed, certain=old.certain or now.certain, sessions=old.sessions,
            since=old.since if begun_before else now.since, day=min(old.day, now.day),
            where=replace(now.where, nodes=_sorted({*now.where.nodes, *filter(None, known.unhealed)})),
        )  # fmt: skip
    else:
        healthy = set()
    seen = Seen(started, _sorted(bad), _sorted(healthy - bad), now.loss, now.interval)
    return replace(known, incident=now, seen=_in_order(known.seen | {session: seen}))


def _likeness(known: Incident, tonight: Incident) -> float:
    """Return how much a known incident and one of tonight have in common; 0: they are different ones."""
    one, other = known.where, tonight.where
    if known.sort != tonight.sort or bool(one.nodes) != bool(other.nodes):
        return 0.0
    if known.sort == 'session':
        return float(known.cause == tonight.cause or bool(one.nodes and one.nodes == other.nodes))
    if one.nodes and not set(one.nodes) & set(other.nodes):
        return 0.0
    alike = ('partition', 'environ', 'device', 'link_class', 'place')
    if any(
        getattr(one, name) and getattr(other, name) and getattr(one, name) != getattr(other, name) for name in alike
    ):
        return 0.0
    if (one.device, one.link_class) != (other.device, other.link_class) or not set(known.checks) & set(tonight.checks):
        return 0.0
    shared = len(set(known.series) & set(tonight.series))
    named = all(of.metric != '*' for of in (*known.series, *tonight.series))
    return 0.0 if known.sort == 'failure' and named and not shared else 1.0 + shared


def _id(incident: Incident, session: Session, taken: set[str]) -> str:
    """Return an id that the same incident gets again when its first session is judged again."""
    number = 0
    while True:
        text = f'{incident.where} {incident.sort} {incident.checks} {incident.cause} {session.session} {number}'
        id = hashlib.sha256(text.encode(errors='replace')).hexdigest()[:_DIGITS]
        if id not in taken:
            return id
        number += 1


def _in_order(seen: dict[str, Seen]) -> dict[str, Seen]:
    return dict(sorted(seen.items(), key=lambda item: (item[1].started, item[0])))


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=natural))


def until(known: Iterable[Known], session: Session) -> list[Known]:
    """Return the incidents as they were known up to a session; without those that were found later."""
    started = f'{session.started:%Y-%m-%dT%H:%M:%S}'
    found = []
    for one in known:
        seen = {uuid: seen for uuid, seen in one.seen.items() if seen.started <= started}
        if any(seen.bad for seen in seen.values()):
            found.append(replace(one, seen=seen))
    return found


def in_order(known: Iterable[Known], day: str) -> list[Known]:
    """Return the incidents by state, the worst first, and those that were closed last first."""

    def place(one: Known) -> tuple:
        state = one.state(day)
        closed = -date.fromisoformat(one.closed).toordinal() if state == 'closed' else 0
        return STATES.index(state), closed, -one.incident.severity, one.id

    return sorted(known, key=place)


# Files


def read(results: Path, site: str) -> list[Known]:
    """Return the incidents of a site, the first found first. Raises InputError for a file that cannot be used."""
    found = [_read(path) for path in sorted(_folder(results, site).glob('*.json'))]
    return sorted(found, key=lambda one: (one.seen[one.first].started, one.id))


def write(results: Path, site: str, before: Sequence[Known], after: Sequence[Known]) -> None:
    """Replace the files of the incidents that changed; remove those of incidents that are gone."""
    old = {one.id: one for one in before}
    for one in after:
        if old.pop(one.id, None) != one:
            write_text(_folder(results, site) / f'{one.id}.json', _to_json(one))
    for id in old:
        (_folder(results, site) / f'{id}.json').unlink(missing_ok=True)


def sites(results: Path) -> list[str]:
    """Return the names of the sites that have incidents."""
    folder = results / 'incidents'
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def last_day(known: Iterable[Known]) -> str:
    """Return the day of the last session that said anything of some incidents; empty without any."""
    return max((seen.day for one in known for seen in one.seen.values()), default='')


def find(results: Path, id: str, site: str | None = None) -> tuple[str, Known]:
    """Return the incident whose id begins with `id`, and its site. Raises InputError where it is not one."""
    found = [
        (name, one)
        for name in ([site] if site else sites(results))
        for one in read(results, name)
        if one.id.startswith(id)
    ]
    if len(found) == 1 and id:
        return found[0]
    if found and id:
        raise InputError(f'{id!r} is the beginning of several incidents: {", ".join(one.id for _, one in found)}')
    raise InputError(f'{results / "incidents"}: no incident has the id {id!r}; `plumbline incidents` lists them')


def acknowledge(results: Path, id: str, why: str, until: str, site: str | None = None) -> Known:
    """Note why an incident may stay, and until which day. Raises InputError."""
    name, known = find(results, id, site)
    day = last_day(read(results, name))
    if not why.strip():
        raise InputError('--why: expected a reason, found an empty text')
    try:
        until = date.fromisoformat(until).isoformat()
    except ValueError:
        raise InputError(f'--until: expected a day such as 2026-12-31, found {until!r}') from None
    if until < day:
        raise InputError(f'--until: {until} is before the last session, which was on {day}')
    if known.closed:
        raise InputError(f'incident {known.id} was closed on {known.closed}: there is nothing to acknowledge')
    by = ''
    with suppress(OSError, KeyError):  # a user without a name, as in a container
        by = getpass.getuser()
    noted = Acknowledged(' '.join(why.split()), until, by, day, known.last_bad, len(known.incident.series))
    done = replace(known, acknowledged=noted)
    write(results, name, [known], [done])
    return done


def _folder(results: Path, site: str) -> Path:
    return results / 'incidents' / site


def _to_json(known: Known) -> str:
    values = {'schema': _SCHEMA} | asdict(known) | {'incident': known.incident.to_dict()}
    return json.dumps(values, indent=1, ensure_ascii=False) + '\n'


def _read(path: Path) -> Known:
    try:
        values = json.loads(path.read_text(encoding='utf-8'))
        if values['schema'] > _SCHEMA:
            raise InputError(f'{path}: was written with schema {values["schema"]}: update Plumbline')
        noted = values['acknowledged']
        return Known(
            values['id'], from_dict(values['incident']), {uuid: _seen(seen) for uuid, seen in values['seen'].items()},
            Acknowledged(**noted | {'seen': _seen(noted['seen'])}) if noted else None,
        )  # fmt: skip
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f'{path}: not an incident of the ledger, or damaged ({error}): repair or remove it') from None


def _seen(values: dict[str, Any]) -> Seen:
    interval = values['interval']
    lists = {name: tuple(values[name]) for name in ('bad', 'healthy')}
    return Seen(**values | lists | {'interval': tuple(interval) if interval else None})


# Nodes by session


COLUMNS = (
    'date', 'session', 'node', 'kind', 'partition', 'environ', 'check', 'params', 'metric', 'dims', 'change', 'how',
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A node, or several joined by commas, that stood out in a session, and its worst series.

    `change`: of the performance, in %; None where a job failed. `how`: what it was compared with.
    """

    date: str
    session: str
    node: str
    kind: str
    series: SeriesId
    change: float | None
    how: str

    def as_dict(self) -> dict[str, object]:
        """Return the entry by `COLUMNS`."""
        values = (self.date, self.session, self.node, self.kind, *self.series.to_row().values(), self.change, self.how)
        return dict(zip(COLUMNS, values, strict=True))


def entries(results: Path, site: str) -> list[Entry]:
    """Return the nodes that stood out, by session, the oldest first: from the incidents and from earlier versions.

    Raises InputError for a file that cannot be used.
    """
    found = [entry for path in sorted((results / 'ledger' / site).glob('*.csv')) for entry in _of_csv(path)]
    for one in read(results, site):
        incident = one.incident
        series = incident.series[0] if incident.series else SeriesId(incident.where.partition, '', '-', (), '*')
        for uuid, seen in one.seen.items():
            change = None if seen.loss is None else -100 * seen.loss
            found += [
                Entry(seen.day, uuid, node, incident.kind, series, change, f'incident {one.id}')
                for node in seen.bad
                if node
            ]
    return sorted(found, key=lambda entry: (entry.date, entry.session))


def _of_csv(path: Path) -> list[Entry]:
    try:
        with path.open(encoding='utf-8', newline='') as lines:
            return [_entry(row) for row in csv.DictReader(lines)]
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    except (AttributeError, ValueError, TypeError, KeyError, csv.Error):
        raise InputError(
            f'{path}: expected the columns {",".join(COLUMNS)}, all filled in; remove or repair it'
        ) from None


def _entry(row: dict[str, str]) -> Entry:
    if 'case' in row:  # as earlier versions wrote it, without partition and environ
        metric, dims = metric_and_dims(row['check'], row['metric'])
        series = SeriesId('', '', row['check'], from_text(row['case']), metric, dims)
    else:
        series = SeriesId.from_row(row)
    return Entry(row['date'], row['session'], row['node'], row['kind'], series, float(row['change']), row['how'])
