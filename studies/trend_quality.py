# SPDX-License-Identifier: BSD-3-Clause
"""How often trend and fleet are wrong, measured on noise whose truth is known; prints, asserts nothing.

    python studies/trend_quality.py trend   healthy sites with a change; steps found 5 and 10 nights later; drifts dated
    python studies/trend_quality.py fleet   false nodes a session; nodes that lost 5 %; losses of the system

Seeded: the same options print the same numbers. Every share has its 95 % Wilson interval. `--trials N` sets of how many
sites, or fleets of 64 nodes, a cell is made (default 400, some minutes; of larger fleets a quarter).

`trend` calls `changepoints.changes`, `fleet` calls `nodes.outliers` without a ledger, both with the default floor.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy
from numpy.random import Generator

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'studies')]

from worlds import wilson  # noqa: E402

from plumbline.identity import Quantity, SeriesId  # noqa: E402
from plumbline.limits import DEFAULT_CAP, DEFAULT_FLOOR, Tolerance  # noqa: E402
from postprocess.history.nodes import NodeTable, outliers  # noqa: E402
from postprocess.statistics.changepoints import FALSE_STEPS, SHORTEST, Found, changes, drift_in  # noqa: E402

SEED = 20261121
SITE = 100  # metrics of a site; their CVs are log-normal about 1 %, a factor of 2 at one standard deviation
JUDGED = 20  # metrics of a site that have the CV that the table names
NIGHTS = (20, 40, 60, 90, 180)
BEFORE = (15, 60, 175)  # nights before a step
LOSSES = (0.03, 0.05)
DATED = (1, 3, 10)
SMALL = (60, 0.03, 0.05)  # nights before a step, its CV and its loss
LATER = (10, 20, 30, 60)  # nights after a step that is small beside the noise
FLEETS = (64, 256, 1024)
PAST = (4, 10, 30)  # healthy nights of a fleet
# CV between healthy nodes, of runs on a node (log-normal as above), and of whole nights
SPREAD, RUN, NIGHT = 0.03, 0.01, 0.01
SLOW = 4  # nodes that lost 5 %, whose runs have a CV of 1 %
LASTING = 4  # nights within which they should be found
Noise = Callable[[Generator, tuple[int, ...]], numpy.ndarray]


def best_possible(step: tuple[int, float, float], after: int, is_correlated: bool) -> float:
    """Return the power of a test that knows place, direction and noise, at the same chance of a false step at a site.

    The generalized least squares estimate of the step in AR(1) noise is as precise as with independent values, which
    are each value minus phi times the value before.
    """
    before, cv, loss = step
    phi = 0.5 if is_correlated else 0.0
    n = before + after
    level, later = numpy.full(n, 1 - phi), numpy.r_[numpy.zeros(before), 1, numpy.full(after - 1, 1 - phi)]
    level[0] = math.sqrt(1 - phi**2)
    design = numpy.stack([level, later], axis=1)
    error = cv * math.sqrt((1 - phi**2) * numpy.linalg.inv(design.T @ design)[1, 1])
    normal = NormalDist()
    needed = normal.inv_cdf(1 - FALSE_STEPS / SITE / (n - 2 * SHORTEST + 1))
    return normal.cdf(-math.log1p(-loss) / error - needed)


# Noise: standard normal, except for what the name of the function says, along the last axis, which is time


def normal(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    return rng.standard_normal(shape)


def skewed(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """Return noise in which one night of twenty is 3 to 10 standard deviations slow."""
    return rng.standard_normal(shape) - (rng.random(shape) < 0.05) * rng.uniform(3, 10, shape)


def correlated(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """Return AR(1) noise with 0.5: half of the deviation of a night remains in the next night."""
    values = rng.standard_normal(shape)
    for night in range(1, shape[-1]):
        values[..., night] = 0.5 * values[..., night - 1] + math.sqrt(0.75) * values[..., night]
    return values


NOISES = {'normal': normal, 'skewed': skewed, 'AR(1) 0.5': correlated}


def site(rng: numpy.random.Generator, draw: Noise, nights: int) -> numpy.ndarray:
    """Return the logarithms of the values of a site, metric x night; the first `JUDGED` metrics have a CV of 1 %."""
    cv = 0.01 * 2 ** rng.standard_normal((SITE, 1))
    cv[:JUDGED] = 0.01
    return numpy.log1p((cv * draw(rng, (SITE, nights))).clip(-0.9))


def found(rows: numpy.ndarray) -> list[Found]:
    return changes(list(rows), [DEFAULT_FLOOR] * len(rows))[0]


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table; the first row holds its titles."""
    for number, row in enumerate(rows):
        print('| ' + ' | '.join(row) + ' |' + ('' if number else f'\n|{"---|" * len(row)}'))


