# SPDX-License-Identifier: BSD-3-Clause
"""Summarize what machines reach by their hardware, for others to compare with: rows of ``elsewhere.csv``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, stdev

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.identity import ANY, Pairs, Quantity, SeriesId
from plumbline.paths import site_folders
from plumbline.references import ELSEWHERE, Reference
from postprocess.results.store import Session, Store
from postprocess.text import to_csv
from postprocess.verdicts.baseline_files import read_baseline
from postprocess.verdicts.elsewhere import COLUMNS, HardwareLevel, NodeHardware, parse, read

#: Params and dims that number the parts of a node, on each of which a machine should reach the same.
_PLACES = frozenset(('device', 'pair', 'pairs', 'domain', 'socket', 'core', 'cores', 'rank', 'node'))
#: Params of the checks that measure GPUs, and the programs that do so under the name of one for processors.
_OF_GPUS = frozenset(('device', 'model', 'buffers', 'link_class'))
_ON_GPUS = ('nvidia', 'rocm')
_OF_STORAGE = 'storage'


@dataclass(frozen=True)
class Of:
    """What a number is of: the columns of a level without its statistics."""

    part: str
    model: str
    number: int | None
    check: str
    params: Pairs
    metric: str
    dims: Pairs
    share_of: str
    quantity: Quantity


def of_gpus(id: SeriesId) -> bool:
    """Return True if a check measures GPUs; those in the memory of GPUs or between them are in every folder."""
    params = dict(id.params)
    named = any(word in id.check for word in ('Device', 'Xccl'))
    return named or not _OF_GPUS.isdisjoint(params) or params.get('implementation') in _ON_GPUS


def of_series(id: SeriesId, quantity: Quantity, machine: NodeHardware) -> Of | None:
    """Return what a series is of on a machine; None if its hardware has no name, or if several nodes measure it.

    A series of one GPU or of a pair of GPUs is of nodes with any number of such GPUs.
    """
    params, dims = _without_places(id.params), _without_places(id.dims)
    on_gpus = of_gpus(id)
    if 'num_nodes' in dict(id.params) or not (machine.is_whole or on_gpus):
        return None
    if on_gpus and len(machine.gpus) == 1:
        model, number = machine.gpus[0]
        one = any(_is_place(name, value) for name, value in (*id.params, *id.dims))
        return Of('gpu', model, None if one else number, id.check, params, id.metric, dims, '', quantity)
    if on_gpus or not machine.processor or not machine.sockets:
        return None
    return Of('processor', machine.processor, machine.sockets, id.check, params, id.metric, dims, '', quantity)


def _without_places(pairs: Pairs) -> Pairs:
    """Return pairs with a wildcard for each that numbers a part of the node."""
    return tuple((name, '*' if _is_place(name, value) else value) for name, value in pairs) if pairs != ANY else ANY


def _is_place(name: str, value: str) -> bool:
    """Return True for ``device=3``, but not for ``pair=same_numa``."""
    return name in _PLACES and (value == '*' or any(map(str.isdigit, value)))


def summarize(values: Iterable[tuple[Of, str, float, str]]) -> list[HardwareLevel]:
    """Return a level for all values of the same thing: (what it is of, name of the machine, value, source).

    Several values of one machine count as their median; the spread is that of the logarithms between machines.
    """
    machines: dict[Of, dict[str, list[float]]] = {}
    sources: dict[Of, dict[str, None]] = {}
    for of, machine, value, source in values:
        machines.setdefault(of, {}).setdefault(machine, []).append(value)
        sources.setdefault(of, {}).setdefault(source)
    levels = []
    for of, by_machine in machines.items():
        each = [median(found) for found in by_machine.values()]
        row = Reference(
            SeriesId('*', '*', of.check, of.params, of.metric, of.dims), of.quantity, median(each), None, len(each),
            'elsewhere', '; '.join(sources[of]), spread=stdev(map(math.log, each)) if len(each) > 1 else None,
        )  # fmt: skip
        levels.append(HardwareLevel(of.part, of.model, of.number, of.share_of, row))
    return levels


def shared(store: Store, session: Session, source: str, root: Path | None = None) -> list[HardwareLevel]:
    """Return the levels of the baseline of a site, with the hardware of the cases of its `session`.

    The value of a level is the median over the nodes and parts of the site. The site is one machine, so there is no
    spread between machines. No name of the site, its partitions or nodes is in it. Storage is left out: it is not of
    the node, and its params name file systems of the site. Raises InputError without such a baseline.
    """
    rows = {row.id: row for row in read_baseline(session.site, root)}
    if not rows:
        propose = store.command('record propose', session.site, root)
        raise InputError(f'site {session.site} has no baseline to share: {propose} makes one')
    machines = {
        case.id: NodeHardware.of(case.provenance)
        for case in store.cases(session)
        if not case.fixture and _OF_STORAGE not in case.tags
    }
    values = [
        (of, 'one', row.mean, source)
        for id, row in rows.items()
        if id.case in machines and not row.is_pattern and (of := of_series(id, row.quantity, machines[id.case]))
    ]
    if not values:
        raise InputError(
            f'{session.site}: no case of its last session, {session.short_name}, has a baseline and ran on a '
            'single real node, with at least half of its CPUs, whose processor or GPU has a known name'
        )
    return summarize(values)


def to_text(levels: Iterable[HardwareLevel]) -> str:
    """Return the text of an ``elsewhere.csv``, sorted by hardware and series."""
    rows = sorted((level.to_row() for level in levels), key=lambda row: [row[name] for name in COLUMNS])
    return to_csv(rows, COLUMNS)


def take(path: Path, site: str, root: Path | None = None) -> tuple[Path, int]:
    """Add the levels of a file to those that a site is compared with; return the file and the number of new levels.

    A level of the same hardware, series and source replaces the one that is there. Raises InputError, SiteError.
    """
    target = site_folders(root)[0] / site / ELSEWHERE
    if not target.parent.is_dir():
        raise InputError(f'{target.parent}: expected the folder of site {site}; `plumbline init` makes one')
    before = read(target) if target.exists() else []
    merged = {
        tuple(level.to_row()[name] for name in (*COLUMNS[:10], 'source')): level for level in (*before, *read(path))
    }
    text = to_text(merged.values())
    parse(text, target)
    write_text(target, text)
    return target, len(merged) - len(before)
