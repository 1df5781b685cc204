# SPDX-License-Identifier: BSD-3-Clause
"""Find the nodes that booted between two sessions: what is slow only then comes with maintenance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from postprocess.incidents.fold import Booted
from postprocess.incidents.incident import in_names
from postprocess.results.rows import CaseRow, Session


def booted(cases: Sequence[CaseRow], session: Session, before: Sequence[Session]) -> Booted:
    """Return what booted since the last session `before` of the same mode, by the cases of a session.

    A case says it of its first node, one from before it was recorded of none.
    """
    last = next((one.epoch for one in reversed(before) if one.mode == session.mode), None)
    since: dict[str, dict[str, bool]] = defaultdict(dict)  # partition, or all -> node -> whether it booted
    for case in cases:
        time = case.provenance.get('boot_time', '')
        if last is not None and case.nodes and time.isdecimal():
            for name in ('', case.partition):
                since[name][case.nodes[0]] = int(time) > last
    nodes = in_names(node for node, did in since[''].items() if did)
    return Booted(nodes, in_names(name for name, of in since.items() if 2 * sum(of.values()) > len(of)))
