"""What the nodes of a session counted while their cases ran: heat, errors, and their clock."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import Any

from plumbline.identity import CaseId
from postprocess.verdicts.measured import case_of
from postprocess.verdicts.verdict import Verdict

_SLOW = 0.95  # of the clock that other nodes had in the same cases: less is told
# ``checks/core/job/health.sh`` records a count, and on which devices
_FAULT = re.compile(r'([0-9]+)(?: on (.+))?')
_CLOCKS = ('clock_in_run', 'clock_at_end')  # the first that is known counts


class Health:
    """The health of the nodes of a session, of its rows of the table `cases`. A job knows its first node alone."""

    def __init__(self, cases: Iterable[Mapping[str, Any]]):
        self._cases = cases

    @cached_property
    def _facts(self) -> dict[CaseId, dict[str, list[Mapping[str, str]]]]:
        found: dict[CaseId, dict[str, list[Mapping[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for case in self._cases:
            if case['nodes']:
                found[case_of(case)][case['nodes'][0]].append(json.loads(case['provenance'] or '{}'))
        return found

    def of(self, cases: Collection[CaseId], nodes: Collection[str]) -> dict[str, str]:
        """Return ``1.9 GHz against 2.6, thermal throttle +412`` of each of `nodes` that counted faults in `cases`.

        Against: the median clock of the nodes that ran the same cases and are not among `nodes`.
        """
        facts: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        for case in cases:
            for node, own in self._facts.get(case, {}).items():
                facts[node] += own
        clocks = {node: min(known) for node, own in facts.items() if (known := [*filter(None, map(_clock, own))])}
        others = [clock for node, clock in clocks.items() if node not in nodes]
        found = {}
        for node in nodes:
            said = counted(facts.get(node, []))
            if others and clocks.get(node, others[0]) < _SLOW * median(others):
                said.insert(0, f'{clocks[node] / 1000:.3g} GHz against {median(others) / 1000:.3g}')
            if said:
                found[node] = ', '.join(said)
        return found

    def in_cause(self, verdict: Verdict) -> Verdict:
        """Return the verdict; of a loss, with what its nodes counted at the beginning of its cause."""
        said = self.of([verdict.id.case], verdict.nodes) if verdict.verdict == 'regressed' else {}
        return replace(verdict, cause='; '.join([*(f'{node}: {words}' for node, words in said.items()), verdict.cause]))


def _clock(facts: Mapping[str, str]) -> int:
    """Return the clock of a job in MHz; 0 where it is not known."""
    return next((int(facts[name]) for name in _CLOCKS if facts.get(name, '').isdecimal()), 0)


def counted(facts: Sequence[Mapping[str, str]]) -> list[str]:
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
