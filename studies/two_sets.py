# SPDX-License-Identifier: BSD-3-Clause
"""How often `plumbline compare A B` is wrong: two sets of jobs of a simulated site, by the functions that it calls.

python studies/two_sets.py               both tables of docs/tolerances.md, from 20 sites a row
python studies/two_sets.py --sites 2     the same from 2 sites
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy
from numpy import ndarray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'studies')]

from plumbline.identity import Quantity, SeriesId  # noqa: E402
from plumbline.limits import DEFAULT_FLOOR, LIKENESS_OF_JOBS, Tolerance  # noqa: E402
from plumbline.record import Summary  # noqa: E402
from plumbline.references import Reference  # noqa: E402
from postprocess.statistics.distributions import quantile  # noqa: E402
from postprocess.statistics.levels import Values, estimate  # noqa: E402
from postprocess.verdicts.windows import CERTAIN, Shifted, certainties, shift_between  # noqa: E402

SEED = 20261122
METRICS = 400
LOST = numpy.arange(0, METRICS, 20)  # the metrics that lose performance


@dataclass(frozen=True)
class Pair:
    """Two sets of `jobs` jobs each on a site; the jobs of one set are correlated by `rho`.

    `recorded`: sessions of the site's baseline, 0 without one. `loss`: of the metrics `LOST` in the second set.
    """

    jobs: int
    rho: float = 0.0
    cv: float = 0.01
    recorded: int = 0
    loss: float = 0.05


def compare(pair: Pair, number: int) -> ndarray:
    """Return which metrics regressed between two sets of jobs."""
    rng = numpy.random.default_rng([SEED, number])
    cvs = pair.cv * 2.0 ** rng.standard_normal(METRICS)
    cvs[LOST] = pair.cv
    shape = (METRICS, 2, pair.jobs)
    logs = math.sqrt(pair.rho) * rng.standard_normal((METRICS, 2, 1))
    logs = cvs[:, None, None] * (logs + math.sqrt(1 - pair.rho) * rng.standard_normal(shape))
    logs[LOST, 1] += math.log1p(-pair.loss)
    sessions = cvs[:, None] * rng.standard_normal((METRICS, max(pair.recorded, 2)))
    levels = estimate([Values(numpy.exp(row), numpy.arange(len(row))) for row in sessions])
    changes = []
    for metric, (old, new) in enumerate(numpy.exp(logs)):
        sides = ({'n1': [Summary(5, value, None, None, None) for value in side]} for side in (old, new))
        known = (
            {'spread': math.sqrt(levels[metric].variance or 0.02**2), 'df': levels[metric].df} if pair.recorded else {}
        )
        row = Reference(
            SeriesId('', '', '', (), ''), Quantity('', 'higher'), 1.0, None, pair.recorded or 1, 'baseline', '', **known
        )
        changes.append(Shifted(metric, shift_between(*sides, LIKENESS_OF_JOBS), Tolerance(), row))
    regressed = numpy.zeros(METRICS, bool)
    for change, certain in zip(changes, certainties(changes), strict=True):
        least = max(float(quantile(CERTAIN, certain.df)) * certain.error, -math.log1p(-DEFAULT_FLOOR))
        regressed[change.place] = change.loss > least
    return regressed


PAIRS = {
    f'{jobs} a side, CV {100 * cv:g} %, jobs alike {rho:g}{f", baseline of {n}" if n else ""}': Pair(jobs, rho, cv, n)
    for cv in (0.01, 0.03) for jobs in (2, 1) for rho in (0.0, 0.5) for n in (0, 10)
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sites', type=int, default=20, help='simulated for each row (default: %(default)s)')
    arguments = parser.parse_args()
    healthy = ~numpy.isin(numpy.arange(METRICS), LOST)
    print('| jobs | healthy metrics that regress % | -5 % found % |\n|---|---|---|')
    for name, pair in PAIRS.items():
        regressed = numpy.array([compare(pair, number) for number in range(arguments.sites)])
        print(
            f'| {name} | {100 * regressed[:, healthy].mean():.1f} | {100 * regressed[:, LOST].mean():.1f} |', flush=True
        )


if __name__ == '__main__':
    main()
