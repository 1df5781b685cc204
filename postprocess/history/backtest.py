"""The alarms that other settings of gate, trend and fleet would have raised on the history of a site."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy

from plumbline.limits import Tolerance, limits
from plumbline.paths import SITES
from plumbline.references import Reference
from postprocess.history.changepoints import changes, medians
from postprocess.history.nodes import NodeTable, outliers, tables, until
from postprocess.history.series import History, by_node, by_session
from postprocess.results.store import Session, Store
from postprocess.verdicts.stats import inliers

BASELINE = 10  # sessions at the beginning of a history that its limit comes from
_FLOORS = (0.01, 0.02, 0.03, 0.05)
_Rule = Callable[[Tolerance], Tolerance]  # from the tolerance of the site's policy to that of a setting


@dataclass(frozen=True)
class Setting:
    """`alarms` of a setting in `chances` of the kind `of`, in `sessions` different sessions."""

    what: str
    setting: str
    alarms: int
    chances: int
    of: str
    sessions: int

    @property
    def share(self) -> float:
        """Alarms in % of the chances."""
        return 100 * self.alarms / self.chances if self.chances else 0.0


def backtest(store: Store, sessions: Sequence[Session], root: Path = SITES) -> list[Setting]:
    """Return the alarms of each setting over a whole history. Raises InputError where the store cannot be read."""
    rules: dict[str, _Rule] = {'the policy of the site': lambda tolerance: tolerance}
    rules |= {f'floor {100 * floor:g} %': _with_floor(floor) for floor in _FLOORS}
    histories = by_session(store, sessions, root)
    found = [*_gates(histories, rules), *_trends(histories, rules)]
    of_nodes, nodes = by_node(store, sessions, root)
    return found + list(_fleets(tables(of_nodes, nodes, len(sessions)), len(sessions), rules))


def _with_floor(floor: float) -> _Rule:
    return lambda tolerance: Tolerance(floor, max(floor, tolerance.cap))


def _gates(histories: Sequence[History], rules: dict[str, _Rule]) -> Iterator[Setting]:
    """Judge every session by a limit from the first sessions of each history; no rerun confirms an alarm."""
    long = [one for one in histories if len(one.sessions) > BASELINE]
    baselines = list(map(_baseline, long))
    chances = sum(len(one.sessions) - BASELINE for one in long)

    def setting(name: str, limit: Callable[[History, Reference], float]) -> Setting:
        beyond = [
            one.sessions[BASELINE:][one.performance[BASELINE:] < limit(one, row)]
            for one, row in zip(long, baselines, strict=True)
        ]
        alarms = numpy.concatenate(beyond) if beyond else numpy.empty(0)
        return Setting('gate', name, len(alarms), chances, 'metrics and sessions', len(set(alarms.tolist())))

    for name, rule in rules.items():
        yield setting(name, partial(_at_limit, rule))
    for share in (0.05, 0.10):
        yield setting(f'ReFrame, {-100 * share:g} % of the mean', partial(_at_share, share))
    yield setting('mean - 3 standard deviations', lambda one, row: _at_share(3 * (row.std or 0.0) / row.mean, one, row))


def _at_limit(rule: _Rule, history: History, row: Reference) -> float:
    """Return the performance at the limit of the gate."""
    return history.quantity.sign * math.log(limits(row, rule(history.tolerance)).bad)


def _at_share(share: float, history: History, row: Reference) -> float:
    """Return the performance at a share of the mean on its bad side; minus infinity where that is no value."""
    bound = 1 - history.quantity.sign * share
    return history.quantity.sign * math.log(row.mean * bound) if bound > 0 else -math.inf


def _baseline(history: History) -> Reference:
    """Return what `plumbline record` makes of the first sessions, but for the spread of the other series."""
    values = history.values[:BASELINE]
    values = values[inliers(numpy.log(values))]
    return Reference(
        id=history.series, quantity=history.quantity, mean=float(values.mean()), std=float(values.std(ddof=1)),
        n=len(values), kind='baseline', source='backtest', spread=float(numpy.log(values).std(ddof=1)),
        df=len(values) - 1.0, spread_n=len(values),
    )  # fmt: skip


def _trends(histories: Sequence[History], rules: dict[str, _Rule]) -> Iterator[Setting]:
    """Count the steps for the worse over the whole history."""
    performance = [one.performance for one in histories]
    for name, rule in rules.items():
        found, _ = changes(performance, [rule(one.tolerance).floor for one in histories])
        worse = []
        for one, values, of in zip(histories, performance, found, strict=True):
            levels = medians(values, of.steps)
            worse += [int(one.sessions[end]) for i, end in enumerate(of.steps) if levels[i + 1] < levels[i]]
        yield Setting('trend', name, len(worse), len(histories), 'metrics', len(set(worse)))


def _fleets(found: Sequence[NodeTable], sessions: int, rules: dict[str, _Rule]) -> Iterator[Setting]:
    """Compare the nodes in session after session, each with those before it, as if the policy's flags were kept."""
    flagged: dict[str, set[tuple[str, int]]] = {name: set() for name in rules}
    policy = next(iter(rules))
    tolerances = {(table.series, table.quantity): table.tolerance for table in found}
    lowest = _with_floor(min(_FLOORS))
    found = [replace(table, tolerance=lowest(table.tolerance)) for table in found]
    for session in range(sessions):
        flags, _ = outliers(until(found, session, session), flagged=flagged[policy])
        for name, rule in rules.items():  # a larger floor removes flags and adds none
            flagged[name] |= {
                (flag.node, session)
                for flag in flags
                if flag.loss < math.log1p(-rule(tolerances[flag.series, flag.quantity]).floor)
            }
    for name, of in flagged.items():
        yield Setting('fleet', name, len(of), sessions, 'sessions', len({session for _, session in of}))
