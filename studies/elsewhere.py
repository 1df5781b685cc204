# SPDX-License-Identifier: BSD-3-Clause
"""Make ``postprocess/verdicts/elsewhere.csv``: what the published numbers of all sites say of their hardware.

    python -m studies elsewhere

A row of a processor or GPU is the median of the machines that have it. A row of any machine is the share of a peak that
machines reach, the bandwidth of one core, or a latency. A test compares it with the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median, stdev

from plumbline.identity import ANY, Pairs, Quantity, SeriesId, from_text
from plumbline.paths import SUITE_SITES
from plumbline.references import Reference, read_references
from plumbline.site.sites import Partition, load_site
from plumbline.units import UNITS
from postprocess.text import to_csv
from postprocess.verdicts.elsewhere import CARRIED, COLUMNS, HardwareLevel, NodeHardware

#: Params and dims that number the parts of a node, on each of which a machine should reach the same.
_PLACES = frozenset(('device', 'pair', 'pairs', 'domain', 'socket', 'core', 'cores', 'rank', 'node'))
#: Params of the checks that measure GPUs, and the programs that do so under the name of one for processors.
_OF_GPUS = frozenset(('device', 'model', 'buffers', 'link_class'))
_ON_GPUS = ('nvidia', 'rocm')
# The bindings of checks/memory/babelstream.py with a thread on each core or hardware thread
_ALL_CORES = ('cores', 'cores-spread', 'cores-true', 'threads', 'threads-close', 'threads-true')
# Series that reach about the same share of a peak: check, params, metric, dims
_SHARES: dict[str, list[tuple[str, Pairs, str, Pairs]]] = {
    'memory_bandwidth': [
        *(('BabelStreamHost', from_text(f'binding={binding}'), 'bandwidth', ANY) for binding in _ALL_CORES),
        *(('HPCC', ANY, f'StarSTREAM_{kernel}', ()) for kernel in ('Copy', 'Scale', 'Add', 'Triad')),
        ('LikwidBandwidth', from_text('layout=node,level=memory'), 'bandwidth', ANY),
    ],
    'flops_dp': [
        ('HPL', from_text('implementation=*,size=full'), 'gflops', ()),
        ('HPCC', from_text('size=full'), 'HPL_Tflops', ()),
        ('HPCC', ANY, 'StarDGEMM_Gflops', ()),
    ],
    'device_memory_bandwidth': [
        ('BabelStreamDevice', from_text('device=*,model=*'), 'best', ()),
        ('BabelStreamDevice', from_text('device=*,model=*'), 'bandwidth', ANY),
        ('BabelStreamAllDevices', from_text('model=*'), 'bandwidth', ANY),
    ],
}  # fmt: skip


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


Value = tuple[Of, str, float, str]  # what it is of, name of the machine, value, source


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
    if 'num_nodes' in dict(id.params):
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


def share_of(id: SeriesId, partition: Partition) -> str:
    """Return the name of the peak of which a published number is a share; empty without any.

    Memory counts for servers alone, those with two sockets or more: the others are boards and desktops of 2012.
    """
    if id.check == 'BabelStreamHost' and dict(id.params)['binding'] in _ALL_CORES:
        return 'memory_bandwidth' if partition.processor.get('num_sockets', 1) > 1 else ''
    if id.metric == 'all_best':
        return 'memory_bandwidth'
    if id.check == 'HPL' and id.metric == 'gflops' and not of_gpus(id) and 'num_nodes' not in dict(id.params):
        return 'flops_dp'
    return 'device_memory_bandwidth' if id.check == 'BabelStreamDevice' else ''


def values_of(site: str, row: Reference, partition: Partition) -> Iterator[Value]:
    """Yield what a published number says: of its own hardware, and of any machine."""
    id, quantity = row.id, row.quantity
    gpus = tuple((device['model'], device['num_devices']) for device in partition.entry.get('devices', []))
    processor = partition.processor
    machine = NodeHardware(processor.get('model', ''), processor.get('num_sockets', 0), gpus)
    if of := of_series(id, quantity, machine):
        yield of, f'{site} {id.partition}', row.mean, row.source
    name = share_of(id, partition)
    if peak := partition.peaks.get(name):
        alike = [(id.check, id.params, id.metric, id.dims)] if id.metric == 'all_best' else []
        for check, params, metric, dims in [*alike, *_SHARES[name]]:
            share = Of('any', '', None, check, params, metric, dims, name, Quantity('1', quantity.better))
            yield share, f'{site} {id.partition}', row.mean * UNITS[quantity.unit] / peak, row.source
    if id.metric == 'single_best':
        one = (('BabelStreamHost', (('binding', name),), 'bandwidth', ANY) for name in ('one', 'one-true'))
        for check, params, metric, dims in ((id.check, id.params, id.metric, id.dims), *one):
            yield Of('any', '', None, check, params, metric, dims, '', quantity), site, row.mean, row.source
    if id.check == 'OsuLatency':
        yield Of('any', '', None, id.check, id.params, id.metric, id.dims, '', quantity), site, row.mean, row.source


def summarize(values: Iterable[Value]) -> list[HardwareLevel]:
    """Return a level for all values of the same thing.

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


def table() -> str:
    """Return the text of the file, sorted by hardware and series."""
    values: list[Value] = []
    for path in sorted(SUITE_SITES.glob('*/published.csv')):
        site = path.parent.name
        partitions = load_site(site).partitions
        for row in read_references(path, 'published'):
            if row.is_limit and row.id.partition in partitions:
                values += values_of(site, row, partitions[row.id.partition])
    levels = [level for level in summarize(values) if level.part != 'any' or (level.row.n or 0) >= 3]
    rows = sorted((level.to_row() for level in levels), key=lambda row: [row[name] for name in COLUMNS[:8]])
    return to_csv(rows, COLUMNS)


if __name__ == '__main__':
    CARRIED.write_text(table(), encoding='utf-8')
