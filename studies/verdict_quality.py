"""How often the verdicts are wrong, measured on noise whose truth is known; prints, asserts nothing.

    python studies/verdict_quality.py gate    false alarms and losses found, by noise, CV and nights recorded
    python studies/verdict_quality.py real RESULTS   the same on the nights of a results store, losses injected

Seeded: the same options print the same numbers. Every share has its 95 % Wilson interval. `--trials N` sets how many
baselines a cell is made of (default 40000, two minutes in all); `--only normal:1:10` prints one cell.

`gate` calls what the product calls: `stats.inliers` and `stats.moderate` make the baseline, `gate.limits` the limit
with the default floor and cap. A metric has failed when its first value is beyond the limit and the median of that and
two reruns is, too. Beside it: the same of nights whose first value is none of the slow ones of skewed noise, which are
slow in truth; the same with wider intervals; the 99 % quantile where level and spread of the ordinary nights are known;
ReFrame's fixed percentages; three standard deviations. A metric is judged on a site of 100, a fifth of them with the CV
of the cell and the others with CVs spread about it (log-normal, a factor of 2 at one standard deviation): moderation
needs metrics that differ.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy
from numpy.random import Generator
from scipy.special import stdtrit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plumbline.identity import Quantity, SeriesId  # noqa: E402
from plumbline.limits import DEFAULT_CAP, DEFAULT_FLOOR, Tolerance, limits  # noqa: E402
from plumbline.references import Reference  # noqa: E402
from postprocess.results.store import Store  # noqa: E402
from postprocess.verdicts.stats import inliers, moderate  # noqa: E402

SEED = 20261121
CVS = (0.005, 0.01, 0.03, 0.05)
NIGHTS = (3, 5, 10, 20)
LOSSES = (0.0, 0.02, 0.03, 0.05, 0.10)
SITE, JUDGED = 100, 20  # metrics of a site, and those of them that have the CV of the cell
STRICTER = 0.995  # in place of 99 %: what else the interval could be
Z_99 = 2.326348  # the normal quantile
FAILS = 'Plumbline fails'


# Noise: standard normal but for what the name says, along the last axis, which is time


def normal(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    return rng.standard_normal(shape)


def skewed(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """One night of twenty is 3 to 10 standard deviations slow."""
    return rng.standard_normal(shape) - (rng.random(shape) < 0.05) * rng.uniform(3, 10, shape)


def correlated(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """AR(1) with 0.5: each night is half like the one before; the reruns are further steps of the same series."""
    values = rng.standard_normal(shape)
    for night in range(1, shape[-1]):
        values[..., night] = 0.5 * values[..., night - 1] + math.sqrt(0.75) * values[..., night]
    return values


NOISES = {'normal': normal, 'skewed': skewed, 'AR(1) 0.5': correlated}


def wilson(hits: int, n: int) -> str:
    """``0.10 % [0.06, 0.15]``: a share and its 95 % interval."""
    z, share = 1.96, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return f'{100 * share:.2f} % [{100 * max(middle - half, 0):.2f}, {100 * min(middle + half, 1):.2f}]'


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """As a Markdown table, the first row its titles."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print('| ' + ' | '.join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + ' |')
        if not number:
            print('|' + '|'.join('-' * (width + 2) for width in widths) + '|')


# The gate


def baselines(nights: numpy.ndarray) -> list[Reference]:
    """What the product would record of the metrics of one site; `nights` is metric x night."""
    stay = inliers(nights)
    sessions = stay.sum(axis=-1)
    means = nights.mean(axis=-1, where=stay)
    deviations = nights.std(axis=-1, ddof=1, where=stay)
    variances, df = moderate(numpy.log(nights).var(axis=-1, ddof=1, where=stay), sessions - 1.0)
    return [
        Reference(
            id=SeriesId('', '', '', (), ''), quantity=Quantity('', 'higher'), mean=float(mean), std=float(std),
            n=int(n), kind='baseline', source='', spread=math.sqrt(variance), df=float(degrees), spread_n=int(n),
        )
        for mean, std, n, variance, degrees in zip(means, deviations, sessions, variances, df, strict=True)
    ]  # fmt: skip


