"""Tonight's incidents: what is not as it should be in a session, grouped by cause; what an administrator acts on."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any

from plumbline.identity import CaseId, SeriesId, from_text, natural
from plumbline.paths import SITES
from postprocess.history.background import Background
from postprocess.history.fleet import Event, Fleet, locations
from postprocess.history.grouping import Group, Key, explain
from postprocess.history.incident import Incident, Level, Scope
from postprocess.history.provenance import Provenance, is_software
from postprocess.results.store import Session, Store
from postprocess.results.tables import NEEDED_FAILED
from postprocess.text import percent
from postprocess.verdicts.compare import NOTHING_MEASURED
from postprocess.verdicts.measured import Job, Measured, failure, measured
from postprocess.verdicts.verdict import Comparison, Verdict

#: Share of performance that an event of the fleet must have lost to be certain when it is seen for the first time.
CERTAIN = 0.1
_BEFORE = 3  # sessions whose provenance is compared with tonight's
_FEW = 0.25  # what a healthy series counts against software that changed: it may use what did not change of it
_SIZE = 1.25  # how many times another loss two checks of one cause may have lost
_DEVICES = ('device', 'gpu', 'domain')  # dims and params that name a part of a node
_NODE_STATES = ('NODE_FAIL', 'BOOT_FAIL')  # of a job, which its node has caused
_OF_SCHEDULER = ('PREEMPTED', 'CANCELLED', 'REQUEUED')
_LOST_NODE = re.compile(r'(\S+) of (\S+) is .*, but not drained')
_FAMILY = re.compile(r'[A-Z]+[a-z]*')  # first word of the name of a check: Osu, Numa, Babel
_WORST_FIRST = ('failed', 'missing', 'invalid')


@dataclass
class _Night:
    """What one session gives: its cases, what they measured, and its verdicts."""

    store: Store
    session: Session
    comparison: Comparison
    before: Sequence[Session]
    places: Mapping[str, set[str]]  # of each node, such as ``switch s3``
    cases: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.cases = self.store.rows('cases', self.session)
        self.nodes: dict[str, set[str]] = defaultdict(set)  # of each partition
        for case in self.cases:
            self.nodes[case['partition']] |= set(case['nodes'])

    @cached_property
    def measured(self) -> dict[tuple[SeriesId, int | None], Measured]:
        """What each case measured, by series and case."""
        return {(row.id, row.case_id): row for row in measured(self.cases, self.store.rows('metrics', self.session))}

    def jobs(self, row: Verdict) -> tuple[Job, ...]:
        found = self.measured.get((row.id, row.case_id))
        return found.jobs if found else ()

    def several(self, partition: str) -> bool:
        """Return True if the session used several nodes of a partition: only then can one of them stand out."""
        return len(self.nodes[partition]) > 1

    @cached_property
    def all_places(self) -> set[str]:
        return set().union(*self.places.values())

    def places_of(self, nodes: Iterable[str]) -> set[str]:
        return {place for node in nodes for place in self.places.get(node, ())}


@dataclass
class Draft:
    """An incident in the making: verdicts, or jobs that failed, with one cause.

    `sort`: ``loss``, ``failure`` or ``session``. `nodes`: where it was seen. `certain`: False for what only the
    comparison of nodes shows, the first time.
    """

    kind: str
    where: Scope
    sort: str
    rows: list[Verdict] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    cases: set[CaseId] = field(default_factory=set)
    series: set[SeriesId] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cause: str = ''
    loss: float | None = None
    interval: tuple[float, float] | None = None
    evidence: list[str] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    certain: bool = True

    def finish(self) -> Incident:
        """Return the incident, without what only its history tells."""
        checks = {of.check for of in (*self.series, *self.cases)}
        by_loss = sorted(self.series, key=lambda of: (-self._losses.get(of, 0.0), of))
        loss, interval = (self.loss, self.interval) if self.loss is not None else _pooled(self.rows)
        return Incident(
            self.kind, self.where, self.sort, tuple(sorted(checks)), tuple(by_loss),
            tuple(sorted(self.nodes, key=natural)), self.cause, loss, interval, evidence=tuple(self.evidence),
            levels=tuple(self.levels), certain=self.certain,
        )  # fmt: skip

    @cached_property
    def _losses(self) -> dict[SeriesId, float]:
        return {row.id: loss_of(row) or 0.0 for row in self.rows}


def incidents(
    comparison: Comparison, fleet: Fleet | None, store: Store, sessions: Sequence[Session], root: Path = SITES
) -> list[Incident]:
    """Return the incidents of a session, the worst first. `sessions`: up to this one, the last, for what was before.

    Raises InputError where the store or the table of locations cannot be read.
    """
    places = {} if fleet is None else locations(comparison.session.site, root)  # None: they may be wrong
    night = _Night(store, comparison.session, comparison, sessions[:-1], places)
    drafts = [*_failures(night), *_losses(night)]
    if fleet is not None:
        _add_events(drafts, fleet, night)
    _add_problems(drafts, comparison.problems, night)
    found = Background(store, sessions, comparison, night.cases, night.jobs).add(drafts)
    return sorted(found, key=lambda one: (-one.severity, one.where.partition, one.checks))


def loss_of(row: Verdict) -> float | None:
    """Return the share of performance that a series lost against its reference; below 0 for a gain."""
    if hasattr(row, 'loss'):
        return row.loss
    if row.ratio is None or row.ratio <= 0:
        return None
    return 1 - row.ratio**row.quantity.sign


def _interval_of(row: Verdict) -> tuple[float, float] | None:
    if hasattr(row, 'loss'):
        return row.interval
    if row.interval is None or min(row.interval) <= 0:
        return None
    low, high = sorted(1 - ratio**row.quantity.sign for ratio in row.interval)
    return low, high


def _pooled(rows: Sequence[Verdict]) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean loss of several series, with an interval of two standard errors; both None without any."""
    known = [(-math.log1p(-loss), _interval_of(row)) for row in rows if (loss := loss_of(row)) is not None and loss < 1]
    if not known:
        return None, None
    middle = fmean(loss for loss, _ in known)
    if len(known) == 1:
        return -math.expm1(-middle), known[0][1]
    widths = [(math.log1p(-low) - math.log1p(-high)) / 4 for _, of in known if of and max(of) < 1 for low, high in [of]]
    own = sum(width**2 for width in widths) / len(known) ** 2
    error = math.sqrt(max(own, variance(loss for loss, _ in known) / len(known)))
    return -math.expm1(-middle), (-math.expm1(2 * error - middle), -math.expm1(-2 * error - middle))


