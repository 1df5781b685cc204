# SPDX-License-Identifier: BSD-3-Clause
"""What a planned night of a tenth of the node-hours finds, beside random cases, the mode quick and the whole night.

    python studies/plan_worth.py [SITES] [--seed N]     100 sites, as docs/plan.md quotes it

A site has 64 nodes and the cases of `CASES`, whose series vary by their usual spread times a log-normal factor. A
baseline of ten sessions is drawn for each; the plan knows only that, never the truth. On each site every class of
faults of postprocess/history/faults.yaml is planted once: on one node, on one GPU of a node or on all, with the losses
of the matrix times a log-normal factor (sigma 0.35), which the plan does not know either. A case runs on random nodes
each night. A look finds a fault when its first job is in doubt and the mean of nine jobs (correlation 0.3) on its nodes
lies beyond the limit of one healthy value of 100 000; this is computed here, not by the suite. All ways see the same
nights. Further jobs are not counted as time.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from plumbline.identity import CaseId, Quantity, from_text  # noqa: E402
from plumbline.limits import Tolerance, limits  # noqa: E402
from plumbline.references import Reference  # noqa: E402
from postprocess.history.faults import faults  # noqa: E402
from postprocess.history.plan import Look, Place, chances, choose  # noqa: E402

SEED, NODES, SESSIONS, NIGHTS, SHARE = 20261124, 64, 10, 7, 0.1
JOBS, LIKENESS, DOUBT = 9, 0.3, 1.88  # jobs in the mean of a night and their correlation; the normal deviate of 3 %
LIMIT = 5.83  # Student's t of one of 100 000 with 17 degrees of freedom: nine of the baseline, eight of the jobs


class Case(NamedTuple):
    """A case: its series with their usual spreads, seconds, nodes, and whether the mode quick has it."""

    check: str
    params: str
    series: dict[str, float]
    seconds: float
    nodes: int = 1
    quick: bool = False


#: Seconds: what the checks may use, from docs/checks.md. Spreads: as the checks state them, else 2 %.
CASES = [
    Case('NodeSettings', '-', {'as_expected': 0.01}, 2, 1, True),
    Case('HPCC', 'size=quick', {'StarSTREAM_Triad': 0.03, 'StarDGEMM_Gflops': 0.02, 'HPL_Tflops': 0.02}, 275, 1, True),
    Case('HPCC', 'size=full', {'StarSTREAM_Triad': 0.02, 'HPL_Tflops': 0.01, 'PTRANS_GBs': 0.05}, 7200, 4),
    Case('HPL', 'size=quick', {'gflops': 0.01}, 75, 1, True),
    Case('HPL', 'size=full', {'gflops': 0.01}, 7200, 4),
    Case('HPCG', 'size=quick', {'gflops': 0.02}, 125, 1, True),
    Case('HPCG', 'size=full', {'gflops': 0.01, 'total_bandwidth': 0.01}, 1800, 4),
    Case('BabelStreamHost', 'binding=cores-spread', {'bandwidth': 0.015}, 90, 1, True),
    *(Case('BabelStreamHost', f'binding=b{i}', {'bandwidth': 0.02}, 450) for i in range(8)),
    *(Case('LikwidPeakFlops', f'layout={of}', {'flops': 0.01}, 500) for of in ('node', 'core')),
    *(
        Case('LikwidBandwidth', f'layout={of},level={level}', {'bandwidth': 0.015}, 500)
        for of in ('node', 'core') for level in ('L1', 'L2', 'L3', 'memory')
    ),
    Case('NumaBandwidth', '-', {'bandwidth': 0.02}, 480),
    Case('NumaLatency', '-', {'latency': 0.02}, 480),
    Case('CacheLatency', '-', {'latency': 0.01}, 30),
    Case('OsuLatency', 'pair=same_numa', {'latency': 0.05}, 50, 1, True),
    Case('OsuLatency', 'pair=same_socket', {'latency': 0.05}, 50),
    Case('OsuLatency', 'pair=two_nodes', {'latency': 0.05}, 50, 2),
    Case('OsuBandwidth', 'pair=same_numa', {'bandwidth': 0.05}, 120, 1, True),
    Case('OsuBandwidth', 'pair=two_nodes', {'bandwidth': 0.03, 'bidirectional_bandwidth': 0.03}, 120, 2),
    Case('OsuOneSided', 'pair=two_nodes', {'put_latency': 0.05, 'put_bandwidth': 0.03}, 300, 2),
    Case('OsuMultiPair', 'pair=two_nodes', {'multi_bandwidth': 0.03, 'multi_latency': 0.05}, 600, 2),
    *(Case('OsuCollectives', f'nodes={n}', {'allreduce': 0.1, 'alltoall': 0.08}, 600, n) for n in (2, 4, 8, 16)),
    Case('NodeLadder', 'nodes=16', {'pair_bandwidth': 0.05, 'group_bandwidth': 0.05}, 840, 16),
    Case('IOR', 'size=easy', {'bandwidth': 0.1}, 600, 2),
    Case('IOR', 'size=random', {'operations': 0.1}, 600, 1),
    Case('Mdtest', '-', {'operations': 0.1}, 300, 2),
    *(Case('BabelStreamDevice', f'device={i}', {'best': 0.005}, 30, 1, True) for i in range(4)),
    Case('BabelStreamAllDevices', '-', {'slowest': 0.005}, 60),
    *(Case('Gemm', f'device={i}', {'all': 0.01}, 60) for i in range(4)),
    *(Case('CommScopeHostDevice', f'device={i}', {'bandwidth': 0.02}, 60, 1, True) for i in range(4)),
    Case('DeviceCopies', '-', {'slowest': 0.02}, 300),
    Case('XcclTests', 'nodes=1', {'bus_bandwidth': 0.02}, 240),
    Case('XcclTests', 'nodes=4', {'bus_bandwidth': 0.04}, 240, 4),
]  # fmt: skip
COST = numpy.array([case.seconds * case.nodes for case in CASES])


class Site:
    """A site whose truth the plan does not know: `sd` of each series, and the baselines drawn from it."""

    def __init__(self, random: numpy.random.Generator):
        self.random, self.looks = random, []
        self.known: list[
            list[tuple[str, float, float, float]]
        ] = []  # of each case: series, sd, estimates of mean and sd
        for case in CASES:
            id = CaseId('node', 'system', case.check, from_text(case.params))
            found, known = {}, []
            for name, usual in case.series.items():
                sd = usual * math.exp(random.normal(0, 0.5))
                values = random.normal(0, sd, SESSIONS)
                spread = float(values.std(ddof=1))
                row = Reference(
                    id.series(name), Quantity('x', 'higher'), 1.0, spread, SESSIONS, 'baseline', 'x', spread=spread,
                    df=SESSIONS - 1.0, spread_n=SESSIONS,
                )  # fmt: skip
                bound = limits(row, Tolerance(usual_spread=usual))
                known.append((name, sd, float(values.mean()), spread))
                for fault, one in chances(row.id, [bound], case.nodes, NODES).items():
                    found[fault] = max(one, found.get(fault, one), key=lambda each: each.chance)
            place = Place('node', 'system', f'{case.check} {case.params}')
            self.looks.append(Look(place, case.seconds, case.nodes, 1.0, id, found))
            self.known.append(known)

    def finds(self, fault) -> numpy.ndarray:
        """Return which cases find a planted fault on each night of a week: array of bool, nights x cases."""
        random = self.random
        factor, bad, device = math.exp(random.normal(0, 0.35)), random.integers(NODES), random.integers(4)
        seen = numpy.zeros((NIGHTS, len(CASES)), bool)
        for number, case in enumerate(CASES):
            params = dict(from_text(case.params))
            for night in range(NIGHTS):
                there = fault.where == 'site' or bad in random.choice(NODES, case.nodes, replace=False)
                if fault.where == 'device' and params.get('device', str(device)) != str(device):
                    there = False
                for name, sd, mean, spread in self.known[number]:
                    noise = random.normal(0, sd * math.sqrt(LIKENESS)) + random.normal(
                        0, sd * math.sqrt(1 - LIKENESS), JOBS
                    )
                    loss = min(factor * fault.of(self.looks[number].case.series(name), case.nodes > 1), 0.9)
                    values = noise + math.log1p(-loss) * there
                    of_mean = spread * math.sqrt(LIKENESS + (1 - LIKENESS) / JOBS + 1 / SESSIONS)
                    in_doubt = mean - values[0] > DOUBT * spread
                    bar = max(LIMIT * of_mean, 0.75 * 0.02)
                    seen[night, number] |= bool(loss and there and in_doubt and mean - values.mean() > bar)
                seen[night, number] |= there and case.check in fault.shown_by
        return seen


def planned(site: Site) -> list[list[int]]:
    """Return the numbers of the cases of each night of a week, planned night by night."""
    nodes = max(case.nodes for case in CASES)
    minutes = SHARE * float(COST.sum()) / nodes / 60
    place = {look.place: number for number, look in enumerate(site.looks)}
    looks, nights = site.looks, []
    for _ in range(NIGHTS):
        chosen = [place[look.place] for look in choose(looks, 'site', minutes, nodes).chosen]
        nights.append(chosen)
        looks = [replace(look, age=1.0 if n in chosen else look.age + 1) for n, look in enumerate(looks)]
    return nights


def at_random(random: numpy.random.Generator) -> list[list[int]]:
    """Return the numbers of random cases for each night that fit into the same node-hours as a plan."""
    nights = []
    for _ in range(NIGHTS):
        budget, chosen = SHARE * float(COST.sum()), []
        for number in random.permutation(len(CASES)).tolist():
            if COST[number] <= budget:
                chosen.append(number)
                budget -= COST[number]
        nights.append(chosen)
    return nights


def main() -> int:
    parser = argparse.ArgumentParser(prog='plan_worth', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('sites', nargs='?', type=int, default=100)
    parser.add_argument('--seed', type=int, default=SEED)
    options = parser.parse_args()
    quick = [[number for number, case in enumerate(CASES) if case.quick]] * NIGHTS
    whole = [list(range(len(CASES)))] * NIGHTS
    ways = ('plan', 'random', 'quick', 'whole')
    tonight, week = ({way: numpy.zeros(len(faults())) for way in ways} for _ in range(2))
    cost = dict.fromkeys(ways, 0.0)
    for number in range(options.sites):
        random = numpy.random.default_rng([options.seed, number])
        site = Site(random)
        chosen = {'plan': planned(site), 'random': at_random(random), 'quick': quick, 'whole': whole}
        for way, nights in chosen.items():
            cost[way] += float(numpy.mean([COST[night].sum() for night in nights])) / COST.sum()
        for place, fault in enumerate(faults()):
            seen = site.finds(fault)
            for way, nights in chosen.items():
                looked = [bool(seen[night, cases].any()) for night, cases in enumerate(nights)]
                tonight[way][place] += looked[0]
                week[way][place] += any(looked)
    print(f'{options.sites} sites, {len(CASES)} cases, {COST.sum() / 3600:.1f} node-hours; found in % of the sites')
    print(f'{"fault":28}' + ''.join(f'{way:>15}' for way in ways) + '   tonight / in a week')
    for place, fault in enumerate(faults()):
        cells = (
            f'{100 * tonight[way][place] / options.sites:6.0f} /{100 * week[way][place] / options.sites:4.0f}'
            for way in ways
        )
        print(f'{fault.name:28}' + ''.join(f'{cell:>15}' for cell in cells))
    total = tonight['whole'].sum()
    for way in ways:
        same, within = (100 * of[way].sum() / total for of in (tonight, week))
        print(
            f'{way:8} {100 * cost[way] / options.sites:5.1f} % of the node-hours: {same:5.1f} % of what a whole night '
            f'finds the same night, {within:5.1f} % within a week'
        )
    plans, wholes = week['plan'].sum(), week['whole'].sum()
    print(f'a week of plans finds {100 * plans / wholes:.1f} % of what a week of whole nights finds')
    reached = tonight['plan'].sum() >= 0.8 * total and week['plan'].sum() >= 0.95 * total
    print(f'goal, 80 % the same night and 95 % within a week: {"reached" if reached else "not reached"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