def failed(bad: numpy.ndarray, tonight: numpy.ndarray) -> numpy.ndarray:
    """Beyond the limits at first, and by the median of the first value and two reruns; `tonight` is metric x 3."""
    return (tonight[:, 0] < bad) & (numpy.median(tonight, axis=-1) < bad)


def methods(nights: numpy.ndarray, sites: int, cv: float) -> dict[str, tuple[numpy.ndarray, bool]]:
    """The limit of each baseline by each method, and whether it is confirmed by reruns; -inf where it does not gate.

    `nights` is site x metric x night; of each site the first JUDGED metrics are judged, of coefficient of variation
    `cv`.
    """
    rows = [row for site in nights for row in baselines(site)[:JUDGED]]
    bounds = [limits(row, Tolerance()) for row in rows]
    judged = nights[:, :JUDGED].reshape(sites * JUDGED, -1)
    mean, std = judged.mean(axis=-1), judged.std(axis=-1, ddof=1)
    any_limit = numpy.array([bound.bad for bound in bounds])
    gating = numpy.where([bound.gates for bound in bounds], any_limit, -numpy.inf)
    losses = numpy.array([-numpy.expm1(stdtrit(bound.df, STRICTER) * -bound.sd) for bound in bounds])
    stricter = [row.mean for row in rows] * (1 - losses.clip(DEFAULT_FLOOR, DEFAULT_CAP))
    known = 1 - max(-math.expm1(-Z_99 * cv), DEFAULT_FLOOR)
    return {
        FAILS: (gating, True),
        f'with {100 * STRICTER:g} % intervals': (numpy.where(numpy.isfinite(gating), stricter, -numpy.inf), True),
        'level and spread known': (numpy.full(len(bounds), known), True),
        'Plumbline fails or warns': (any_limit, True),
        'Plumbline without reruns': (gating, False),
        'fixed -5 %': (0.95 * mean, False),
        'fixed -10 %': (0.90 * mean, False),
        'mean - 3 s': (mean - 3 * std, False),
    }


def simulate(noise: str, cv: float, n: int, trials: int) -> dict[str, list[int]]:
    """How many of `trials` baselines each method flags, for each of LOSSES."""
    rng = numpy.random.default_rng([SEED, list(NOISES).index(noise), round(cv * 1e4), n])
    sites = trials // JUDGED
    cvs = cv * 2.0 ** rng.standard_normal((sites, SITE, 1))
    cvs[:, :JUDGED] = cv
    values = numpy.maximum(1 + cvs * NOISES[noise](rng, (sites, SITE, n + 3)), 0.01)
    tonight = values[:, :JUDGED, n:].reshape(sites * JUDGED, 3)
    found = {}
    for name, (bad, confirmed) in methods(values[..., :n], sites, cv).items():
        nights = (tonight * (1 - loss) for loss in LOSSES)
        found[name] = [int((failed(bad, v) if confirmed else v[:, 0] < bad).sum()) for v in nights]
        if noise == 'skewed' and name == FAILS:
            ordinary = tonight.copy()
            ordinary[:, 0] = 1 + cv * rng.standard_normal(len(tonight))
            nights = (ordinary * (1 - loss) for loss in LOSSES)
            found['of nights not slow'] = [int(failed(bad, v).sum()) for v in nights]
    return found


def gate(arguments: argparse.Namespace) -> None:
    """The grid, and then whether the goals are met."""
    trials = arguments.trials // JUDGED * JUDGED
    kept = {}
    for noise in NOISES:
        for cv in CVS:
            rows = [['nights', 'method', 'false alarms', *(f'-{100 * loss:.0f} % found' for loss in LOSSES[1:])]]
            for n in NIGHTS:
                if arguments.only not in (None, f'{noise}:{100 * cv:g}:{n}'):
                    continue
                kept[noise, cv, n] = simulate(noise, cv, n, trials)
                rows += ([str(n), name, *(wilson(hits, trials) for hits in all_hits)]
                         for name, all_hits in kept[noise, cv, n].items())  # fmt: skip
            if rows[1:]:
                print(f'\n{noise} noise, CV {100 * cv:g} %, {trials} baselines\n')
                print_rows(rows)
    print()
    for noise, most, least in (('normal', 0.001, 0.96), ('skewed', 0.005, 0.90)):
        if (noise, 0.01, 10) in kept:
            hits = kept[noise, 0.01, 10][FAILS]
            false, five = hits[0] / trials, hits[LOSSES.index(0.05)] / trials
            met = 'met' if false <= most and five >= least else 'NOT met'
            print(
                f'Goal, {noise}, n = 10, CV 1 %: false alarms {100 * false:.2f} % (at most {100 * most:g} %), '
                f'5 % losses found {100 * five:.1f} % (at least {100 * least:g} %): {met}'
            )
    if ('skewed', 0.01, 10) in kept:
        false = kept['skewed', 0.01, 10]['of nights not slow'][0] / trials
        print(f'of the skewed nights that are not slow themselves, false alarms are {100 * false:.2f} %')


