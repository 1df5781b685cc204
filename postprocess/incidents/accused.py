# SPDX-License-Identifier: BSD-3-Clause
"""What a job itself names as bad, as the node ladder does: nodes, their rails, pairs, and what lies between nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from plumbline.causes import Cause
from plumbline.grouping import Named
from plumbline.identity import to_text
from postprocess.incidents.draft import Draft, JudgedSession
from postprocess.incidents.incident import Incident, IncidentKind, Scope
from postprocess.results.rows import CaseRow
from postprocess.text import named
from postprocess.verdicts.measured import failure
from postprocess.verdicts.verdict import Verdict

_OF_NODES = ('settings', 'loopback', 'node', 'group')  # kinds whose cause is the nodes themselves


def names_in(case: CaseRow) -> list[Named]:
    """Return what a case names as bad, from the JSON of `named` in its provenance; most cases name nothing."""
    named = json.loads(case.provenance.get('named', '[]'))
    return [Named(kind, where, tuple(nodes), *more) for kind, where, nodes, *more in named]


def scope_of(site: str, partition: str, named: Named) -> Scope:
    """Return the scope of what a job named: nodes, a rail of a node, or a place such as a pair or an uplink."""
    where = Scope(site, partition, nodes=named.nodes)
    if named.kind == 'rail':
        return Scope(
            site, partition, nodes=named.nodes, device=named.where if named.rail is None else f'rail {named.rail}'
        )
    return where if named.kind in _OF_NODES else Scope(site, partition, place=named.where)


def drafts_of(case: CaseRow, rows: Sequence[Verdict], passed: Sequence[str], night: JudgedSession) -> Iterator[Draft]:
    """Yield a draft for each thing that a case names as bad.

    `rows`: the verdicts of the case. `passed`: nodes on which it passed when it ran again.
    """
    id = case.id
    job = f'{id.check} {to_text(id.params)}: job {case.job_id} on {named(case.nodes)}: {failure(case)}'
    again = [f'passed when it ran again on {named(passed)}'] if passed else []
    for accusation in names_in(case):
        where = scope_of(night.session.site, id.partition, accusation)
        kind: IncidentKind = 'NODE' if accusation.kind in _OF_NODES else 'DEVICE' if where.device else 'FABRIC'
        series = {row.id for row in rows} or {id.series('*')}
        yield Draft(
            kind, where, 'failure', list(rows), cases={id}, series=series, nodes=set(accusation.nodes),
            cause=Cause('named', accusation.text), evidence=[job, *again], named=True,
        )  # fmt: skip


def accuses(case: CaseRow, incident: Incident, node: str) -> bool | None:
    """Return True if a case names the scope of an incident, at `node`; False if it names others.

    None if it names nothing.
    """
    wanted = incident.where.device, incident.where.place
    scopes = [scope_of(incident.where.site, case.partition, named) for named in names_in(case)]
    if not scopes:
        return None
    return any((scope.device, scope.place) == wanted and (not scope.nodes or node in scope.nodes) for scope in scopes)
