# SPDX-License-Identifier: BSD-3-Clause
"""Detectors of changed performance side by side on public histories of benchmark results; prints, asserts nothing.

    python studies/public_series.py FOLDER                every table, from half of its windows
    python studies/public_series.py FOLDER --rounds 20   all of its windows: a quarter of an hour

FOLDER holds clones of the public repositories that docs/method.md lists, each under its own name; those that are
absent are named and left out. So are Otava's rows where `apache-otava` is not installed. Seeded: the same options print
the same numbers. docs/method.md says what is measured, and how.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy
from numpy import ndarray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plumbline.limits import DEFAULT_CAP, DEFAULT_FLOOR, DEFAULT_SPREAD  # noqa: E402
from postprocess.statistics.baseline import Baseline  # noqa: E402
from postprocess.statistics.changepoints import changes  # noqa: E402
from postprocess.statistics.further import FURTHER, Budget  # noqa: E402
from postprocess.statistics.levels import Values, estimate  # noqa: E402
from postprocess.statistics.method import METHOD  # noqa: E402
from postprocess.statistics.night import judge  # noqa: E402
from postprocess.statistics.pool import Pool  # noqa: E402
from studies.public_histories import MARGIN, SEED, History, noise, precision_recall, read  # noqa: E402
from studies.worlds import wilson  # noqa: E402

try:
    from otava.analysis import compute_change_points
except ImportError:
    compute_change_points = None

BASE = 20  # values of a baseline
HEALTHY, LOST = 20, 20  # values of a window after its baseline, before and after the planted loss
RERUNS = 8  # following values that stand for further jobs of a night
WINDOW = BASE + HEALTHY + LOST + RERUNS
WEEK = 5  # values after each of which a change-point method runs again
LOSSES = (0.03, 0.05, 0.10)
PLANTED = 0.1  # share of the series of a round that lose
QUIET = (0.0, 0.02, 0.05)  # borders of the noise of the series that losses are planted into
YEAR = 365

Series = Sequence[ndarray]  # of one site: logarithms of performance
Detector = Callable[[Series], list[list[int]]]  # -> the places that it reports in each series
#: (baselines, later values) -> for each series 1 if it reports the last value as a loss, -1 as a gain, else 0
Rule = Callable[[Series, Series], ndarray]


# Detectors


def online(rule: Rule, anew: bool, late: int, site: Series) -> list[list[int]]:
    """Return the alarms that `rule` raises value by value; the first `BASE` values of a series are its baseline.

    `anew`: gains are alarms, too, and after an alarm the next `BASE` values become the baseline. `late`: by how many
    values the answer of the rule comes after the value that it is about.
    """
    alarms: list[list[int]] = [[] for _ in site]
    begin = [0] * len(site)
    for now in range(BASE, max(map(len, site))):
        judged = [i for i, logs in enumerate(site) if begin[i] + BASE <= now < len(logs)]
        if not judged:
            continue
        baselines = [site[i][begin[i] : begin[i] + BASE] for i in judged]
        reported = rule(baselines, [site[i][begin[i] + BASE : now + 1] for i in judged])
        for i in [i for i, side in zip(judged, reported, strict=True) if side > 0 or (side and anew)]:
            alarms[i].append(now - late)
            begin[i] = now if anew else begin[i]
    return alarms


def plumbline(baselines: Series, jobs: ndarray) -> tuple[ndarray, ndarray]:
    """Return the sides that `plumbline compare` reports tonight, and which series it runs again.

    `jobs`: as in `night.judge`.

    Series whose baseline has two levels are never reported, as `plumbline record` withholds them. As while a baseline
    is recorded, a share of the values, drawn by lot, have a second job: the next value.
    """
    levels = estimate([Values(numpy.exp(logs), numpy.arange(BASE)) for logs in baselines])
    sessions = numpy.stack(list(baselines))
    twice = numpy.random.default_rng(SEED).random(sessions.shape) < METHOD.budget[1]
    second = numpy.where(twice, numpy.roll(sessions, -1, axis=1), math.nan)
    second[:, -1] = math.nan
    ones = numpy.ones(len(sessions))
    baseline = Baseline(
        mean=numpy.array([logs[level.used].mean() for logs, level in zip(baselines, levels, strict=True)]),
        variance=numpy.array([level.variance for level in levels]), df=numpy.array([level.df for level in levels]),
        n=numpy.array([float(level.used.sum()) for level in levels]), prior=ones * DEFAULT_SPREAD**2,
        assumed=ones < 1, floor=-numpy.log1p(-DEFAULT_FLOOR) * ones, cap=-numpy.log1p(-DEFAULT_CAP) * ones, weight=ones,
        sessions=sessions, second=second,
    )  # fmt: skip
    cases = numpy.arange(len(sessions))  # each series is a case of its own, on one node
    pool = Pool(cases, len(cases), numpy.zeros((0, 4), int), cases, cases)
    answer = judge(baseline, jobs, pool, None, Budget(math.inf, math.inf))
    recorded = numpy.array([not level.levels for level in levels])
    return numpy.where(recorded, answer.red * 1 - answer.improved, 0), (answer.waits > 0) & recorded


def as_nights(since: Series) -> ndarray:
    """Return values of one job a night in the form of `night.judge`: series x nights x jobs, the last night last."""
    jobs = numpy.full((len(since), max(map(len, since)), FURTHER + 1), numpy.nan)
    for row, logs in zip(jobs, since, strict=True):
        row[len(row) - len(logs) :, 0] = logs
    return jobs


def with_reruns(baselines: Series, since: Series) -> ndarray:
    """Return the sides on which `plumbline compare` reports series, with the last `RERUNS` values as further jobs.

    The value before them is that of the night. The further jobs count only if this value was reported, or would have
    made the case run again.
    """
    answer = numpy.zeros(len(since), int)
    enough = numpy.flatnonzero([len(logs) > RERUNS for logs in since])
    if not len(enough):
        return answer
    jobs = as_nights([since[i][:-RERUNS] for i in enough])
    known = [baselines[i] for i in enough]
    reported, again = plumbline(known, jobs)
    jobs[:, -1, 1:] = [since[i][-RERUNS:] for i in enough]
    answer[enough] = numpy.where((reported != 0) | again, plumbline(known, jobs)[0], 0)
    return answer


def deviations(k: float, baselines: Series, since: Series) -> ndarray:
    """Return the sides of last values more than `k` standard deviations from the mean of the baseline."""
    base = numpy.stack(list(baselines))
    loss = base.mean(axis=1) - [logs[-1] for logs in since]
    return numpy.where(abs(loss) > k * base.std(axis=1, ddof=1), numpy.sign(loss), 0)


def mean_of_reruns(baselines: Series, reruns: ndarray) -> ndarray:
    """Return the sides of reruns whose mean is off by 2 %, and by 3 standard errors of both means."""
    base = numpy.stack(list(baselines))
    loss = base.mean(axis=1) - reruns.mean(axis=1)
    error = base.std(axis=1, ddof=1) * math.sqrt(1 / RERUNS + 1 / BASE)
    return numpy.where((abs(loss) > 3 * error) & (abs(loss) > DEFAULT_FLOOR), numpy.sign(loss), 0)


def five_percent(baselines: Series, since: Series) -> ndarray:
    """Return the sides of last values more than 5 % from the mean of the baseline."""
    return _five_percent(baselines, numpy.array([logs[-1:] for logs in since]))


def _five_percent(baselines: Series, values: ndarray) -> ndarray:
    """Return the sides of `values` whose mean is more than 5 % from the mean of the baseline."""
    ratio = numpy.exp(values.mean(axis=1) - numpy.stack(list(baselines)).mean(axis=1))
    return numpy.where(abs(ratio - 1) > 0.05, -numpy.sign(ratio - 1), 0)


def asked_again(asks: Rule, lost: Callable[[Series, ndarray], ndarray], baselines: Series, since: Series) -> ndarray:
    """Return the sides that a rule reports if the `RERUNS` values after one that it reports are on the same side.

    These are the values that Plumbline has as further jobs.
    """
    answer = numpy.zeros(len(since), int)
    enough = [i for i, logs in enumerate(since) if len(logs) > RERUNS]
    if enough:
        known = [baselines[i] for i in enough]
        side = asks(known, [since[i][:-RERUNS] for i in enough])
        shown = lost(known, numpy.array([since[i][-RERUNS:] for i in enough]))
        answer[enough] = numpy.where(side == shown, shown, 0)
    return answer


def plumbline_trend(site: Series) -> list[list[int]]:
    """Return for each series the places of the steps, and of the beginning of a drift, that `plumbline trend` dates."""
    changed, _ = changes(site, [DEFAULT_FLOOR] * len(site))
    return [sorted({*of.steps, *([of.drift.begin] if of.drift else [])}) for of in changed]


def otava(site: Series) -> list[list[int]]:
    """Return the change points that Otava finds with the defaults of its command line."""
    return [list(_otava(tuple(numpy.exp(logs).tolist()))) for logs in site]


@cache
def _otava(values: tuple[float, ...]) -> tuple[int, ...]:
    points, _ = compute_change_points(list(values), window_len=50, max_pvalue=0.001, min_magnitude=0.0)
    return tuple(point.index for point in points)


def weekly(dated: Detector, site: Series) -> list[list[int]]:
    """Return when a method that dates changes, run every `WEEK` values, finds a change that was not known."""
    alarms: list[list[int]] = [[] for _ in site]
    known: list[list[int]] = [[] for _ in site]
    for end in range(BASE + WEEK, max(map(len, site)) + 1, WEEK):
        for i, places in enumerate(dated([logs[:end] for logs in site])):
            fresh = [place for place in places if all(abs(place - old) > MARGIN for old in known[i])]
            if fresh and end <= len(site[i]):
                alarms[i].append(end - 1)
                known[i] += fresh
    return alarms


def nothing(site: Series) -> list[list[int]]:
    """Return no place for any series: the result that a detector must beat."""
    return [[] for _ in site]


#: Rules that ask again: the values after the one that they ask about decide
RERUN: dict[str, Rule] = {
    'Plumbline, compare, with reruns': with_reruns,
    'mean ± 2 s, with reruns': partial(asked_again, partial(deviations, 2.0), mean_of_reruns),
    'mean ± 3 s, with reruns': partial(asked_again, partial(deviations, 3.0), mean_of_reruns),
    'reference ± 5 %, with reruns': partial(asked_again, five_percent, _five_percent),
}
RULES: dict[str, Rule] = {
    **RERUN,
    'mean ± 3 s': partial(deviations, 3.0),
}
LATE = dict.fromkeys(RERUN, RERUNS)
DATED: dict[str, Detector] = {'Plumbline, trend': plumbline_trend}
if compute_change_points is not None:
    DATED['Otava'] = otava
#: Detectors on whole series: methods that date changes see all values; a rule gets a new baseline after each alarm
WHOLE: dict[str, Detector] = {
    **DATED,
    **{name: partial(online, rule, True, LATE.get(name, 0)) for name, rule in RULES.items()},
}
#: Detectors that see value by value; a rule keeps its baseline
ARRIVING: dict[str, Detector] = {
    **{name: partial(weekly, dated) for name, dated in DATED.items()},
    **{name: partial(online, rule, False, LATE.get(name, 0)) for name, rule in RULES.items()},
}

# Measures


def with_interval(hits: Sequence[float], of: Sequence[float]) -> str:
    """Return the ratio of two sums and its 95 % interval, from 2000 draws of the series: ``0.61 [0.52-0.70]``."""
    over, under = numpy.array(hits, float), numpy.array(of, float)
    drawn = numpy.random.default_rng(SEED).integers(len(over), size=(2000, len(over)))
    low, high = numpy.quantile(over[drawn].sum(axis=1) / under[drawn].sum(axis=1), (0.025, 0.975))
    return f'{over.sum() / under.sum():.2f} [{low:.2f}-{high:.2f}]'


# Tables


def print_table(title: str, *rows: Sequence[str]) -> None:
    """Print a Markdown table; the first row holds its titles."""
    print(f'\n{title}\n')
    for number, row in enumerate(rows):
        print('| ' + ' | '.join(row) + ' |' + ('' if number else f'\n|{"---|" * len(row)}'), flush=True)


def labelled(history: History) -> None:
    """Print the scores of each detector on series whose changes people marked; every series is a site of its own."""
    rows = [['detector', 'precision', 'recall', 'F1']]
    for name, detector in {**WHOLE, 'nothing is reported': nothing}.items():
        scores = []
        for key, logs in history.series.items():
            labels, told = history.labels[key], set(detector([logs])[0])
            precision, recall = precision_recall(labels, told)
            f1 = 2 * precision * recall / (precision + recall)
            scores.append((precision, recall, f1))
        ones = [1.0] * len(scores)
        cells = [with_interval(column, ones) for column in zip(*scores, strict=True)]
        rows.append([name, *cells])
    n = sum(map(len, history.series.values()))
    print_table(f'{history.name}: {len(history.series)} series, {n} values, changes marked by people', *rows)


@dataclass
class Count:
    """The result of one detector in windows.

    `alarms`: alarms of each series without a loss; `values`: the number of its values. `found`: size of a loss -> for
    each such loss, how many values later it was found.
    """

    alarms: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    values: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    found: dict[float, list[int]] = field(default_factory=lambda: defaultdict(list))


def windows(history: History, rounds: int) -> Iterator[tuple[list[str], list[ndarray], ndarray]]:
    """Yield, for each round, names and windows of all quiet series, from places drawn by chance, and which lose."""
    rng = numpy.random.default_rng(SEED)
    names = [name for name, logs in history.series.items() if noise(logs) < QUIET[-1]]
    for _ in range(rounds if names else 0):
        begins = [rng.integers(len(history.series[name]) - WINDOW + 1) for name in names]
        cut = [history.series[name][begin : begin + WINDOW] for name, begin in zip(names, begins, strict=True)]
        yield names, cut, rng.permutation(len(names))[: max(round(PLANTED * len(names)), 1)]


def planted(histories: Sequence[History], rounds: int) -> None:
    """Print for each detector the share of losses that it finds, planted into real noise, and its false alarms."""
    kinds = [f'noise {100 * low:g} to {100 * high:g} %' for low, high in pairwise(QUIET)]
    counts = {(name, kind): Count() for name in ARRIVING for kind in kinds}
    rng = numpy.random.default_rng(SEED)
    for history in histories:
        for names, cut, losing in windows(history, rounds):
            kind = [kinds[int(noise(history.series[name]) >= QUIET[1])] for name in names]
            shuffled = [rng.permutation(logs) for logs in cut]
            for detector, alarms_of in ARRIVING.items():
                healthy = alarms_of(cut)
                for i, alarms in enumerate(alarms_of(shuffled)):
                    count = counts[detector, kind[i]]
                    begun = [place for place in alarms if place < WINDOW - RERUNS and place - 1 not in alarms]
                    count.alarms[f'{history.name} {names[i]}'] += len(begun)
                    count.values[f'{history.name} {names[i]}'] += WINDOW - RERUNS - BASE
                for loss in LOSSES:
                    lost = [logs.copy() for logs in cut]
                    for i in losing:
                        lost[i][BASE + HEALTHY :] += math.log1p(-loss)
                    told = alarms_of(lost)
                    for i in losing:
                        counts[detector, kind[i]].found[loss].append(first_alarm(told[i], healthy[i]))
    for kind in kinds:
        rows = [['detector', *(f'-{100 * loss:g} % within {n}' for loss in LOSSES for n in (MARGIN, LOST)), 'alarms']]
        for detector in ARRIVING:
            count = counts[detector, kind]
            cells = [
                wilson(sum(after < n for after in count.found[loss]), len(count.found[loss]), 0)
                for loss in LOSSES for n in (MARGIN, LOST)
            ]  # fmt: skip
            of = [count.values[name] / YEAR for name in count.values]
            rows.append([detector, *cells, with_interval([count.alarms[name] for name in count.values], of)])
        each, series = len(count.found[LOSSES[0]]), len(count.values)
        print_table(f'{kind}: {series} series, {each} losses of each size planted, found %; alarms a year', *rows)


def first_alarm(told: Sequence[int], healthy: Sequence[int]) -> int:
    """Return how many values after the planted loss the first alarm came; `WINDOW` if none came.

    Alarms that the same window without the loss has, too, do not count.
    """
    after = [place - BASE - HEALTHY for place in told if place >= BASE + HEALTHY and place not in healthy]
    return min(after, default=WINDOW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--rounds', type=int, default=10, help='windows of each series (default: %(default)s)')
    arguments = parser.parse_args()
    if compute_change_points is None:
        print('Otava is left out: pip install apache-otava')
    histories = read(arguments.folder)
    rows = [['history', 'series', 'values', 'median noise', 'series with noise below 5 %']]
    for history in histories.values():
        each = [noise(logs) for logs in history.series.values()]
        n, quiet = sum(map(len, history.series.values())), sum(of < QUIET[-1] for of in each)
        rows.append([history.name, str(len(each)), str(n), f'{100 * numpy.median(each):.1f} %', str(quiet)])
    print_table('Histories', *rows)
    for history in histories.values():
        if history.labels:
            labelled(history)
    if unlabelled := [history for history in histories.values() if not history.labels]:
        planted(unlabelled, arguments.rounds)


if __name__ == '__main__':
    main()