# Losses of performance


def _losses(night: _Night) -> Iterator[Draft]:
    """Yield a draft for each cause of what regressed, and of losses that several series have in common."""
    together = {of for common in getattr(night.comparison, 'common', ()) for of in common.series}
    bad = [row for row in night.comparison.verdicts if row.verdict == 'regressed' or row.id in together]
    if not bad:
        return
    usual = median(loss_of(row) or 0.0 for row in bad)
    healthy = [
        row
        for row in night.comparison.verdicts
        if row.verdict in ('ok', 'improved')
        and row.id not in together
        and (row.limits is None or row.limits.detectable is None or row.limits.detectable <= max(usual, 0.02))
    ]
    software = _Software(night, {row.id.case for row in bad})
    rows, slow = (Counter(row.id for row in part) for part in (night.comparison.verdicts, bad))
    guilty = {id(row): _guilty(row, night.jobs(row), rows[row.id], slow[row.id]) for row in bad}
    scopes = [_loss_keys(row, night, software, *guilty[id(row)]) for row in bad]
    well = [_loss_keys(row, night, software, row.nodes, False) for row in healthy]
    drafts = []
    for group in explain(scopes, well, {'software': _FEW}):
        rows = [bad[place] for place in group.places]
        drafts.append(_loss_draft(group, rows, {node for row in rows for node in guilty[id(row)][0]}, night))
    yield from _of_one_size(drafts)


