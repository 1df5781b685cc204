"""An incident over the sessions of a site: what each of them shows of it, and its state.

What a session says is kept by session, so judging a session again replaces what it said before; the state follows from
all of it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import Path

from plumbline.identity import natural
from plumbline.paths import ROOT
from postprocess.history.incidents.incident import Incident
from postprocess.results.store import Session, Store
from postprocess.text import count

#: Healthy sessions that measured it, after which an incident is closed.
HEALTHY = 3
#: How many times the loss of an acknowledged incident makes it a new one.
WORSE = 1.5
#: From what must be acted on to what is over.
STATES = ('open', 'acknowledged', 'suspected', 'healing', 'closed')
_DIGITS = 6  # of an id


@dataclass(frozen=True)
class Seen:
    """What one session says of an incident. `bad`, `healthy`: nodes, or one empty name where it is of no node.

    `loss` with its `interval` is that of all its series, `worst` as `Incident.worst`.
    """

    started: str
    bad: tuple[str, ...]
    healthy: tuple[str, ...]
    loss: float | None = None
    interval: tuple[float, float] | None = None
    worst: tuple[float, float] | None = None

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
    """An incident in the ledger of `results`: as its last bad session tells it, and what each session says of it."""

    id: str
    incident: Incident
    seen: dict[str, Seen] = field(default_factory=dict)
    acknowledged: Acknowledged | None = None
    results: Path = field(default=Path(), compare=False)

    @property
    def first(self) -> str:
        """The session that found it."""
        return next(iter(self.seen))

    @property
    def _bad(self) -> list[Seen]:
        """What each session said that shows it."""
        return [one for one in self.seen.values() if one.bad]

    @property
    def last_bad(self) -> Seen:
        """What the last session said that shows it."""
        return self._bad[-1]

    @property
    def sessions(self) -> int:
        """In how many sessions it is known, with those before it was found."""
        return self.incident.sessions + len(self._bad) - 1

    @property
    def is_new(self) -> bool:
        """Whether the last session is the first that shows it, or that shows it worse than was acknowledged."""
        before = replace(self, seen=dict(list(self.seen.items())[:-1]))
        return not before._bad or (bool(self.worse()) and not self.healthy_for and not before.worse())

    @property
    def closed(self) -> str:
        """The day on which it was closed; empty while it is not."""
        days = list(self._healed(HEALTHY if self.incident.sort != 'session' and not self._suspected else 1).values())
        return max(days) if all(days) else ''

    @property
    def unhealed(self) -> list[str]:
        """The nodes, or one empty name, that have not been healthy for long enough."""
        return sorted((name for name, day in self._healed(HEALTHY).items() if not day), key=natural)

    @property
    def healthy_for(self) -> int:
        """In how many sessions it was healthy since it was last bad."""
        return next(i for i, one in enumerate(reversed(self.seen.values())) if one.bad)

    @property
    def _suspected(self) -> bool:
        return not self.incident.certain and len(self._bad) < 2

    def _healed(self, needed: int) -> dict[str, str]:
        """Return the day since which each node is healthy after so many sessions; empty where it is not."""
        days: dict[str, list[str]] = {}
        for one in self.seen.values():
            days |= {name: [] for name in one.bad}
            days |= {name: [*days[name], one.day] for name in one.healthy if name in days and name not in one.bad}
        return {name: found[needed - 1] if len(found) >= needed else '' for name, found in days.items()}

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
        if now.worst and then.seen.worst and now.worst[0] > WORSE * then.seen.worst[1]:
            most = f'{100 * then.seen.worst[1]:.1f} % at most'
            return f'a loss of {100 * now.worst[1]:.1f} % in one metric, acknowledged with {most}'
        if (n := len(self.incident.series)) > WORSE * then.series + 1:
            return f'{n} metrics, acknowledged with {then.series}'
        return ''

    def state(self, day: str) -> str:
        """Return which of `STATES` it has on a day (``2026-11-22``)."""
        if self.closed:
            return 'closed'
        if all(self._healed(1).values()):
            return 'healing'
        if self._suspected:
            return 'suspected'
        if self.acknowledged and day <= self.acknowledged.until and not self.worse():
            return 'acknowledged'
        return 'open'


#: Return the nodes (or one empty name) of an incident that a session shows to be bad, and those to be healthy.
Again = Callable[[Incident], tuple[set[str], set[str]]]


def judge(
    known: Sequence[Known], session: Session, tonight: Sequence[Incident], again: Again, results: Path
) -> list[Known]:
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
            active[id] = Known(id, incident, results=results)
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
            next_steps=tuple(dict.fromkeys(now.next_steps + other.next_steps)), values={**other.values, **now.values},
            archives=tuple(dict.fromkeys(now.archives + other.archives)),
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
    seen = Seen(started, _sorted(bad), _sorted(healthy - bad), now.loss, now.interval, now.worst)
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


def last_day(known: Iterable[Known]) -> str:
    """Return the day of the last session that said anything of some incidents; empty without any."""
    return max((seen.day for one in known for seen in one.seen.values()), default='')


# In words


def since(known: Known, day: str) -> str:
    """Return since when an incident is known, and what became of it."""
    incident, noted, state = known.incident, known.acknowledged, known.state(day)
    lasts = f'in {count(known.sessions, "session")} since {incident.day}'
    parts = ['new in this session' if known.sessions == 1 and not known.healthy_for else lasts]
    if state == 'suspected':
        parts.append('suspected: it counts when it is seen again')
    if state == 'healing':
        last = 'session' if known.healthy_for == 1 else f'{known.healthy_for} sessions'
        parts.append(f'healthy in the last {last}; it is closed after {HEALTHY}')
    elif state != 'closed' and known.last_bad.day < day:
        parts.append(f'last seen on {known.last_bad.day}')
    if noted and state == 'acknowledged':
        parts.append(f'acknowledged until {noted.until}{f" by {noted.by}" if noted.by else ""}: {noted.why}')
    if noted and state == 'open':
        worse = known.worse()
        before = f'worse than acknowledged: {worse}' if worse else f'acknowledged until {noted.until}, which is over'
        parts.append(f'{before}; the reason was: {noted.why}')
    return '; '.join(parts)


def commands(known: Known, day: str) -> list[str]:
    """Return what to run next; where all is healthy, nothing has to be measured."""
    state = known.state(day)
    measure = () if state in ('healing', 'closed') else known.incident.next_steps
    found = [*measure, f'plumbline incidents show {known.id}']
    if state in ('open', 'suspected'):
        found.append(f'plumbline incidents acknowledge {known.id} --why REASON --until DAY')
    return [with_options(command, known.results, known.incident.where.site) for command in found]


@lru_cache
def _options(results: Path, site: str) -> str:
    """Return the options of commands on a site: none where they are those of the checkout and its only site."""
    results = results.absolute()
    elsewhere = [f'--results {shlex.quote(str(results))}'] if results != ROOT / 'results' else []
    return ' '.join([*elsewhere, f'--site {shlex.quote(site)}'] if elsewhere or len(Store(results).sites()) > 1 else [])


def with_options(command: str, results: Path, site: str) -> str:
    """Return one of our commands with the options that find the results of a site; others as they are."""
    options = _options(results, site)
    if not options or command.split()[0] not in ('plumbline', 'ci/nightly'):
        return command
    own, separator, of_reframe = command.partition(' -- ')
    return f'{own} {options}{separator}{of_reframe}'
