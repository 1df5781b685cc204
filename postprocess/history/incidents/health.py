"""What the nodes of an incident counted while its cases ran: heat, errors, and their clock."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from plumbline.identity import natural
from postprocess.history.incidents.draft import Draft, case_of
from postprocess.text import count

_SHOWN = 3  # nodes
_SLOW = 0.95  # of the clock that other nodes had after the same cases: less is shown
# ``checks/core/job/health.sh`` records a count, and on which devices
_FAULT = re.compile(r'([0-9]+)(?: on (.+))?')


def faults(draft: Draft, cases: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each node of an incident that counted faults while the cases of the incident ran.

    `cases`: all of the session. A job knows the counters of its first node alone.
    """
    nodes = set(draft.where.nodes) or draft.nodes
    facts: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for case in cases:
        if case['nodes'] and case_of(case) in draft.cases:
            facts[case['nodes'][0]].append(json.loads(case['provenance'] or '{}'))
    clocks = {node: min(known) for node, of in facts.items() if (known := _clocks(of))}
    found = []
    for node in sorted(nodes & set(facts), key=natural):
        said = _counted(facts[node])
        others = [clock for other, clock in clocks.items() if other not in nodes]
        if others and node in clocks and clocks[node] < _SLOW * median(others):
            said.insert(0, f'clock {clocks[node]} MHz, on other nodes {median(others):.0f}')
        found += [f'{node}, while it ran: {", ".join(said)}'] * bool(said)
    more = len(found) - _SHOWN
    return found[:_SHOWN] + [f'{count(more, "other node")} counted faults, too'] * (more > 0)


def _clocks(facts: Iterable[Mapping[str, str]]) -> list[int]:
    return [int(of['clock_at_end']) for of in facts if of.get('clock_at_end', '').isdecimal()]


def _counted(facts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what a node counted in its jobs, such as ``thermal throttle +412``, most often first."""
    totals: dict[str, int] = defaultdict(int)
    devices: dict[str, dict[str, None]] = defaultdict(dict)
    for name, value in ((name, value) for of in facts for name, value in of.items()):
        what = 'thermal throttle' if name == 'clock_throttled' else name.removeprefix('health_').replace('_', ' ')
        if (name == 'clock_throttled' or name.startswith('health_')) and (match := _FAULT.fullmatch(value)):
            totals[what] += int(match[1])
            devices[what] |= dict.fromkeys((match[2] or '').split(', '))
    return [
        f'{what} +{total}' + (f' on {where}' if (where := ', '.join(filter(None, devices[what]))) else '')
        for what, total in sorted(totals.items(), key=lambda one: -one[1])
        if total
    ]
