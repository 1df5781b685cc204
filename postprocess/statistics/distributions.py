# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of distributions on arrays: normal deviates, variances of many series, outliers.

`scipy.special` is imported only inside the functions that compare sets of jobs or nodes: its import takes 0.16 s, half
as long as numpy, DuckDB and Arrow together, and `plumbline compare` runs in 0.7 s.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy
from numpy import ndarray

from plumbline.limits import PRIOR_DF

OUTLYING = 4.0  # distance of an outlier, in median absolute deviations scaled to a normal standard deviation
MAD_OF_NORMAL = 0.6744898  # median absolute deviation of the standard normal distribution
ENOUGH_METRICS = 10  # fewest series from which to estimate how much variances differ
_NORMAL = NormalDist()


def deviate(t: ndarray, df: ndarray) -> ndarray:
    """Return the normal deviate with the same tail as Student's t (Wallace, Ann. Math. Statist. 30 (1959) 1124).

    Its error is at most 1.2 % from 4 degrees of freedom on.
    """
    return numpy.sign(t) * (8 * df + 1) / (8 * df + 3) * numpy.sqrt(df * numpy.log1p(t * t / df))


def student(z: ndarray | float, df: ndarray) -> ndarray:
    """Return Student's t with the same tail as a normal deviate: the inverse of `deviate`."""
    return numpy.copysign(1, z) * numpy.sqrt(df * numpy.expm1((z * (8 * df + 3) / (8 * df + 1)) ** 2 / df))


def upper(p: float) -> float:
    """Return the normal deviate that a share `p` of healthy values exceeds."""
    return -_NORMAL.inv_cdf(min(max(p, 1e-300), 0.5))


def uppers(p: ndarray) -> ndarray:
    """Return `upper` of each element of `p`; each different value is computed once."""
    values, places = numpy.unique(p, return_inverse=True)
    return numpy.array([upper(float(value)) for value in values])[places].reshape(p.shape)


def below_selected(z: ndarray, least: ndarray) -> ndarray:
    """Return how far below each normal deviate its 95 % interval ends, if only deviates above `least` are reported.

    At the lower end theta, one of 40 reported values is as large: (1 - F(z - theta)) / (1 - F(least - theta)) = 0.025.
    The distance is 1.96 for a deviate far above `least`, and up to 8 for one close to it.
    """
    distances = numpy.full(z.shape, 1.96)
    for place in numpy.flatnonzero(z < least + 4).tolist():
        near, far, bar = 1.96, 8.0, min(float(least[place]), float(z[place]) - 1e-3) - float(z[place])
        for _ in range(30):
            middle = (near + far) / 2
            share = math.erfc(middle / math.sqrt(2)) / math.erfc((middle + bar) / math.sqrt(2))
            near, far = (middle, far) if share > 0.025 else (near, middle)
        distances[place] = near
    return distances


def tail(z: ndarray) -> ndarray:
    """Return the share of healthy values above each normal deviate."""
    return numpy.array([0.5 * math.erfc(value / math.sqrt(2)) for value in z.ravel().tolist()]).reshape(z.shape)


def chance(deviations: ndarray, df: ndarray) -> ndarray:
    """Return one-sided p-values of deviations to the bad side, in standard deviations with `df` degrees of freedom."""
    from scipy.special import stdtr

    return stdtr(df, -deviations)


def quantile(share: float, df: ndarray | float) -> ndarray:
    """Return the value below which a `share` of Student's t with `df` degrees of freedom lies."""
    from scipy.special import stdtrit

    return stdtrit(df, share)


def inliers(logs: ndarray) -> ndarray:
    """Return True for each logarithm within 4 scaled MAD of the median along the last axis; False for NaN.

    If more than a fifth of the values would be dropped, all stay: they are then a second level of the machine, not
    outliers, and a limit without them would fail every other session.
    """
    there = numpy.isfinite(logs)
    centre = numpy.nan_to_num(numpy.nanmedian(logs, axis=-1, keepdims=True))
    distance = abs(logs - centre)
    scale = numpy.nan_to_num(numpy.nanmedian(distance, axis=-1, keepdims=True)) / MAD_OF_NORMAL
    far = there & (distance > OUTLYING * scale) & (scale > 0)
    return there & ~(far & (far.sum(axis=-1, keepdims=True) <= 0.2 * there.sum(axis=-1, keepdims=True)))


def spread_around_median(values: ndarray) -> tuple[float, float]:
    """Return the spread of values around their median, and its degrees of freedom, for Student's t.

    The spread is the median absolute deviation, which is as uncertain as the standard deviation of 0.37 n values.
    """
    apart = abs(values - numpy.median(values))
    return float(numpy.median(apart)) / MAD_OF_NORMAL, max(0.37 * len(values) - 1, 1.0)


