"""How often the verdicts are wrong, measured on whole nights of a site whose truth is known; prints, asserts nothing.

    python studies/verdict_quality.py site                    every figure of docs/tolerances.md: about an hour
    python studies/verdict_quality.py --sites 4 site          the same from 4 sites a row
    python studies/verdict_quality.py site --only slow        the rows whose name holds this word
    python studies/verdict_quality.py site --false 0.05       with more false alarms, and more losses found

A site has 400 metrics in 50 checks of 8 and 20 environs of 20. Values are log performance; the standard deviation of a
metric's nights (its CV) is log-normal, a factor of 2 about 1 %, unless a row says otherwise. Its baseline is made by
the functions that `plumbline record` calls, and each night is judged by those that `plumbline compare` calls; what they
call suspect runs again, up to 2, 3, 5 and 9 jobs. Every metric that stays red counts every night.

Losses are injected into 20 metrics from the first night on. Each is judged as if it were the only one: Benjamini and
Hochberg's method, which finds more where many are lost, gives no help.

Seeded: the same options print the same numbers. Brackets: 95 % Wilson intervals. "before" is the rule of version 0.1.0:
beyond a 99 % prediction interval, confirmed by the median of three jobs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy
from numpy import ndarray
from numpy.random import Generator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plumbline.identity import Quantity, SeriesId  # noqa: E402
from plumbline.limits import DEFAULT_CAP, DEFAULT_FLOOR, LIKENESS_OF_JOBS, PRIOR_DF, Tolerance  # noqa: E402
from plumbline.record import Summary  # noqa: E402
from plumbline.references import Reference  # noqa: E402
from postprocess.verdicts import night as rule  # noqa: E402
from postprocess.verdicts.levels import Values, estimate  # noqa: E402
from postprocess.verdicts.night import Groups, judge  # noqa: E402
from postprocess.verdicts.stats import inliers, moderate, quantile, shift_between  # noqa: E402
from postprocess.verdicts.trailing import SHORT, Baseline  # noqa: E402
from postprocess.verdicts.windows import CERTAIN, Shifted, certainties  # noqa: E402

SEED = 20261122
METRICS, CHECK, ENVIRON = 400, 8, 20
LOST = numpy.arange(0, METRICS, 20)  # the metrics that lose performance, each alone in its check
TOGETHER = numpy.arange(ENVIRON)  # ... or all of an environ
JOBS = (2, 3, 5, 9)  # that a suspect has after each round of reruns
GROUPS = Groups(
    ['check'] * (METRICS // CHECK) + ['environ'] * (METRICS // ENVIRON),
    [*numpy.arange(METRICS).reshape(-1, CHECK), *numpy.arange(METRICS).reshape(-1, ENVIRON)],
)

# Noise of one night: metrics x jobs, in standard deviations; the first job is that of every night, others are reruns
Night = Callable[[Generator, int, 'ndarray | None'], ndarray]
SHAPE = (METRICS, JOBS[-1])


def normal(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    return rng.standard_normal(SHAPE)


def gamma(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """Skewed to the bad side."""
    return -(rng.standard_gamma(4, SHAPE) - 4) / 2


def _slow(rng: Generator, shape: tuple[int, int]) -> ndarray:
    return (rng.random(shape) < 0.05) * rng.uniform(3, 10, shape)


def slow_jobs(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """One job of twenty is 3 to 10 standard deviations slow."""
    return rng.standard_normal(SHAPE) - _slow(rng, SHAPE)


def slow_nights(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """One night of twenty is slow, and each of its reruns with probability 1/2."""
    stays = (rng.random(SHAPE) < 0.5) | (numpy.arange(JOBS[-1]) == 0)
    return rng.standard_normal(SHAPE) - stays * _slow(rng, (METRICS, 1))


def slow_whole_nights(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """One night of twenty is slow with all its reruns."""
    return rng.standard_normal(SHAPE) - _slow(rng, (METRICS, 1))


def correlated(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """AR(1) 0.5: each night is half like the one before; reruns are further steps."""
    x = rng.standard_normal(SHAPE)
    before = x[:, 0] if last is None else last[:, 0]
    for job in range(JOBS[-1]):
        before = 0.5 * before + math.sqrt(0.75) * x[:, job]
        x[:, job] = before
    return x


def common(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """Half of the variance is common to the metrics of a check, in each job."""
    checks = rng.standard_normal((METRICS // CHECK, JOBS[-1])).repeat(CHECK, axis=0)
    return math.sqrt(0.5) * (checks + rng.standard_normal(SHAPE))


def weekly(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """Half of the variance is a wave of seven nights, of another phase in each check."""
    phases = (numpy.arange(METRICS) // CHECK * 2.399)[:, None]
    return math.sqrt(0.5) * rng.standard_normal(SHAPE) + numpy.sin(2 * math.pi * night / 7 + phases)


def changing_spread(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """The spread of a night is log-normal, a factor of 1.5, for all metrics together."""
    factor = math.log(1.5)
    return math.exp(factor * rng.standard_normal() - factor**2) * rng.standard_normal(SHAPE)


def alike_jobs(rng: Generator, night: int, last: ndarray | None) -> ndarray:
    """Jobs of a night are correlated by 0.5."""
    return math.sqrt(0.5) * (rng.standard_normal((METRICS, 1)) + rng.standard_normal(SHAPE))


def two_levels(share: float) -> Night:
    """Five metrics have a second level 30 standard deviations lower, on a `share` of the nights."""

    def night_of(rng: Generator, night: int, last: ndarray | None) -> ndarray:
        x = rng.standard_normal(SHAPE)
        x[:: METRICS // 5] -= 30 * (rng.random((5, 1)) < share)
        return x

    return night_of


@dataclass(frozen=True)
class Site:
    """What a row of the table simulates: noise, CVs and how a check describes them, the baseline and the nights.

    `kinds`: CV and prior of each half of the metrics, in place of `cv` and `prior`. `lost_cv`: of the metrics that
    lose, after so many healthy nights `before`. `printed`: digits after the point of values of about 1; `absent`: the
    share of values that are missing.
    """

    noise: Night = normal
    n: int = 10
    nights: int = 14
    cv: float = 0.01
    factor: float = 2.0
    prior: float = 0.02
    kinds: tuple[tuple[float, float], ...] = ()
    loss: float = 0.0
    lost: ndarray = field(default_factory=lambda: LOST)
    lost_cv: float | None = None
    printed: int | None = None
    absent: float = 0.0
    reruns: bool = True
    before: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of the nights of one site: arrays with a row a night.

    `red`: nights; `found`: of the metrics that lose; `before`: both by the earlier rule. `again`: the share of metrics
    that ran again, `jobs`: further jobs for each metric.
    """

    red: ndarray
    found: ndarray
    red_before: ndarray
    found_before: ndarray
    again: ndarray
    jobs: ndarray
    named: ndarray