def _of_one_size(drafts: list[Draft]) -> Iterator[Draft]:
    """Yield the drafts; checks of one partition and environ that lost about the same have one cause."""
    alike: dict[Scope, list[tuple[float, Draft]]] = defaultdict(list)
    for draft in drafts:
        if draft.kind == 'SYSTEM' and not draft.where.link_class:
            alike[draft.where].append((_pooled(draft.rows)[0] or 0.0, draft))
        else:
            yield draft
    for group in alike.values():
        group.sort(key=lambda pair: pair[0])
        last, merged = group[0]
        for loss, draft in group[1:]:
            if loss > _SIZE * last:
                yield merged
                merged = draft
            else:
                merged = _of_rows('SYSTEM', draft.where, merged.rows + draft.rows, merged.nodes | draft.nodes)
            last = loss
        yield merged


class _Software:
    """What changed tonight in the software of the checks that fell short, by case and node."""

    def __init__(self, night: _Night, cases: Iterable[CaseId]):
        checks = {case.check for case in cases}
        sessions = [*night.before[-_BEFORE:], night.session]
        self._before, self._tonight = range(len(sessions) - 1), len(sessions) - 1
        wanted = {_case_of(case) for case in night.cases if not case['fixture'] and case['check'] in checks}
        self._facts = Provenance.read(
            night.store, sessions, [(case, place) for case in wanted for place in range(len(sessions))]
        )

    def changes(self, case: CaseId, nodes: Iterable[str]) -> list[str]:
        name = ','.join(sorted(nodes))
        return [one for one in self._facts.change(case, self._before, [self._tonight], name) if is_software(one)]


def _guilty(row: Verdict, jobs: Sequence[Job], cases: int, slow_cases: int) -> tuple[tuple[str, ...], bool]:
    """Return the nodes that all slow jobs of a series ran on, and whether jobs on other nodes were fast.

    No node: the jobs on different nodes are slow. `cases`: how many cases measured the series, as each on a node of its
    own, and in how many of these it is slow.
    """
    if cases > 1:
        return (row.nodes, True) if row.nodes and 2 * slow_cases < cases else ((), False)
    loss, expected = loss_of(row), row.expected
    known = [job for job in jobs if job.status == 'measured' and job.value > 0]
    if len(known) < 2 or loss is None or not expected:
        return row.nodes, False
    slow, fast = [], []
    for job in known:
        lost = 1 - (job.value / expected) ** row.quantity.sign
        (slow if lost > loss / 2 else fast).append(set(job.nodes))
    if not slow:
        return row.nodes, False
    common = set.intersection(*slow) - set().union(*fast)
    return tuple(sorted(common)), bool(common and fast)


def _loss_keys(row: Verdict, night: _Night, software: _Software, nodes: Sequence[str], only_there: bool) -> list[Key]:
    """Return the scopes that a series lies in, narrow ones first. `only_there`: other nodes are healthy."""
    of = row.id
    place, pairs = (of.partition, of.environ), dict((*of.params, *of.dims))
    keys: list[Key] = []
    if not only_there:
        keys.append(('check', *place, of.check))
        if family := _FAMILY.match(of.check):
            keys.append(('family', *place, family[0]))
        keys += [('environ', *place), ('partition', of.partition)]
        if link_class := pairs.get('link_class'):
            keys.append(('link', of.partition, link_class))
        keys += [('software', change) for change in software.changes(of.case, row.nodes)]
    single = nodes[0] if len(nodes) == 1 else ''
    if len(nodes) <= 1:
        named = [(name, pairs[name]) for name in _DEVICES if name in pairs]
        named += [('device', part) for part in pairs.get('pair', '').split('-') if part]
        keys += [('device', of.partition, single, f'{name} {value}') for name, value in named]
    if night.several(of.partition):
        # a node is slow by itself, or by what connects it to others
        keys += [('node' if single else 'connection', node) for node in nodes]
        kind = 'place' if len(row.nodes) == 1 else 'fabric'
        keys += [(kind, one) for one in sorted(night.places_of(nodes or row.nodes))]
        if only_there:
            keys.insert(0, ('job', *nodes))
    return keys