def moderate(variances: ndarray, df: ndarray, prior: ndarray | float | None = None) -> tuple[ndarray, ndarray]:
    """Return the variances of many series and their degrees of freedom, shrunk towards a common value.

    Each variance becomes (d0 s0^2 + d s^2) / (d0 + d), with d0 + d degrees of freedom, at most those of all series
    together; `fit_prior` gives d0 and s0^2. A variance changes less, the more the spreads of the series differ and the
    more sessions the series has. `prior`: the usual variance of each series' kind of metric; s0^2 is then a factor of
    it. Fewer than `ENOUGH_METRICS` series are shrunk towards the prior itself.
    """
    ratios = variances / (1.0 if prior is None else prior)
    own = ratios > 0  # a variance of 0 says nothing about the prior
    if own.sum() >= ENOUGH_METRICS:
        d0, s0 = fit_prior(ratios[own], df[own])
        most = float(df.sum())
    elif prior is None:
        return variances, df
    else:
        d0, s0, most = PRIOR_DF, 1.0, math.inf
    shrunk = numpy.full_like(ratios, s0) if math.isinf(d0) else (d0 * s0 + df * ratios) / (d0 + df)
    return shrunk * (1.0 if prior is None else prior), numpy.minimum(d0 + df, most)


def fit_prior(variances: ndarray, df: ndarray) -> tuple[float, float]:
    """Return d0 and s0^2 of the distribution of true variances, from estimates above 0 with `df` degrees of freedom.

    Empirical Bayes: the true variances follow a scaled inverse chi-square distribution with d0 degrees of freedom about
    s0^2, both fitted by the moments of the logarithms (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, section 6.2).
    d0 is infinite if the estimates differ no more than by chance. Fewer than `ENOUGH_METRICS` estimates give `PRIOR_DF`
    and 1.
    """
    half, variances = df[variances > 0] / 2, variances[variances > 0]
    if len(variances) < ENOUGH_METRICS:
        return PRIOR_DF, 1.0
    logs = numpy.log(variances) - digamma(half) + numpy.log(half)
    excess = float(logs.var(ddof=1) - trigamma(half).mean())
    if excess <= 0:
        return math.inf, math.exp(logs.mean())
    d0 = 2 * _inverse_trigamma(excess)
    half_d0 = numpy.array([d0 / 2])
    return d0, math.exp(logs.mean() + float(digamma(half_d0)[0]) - math.log(d0 / 2))


def digamma(x: ndarray) -> ndarray:
    """Return the digamma function of x > 0: six steps of the recurrence, then a series (Abramowitz and Stegun, 6.3)."""
    lower = sum(1 / (x + step) for step in range(6))
    x = x + 6
    return numpy.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - lower


def trigamma(x: ndarray) -> ndarray:
    """Return the derivative of `digamma` (Abramowitz and Stegun, 6.4)."""
    lower = sum(1 / (x + step) ** 2 for step in range(6))
    x = x + 6
    return 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7) + lower


def _inverse_trigamma(value: float) -> float:
    """Return x > 0 with trigamma(x) = `value`, by linear interpolation of logarithms between points 1 % apart."""
    return math.exp(float(numpy.interp(-math.log(value), -numpy.log(_TRIGAMMAS), numpy.log(_POINTS))))


_POINTS = numpy.exp(numpy.linspace(-7.0, 14.0, 2000))
_TRIGAMMAS = trigamma(_POINTS)


def scatter(z: ndarray) -> float:
    """Return the factor, at least 1, by which values (higher is better) scatter more than normal deviates.

    It is the smaller of two estimates: from the quartiles, and from the better quarter of the values, which is right
    even if half of the series lost performance.
    """
    low, high, highest = numpy.quantile(z, [0.25, 0.75, 0.9])
    scale = min((high - low) / 1.349, (highest - high) / 0.607)
    return float(scale) if scale > 1.15 else 1.0


def proportion(times: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a probability of which `times` of `of` independent trials were seen.

    Clopper and Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934) 404.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(times, of - times + 1, tail)) if times else 0.0
    high = float(betaincinv(times + 1, of - times, 1 - tail)) if times < of else 1.0
    return low, high


def at_least(count: int, of: int, share: float) -> float:
    """Return the chance that at least `count` of `of` things happen, each with the chance `share`: a binomial tail."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count, of + 1))


def false_discovery_rates(p: ndarray) -> ndarray:
    """Return Benjamini and Hochberg's adjusted p-values: of all values up to q, a share q is expected to be false.

    The result is that of scipy.stats.false_discovery_control, whose import takes longer than a comparison.
    """
    order = numpy.argsort(p)[::-1]  # the largest first
    scaled = p[order] * len(p) / numpy.arange(len(p), 0, -1)
    adjusted = numpy.empty(len(p))
    adjusted[order] = numpy.minimum(numpy.minimum.accumulate(scaled), 1)
    return adjusted