def recorded(sessions: ndarray, prior: ndarray, step: float = 0.0) -> Baseline:
    """Return the baseline of metrics x sessions as `plumbline record` makes it; `step`: of the printed values."""
    floor = max(-math.log1p(-DEFAULT_FLOOR), step)
    there = numpy.isfinite(sessions)
    levels = estimate([
        Values(numpy.exp(row[known]), numpy.flatnonzero(known), 1, math.sqrt(usual), floor)
        for row, known, usual in zip(sessions, there, prior, strict=True)
    ])  # fmt: skip
    used = there.copy()
    used[there] = numpy.concatenate([level.used for level in levels])
    unknown = numpy.array([level.variance is None for level in levels])
    return Baseline(
        mean=sessions.mean(axis=1, where=used),
        variance=numpy.array([level.variance or usual for level, usual in zip(levels, prior, strict=True)]),
        df=numpy.array([level.df or PRIOR_DF for level in levels]),
        n=used.sum(axis=1).astype(float), prior=prior, assumed=unknown, floor=numpy.full(METRICS, floor),
        cap=numpy.full(METRICS, -math.log1p(-DEFAULT_CAP)), weight=numpy.ones(METRICS), sessions=sessions,
    )  # fmt: skip


def limits_before(sessions: ndarray) -> ndarray:
    """Return the limit of each metric by the earlier rule; minus infinity where it did not gate."""
    if sessions.shape[1] < SHORT:
        return numpy.full(METRICS, -math.inf)
    stay = inliers(sessions)
    n = stay.sum(axis=1)
    variance, df = moderate(sessions.var(axis=1, ddof=1, where=stay), n - 1.0)
    loss = -numpy.expm1(-quantile(0.99, df) * numpy.sqrt(variance * (1 + 1 / n)))
    limit = sessions.mean(axis=1, where=stay) + numpy.log1p(-numpy.maximum(loss, DEFAULT_FLOOR))
    return numpy.where((loss > 0.15) | (n < SHORT), -math.inf, limit)


