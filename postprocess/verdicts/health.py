# SPDX-License-Identifier: BSD-3-Clause
"""Describe the health of the nodes of a session while their cases ran: heat, errors, clock."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median

from plumbline.identity import CaseId
from plumbline.node_check.jobs import QUIET
from plumbline.units import number_in
from postprocess.results.rows import CaseRow
from postprocess.text import number

#: Facts that ``parts/load.sh`` records on a node: name -> (highest value on a quiet node, meaning of a higher value).
LOADS = {
    'load_beside': (QUIET, '{} CPUs were busy beside the benchmark, expected at most 0.5'),
    'cpu_steal': (2.0, 'the hypervisor took {} % of the CPU time, expected at most 2 %'),
    'clock_throttled': (0.0, 'heat lowered the clock {} times'),
}
_SLOW = 0.95  # a clock below this part of the clock of other nodes in the same cases is reported
# the form in which ``checks/core/job/parts/health.sh`` records a count and the devices that counted
_FAULT = re.compile(r'([0-9]+)(?: on (.+))?')
_CLOCKS = (
    'clock_in_run',
    'clock_at_end',
)  # the first fact that any node recorded is used: an idle CPU may have a low clock


class Health:
    """The health of the nodes of a session, from the session's rows of the table `cases`."""

    def __init__(self, cases: Iterable[CaseRow]):
        self._cases = cases

    @cached_property
    def _facts(self) -> dict[CaseId, dict[str, list[Mapping[str, str]]]]:
        by_case: dict[CaseId, dict[str, list[Mapping[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for case in self._cases:
            for node, facts in facts_by_node(case.nodes, case.provenance, case.health).items():
                by_case[case.id][node].append(facts)
        return by_case

    def of(self, cases: Collection[CaseId], nodes: Collection[str]) -> dict[str, str]:
        """Return node -> text such as ``1.9 GHz against 2.6, thermal throttle +412`` for each node that was slowed.

        The text has the clock, the counters, and what took CPU time from the benchmark, in `cases` on `nodes`. The
        clock is compared with the median of the other nodes that ran the same cases, or with all other nodes if there
        are none. CPU time that is also lost on those nodes explains nothing.
        """
        facts: dict[str, list[Mapping[str, str]]] = defaultdict(list)
        for case in cases:
            for node, own in self._facts.get(case, {}).items():
                facts[node] += own
        clocks = next(filter(None, (_clocks(facts, name) for name in _CLOCKS)), {})
        beside = facts.keys() - set(nodes)
        sentences = {}
        for node in nodes:
            others = beside or facts.keys() - {node}
            reasons = counted(facts[node]) + _disturbed(facts[node], [facts[other] for other in others])
            known = [clocks[other] for other in others if other in clocks]
            if known and node in clocks and clocks[node] < _SLOW * median(known):
                reasons.insert(0, f'{clocks[node] / 1000:.3g} GHz against {median(known) / 1000:.3g}')
            if reasons:
                sentences[node] = ', '.join(reasons)
        return sentences


def facts_by_node(
    nodes: Sequence[str], provenance: Mapping[str, str], health: Mapping[str, Mapping[str, str]]
) -> dict[str, Mapping[str, str]]:
    """Return node -> provenance and counters of a case, from its row.

    The provenance is known of the first node only.
    """
    return {**dict.fromkeys(nodes[:1], provenance), **health}


def _clocks(facts: Mapping[str, Sequence[Mapping[str, str]]], name: str) -> dict[str, int]:
    """Return node -> lowest clock in MHz over its jobs that recorded the fact `name`."""
    known = {
        node: [int(facts_of_job[name]) for facts_of_job in own if facts_of_job.get(name, '').isdecimal()]
        for node, own in facts.items()
    }
    return {node: min(clocks) for node, clocks in known.items() if clocks}


def disturbances(loads: Mapping[str, float | None]) -> list[str]:
    """Return a sentence for each load in `loads` that is higher than on a quiet node."""
    known = ((value, LOADS[name]) for name, value in loads.items() if value is not None)
    return [why.format(number(value)) for value, (most, why) in known if value > most]


def _disturbed(facts: Sequence[Mapping[str, str]], others: Iterable[Sequence[Mapping[str, str]]]) -> list[str]:
    """Return a sentence for each load that took more CPU time on a node than on `others`."""
    beyond = {}
    for name in ('load_beside', 'cpu_steal'):
        elsewhere = [value for other in others if (value := _worst(other, name)) is not None]
        value, most = _worst(facts, name), LOADS[name][0]
        if value is not None and value > most + median(elsewhere or [0.0]):
            beyond[name] = value
    return disturbances(beyond)


def busy_beside(case: CaseRow) -> list[str]:
    """Return a sentence for each load that took CPU time from a case, on any of its nodes."""
    return _disturbed([*facts_by_node(case.nodes, case.provenance, case.health).values()], ())


def _worst(facts: Sequence[Mapping[str, str]], name: str) -> float | None:
    """Return the highest value of the load `name` that the jobs of a node recorded; None if no job recorded it."""
    return max((number_in(facts_of_job[name]) or 0.0 for facts_of_job in facts if name in facts_of_job), default=None)


def counted(facts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what a node counted in its jobs, such as ``thermal throttle +412``, the largest count first."""
    totals: dict[str, int] = defaultdict(int)
    devices: dict[str, dict[str, None]] = defaultdict(dict)
    for name, value in ((name, value) for facts_of_job in facts for name, value in facts_of_job.items()):
        name_of_count = (
            'thermal throttle' if name == 'clock_throttled' else name.removeprefix('health_').replace('_', ' ')
        )
        if (name == 'clock_throttled' or name.startswith('health_')) and (match := _FAULT.fullmatch(value)):
            totals[name_of_count] += int(match[1])
            devices[name_of_count] |= dict.fromkeys((match[2] or '').split(', '))
    return [
        f'{name_of_count} +{total}'
        + (f' on {where}' if (where := ', '.join(filter(None, devices[name_of_count]))) else '')
        for name_of_count, total in sorted(totals.items(), key=lambda item: -item[1])
        if total
    ]
