# SPDX-License-Identifier: BSD-3-Clause
"""Propose to drain nodes that are slow again, as commands for a person to run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from plumbline.files import write_text
from postprocess.incidents.known import Known
from postprocess.results.store import Session

LATELY = 2  # sessions before the last: a node that was also bad in one of them is proposed


def to_drain(known: Sequence[Known], session: Session, before: Sequence[Session]) -> dict[str, str]:
    """Return node -> why it might be drained, for each node that the session shows to be slow, not for the first time.

    `known`: the incidents after `session`; `before`: the sessions before it. Nodes that are slow with others, such as
    with their rack or switch, have no incident of their own and are not proposed.
    """
    lately = {one.session for one in before[-LATELY:]}
    bad = {node for one in known for uuid, seen in one.seen.items() if uuid in lately for node in seen.bad}
    proposed = {}
    for one in known:
        incident, tonight = one.incident, one.seen.get(session.session)
        of_a_node = (incident.kind, incident.sort) == ('NODE', 'loss') and len(incident.where.nodes) == 1
        if tonight and of_a_node and not one.closed:
            (node,) = incident.where.nodes
            if node in tonight.bad and node in bad:
                what = f'{incident.series[0].check} {incident.series[0].name} {incident.size}'
                proposed[node] = f'{session.day} {what}, not for the first time'
    return proposed


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