def trend(trials: int) -> None:
    print(f'{trials} sites a cell\n')
    table = [['noise', *(f'{nights} nights' for nights in NIGHTS)]]
    for noise, draw in NOISES.items():
        cells = []
        for nights in NIGHTS:
            rng = numpy.random.default_rng(SEED)
            wrong = sum(
                any(of.steps or of.drift is not None for of in found(site(rng, draw, nights))) for _ in range(trials)
            )
            cells.append(wilson(wrong, trials))
        table.append([noise, *cells])
    print(f'Healthy sites of {SITE} metrics with a step or a drift:\n')
    print_rows(table)
    table = [['noise', 'loss', *(f'{after} of {before + after} nights' for before in BEFORE for after in (5, 10))]]
    few = max(trials // JUDGED, 1)
    for noise, draw in NOISES.items():
        for loss in LOSSES:
            cells = []
            for before in BEFORE:
                for after in (5, 10):
                    rng, hits = numpy.random.default_rng(SEED), 0
                    for _ in range(few):
                        rows = site(rng, draw, before + after)
                        rows[:JUDGED, before:] += math.log1p(-loss)
                        hits += sum(any(abs(end - before) <= 3 for end in of.steps) for of in found(rows)[:JUDGED])
                    cells.append(wilson(hits, few * JUDGED))
            table.append([noise, f'{100 * loss:g} %', *cells])
    print(f'\nSteps of metrics with a CV of 1 % found within 3 nights of their place, {few * JUDGED} metrics a cell:\n')
    print_rows(table)
    table = [['noise', *(f'{after} nights later' for after in LATER), 'other steps a site']]
    for noise, draw in NOISES.items():
        cells, others = [], 0
        for after in LATER:
            rng, hits = numpy.random.default_rng(SEED), 0
            for _ in range(few):
                rows = site(rng, draw, SMALL[0] + after)
                rows[:3] = SMALL[1] * draw(rng, (3, SMALL[0] + after))
                rows[:3, SMALL[0] :] += math.log1p(-SMALL[2])
                steps = [of.steps for of in found(rows)]
                near = [[abs(end - SMALL[0]) <= DATED[-1] for end in own] for own in steps[:3]]
                hits += sum(map(any, near))
                others += sum(map(len, steps)) - sum(map(sum, near))
            best = '' if draw is skewed else f', at best {100 * best_possible(SMALL, after, draw is correlated):.0f} %'
            cells.append(wilson(hits, 3 * few) + best)
        table.append([noise, *cells, f'{others / few / len(LATER):.2f}'])
    print(f'\nSteps of 5 % of three metrics with a CV of 3 %, after {SMALL[0]} nights, {3 * few} metrics a cell:\n')
    print_rows(table)
    table = [['noise', 'CV', 'sessions of drift', *(f'within {within}' for within in DATED)]]
    for noise, draw in NOISES.items():
        for cv in (0.002, 0.01):
            for lasts in (20, 60, 180):
                rng, apart = numpy.random.default_rng(SEED), []
                for _ in range(trials):
                    values = cv * draw(rng, (2 * lasts,))
                    values[lasts:] -= numpy.linspace(0.06 / lasts, 0.06, lasts)
                    drift = drift_in(values, 0.03)
                    apart.append(abs(drift.begin - lasts) if drift else math.inf)
                shares = [wilson(sum(far <= within for far in apart), trials) for within in DATED]
                table.append([noise, f'{100 * cv:g} %', str(lasts), *shares])
    print('\nBeginnings of a drift of 6 % after as many steady sessions, dated within so many sessions:\n')
    print_rows(table)


def runs(rng: numpy.random.Generator, draw: Noise, nodes: int, past: int, slow: int, lasting: int) -> numpy.ndarray:
    """Return the performance of a fleet, node x night; the first `slow` nodes lose 5 % in the last `lasting` nights."""
    spread = RUN * 2 ** rng.standard_normal((nodes, 1))
    spread[:slow] = RUN
    performance = SPREAD * rng.standard_normal((nodes, 1)) + spread * draw(rng, (nodes, past + lasting))
    performance += NIGHT * rng.standard_normal((1, past + lasting))
    performance[:slow, past:] += math.log1p(-0.05)
    return performance


def fleets(trials: int, nodes: int) -> int:
    """Return the number of simulated fleets for a cell of the table."""
    return max(trials * 64 // nodes, trials // 4, 1)


def fleet(trials: int) -> None:
    titles = ['noise', 'nodes', 'healthy nights', 'false nodes a session', 'sessions with one', 'found the same night']
    table = [[*titles, f'within {LASTING} nights', 'still after 200']]
    for noise, draw in NOISES.items():
        for nodes in FLEETS:
            for past in PAST:
                rng, few = numpy.random.default_rng(SEED), fleets(trials, nodes)
                false, sessions, first, soon, late = 0, 0, 0, 0, 0
                for _ in range(few):
                    names, _ = flagged(runs(rng, draw, nodes, past, 0, 1))
                    false, sessions = false + len(names), sessions + bool(names)
                    performance = runs(rng, draw, nodes, past, SLOW, 200)
                    told = [flagged(performance[:, : past + night + 1])[0] for night in range(LASTING)]
                    first += len(told[0] & set(range(SLOW)))
                    soon += len(set().union(*told) & set(range(SLOW)))
                    lately = numpy.concatenate([performance[:, :past], performance[:, -30:]], axis=1)
                    late += len(flagged(lately)[0] & set(range(SLOW)))
                shares = [wilson(hits, few * SLOW) for hits in (first, soon, late)]
                table.append([noise, str(nodes), str(past), f'{false / few:.3f}', wilson(sessions, few), *shares])
    print(f'Of {SLOW} nodes that lost 5 %; what is read after 200 nights is the healthy ones and the last 30:\n')
    print_rows(table)
    table = [['nodes', 'healthy nights', 'loss', 'nodes flagged a session', 'found as a loss of the system']]
    for nodes in (16, *FLEETS):
        for past in PAST[:2]:
            for loss in (0.04, 0.07):
                rng, few = numpy.random.default_rng(SEED), fleets(trials, nodes)
                lost = []
                for _ in range(few):
                    performance = runs(rng, NOISES['normal'], nodes, past, 0, 1)
                    performance[:, -1] += math.log1p(-loss)
                    lost.append(flagged(performance))
                blamed = sum(len(names) for names, _ in lost) / few
                share = wilson(sum(of for _, of in lost), few)
                table.append([str(nodes), str(past), f'{100 * loss:g} %', f'{blamed:.3f}', share])
    print('\nThe whole system lost 4 % and 7 %:\n')
    print_rows(table)


def flagged(performance: numpy.ndarray) -> tuple[set[int], bool]:
    """Return the nodes that are flagged in the last night, and whether the system is flagged."""
    names = [str(node) for node in range(len(performance))]
    series = SeriesId('cpu', 'system', 'Check', (), 'triad')
    tolerance = Tolerance(DEFAULT_FLOOR, DEFAULT_CAP)
    nodes, systems = outliers([NodeTable(series, Quantity('GB/s', 'higher'), tolerance, names, performance)])
    return {int(flag.node) for flag in nodes}, bool(systems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=('trend', 'fleet'))
    parser.add_argument('--trials', type=int, default=400)
    arguments = parser.parse_args()
    globals()[arguments.what](arguments.trials)


if __name__ == '__main__':
    main()