# Real nights


def series_of(results: Path, fewest: int) -> Iterable[tuple[str, numpy.ndarray]]:
    """The nightly means of each judged metric of a store, in time order, as performance: higher is better."""
    frame = Store(results).frame('metrics')
    sessions = Store(results).frame('sessions')[['site', 'session', 'started']]
    cases = Store(results).frame('cases')[['session', 'case_id', 'partition', 'environ', 'check', 'params', 'result']]
    frame = frame.drop(columns=['site', 'month'], errors='ignore').merge(sessions, on='session')
    frame = frame.merge(cases, on=['session', 'case_id'])
    frame = frame[frame['void'].isna() & (frame['mean'] > 0) & (frame['result'] == 'pass') & frame['judged']]
    key = ['site', 'partition', 'stack', 'check', 'case', 'metric', 'better']
    for names, group in frame.sort_values('started').groupby(key):
        values = group['mean'].to_numpy(dtype=float)
        if len(values) >= fewest:
            yield ' '.join(names[1:-1]), values if names[-1] == 'higher' else 1 / values


def resampled(series: numpy.ndarray, rng: Generator, shape: tuple[int, int], block: int) -> numpy.ndarray:
    """Circular block bootstrap: each row is made of stretches of `block` nights, so neighbours stay neighbours."""
    rows, nights = shape
    starts = rng.integers(0, len(series), (rows, -(-nights // block), 1))
    places = (starts + numpy.arange(block)) % len(series)
    return series[places.reshape(rows, -1)[:, :nights]]


def real(arguments: argparse.Namespace) -> None:
    """Each metric of the store: its nights resampled into a baseline and a tonight, with losses injected."""
    n, trials = 10, min(arguments.trials, 2000)
    rng = numpy.random.default_rng(SEED)
    rows = [['metric', 'nights', 'CV', 'gated', 'false alarms', *(f'-{100 * loss:.0f} % found' for loss in LOSSES[1:])]]
    for name, series in series_of(arguments.results, fewest=n + 3):
        values = resampled(series, rng, (trials, n + 3), block=4)
        # a site of one metric each: moderation must not learn from copies of the same nights
        bounds = [limits(row, Tolerance()) for nights in values[:, None, :n] for row in baselines(nights)]
        gates = numpy.array([bound.gates for bound in bounds])
        bad = numpy.where(gates, [bound.bad for bound in bounds], -numpy.inf)
        hits = (int(failed(bad, values[:, n:] * (1 - loss)).sum()) for loss in LOSSES)
        cv = f'{100 * series.std(ddof=1) / series.mean():.1f} %'
        rows.append([name, str(len(series)), cv, f'{100 * gates.mean():.0f} %', *(wilson(hit, trials) for hit in hits)])
    if not rows[1:]:
        sys.exit(f'{arguments.results}: no metric has {n + 3} nights')
    print(f'Baselines of {n} nights, {trials} a metric, blocks of 4 nights\n')
    print_rows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--trials', type=int, default=40_000, help='baselines of a cell (default: 40000)')
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser('gate', help=gate.__doc__)
    part.add_argument('--only', help='one cell, such as normal:1:10')
    part.set_defaults(run=gate)
    part = parts.add_parser('real', help=real.__doc__)
    part.add_argument('results', type=Path)
    part.set_defaults(run=real)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == '__main__':
    main()
