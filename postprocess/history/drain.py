# SPDX-License-Identifier: BSD-3-Clause
"""Propose to drain nodes that are slow again, as commands for a person to run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from plumbline.files import write_text
from postprocess.incidents import FAILING
from postprocess.incidents.known import Known
from postprocess.results.store import Session

LATELY = 2  # sessions before the last: a node that was also bad in one of them is proposed
_MOST = 2  # most nodes with one cause that are proposed: with more, the cause is not in the nodes


def to_drain(known: Sequence[Known], session: Session, before: Sequence[Session]) -> dict[str, str]:
    """Return node -> why it might be drained, for each node that the session shows to be slow, not for the first time.

    `known`: the incidents after `session`; `before`: the sessions before it. Nodes are left out whose whole rack or
    switch is slow with them, unless they have an incident of their own.
    """
    lately = {one.session for one in before[-LATELY:]}
    proposed, of_place = {}, set()
    for one in known:
        incident, tonight = one.incident, one.seen.get(session.session)
        if not tonight or incident.kind not in ('NODE', 'SOFTWARE') or incident.sort != 'loss':
            continue
        nodes = incident.where.nodes
        if one.state(session.day) in FAILING and (incident.where.place or len(nodes) > _MOST):
            of_place |= set(incident.own_nodes)
        elif incident.kind == 'NODE' and len(nodes) == 1 and nodes[0] in tonight.bad:
            what = f'{incident.series[0].check} {incident.series[0].name} {incident.size}'
            proposed[nodes[0]] = f'{session.day} {what}, not for the first time'
    bad = {node for one in known for uuid, seen in one.seen.items() if uuid in lately for node in seen.bad}
    return {node: why for node, why in proposed.items() if node in bad and node not in of_place}


def write_drain(session: Session, drained: Mapping[str, str], results: Path) -> Path | None:
    """Write the proposal to drain nodes, as commands for a person to run.

    Return its path, or None without a proposal.
    """
    if not drained:
        return None
    path = results / 'proposals' / f'drain-{session.site}-{session.day}.txt'
    write_text(path, ''.join(f'{drain(node, reason)}\n' for node, reason in sorted(drained.items())))
    return path


def drain(node: str, reason: str) -> str:
    """Return Slurm's command that drains a node."""
    return f'scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={shlex.quote(f"plumbline {reason}")}'