def _loss_draft(group: Group, rows: list[Verdict], nodes: set[str], night: _Night) -> Draft:
    kind, *names = group.key
    site = night.session.site
    partitions, environs = {row.id.partition for row in rows}, {row.id.environ for row in rows}
    where = Scope(site, _only(partitions), _only(environs))
    seen = {node for row in rows for node in row.nodes} | nodes
    if kind in ('node', 'connection'):
        return _of_rows('NODE', replace(where, environ='', nodes=(str(names[0]),)), rows, {str(names[0])})
    if kind == 'job':
        by = tuple(sorted(map(str, names), key=natural))
        return _of_rows('FABRIC' if len(by) > 1 else 'NODE', replace(where, environ='', nodes=by), rows, set(by))
    if kind == 'device':
        by = (str(names[1]),) if names[1] else ()
        return _of_rows('DEVICE', replace(where, environ='', nodes=by, device=str(names[2])), rows, seen)
    if kind == 'link':
        return _of_rows('FABRIC', replace(where, environ='', link_class=str(names[1])), rows, seen)
    if kind in ('place', 'fabric'):
        by = tuple(sorted(nodes or seen, key=natural)) if kind == 'place' else ()
        scope = replace(where, environ='', nodes=by, place=str(names[0]))
        return _of_rows('NODE' if kind == 'place' else 'FABRIC', scope, rows, seen)
    if kind == 'partition':
        where = replace(where, environ='')
    return _of_rows('SOFTWARE' if kind == 'software' else 'SYSTEM', where, rows, seen)


def _of_rows(kind: str, where: Scope, rows: list[Verdict], nodes: set[str]) -> Draft:
    series = {row.id for row in rows}
    return Draft(kind, where, 'loss', rows, cases={of.case for of in series}, series=series, nodes=nodes)


# What failed, is missing or invalid


def _failures(night: _Night) -> Iterator[Draft]:
    """Yield a draft for each cause of failed jobs, and of what is missing or invalid in jobs that ended well."""
    runs: dict[tuple, list[dict[str, Any]]] = {}
    for case in night.cases:
        if not case['fixture']:
            first = runs.get(key := (case['partition'], case['environ'], case['name']))
            if case['round'] and first:
                first.append(case)
            else:  # of cases alike in the first round, each on a node of its own, each is a case
                runs[key if key not in runs else (*key, case['case_id'])] = [case]
    broken, healthy = [], []
    for of_case in runs.values():
        failed = [case for case in of_case if failure(case)]
        well = [case for case in of_case if not failure(case)]
        healthy += well
        if failed and well:
            broken += [(case, set(case['nodes']), True) for case in failed if _of_its_node(case)]
        elif failed:
            tried = [set(case['nodes']) for case in of_case if case['nodes']]
            broken.append((failed[-1], set.intersection(*tried) if tried else set(), False))
    scopes = [_failure_keys(*one, night) for one in broken]
    well_keys = [_failure_keys(case, set(case['nodes']), False, night) for case in healthy]
    rows = _by_case(night.comparison.verdicts)
    drafts = []
    for group in explain(scopes, well_keys):
        drafts.append(_failure_draft([broken[place] for place in group.places], healthy, rows, night))
    yield from _merged(drafts)
    explained = {id(row) for draft in drafts for row in draft.rows}
    yield from _without_numbers(night, explained)


def _of_its_node(case: Mapping[str, Any]) -> bool:
    """Return True if the first failure of a case that then passed is one of its node, and not of the scheduler."""
    return bool(case['nodes']) and case['result'] == 'fail' and case['job_state'] not in _OF_SCHEDULER


