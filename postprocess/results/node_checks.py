# SPDX-License-Identifier: BSD-3-Clause
"""The rates of node checks in the results directory, in the format `table` of `plumbline ingest`.

``node-checks/<node>.csv`` has one row for each look of each rate, in the order of the checks that did not drain the
node. ``<node>.drained.csv`` has the rows of the other checks, which say nothing about a healthy node. Only the check of
a node writes the files of the node, and it appends to them.
"""

from __future__ import annotations

import csv
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from plumbline.clock import now
from plumbline.errors import InputError
from plumbline.files import open_own
from plumbline.node_check.benchmarks import NodeBenchmark, name_of

BASELINE = 50  # number of first checks of a node that are its baseline: a slow decline does not move them
PEERS = 64  # most other nodes whose checks are read
COLUMNS = (
    'session', 'time', 'partition', 'environ', 'check', 'params', 'metric', 'dims', 'unit', 'better', 'value', 'node',
    'trial',
)  # fmt: skip
_LINES = 100_000  # most lines of a file that are read


class Key(NamedTuple):
    """What is measured in the same way on equal nodes, and therefore compared.

    `environ`: the model of the processor.
    """

    environ: str
    params: str
    metric: str
    dims: str


Row = tuple[Key, str, Sequence[float]]  # (what was measured, unit, rate of each look)
Checks = dict[Key, list[float]]  # what was measured -> best rate of each check


def key_of(model: str, benchmark: NodeBenchmark, dims: Mapping[str, str]) -> Key:
    """Return the key of a benchmark in a part (`dims`) of a node with the processor `model`."""
    params = f'program={benchmark.program},work={benchmark.work}'
    return Key(re.sub(r'[^\w.-]+', '_', model).strip('_'), params, benchmark.metric, name_of(dims))


def write(folder: Path, node: str, partition: str, rows: Sequence[Row], drained: bool) -> None:
    """Append the rates of one check to the file of its node."""
    time = now().isoformat(timespec='milliseconds')
    begin = {'session': f'{node}-{time}', 'time': time, 'partition': partition, 'check': 'NodeCheck', 'node': node}
    with open_own(folder / f'{node}{".drained" if drained else ""}.csv', 'a') as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator='\n')
        if not stream.tell():
            writer.writeheader()
        for key, unit, rates in rows:
            for trial, rate in enumerate(rates, 1):
                columns = {'unit': unit, 'better': 'higher', 'value': f'{rate:.6g}', 'trial': trial}
                writer.writerow(begin | key._asdict() | columns)


def read(folder: Path, node: str) -> tuple[Checks, list[Checks], list[str]]:
    """Return the first checks of this node, those of its peers, and a sentence for each peer that cannot be read.

    Raises InputError if the checks of the node itself cannot be read.
    """
    others = sorted(path for path in folder.glob('*.csv') if path.suffixes[-2:] != ['.drained', '.csv'])
    others = [path for path in others if path.stem != node]
    peers, damaged = [], []
    for path in random.Random(node).sample(others, min(PEERS, len(others))):  # noqa: S311  the same peers each time
        try:
            peers.append(_first_checks(path))
        except InputError as error:
            damaged.append(str(error))
    return _first_checks(folder / f'{node}.csv'), peers, damaged


def _first_checks(path: Path) -> Checks:
    """Return the first checks in a file. Raises InputError."""
    if not path.exists():
        return {}
    best: dict[Key, dict[str, float]] = defaultdict(dict)
    with path.open(encoding='utf-8', newline='') as stream:
        whole = (line for line in stream if line.endswith('\n'))  # a peer may be writing its last line
        reader = csv.DictReader(whole)
        try:
            for row in reader:
                of_key = best[Key(*(row[name] for name in Key._fields))]
                session, value = row['session'], float(row['value'])
                if not value > 0:
                    raise ValueError(f'the value {value:g}')
                if session in of_key or len(of_key) < BASELINE:
                    of_key[session] = max(value, of_key.get(session, 0.0))
                elif reader.line_num > _LINES or all(len(of) >= BASELINE for of in best.values()):
                    break
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise InputError(f'{path}:{reader.line_num}: expected a row of a node check, found {error}') from None
    return {key: list(of_key.values()) for key, of_key in best.items()}
