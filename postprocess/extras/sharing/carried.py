# SPDX-License-Identifier: BSD-3-Clause
"""Make ``postprocess/verdicts/elsewhere.csv``: what the published numbers of all sites say of their hardware.

    python -m postprocess.extras.sharing.carried

A row of a processor or GPU is the median of the machines that have it. A row of any machine is the share of a peak that
machines reach, the bandwidth of one core, or a latency. A test compares it with the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.identity import ANY, Pairs, Quantity, SeriesId, from_text
from plumbline.paths import SUITE_SITES
from plumbline.references import Reference, read_references
from plumbline.site.sites import Partition, load_site
from plumbline.units import UNITS
from postprocess.extras.sharing.levels import Of, of_gpus, of_series, summarize, to_text
from postprocess.verdicts.elsewhere import CARRIED, NodeHardware

Value = tuple[Of, str, float, str]
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


def table() -> str:
    """Return the text of the file."""
    values: list[Value] = []
    for path in sorted(SUITE_SITES.glob('*/published.csv')):
        site = path.parent.name
        partitions = load_site(site).partitions
        for row in read_references(path, 'published'):
            if row.is_limit and row.id.partition in partitions:
                values += values_of(site, row, partitions[row.id.partition])
    levels = summarize(values)
    return to_text(level for level in levels if level.part != 'any' or (level.row.n or 0) >= 3)


if __name__ == '__main__':
    CARRIED.write_text(table(), encoding='utf-8')