def _by_case(verdicts: Iterable[Verdict]) -> dict[tuple[CaseId, int | None], list[Verdict]]:
    found: dict[tuple[CaseId, int | None], list[Verdict]] = defaultdict(list)
    for row in verdicts:
        if row.verdict in _WORST_FIRST:
            found[row.id.case, row.case_id].append(row)
    return found


def _failure_keys(case: dict[str, Any], nodes: set[str], elsewhere: bool, night: _Night) -> list[Key]:
    """Return the scopes that a job lies in. `elsewhere`: the case passed when it ran again."""
    partition, environ = case['partition'], case['environ']
    cause = _cause(case)
    by_node: list[Key] = [('node', node) for node in sorted(nodes)] if night.several(partition) or elsewhere else []
    by_place: list[Key] = [('place', place) for place in sorted(night.places_of(nodes))]
    if elsewhere or case['job_state'] in _NODE_STATES:
        return [('crash', partition, _alike(cause, case['nodes'])), *by_node, *by_place]
    return [
        ('cause', partition, environ, _alike(cause, case['nodes'])), ('case', str(_case_of(case))),
        ('check', partition, environ, case['check']), ('environ', partition, environ), ('partition', partition),
        *by_node, *by_place,
    ]  # fmt: skip


def _cause(case: dict[str, Any]) -> str:
    return failure(case) or ''


def _alike(cause: str, nodes: Iterable[str]) -> str:
    """Return a cause without the names of nodes and the numbers in it, so that equal causes are equal."""
    for node in sorted(nodes, key=len, reverse=True):
        cause = re.sub(rf'\b{re.escape(node)}\b', 'NODE', cause)
    return re.sub(r'(?<!exit code )\b\d[\d.:T-]*', '#', cause)


def _failure_draft(
    group: list[tuple[dict[str, Any], set[str], bool]],
    healthy: Sequence[dict[str, Any]],
    rows: Mapping[tuple[CaseId, int | None], list[Verdict]],
    night: _Night,
) -> Draft:
    failed = [case for case, _, _ in group]
    nodes = {node for case in failed for node in case['nodes']}
    blamed = {node for _, of, _ in group for node in of}
    cases = {_case_of(case) for case in failed}
    own = [row for case in failed for row in rows.get((_case_of(case), case['case_id']), ())]
    own += [row for case in cases for row in rows.get((case, None), ())]
    partition, environ = (_only({case[name] for case in failed}) for name in ('partition', 'environ'))
    where = Scope(night.session.site, partition, environ)
    of_node = all(elsewhere or case['job_state'] in _NODE_STATES for case, _, elsewhere in group)
    if not of_node and blamed:  # some nodes fail where others do not
        checks = {case['check'] for case in failed}
        well = {node for case in healthy if case['check'] in checks for node in case['nodes']}
        of_node = len(blamed) < len(well - blamed) if len(cases) == 1 else bool(_on_other_nodes(healthy, blamed))
        of_node = of_node and (len(failed) > 1 or len(night.nodes[partition]) > 2) and blamed == nodes
        of_node = of_node and not (well & blamed)
    if of_node and nodes:
        where = replace(where, environ='', nodes=tuple(sorted(blamed or nodes, key=natural)))
    draft = Draft(
        'NODE' if of_node and nodes else 'CASE', where, 'failure', own, failed, cases,
        {row.id for row in own} or {SeriesId(*_parts(case), '*') for case in cases}, nodes,
        own[0].cause if own and failed[0]['result'] == NEEDED_FAILED else _summary_of(failed),
    )  # fmt: skip
    if all(elsewhere for *_, elsewhere in group):
        draft.evidence.append(_passed(failed, healthy))
    return draft


def _on_other_nodes(healthy: Sequence[dict[str, Any]], nodes: set[str]) -> list[dict[str, Any]]:
    return [case for case in healthy if case['nodes'] and not nodes & set(case['nodes'])]


