# SPDX-License-Identifier: BSD-3-Clause
"""The background of an incident: when it began, what changed then, the evidence, and the commands to run next."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from plumbline.identity import CaseId, name_pattern, natural, to_text
from plumbline.references import Reference
from plumbline.site.schedulers import scheduler
from postprocess.incidents.draft import Draft, JudgedSession
from postprocess.incidents.incident import Incident
from postprocess.incidents.levels import began, beside, levels, shows
from postprocess.incidents.provenance import ALL, Difference, Provenance, around, matches
from postprocess.readers.cmdline import without_names
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session
from postprocess.results.tables import REACHED_ITS_END
from postprocess.text import count, named, number, quantity
from postprocess.verdicts.health import Health
from postprocess.verdicts.measured import failure_of
from postprocess.verdicts.verdict import Verdict

#: Sessions in which the beginning of an incident is looked for.
BACK = 400
_SERIES = 20  # most cases, and most nodes, of an incident whose provenance is read
_SHOWN = 3  # most series, cases and archives in the evidence
WELL = ('ok', 'improved')
# For each incident, by its `number`: the first session that shows it after the last healthy one; the last session is
# left out. `wanted`: the cases and nodes of the incidents.
_FIRST_FAILURE = f"""
    WITH seen AS (
        SELECT number, cases.night AS night, bool_or(NOT ({REACHED_ITS_END})) AS is_bad
        FROM wanted JOIN cases USING ("partition", environ, "check", params)
        WHERE cases.night < (SELECT max(night) FROM nights) AND (node = '' OR list_contains(cases.nodes, node))
        GROUP BY ALL
    ), healthy AS (
        SELECT number, coalesce(max(night) FILTER (NOT is_bad), -1) AS last FROM seen GROUP BY number
    )
    SELECT number, min(night) AS night FROM seen JOIN healthy USING (number) WHERE night > last GROUP BY number
