"""What each setting of the gate, the trend and the fleet would have raised on the history that a site already has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from plumbline.limits import Tolerance, limits
from plumbline.paths import SITES
from plumbline.references import Reference
from postprocess.history.fleet import of_night, outliers, tables
from postprocess.history.series import Metric, Policy, Series, by_night, by_node
from postprocess.history.trend import steps
from postprocess.results.store import Session, Store
from postprocess.verdicts.stats import inliers

BASELINE = 10  # nights at the beginning of the history of a metric that its limit is from
_FLOORS = (0.01, 0.02, 0.03, 0.05)
_NIGHTS = 30  # before a night that tell how its nodes were, as the default of `plumbline fleet`


@dataclass(frozen=True)
class Setting:
    """`alarms` of a setting in `chances` (metrics times nights, metrics, or nights), on `nights` different nights."""

    what: str
    setting: str
    alarms: int
    chances: int
    of: str
    nights: int

    @property
    def share(self) -> float:
        return 100 * self.alarms / self.chances if self.chances else 0.0


def backtest(store: Store, sessions: Sequence[Session], root: Path = SITES) -> list[Setting]:
    """Every setting over the whole of a history. Raises InputError where the store cannot be read."""
    policy = Policy.of(sessions[-1].site, root)
    series = by_night(store, sessions)
    floors: list[tuple[str, Callable[[Metric], Tolerance]]] = [('the policy of the site', policy.tolerance)]
    floors += [(f'floor {100 * floor:g} %', _with_floor(policy.tolerance, floor)) for floor in _FLOORS]
    found = [*_gates(series, floors), *_trends(series, floors)]
    of_nodes, nodes = by_node(store, sessions)
    return found + list(_fleets(of_nodes, nodes, len(sessions), floors))


def _with_floor(tolerance: Callable[[Metric], Tolerance], floor: float) -> Callable[[Metric], Tolerance]:
    return lambda of: Tolerance(floor, max(floor, tolerance(of).cap))


_Setting = tuple[str, Callable[[Metric], Tolerance]]


def _gates(series: Sequence[Series], settings: Sequence[_Setting]) -> Iterator[Setting]:
    """A limit from the first nights of each metric, and every night after them; nothing is confirmed by reruns."""
    long = [one for one in series if len(one.nights) > BASELINE]
    chances = sum(len(one.nights) - BASELINE for one in long)

    def setting(name: str, least: Callable[[Series, Reference], float]) -> Setting:
        beyond = [one.nights[BASELINE:][one.performance[BASELINE:] < least(one, _baseline(one))] for one in long]
        nights = numpy.concatenate(beyond) if beyond else numpy.empty(0)
        return Setting('gate', name, len(nights), chances, 'metrics and nights', len(set(nights.tolist())))

    for name, tolerance in settings:
        yield setting(name, lambda one, row, tolerance=tolerance: _performance(one, limits(row, tolerance(one.of)).bad))
    for share in (0.05, 0.10):
        yield setting(f'ReFrame, {-100 * share:g} % of the mean', lambda one, row, share=share: _fixed(one, row, share))
    yield setting('mean - 3 standard deviations', lambda one, row: _fixed(one, row, 3 * row.std / row.mean))


def _performance(series: Series, value: float) -> float:
    return series.of.sign * math.log(value)


def _fixed(series: Series, row: Reference, share: float) -> float:
    bound = 1 - series.of.sign * share
    return _performance(series, row.mean * bound) if bound > 0 else -math.inf


def _baseline(series: Series) -> Reference:
    """What `plumbline record` makes of the first nights of a metric, but for the spread of the other metrics."""
    values = series.values[:BASELINE]
    values = values[inliers(values)]
    of = series.of
    return Reference(
        partition=of.partition, stack=of.stack, check=of.check, case=of.case, metric=of.metric, unit=of.unit,
        better=of.better, mean=float(values.mean()), std=float(values.std(ddof=1)), n=len(values), kind='baseline',
        source='replay', spread=float(numpy.log(values).std(ddof=1)), df=len(values) - 1.0, spread_n=len(values),
    )  # fmt: skip


def _trends(series: Sequence[Series], settings: Sequence[_Setting]) -> Iterator[Setting]:
    """The steps for the worse over the whole history."""
    performance = [one.performance for one in series]
    for name, tolerance in settings:
        found = steps(performance, [tolerance(one.of).floor for one in series])
        worse = [
            int(one.nights[place])
            for one, values, ends in zip(series, performance, found, strict=True)
            for place, end, start in zip(ends, [*ends, len(values)][1:], [0, *ends][:-1], strict=True)
            if numpy.median(values[place:end]) < numpy.median(values[start:place])
        ]
        yield Setting('trend', name, len(worse), len(series), 'metrics', len(set(worse)))


def _fleets(series: Sequence[Series], nodes: list[str], nights: int, settings: Sequence[_Setting]) -> Iterator[Setting]:
    """Night after night, each with those before it; a node that was flagged stays so until it is as fast as before."""
    found = tables(series, nodes, nights)
    flagged: dict[str, set[tuple[str, int]]] = {name: set() for name, _ in settings}
    (policy, tolerance), *_ = settings
    for night in range(nights):
        first = max(night - _NIGHTS, 0)
        known = {(node, past - first) for node, past in flagged[policy] if past >= first}
        flags, _ = outliers(of_night(found, night, _NIGHTS), _with_floor(tolerance, min(_FLOORS)), flagged=known)
        for name, its in settings:  # a floor takes flags away and adds none
            flagged[name] |= {(flag.node, night) for flag in flags if flag.loss < math.log1p(-its(flag.of).floor)}
    for name, _ in settings:
        yield Setting('fleet', name, len(flagged[name]), nights, 'nights', len({night for _, night in flagged[name]}))