def _passed(failed: Sequence[dict[str, Any]], healthy: Sequence[dict[str, Any]]) -> str:
    names = {(case['partition'], case['environ'], case['name']) for case in failed}
    again = [case for case in healthy if case['round'] and (case['partition'], case['environ'], case['name']) in names]
    nodes = sorted({node for case in again for node in case['nodes']}, key=natural)
    return f'passed when it ran again{f" on {_named(nodes)}" if nodes else ""}'


def _merged(drafts: list[Draft]) -> list[Draft]:
    """Return the drafts; those of the same nodes as one."""
    found: dict[tuple, Draft] = {}
    for draft in drafts:
        first = found.setdefault(draft.where.nodes or (id(draft),), draft)
        if first is not draft:
            for name in ('rows', 'failed', 'evidence'):
                getattr(first, name).extend(one for one in getattr(draft, name) if one not in getattr(first, name))
            for name in ('cases', 'series', 'nodes'):
                getattr(first, name).update(getattr(draft, name))
            first.cause = _summary_of(first.failed)
    return list(found.values())


def _without_numbers(night: _Night, explained: set[int]) -> Iterator[Draft]:
    """Yield a draft for what is missing or invalid in jobs that ended well, or that no case of the session measured."""
    groups: dict[tuple, list[Verdict]] = defaultdict(list)
    for row in night.comparison.verdicts:
        if row.verdict in _WORST_FIRST and id(row) not in explained:
            alike = row.cause if row.case_id is None else _alike(row.cause, row.nodes)
            check = row.id.check if row.case_id is not None else ''
            groups[row.verdict, row.id.partition, row.id.environ, check, alike].append(row)
    for rows in groups.values():
        series = {row.id for row in rows}
        where = Scope(night.session.site, rows[0].id.partition, rows[0].id.environ)
        nodes = {node for row in rows for node in row.nodes}
        some = nodes and len(nodes) < len(night.nodes[rows[0].id.partition]) / 2
        kind = 'CASE'
        if some and rows[0].case_id is not None and _healthy_elsewhere(rows, night):
            kind, where = 'NODE', replace(where, environ='', nodes=tuple(sorted(nodes, key=natural)))
        yield Draft(
            kind, where, 'failure', rows, [], {of.case for of in series}, series, nodes,
            f'{rows[0].verdict}: {rows[0].cause}',
        )  # fmt: skip


def _healthy_elsewhere(rows: Sequence[Verdict], night: _Night) -> bool:
    wanted = {row.id for row in rows}
    return any(row.id in wanted and row.verdict in ('ok', 'improved') for row in night.comparison.verdicts)


def _summary_of(failed: Sequence[dict[str, Any]]) -> str:
    """Return the cause of most of some failed jobs, as one of them says it."""
    alike: dict[str, list[str]] = defaultdict(list)
    for case in failed:
        alike[_alike(_cause(case), case['nodes'])].append(_cause(case))
    first = max(alike.values(), key=len)[0]
    return first if len(alike) == 1 else f'{first}; and {len(alike) - 1} other causes'


# What the comparison of nodes shows, and what went wrong outside the series


def _add_events(drafts: list[Draft], fleet: Fleet, night: _Night) -> None:
    """Add the events of the fleet to the drafts of the same scope; make drafts of the others."""
    for event in _system_of_nodes(fleet):
        of_place = event.where in night.all_places
        of_system = event.kind == 'SYSTEM' or event.where == event.series.partition
        nodes = () if of_place or of_system else tuple(event.where.split(','))
        said = f'{percent(event.change)} in {event.series.check} {event.series.name}, compared with {event.how}'
        evidence = ['; '.join([said, *(line for line in event.evidence if not _is_change(line))])]
        same = next((draft for draft in drafts if _covers(draft, event, nodes)), None)
        if same:
            same.evidence += evidence
            continue
        of = event.series
        where = Scope(night.session.site, of.partition, '' if nodes else of.environ, nodes)
        if of_place:
            where = replace(where, environ='', place=event.where)
        seen = set(nodes) or ({node for row in night.comparison.verdicts if row.id == of for node in row.nodes})
        loss = -event.change / 100
        drafts.append(
            Draft(
                event.kind, where, 'loss', cases={of.case}, series={of}, nodes=seen, loss=loss, evidence=evidence,
                levels=_levels(event, nodes, night), certain=loss >= CERTAIN,
            )
        )  # fmt: skip