"""


class Background:
    """What a session and the sessions before it show about its incidents."""

    def __init__(self, night: JudgedSession):
        self.store, self.comparison, self.cases = night.store, night.comparison, night.cases
        self.sessions, self.health = [*night.before, night.session][-BACK:], Health(night.cases)
        self.by_id = {case.case_id: case for case in night.cases}
        self.slurm = {case.partition for case in night.cases if scheduler(case.scheduler).is_slurm}

    def add(self, drafts: Sequence[Draft], begun: Callable[[Incident], str]) -> list[Incident]:
        """Return the finished drafts with beginning, changes, evidence and next steps.

        `begun`: returns the session in which an incident began if a person said so, else an empty text.
        """
        incidents = [draft.finish() for draft in drafts]
        places = {session.session: place for place, session in enumerate(self.sessions)}
        by_itself = self._begins(drafts, incidents)
        begins = [places.get(begun(incident), place) for incident, place in zip(incidents, by_itself, strict=True)]
        changes = self._changes(drafts, begins)
        done = []
        for draft, incident, begin, (changed, follows) in zip(drafts, incidents, begins, changes, strict=True):
            since = self.sessions[begin]
            kind = 'SOFTWARE' if follows and incident.kind in ('SYSTEM', 'NODE', 'FABRIC', 'CASE') else incident.kind
            incident = replace(
                incident, kind=kind, since=since.session, day=since.day,
                sessions=len(self.sessions) - begin, changed=tuple(map(str, changed)),
                evidence=(*self._evidence(draft, incident), *incident.evidence), archives=self._archives(draft),
            )  # fmt: skip
            of_stack = any(matches(difference.fact, ('stack*',)) for difference in changed)
            done.append(replace(incident, next_steps=tuple(self._next_steps(draft, incident, begin, of_stack))))
        return done

    # Since when

    def _begins(self, drafts: Sequence[Draft], found: Sequence[Incident]) -> list[int]:
        """Return for each incident the index of the session since which no session was healthy."""
        last = len(self.sessions) - 1
        known = levels(self.store, self.sessions, {str(i): [incident] for i, incident in enumerate(found)})
        others = beside(self.store, self.sessions, {str(i): incident for i, incident in enumerate(found)})
        # a loss of all nodes on another day is not part of the incident of a node
        known |= {i: level for i, level in others.items() if shows(level, found[int(i)].loss or 0.0, last)}
        losses = {int(i): began(level, found[int(i)].loss or 0.0, last) for i, level in known.items()}
        begins = self._failed_first(drafts) | losses
        return [begins.get(i, last) for i in range(len(found))]

    def _failed_first(self, drafts: Sequence[Draft]) -> dict[int, int]:
        """Return index of a draft -> index of the first session that shows its failure."""
        wanted = [
            (i, case, node)
            for i, draft in enumerate(drafts)
            if draft.failed
            for case in sorted(draft.cases)[:_SERIES]
            for node in draft.where.nodes[:_SERIES] or ('',)
        ]
        if len(self.sessions) < 2 or not wanted:
            return {}
        numbers, cases, nodes = map(list, zip(*wanted, strict=True))
        columns = {'number': numbers, 'id': cases, 'node': nodes}
        rows = self.store.select(_FIRST_FAILURE, self.sessions, wanted=columns)
        return {row['number']: row['night'] for row in rows}

    # What changed

    def _changes(self, drafts: Sequence[Draft], begins: Sequence[int]) -> list[tuple[tuple[Difference, ...], bool]]:
        """Return what changed when each incident began, and True if a change of software explains it."""
        asked = []
        for draft, begin in zip(drafts, begins, strict=True):
            own = {row.id for row in draft.rows}
            bad = self._ran(draft.rows, draft.failed) or [(case, ALL) for case in sorted(draft.cases)[:_SERIES]]
            well = self._ran([row for row in self.comparison.verdicts if row.id in own and row.verdict in WELL], [])
            asked.append((draft, bad, well, *around(begin - 1, begin, len(self.sessions))))
        wanted = [(case, n) for _, bad, well, *sides in asked for case, _ in bad + well for side in sides for n in side]
        provenance = Provenance.read(self.store, self.sessions, wanted)
        return [self._changed(provenance, *arguments) for arguments in asked]

    def _ran(self, rows: Sequence[Verdict], failed: Sequence[CaseRow]) -> list[tuple[CaseId, str]]:
        """Return the cases of rows and failed jobs, each with the nodes on which it ran, joined by commas."""
        cases = {(row.id.case, ','.join(sorted(row.nodes))): None for row in rows if row.nodes}
        cases |= {(case.id, ','.join(sorted(case.nodes))): None for case in failed if case.nodes}
        return list(cases)[:_SERIES]

    def _changed(
        self, provenance: Provenance, draft: Draft, bad: Sequence[tuple[CaseId, str]],
        well: Sequence[tuple[CaseId, str]], before: range, after: range,
    ) -> tuple[tuple[Difference, ...], bool]:  # fmt: skip
        """Return what changed for most of the `bad` cases, and True if software changed for all of them and no others.

        `bad`, `well`: cases with a loss and without, each with its nodes. `before`, `after`: indices of the sessions
        compared.
        """

        def changes(case: CaseId, node: str) -> list[Difference]:
            """Return what changed for a case.

            For a node only what did not change for all nodes, else how it differs from others.
            """
            own, of_all = (provenance.change(case, before, after, name) for name in (node, ALL))
            if draft.where.nodes:
                differences = [difference for difference in own if difference not in of_all]
                return differences or provenance.unlike(case, len(self.sessions) - 1, node)
            return own or of_all  # for a case that ran on other nodes before

        counts = Counter(difference for case, node in bad for difference in changes(case, node) if difference.now)
        elsewhere = {difference for case, node in well for difference in changes(case, node)}
        changed = tuple(difference for difference, n in counts.items() if 2 * n >= len(bad))
        follows = any(
            difference.of_software and counts[difference] == len(bad) and difference not in elsewhere
            for difference in changed
        )
        return changed, follows and draft.sort == 'loss'

    # Evidence

    def _evidence(self, draft: Draft, incident: Incident) -> list[str]:
        """Return the lines of evidence: health, values or failed jobs, the same series elsewhere, what is healthy."""
        rows = sorted(draft.rows, key=lambda row: -row.worse_by)
        if incident.loss is not None and len({row.nodes for row in rows}) > 1 and not draft.where.nodes:
            usual = incident.loss  # the usual loss first: the worst of many nodes may have a further cause
            rows.sort(key=lambda row: abs((row.loss or 0.0) - usual))
        rows.sort(key=lambda row: row.id not in incident.series[:1])  # first the series that the title names
        lines = self._health(draft, incident)
        if draft.sort == 'loss':
            lines += [self._values(row) for row in rows[:_SHOWN]]
        elif draft.failed:
            lines += [str(draft.cause)] if draft.brief else []  # the name of the incident has only the first part
            ran = [case for case in draft.failed if case.job_id and case.nodes]
            lines += [self._job(case, draft) for case in ran[:_SHOWN]]
            more = len(ran) - _SHOWN
            lines += [f'and {count(more, "other job")} that failed'] if more > 0 else []
        if rows and draft.sort == 'loss' and (siblings := self._siblings(rows[0], draft.nodes)):
            lines.append(siblings)
        if (draft.rows or draft.failed) and (healthy := self._healthy(draft)):
            lines.append(healthy)
        return lines

    def _health(self, draft: Draft, incident: Incident) -> list[str]:
        """Return for each slowed node a line: ``HPL -9.0 % on n17: 1.9 GHz against 2.6, thermal throttle +412``."""
        nodes = sorted(set(draft.where.nodes) or draft.nodes, key=natural)
        what = f'{incident.series[0].check} {incident.size}'.strip() if incident.series else ''
        health = self.health.of(draft.cases, nodes)
        lines = [f'{what} on {node}: {words}'.lstrip() for node, words in health.items()]
        more = len(lines) - _SHOWN
        return lines[:_SHOWN] + [f'{count(more, "other node")} counted faults or were busy'] * (more > 0)

    def _archives(self, draft: Draft) -> tuple[str, ...]:
        """Return the archives with the output of the worst cases."""
        worst = [row.case_id for row in sorted(draft.rows, key=lambda row: -row.worse_by)]
        cases = [*draft.failed, *(self.by_id[id] for id in worst if id in self.by_id)]
        return tuple(dict.fromkeys([case.evidence for case in cases if case.evidence][:_SHOWN]))

    def _values(self, row: Verdict) -> str:
        """Return what each job measured of a series, and what was expected."""
        unit, jobs = row.quantity.unit, [job for job in row.jobs if job.status == 'measured']
        again: dict[str, list[str]] = defaultdict(list)
        for job in jobs[1:]:
            again[_on(job.nodes)].append(number(job.value))
        text = f'{quantity(jobs[0].value, None, unit)}{_on(jobs[0].nodes)}' if jobs else quantity(row.value, None, unit)
        if again:
            text += ', run again: ' + '; '.join(f'{", ".join(values)} {unit}{nodes}' for nodes, values in again.items())
        expected = quantity(row.expected, row.reference.std if row.reference else None, unit)
        return f'{_of_case(row.id.case)} {row.id.name}: {text}; expected {expected}{_source(row.reference)}'

    def _job(self, case: CaseRow, draft: Draft) -> str:
        """Return which job failed, and why unless that is the cause of the draft."""
        where = f' on {named(case.nodes)}'
        state = f', state {case.job_state}' if case.job_state else ''
        why = failure_of(case)
        text = f'{case.check} {to_text(case.params)}: job {case.job_id}{where}{state}'
        return text if why and draft.cause and why.what == draft.cause.what else f'{text}: {why or case.result}'

    def _siblings(self, row: Verdict, nodes: set[str]) -> str:
        """Return the range of the values of the same series on nodes without a loss."""
        others = [
            other
            for other in self.comparison.verdicts
            if other.id == row.id and other.value is not None and other.verdict in WELL and not nodes & set(other.nodes)
        ]
        if not others:
            return ''
        values = [other.value for other in others if other.value is not None]
        elsewhere = {node for other in others for node in other.nodes}
        spread = f'{number(min(values))} to {quantity(max(values), None, row.quantity.unit)}'
        return f'{row.id.name} on {count(len(elsewhere), "other node")}: {spread}'

    def _healthy(self, draft: Draft) -> str:
        """Return which other metrics in the scope of a draft are healthy."""
        where = draft.where
        bad = {series.check for series in draft.series} | {case.check for case in draft.cases}
        there = [
            row
            for row in self.comparison.verdicts
            if row.id.check not in bad
            and where.partition in ('', row.id.partition) and where.environ in ('', row.id.environ)
            and (not where.nodes or set(where.nodes) & set(row.nodes))
        ]  # fmt: skip
        well = {row.id for row in there if row.verdict in WELL} - {row.id for row in there if row.verdict not in WELL}
        checks = sorted({series.check for series in well})
        shown = ', '.join(checks[:5]) + (f' and {count(len(checks) - 5, "other check")}' if len(checks) > 5 else '')
        return f'healthy there: {count(len(well), "other metric")} of {shown}' if well else ''

    # Next steps

    def _next_steps(self, draft: Draft, incident: Incident, begin: int, of_stack: bool) -> Iterable[str]:
        """Yield the commands to run next: inspect nodes, measure again, retire, compare, and what follows a change."""
        where = incident.where
        nodes = where.nodes or (incident.nodes if len(incident.nodes) == 1 else ())
        few = nodes[:4]
        if where.partition in self.slurm:
            yield from (f'scontrol show node {shlex.quote(node)}' for node in few)
        names = self._names(draft)
        on = few if where.partition in self.slurm else ()
        if names and incident.sort != 'session':
            yield from filter(None, [again(self.sessions[-1], where.partition, names, on)])
        if (
            self.comparison.retire
            and not draft.failed
            and any(row.verdict == 'missing' and row.case_id is None for row in draft.rows)
        ):
            yield f'plumbline {self.comparison.retire}'
        if incident.sort == 'loss' and begin and not where.nodes:
            before, now = self.sessions[begin - 1], self.sessions[-1]
            yield f'plumbline compare {before.short_name} {now.short_name}'
        if incident.kind == 'SOFTWARE' and where.environ and of_stack:
            yield f'git log -p -- {shlex.quote(f"spack_envs/{where.site}/{where.environ}")}'
        if incident.is_of_a_change:
            yield f'plumbline record propose --epoch {shlex.quote(incident.changed[0])}'

    def _names(self, draft: Draft) -> list[str]:
        """Return the names of the cases of a draft for ReFrame; only those of the checks if the cases are many."""
        names: dict[CaseId, str] = {}
        for case in self.cases:
            names[case.id] = own = name_of(case)
            names[replace(case.id, params=())] = own.partition('%')[0]
        known = [names.get(case, case.check) for case in sorted(draft.cases)]
        if len(known) > _SHOWN:
            known = sorted({name.partition('%')[0] for name in known})
        return list(dict.fromkeys(known))


def name_of(case: CaseRow) -> str:
    """Return the name of a case for ReFrame's option ``--name``, without the params of its fixtures."""
    check, *params = case.name.split(' %')
    return '%'.join([check, *(param for param in params if '.' not in param.partition('=')[0])])


