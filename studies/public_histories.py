# SPDX-License-Identifier: BSD-3-Clause
"""Read public histories of benchmark results, and score change points against those that people marked in them.

`public_series.py` studies these histories. No data of them is part of this repository: docs/method.md lists
their addresses, licences and commits.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy
from numpy import ndarray

SEED = 20261123
FEWEST, MOST = 100, 100  # least values of a series; most series of a history, drawn by chance
MARGIN = 5  # values by which a date may differ from the true one, and in which a loss should be found


@dataclass(frozen=True)
class History:
    """The series of one repository. `labels`: the change points that each person marked in a series."""

    name: str
    series: dict[str, ndarray]
    labels: dict[str, list[set[int]]] = field(default_factory=dict)


def tcpd(folder: Path) -> History:
    """Read the Turing Change Point Dataset: the series of one dimension without missing values and above 0."""
    marked = json.loads((folder / 'annotations.json').read_text())
    series, labels = {}, {}
    for path in sorted(folder.glob('datasets/*/*.json')):
        told = json.loads(path.read_text())
        values = told['series'][0]['raw']
        if told['n_dim'] == 1 and None not in values and min(values) > 0:
            series[told['name']] = numpy.log(values)
            labels[told['name']] = [set(places) for places in marked[told['name']].values()]
    return History('TCPD', series, labels)


def legion(folder: Path) -> History:
    """Read the run times of Legion's applications, a series for each host, branch and command line."""
    times = []
    for path in folder.glob('measurements/*/*.json'):
        told = json.loads(path.read_text())
        of = told['metadata']
        name = ' '.join([of['benchmark'], of.get('host', ''), of.get('branch', ''), *of['argv']])
        times.append((name, of['date'], float(told['measurements']['time_seconds'])))
    return History('Legion', by_date(times))


def lance(folder: Path) -> History:
    """Read the run times of Lance's benchmarks."""
    rows = json.loads((folder / 'rust/results.json').read_text())
    return History('Lance', by_date([
        (f'{row["name"]} {row["os"]} {row["arch"]}', row['datetime'], row['mean_duration_ns']) for row in rows
    ]))  # fmt: skip


def asv(folder: Path) -> History:
    """Read the run times of an asv repository by date of commit, from the environment with the most results."""
    by_environment = defaultdict(list)
    for path in sorted(folder.glob('results/*/*-*.json')):
        by_environment[path.parent.name, path.name.partition('-')[2]].append(path)
    times = []
    for path in max(by_environment.values(), key=len):
        told = json.loads(path.read_text())
        for name, result in told['results'].items():
            # version 1: a number, or a dictionary of several; version 2: a row whose first column is a list of them
            values = result['result'] if isinstance(result, dict) else result
            values = values[0] if told['version'] > 1 and values else values
            for place, value in enumerate(values if isinstance(values, list) else [values]):
                if '.time_' in name and value is not None:
                    times.append((f'{name} {place}', told['date'], value))
    return History(folder.name, by_date(times))


def by_date(times: list[tuple[str, object, float]]) -> dict[str, ndarray]:
    """Return the series in rows (name, date, run time) by name: at most `MOST`, with `FEWEST` values and some noise."""
    series = defaultdict(list)
    for name, _, time in sorted(times, key=lambda row: (row[0], str(row[1]))):
        if math.isfinite(time) and time > 0:
            series[name].append(-math.log(time))
    long = {name: numpy.array(logs) for name, logs in series.items() if len(logs) >= FEWEST}
    long = {name: logs for name, logs in long.items() if noise(logs) > 0}
    drawn = numpy.random.default_rng(SEED).permutation(sorted(long))[:MOST]
    return {str(name): long[name] for name in sorted(drawn)}


#: Folder of a clone -> (its reader, its address)
REPOSITORIES: dict[str, tuple[Callable[[Path], History], str]] = {
    'TCPD': (tcpd, 'https://github.com/alan-turing-institute/TCPD'),
    'perf-data': (legion, 'https://github.com/StanfordLegion/perf-data'),
    'lance-benchmark-results': (lance, 'https://github.com/lancedb/lance-benchmark-results'),
    'numpy-bench': (asv, 'https://github.com/pv/numpy-bench'),
    'pvlib-benchmarks': (asv, 'https://github.com/pvlib/pvlib-benchmarks'),
}


def noise(logs: ndarray) -> float:
    """Return the standard deviation about the level, from the median of absolute differences between neighbors."""
    return float(numpy.median(abs(numpy.diff(logs)))) / 0.6745 / math.sqrt(2)


def read(folder: Path) -> dict[str, History]:
    """Return the histories of the clones in `folder`; print which clones are absent."""
    histories = {}
    for name, (reader, address) in REPOSITORIES.items():
        if (folder / name).is_dir():
            histories[name] = reader(folder / name)
        else:
            print(f'{folder / name}: no such folder; git clone {address}')
    return histories


# Scores


def matched(true: set[int], told: set[int]) -> list[int]:
    """Return, for each true change point that was reported within `MARGIN` values, the distance in values.

    Each reported place counts for one change point only.
    """
    unmatched, distances = set(told), []
    for place in sorted(true):
        near = min(unmatched, key=lambda of: (abs(of - place), of), default=None)
        if near is not None and abs(near - place) <= MARGIN:
            unmatched.remove(near)
            distances.append(abs(near - place))
    return distances


def precision_recall(labels: Sequence[set[int]], told: set[int]) -> tuple[float, float]:
    """Return precision against the marks of all people, and the mean recall over people (van den Burg and Williams).

    The first value counts as a change point of everyone (arXiv:2003.06222, section 3.2).
    """
    told = told | {0}
    people = [marks | {0} for marks in labels]
    precision = len(matched(set.union(*people), told)) / len(told)
    return precision, float(numpy.mean([len(matched(marks, told)) / len(marks) for marks in people]))