def values_of(site: Site, rng: Generator) -> Iterator[ndarray]:
    """Yield the nights of a site, those of the baseline first: metrics x jobs."""
    cvs = (_by_kind(site, 0, site.cv)) * site.factor ** rng.standard_normal(METRICS)
    if site.loss:
        cvs[site.lost] = site.lost_cv or site.cv
    last = None
    for night in range(site.n + site.before + site.nights):
        last = site.noise(rng, night, last)
        values = last * cvs[:, None]
        if site.loss and night >= site.n + site.before:
            values[site.lost] += math.log1p(-site.loss)
        if site.printed is not None:
            values = numpy.log(numpy.maximum(numpy.round(numpy.exp(values), site.printed), 0.1**site.printed))
        if site.absent and night:
            values = numpy.where(rng.random((METRICS, 1)) < site.absent, math.nan, values)
        yield values


def _by_kind(site: Site, which: int, default: float) -> ndarray:
    kinds = site.kinds or ((default, default),)
    return numpy.array([kinds[metric * len(kinds) // METRICS][which] for metric in range(METRICS)])


def simulate(site: Site, number: int) -> Outcome:
    """Return what came of the nights after the baseline of site `number` of its row."""
    rng = numpy.random.default_rng([SEED, number])
    nights = values_of(site, rng)
    sessions = numpy.stack([next(nights)[:, 0] for _ in range(site.n)], axis=1)
    step = 0.0 if site.printed is None else 0.1**site.printed
    baseline, bad = recorded(sessions, _by_kind(site, 1, site.prior) ** 2, step), limits_before(sessions)
    alone = (rule.FALSE_SHORT if site.n < SHORT else rule.FALSE) / METRICS
    history = numpy.full((METRICS, 0, JOBS[-1]), math.nan)
    rows = []
    for values in nights:
        tonight = numpy.full((METRICS, 1, JOBS[-1]), math.nan)
        tonight[:, 0, 0] = values[:, 0]
        history = numpy.concatenate([history, tonight], axis=1)
        answer = nightly(baseline, history, values, site.reruns)
        red_before = (values[:, 0] < bad) & (numpy.median(values[:, :3], axis=1) < bad)
        rows.append((
            answer.red.any() or answer.common, (answer.red & (answer.p < alone))[site.lost], red_before.any(),
            red_before[site.lost], (answer.jobs > 1).mean(), (answer.jobs - 1).mean(), answer.two_levels,
        ))  # fmt: skip
    return Outcome(*map(numpy.array, zip(*rows[site.before :], strict=True)))


@dataclass(frozen=True)
class Answer:
    """What the product says at the end of a night: arrays of METRICS, of which those that are absent are healthy."""

    red: ndarray
    p: ndarray
    jobs: ndarray
    common: bool
    two_levels: int


def nightly(baseline: Baseline, history: ndarray, values: ndarray, reruns: bool) -> Answer:
    """Return the answer for the last night of `history`, whose suspects run again: their `values` fill it."""
    there = numpy.flatnonzero(numpy.isfinite(history[:, -1, 0]))
    judged = Baseline(**{name: column[there] for name, column in vars(baseline).items()})
    place = numpy.full(METRICS, -1)
    place[there] = numpy.arange(len(there))
    members = [place[part][place[part] >= 0] for part in GROUPS.members]
    kept = [index for index, part in enumerate(members) if len(part) > 1]
    groups = Groups([GROUPS.kinds[index] for index in kept], [members[index] for index in kept])
    k = numpy.ones(METRICS, int)
    while True:
        found = judge(judged, history[there], groups)
        suspects = there[found.suspect]
        if not (reruns and len(suspects)):
            break
        for metric in suspects:
            k[metric] = next(jobs for jobs in JOBS if jobs > k[metric])
            history[metric, -1, : k[metric]] = values[metric, : k[metric]]
    red, p = numpy.zeros(METRICS, bool), numpy.ones(METRICS)
    red[there], p[there] = found.red, numpy.where(found.q == 0, 0.0, found.p)
    return Answer(red, p, k, bool(found.common.red.any()), int(found.two_levels.sum()))


# Two sets of jobs


@dataclass(frozen=True)
class Pair:
    """Two sets of `jobs` jobs a side of a site of metrics, whose jobs of one side are correlated by `rho`.

    `recorded`: sessions of the site's baseline, 0 without one. `loss` of the metrics `LOST` on the second side.
    """

    jobs: int
    rho: float = 0.0
    cv: float = 0.01
    recorded: int = 0
    loss: float = 0.05


def compare(pair: Pair, number: int) -> tuple[ndarray, ndarray]:
    """Return which metrics regressed between two sets of jobs: now, and by the earlier rule."""
    rng = numpy.random.default_rng([SEED, number])
    cvs = pair.cv * 2.0 ** rng.standard_normal(METRICS)
    cvs[LOST] = pair.cv
    shape = (METRICS, 2, pair.jobs)
    logs = math.sqrt(pair.rho) * rng.standard_normal((METRICS, 2, 1))
    logs = cvs[:, None, None] * (logs + math.sqrt(1 - pair.rho) * rng.standard_normal(shape))
    logs[LOST, 1] += math.log1p(-pair.loss)
    sessions = cvs[:, None] * rng.standard_normal((METRICS, max(pair.recorded, 2)))
    baseline = recorded(sessions, numpy.full(METRICS, 0.02**2))
    changes, before = [], numpy.zeros(METRICS, bool)
    for metric, (old, new) in enumerate(numpy.exp(logs)):
        sides = ({'n1': [Summary(5, value, None, None, None) for value in side]} for side in (old, new))
        known = {'spread': math.sqrt(baseline.variance[metric]), 'df': baseline.df[metric]} if pair.recorded else {}
        row = Reference(
            SeriesId('', '', '', (), ''), Quantity('', 'higher'), 1.0, None, pair.recorded or 1, 'baseline', '', **known
        )
        changes.append(Shifted(metric, shift_between(*sides, LIKENESS_OF_JOBS), Tolerance(), row))
        before[metric] = _regressed_before(logs[metric], cvs[metric], rng)
    found = numpy.zeros(METRICS, bool)
    for change, certain in zip(changes, certainties(changes), strict=True):
        least = max(float(quantile(CERTAIN, certain.df)) * certain.error, -math.log1p(-DEFAULT_FLOOR))
        found[change.place] = change.loss > least
    return found, before


def _regressed_before(logs: ndarray, cv: float, rng: Generator) -> bool:
    """Return the earlier answer: Welch's test of the jobs, or of the trials of one job a side, half as wide as jobs."""
    if logs.shape[1] > 1:
        parts, df = logs.var(axis=1, ddof=1) / logs.shape[1], logs.shape[1] - 1
    else:
        parts, df = (0.5 * cv) ** 2 * rng.chisquare(4, 2) / 4 / 5, 4
    total = parts.sum()
    error = math.sqrt(total) * float(quantile(0.99, total**2 / (parts**2 / df).sum()))
    return logs[0].mean() - logs[1].mean() > max(error, -math.log1p(-DEFAULT_FLOOR))


# The table

HEALTHY = {
    'normal noise, CVs mixed': (Site(), '<= 1'),
    'left-skewed (gamma)': (Site(gamma), '<= 2'),
    '5 % slow jobs': (Site(slow_jobs), '<= 2'),
    'AR(1) 0.5': (Site(correlated), '<= 2'),
    'half the variance common': (Site(common), '<= 2'),
    'weekly wave': (Site(weekly), '<= 2'),
    'spread that changes by night': (Site(changing_spread), '<= 2'),
    'jobs of a night alike (0.5)': (Site(alike_jobs), '-'),
    'slow nights that last into half of the reruns': (Site(slow_nights), '<= 5; <= 3'),
    'slow nights that last into half of the reruns, n = 30': (Site(slow_nights, n=30), '-'),
    'slow nights that last into all reruns': (Site(slow_whole_nights), '<= 5; <= 3'),
    'two levels, low on 0.5 of the nights': (Site(two_levels(0.5)), '<= 3'),
    'two levels, low on 0.1 of the nights': (Site(two_levels(0.1)), '<= 3'),
    'two levels, low on 0.1, n = 30': (Site(two_levels(0.1), n=30), '<= 3'),
    'n = 1': (Site(n=1), '<= 2'),
    'n = 1, AR(1) 0.5': (Site(correlated, n=1), '<= 2'),
    'after 30 nights, n = 10': (Site(before=30, nights=30), '<= 1'),
    'after 30 nights, n = 10, left-skewed': (Site(gamma, before=30, nights=30), '<= 2'),
    'after 30 nights, n = 10, AR(1) 0.5': (Site(correlated, before=30, nights=30), '<= 2'),
    'after 30 nights, n = 10, slow jobs': (Site(slow_jobs, before=30, nights=30), '<= 2'),
    'after 30 nights, n = 10, weekly': (Site(weekly, before=30, nights=30), '<= 2'),
    'after 30 nights, n = 1': (Site(n=1, before=30, nights=30), '<= 2'),
    'n = 3': (Site(n=3), '<= 2'),
    'n = 3, AR(1) 0.5': (Site(correlated, n=3), '<= 2'),
    'n = 1, all CVs 10 %, prior 10 %': (Site(n=1, cv=0.1, prior=0.1, factor=1.3), '<= 2'),
    'n = 1, all CVs 10 %, prior 2 %': (Site(n=1, cv=0.1, factor=1.3), '<= 2'),
    'n = 1, half CV 1 %, half 10 %, priors right': (Site(n=1, kinds=((0.01, 0.01), (0.1, 0.1)), factor=1.3), '-'),
    'n = 1, half CV 1 %, half 10 %, prior 2 %': (Site(n=1, kinds=((0.01, 0.02), (0.1, 0.02)), factor=1.3), '-'),
    'n = 10, half CV 1 %, half 10 %': (Site(kinds=((0.01, 0.01), (0.1, 0.1)), factor=1.3), '-'),
    'two digits printed, CV 0.3 %': (Site(cv=0.003, printed=2), '-'),
    'a third of the values missing': (Site(absent=0.33), '-'),
    'no reruns': (Site(reruns=False), '-'),
}
#: Title -> site, by which nights the losses are to be found, the goals
LOSSES = {
    '-5 %, CV 1 %': (Site(loss=0.05, nights=3), (1, 3), '98; 99.5'),
    '-5 %, CV 1 %, left-skewed': (Site(gamma, loss=0.05, nights=3), (1, 3), '97'),
    '-5 %, CV 1 %, 5 % slow jobs': (Site(slow_jobs, loss=0.05, nights=3), (1, 3), '87'),
    '-5 %, CV 1 %, AR(1) 0.5': (Site(correlated, loss=0.05, nights=3), (1, 3), '-'),
    '-3 %, CV 1 %': (Site(loss=0.03, nights=3), (1, 3), '-; 92'),
    '-3 %, CV 1 %, n = 20': (Site(loss=0.03, n=20, nights=3), (1, 3), '-; 97'),
    '-10 %, CV 3 %': (Site(loss=0.10, lost_cv=0.03, nights=3), (1, 3), '-; 97'),
    '-5 %, CV 3 %': (Site(loss=0.05, lost_cv=0.03), (1, 14), '-; 69'),
    '-5 %, CV 3 %, n = 20': (Site(loss=0.05, lost_cv=0.03, n=20), (1, 14), '-; 91'),
    '-5 %, CV 3 %, n = 30': (Site(loss=0.05, lost_cv=0.03, n=30), (1, 14), '-; 97'),
    '-5 %, CV 3 %, after 34 accepted nights': (Site(loss=0.05, lost_cv=0.03, before=34), (1, 14), '-; 97'),
    '-5 %, CV 3 %, n = 1, after 34 accepted nights': (Site(loss=0.05, lost_cv=0.03, n=1, before=34), (1, 14), '-'),
    '-50 %, n = 1, CV 5 %': (Site(loss=0.5, lost_cv=0.05, n=1, nights=1), (1,), '99.5'),
    '-50 %, n = 1, CV 10 %': (Site(loss=0.5, lost_cv=0.1, n=1, nights=1), (1,), '99.5'),
    '-50 %, n = 1, CV 10 %, left-skewed': (Site(gamma, loss=0.5, lost_cv=0.1, n=1, nights=1), (1,), '-'),
    '-50 %, n = 1, all CVs 10 %': (Site(loss=0.5, cv=0.1, factor=1.3, n=1, nights=1), (1,), '99.5'),
    '-50 %, n = 3, CV 10 %': (Site(loss=0.5, lost_cv=0.1, n=3, nights=2), (1, 2), '-'),
    '-50 %, n = 3, all CVs 10 %': (Site(loss=0.5, cv=0.1, factor=1.3, n=3, nights=2), (1, 2), '-'),
    '-90 %, n = 1, CV 10 %': (Site(loss=0.9, lost_cv=0.1, n=1, nights=1), (1,), '100'),
    '-90 %, CV 30 %': (Site(loss=0.9, lost_cv=0.3, nights=1), (1,), '100'),
    '-90 % of all metrics, n = 1': (
        Site(loss=0.9, lost=numpy.arange(METRICS), n=1, nights=1), (1,), '100'),
    '-5 %, CV 1 %, no reruns': (Site(loss=0.05, nights=7, reruns=False), (1, 7), '-'),
    '-5 %, CV 1 %, a third missing': (Site(loss=0.05, nights=7, absent=0.33), (1, 7), '-'),
}  # fmt: skip
SHARED = {
    '-2 % of 20 metrics, CV 2 %': (Site(loss=0.02, cv=0.02, factor=1.0, lost=TOGETHER, nights=3), '95'),
    '-2 % of 20 metrics, CV 2 %, half the variance common': (
        Site(common, loss=0.02, cv=0.02, factor=1.0, lost=TOGETHER, nights=3), '-'),
    '-2 % of 20 metrics, CV 2 %, n = 20': (
        Site(loss=0.02, cv=0.02, factor=1.0, lost=TOGETHER, nights=3, n=20), '-'),
}  # fmt: skip
PAIRS = {
    f'{jobs} a side, CV {100 * cv:g} %, jobs alike {rho:g}{f", baseline of {n}" if n else ""}': Pair(jobs, rho, cv, n)
    for cv in (0.01, 0.03) for jobs in (2, 1) for rho in (0.0, 0.5) for n in (0, 10)
}  # fmt: skip


def wilson(hits: float, n: int) -> str:
    """``0.10 [0.06-0.15]``: a share in % and its 95 % interval."""
    z, share = 1.96, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return f'{100 * share:.2f} [{100 * max(middle - half, 0):.2f}-{100 * min(middle + half, 1):.2f}]'


def print_row(*cells: str) -> None:
    print('| ' + ' | '.join(cells) + ' |', flush=True)


def print_head(title: str, *cells: str) -> None:
    print(f'\n{title}\n')
    print_row(*cells)
    print('|' + '---|' * len(cells))


def site(arguments: argparse.Namespace) -> None:
    """Print every figure: red nights of healthy sites, losses found, losses in common."""

    def chosen(rows: dict) -> Iterator[tuple]:
        for name, (row, *rest) in rows.items():
            if arguments.only in name:
                yield name, [simulate(row, number) for number in range(arguments.sites)], *rest

    heads = ('first night %', 'later nights %', 'before %', 'metrics run again %', 'further jobs %', 'two-level')
    print_head('Red nights of healthy sites', 'site', 'goal', *heads)
    for name, found, goal in chosen(HEALTHY):
        red, before = (numpy.array([getattr(one, key) for one in found]) for key in ('red', 'red_before'))
        again, jobs, named = (numpy.mean([getattr(one, key) for one in found]) for key in ('again', 'jobs', 'named'))
        later = red[:, 1:]
        print_row(
            name, goal, wilson(red[:, 0].sum(), len(red)), wilson(later.sum(), later.size),
            f'{100 * before.mean():.0f}', f'{100 * again:.1f}', f'{100 * jobs:.1f}', f'{named:.1f}',
        )  # fmt: skip
    print_head('Losses found, each alone', 'loss', 'goal %', 'found %', 'before %')
    for name, found, nights, goal in chosen(LOSSES):
        cells = []
        for key in ('found', 'found_before'):
            by_night = numpy.maximum.accumulate([getattr(one, key) for one in found], axis=1)
            texts = (wilson(by_night[:, night - 1].sum(), by_night[:, 0].size) for night in nights)
            cells.append('; '.join(f'{text} in {night}' for text, night in zip(texts, nights, strict=True)))
        print_row(name, goal, *cells)
    print_head('Losses in common: nights red', 'loss', 'goal %', 'the same night %', 'within 3 %', 'before %')
    for name, found, goal in chosen(SHARED):
        red = numpy.maximum.accumulate([one.red for one in found], axis=1)
        before = numpy.mean([one.red_before[0] for one in found])
        print_row(name, goal, *(wilson(red[:, i].sum(), len(red)) for i in (0, -1)), f'{100 * before:.0f}')
    heads = ('healthy metrics that regress % (goal <= 1)', 'before %', '-5 % found %', 'before %')
    print_head('Two sets of jobs', 'jobs', *heads)
    healthy = ~numpy.isin(numpy.arange(METRICS), LOST)
    for name, pair in PAIRS.items():
        if arguments.only in name:
            found, before = zip(*(compare(pair, number) for number in range(min(arguments.sites, 20))), strict=True)
            shares = (numpy.array(of)[:, which].mean() for which in (healthy, LOST) for of in (found, before))
            print_row(name, *(f'{100 * share:.1f}' for share in shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sites', type=int, default=100, help='simulated for each row (default: 100)')
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser('site', help=site.__doc__)
    part.add_argument('--only', default='', help='rows whose name holds this')
    part.add_argument(
        '--false',
        type=float,
        default=rule.FALSE,
        help='share of false losses among those found (default: %(default)s)',
    )
    part.set_defaults(run=site)
    arguments = parser.parse_args()
    rule.FALSE, rule.FALSE_SHORT, rule.FALSE_COMMON = arguments.false, arguments.false / 2, arguments.false / 2
    arguments.run(arguments)


if __name__ == '__main__':
    main()