def again(session: Session, partition: str, names: Sequence[str], nodes: Sequence[str] = ()) -> str:
    """Return the command that runs the cases with these names, or beginnings of names, again; '' if it is not known.

    Cases of another suite run again by the command that ran them. `nodes`: the nodes to ask Slurm for.
    """
    chosen = shlex.quote('|'.join(map(name_pattern, names)))
    if session.is_of_another_suite:
        words = without_names(session.cmdline)
        return f'{shlex.join(words)} -n {chosen}' if words else ''
    mode = f' --mode {session.mode}' if session.mode else ''
    where = f'{session.site}:{partition}' if partition else session.site
    at = ' -J ' + shlex.quote('nodelist=' + ','.join(nodes)) if nodes else ''
    return f'ci/nightly --no-provision{mode} -- --system={where} -n {chosen}{at}'


def _source(reference: Reference | None) -> str:
    """Return where a number comes from: the kind of its row, or the sessions or nodes that stand in for one."""
    return f' ({reference.source if reference.kind == "session" else reference.kind})' if reference else ''


def _on(nodes: Sequence[str]) -> str:
    """Return `` on n1``, or an empty text without nodes."""
    return f' on {named(nodes)}' if nodes else ''


def _of_case(case: CaseId) -> str:
    """Return the check and params of a case as text."""
    return f'{case.check} {to_text(case.params)}'