def _is_change(line: str) -> bool:
    """Return True for what the fleet says of the provenance; an incident says it of its beginning."""
    return ' -> ' in line or ', elsewhere ' in line


def _covers(draft: Draft, event: Event, nodes: Sequence[str]) -> bool:
    if draft.sort != 'loss':
        return False
    if nodes:
        return bool(set(nodes) & set(draft.where.nodes))
    of = event.series
    return not draft.where.nodes and of.partition == draft.where.partition and of in draft.series


def _system_of_nodes(fleet: Fleet) -> list[Event]:
    """Return the events; where most nodes stand out alike in a check, one of the system takes their place."""
    groups: dict[tuple, list[Event]] = defaultdict(list)
    for event in fleet.events:
        of_node = event.kind == 'NODE' and ',' not in event.where
        groups[(event.series.partition, event.series.check) if of_node else (id(event),)].append(event)
    found = []
    for alike in groups.values():
        if len(alike) > 1 and len(alike) > fleet.nodes / 2:
            worst = sorted(alike, key=lambda event: event.change)[len(alike) // 2]
            found.append(replace(worst, kind='SYSTEM', where=worst.series.partition))
        else:
            found += alike
    return found


def _levels(event: Event, nodes: Sequence[str], night: _Night) -> list[Level]:
    """Return the values that nodes should have in the worst series of an event, and those relative to other nodes."""
    if len(nodes) != 1:
        return []
    values = {
        row.nodes[0]: row.value
        for row in night.measured.values()
        if row.id == event.series and len(row.nodes) == 1 and row.status == 'measured' and row.value > 0
    }
    if nodes[0] not in values or event.change <= -100:
        return []
    level = values[nodes[0]] * (1 + event.change / 100) ** -event.quantity.sign
    others = [value for node, value in values.items() if node != nodes[0]]
    return [Level(event.series, nodes[0], level, event.quantity.better, level / median(others) if others else None)]


def _add_problems(drafts: list[Draft], problems: Sequence[str], night: _Night) -> None:
    """Make drafts of what went wrong outside the series; a broken stack belongs to the cases that needed it."""
    for problem in problems:
        failures = [draft for draft in drafts if draft.sort == 'failure']
        if failures and problem.endswith(NOTHING_MEASURED):
            failures[0].evidence.append(problem)
            continue
        of_stack = [
            draft
            for draft in drafts
            if draft.sort == 'failure' and draft.where.environ and problem.startswith('fixture ')
            and f' of {draft.where.partition} with {draft.where.environ}: ' in problem
        ]  # fmt: skip
        if of_stack:
            of_stack[0].evidence.append(problem)
            continue
        where = Scope(night.session.site)
        if lost := _LOST_NODE.fullmatch(problem):
            where = replace(where, partition=lost[2], nodes=(lost[1],))
            drafts.append(Draft('NODE', where, 'session', nodes={lost[1]}, cause=problem))
        else:
            drafts.append(Draft('CASE', where, 'session', cause=problem))


def _only(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ''


def _named(nodes: Sequence[str]) -> str:
    return ', '.join(nodes)


def _parts(case: CaseId) -> tuple[str, str, str, tuple]:
    return case.partition, case.environ, case.check, case.params


def _case_of(case: Mapping[str, Any]) -> CaseId:
    return CaseId(case['partition'], case['environ'], case['check'], from_text(case['params']))
