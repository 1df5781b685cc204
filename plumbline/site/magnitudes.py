# SPDX-License-Identifier: BSD-3-Clause
"""Compare numbers of a site with what its hardware can reach: a factor of 1000 means a wrong unit."""

from collections.abc import Iterator
from typing import Any

from plumbline.machine import hardware
from plumbline.units import in_base_unit

#: The path of keys in the file, and what is wrong there.
Fault = tuple[list[Any], str]
_SLIP = 100.0  # a number that is so many times below what its kind of hardware reaches has a wrong unit
_MARGIN = 1.25  # a number may exceed it so many times: newer memory, or a clock above the nominal one
# Least and most of any hardware, where the table has no entry: of a socket, core, device or network device
_MEMORY = 1e9, 6e12
_FLOPS_OF_CORE = 5e8, 64 * hardware.CLOCK
_CLOCK = 1e8, hardware.CLOCK
_FLOP_PER_CYCLE = 0.1, hardware.FLOP_PER_CYCLE
_DEVICE_MEMORY = 2e10, 2.5e13
_DEVICE_FLOPS = 1e10, 2e16
_NIC = 1e7, 2e11
_LINK = 1e8, 2e12
_MEMORY_OF_CORE = 2.0**25, 2.0**40  # bytes
_CACHES = {'L1': (2.0**12, 2.0**20), 'L2': (2.0**15, 2.0**28), 'L3': (2.0**18, 2.0**31), 'L4': (2.0**20, 2.0**36)}
#: Least and most seconds of a metric by its unit: latencies of caches and memory are stated in ns.
_TIMES = {'ns': (1e-10, 2e-5)}
_SMALL_MESSAGE = 64  # bytes; the latency of such messages is at most that of sockets in a busy network
_LATENCY = 2e-8, 1e-3


def faults_of_magnitudes(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield path and fault of each number that no hardware of its kind has."""
    processor, peaks = partition.get('processor', {}), partition.get('peaks', {})
    nics = len(partition.get('nics', ()))
    stated: list[tuple[list[Any], str, float, tuple[float, float], str]] = []
    if processor:
        sockets, cores = processor['num_sockets'], processor['num_cpus'] // processor['num_cpus_per_core']
        of_sockets = f'{sockets} sockets' + (f' of {processor["arch"]}' if 'arch' in processor else '')
        memory = _of_kind(
            None if _unified(partition) else hardware.memory_of_socket(processor.get('arch', '')), _MEMORY
        )
        stated += [
            (['peaks', 'memory_bandwidth'], 'GB/s', sockets, memory, of_sockets),
            (['peaks', 'flops_dp'], 'GFlop/s', cores, _FLOPS_OF_CORE, f'{cores} cores'),
            (['memory_per_node'], 'GiB', cores, _MEMORY_OF_CORE, f'{cores} cores'),
        ]
        for level in processor.get('caches', {}):
            stated.append((['processor', 'caches', level, 'size'], 'KiB', 1, _CACHES[level], f'one cache of {level}'))
    stated.append((['peaks', 'core_clock'], 'GHz', 1, _CLOCK, 'a processor'))
    archs = {device['arch'] for device in partition.get('devices', []) if 'arch' in device}
    known = hardware.gpu(next(iter(archs))) if len(archs) == 1 else None
    of_device = f'one device of {next(iter(archs))}' if known else 'one device'
    stated.append(
        (['peaks', 'device_memory_bandwidth'], 'GB/s', 1, _of_kind(known and known.memory, _DEVICE_MEMORY), of_device)
    )
    for name in peaks:
        if name.startswith('device_flops_'):
            double = name.endswith('double')
            most = known and (known.double if double else known.any)
            limits = (most / (_SLIP if double else 10 * _SLIP), _MARGIN * most) if most else _DEVICE_FLOPS
            stated.append((['peaks', name], 'GFlop/s', 1, limits, of_device))
    stated.append((['peaks', 'network_bandwidth'], 'GB/s', nics or 8, _NIC, f'{nics or 8} network devices'))
    for name in partition.get('link_classes', {}):
        stated.append((['link_classes', name, 'peak'], 'GB/s', 1, _LINK, 'the path between two GPUs'))
    for path, unit, number, (least, most), of in stated:
        text = _at(partition, path)
        if text is not None and not least * number <= in_base_unit(text) <= most * number:
            low, high = (_in(value * number, unit) for value in (least, most))
            yield path, f'expected {low} to {high} {unit}, as of {of}; found {text}: a slip of the unit?'
    for name, number in peaks.get('flop_per_cycle', {}).items():
        if not _FLOP_PER_CYCLE[0] <= number <= _FLOP_PER_CYCLE[1]:
            yield ['peaks', 'flop_per_cycle', name], f'expected 0.1 to 128 Flop/cycle of one core; found {number:g}'
    for name, text in partition.get('published_peaks', {}).items():
        if name in peaks and not 0.1 <= in_base_unit(text) / in_base_unit(peaks[name]) <= 10:
            yield ['published_peaks', name], f'expected about that of peaks, {peaks[name]}; found {text}'


def beyond_hardware(
    mean: float, dimension: str, unit: str, nodes: float, partition: dict[str, Any], message: float | None = None
) -> str:
    """Return why no node of a `partition` can have measured a `mean` in the base unit; empty if one could.

    `nodes`: number of nodes of the series. `message`: bytes of a message, if `mean` is its latency between ranks.
    """
    processor = partition.get('processor', {})
    if dimension == 'time':
        least, most = _LATENCY if message is not None and message <= _SMALL_MESSAGE else _TIMES.get(unit, (0, 1e7))
        return '' if least <= mean <= most else f'expected {least:g} to {most:g} s of such a time'
    if not processor or dimension not in ('bandwidth', 'Flop rate'):
        return ''
    cores = processor['num_cpus'] // processor['num_cpus_per_core']
    devices = [device for device in partition.get('devices', []) if device['type'] == 'gpu']
    if any(hardware.gpu(device.get('arch', '')) is None for device in devices):
        return ''  # the table does not say what they reach
    gpus = [(device['num_devices'], hardware.gpu(device['arch'])) for device in devices]
    if dimension == 'Flop rate':
        most = cores * hardware.CLOCK * hardware.FLOP_PER_CYCLE + sum(number * of.any for number, of in gpus if of)
        what = 'Flop/s'
    else:  # of memory or of caches
        most = cores * hardware.CLOCK * hardware.CACHE_BYTES_PER_CYCLE
        most += sum(10 * number * of.memory for number, of in gpus if of)
        what = 'B/s'
    if mean <= most * nodes:
        return ''
    return f'{f"no {nodes:.0f} nodes have" if nodes > 1 else "no node has"} more than {most * nodes:.2g} {what}'


def _unified(partition: dict[str, Any]) -> bool:
    return any(device.get('unified') for device in partition.get('devices', []))


def _of_kind(most: float | None, otherwise: tuple[float, float]) -> tuple[float, float]:
    return (most / _SLIP, _MARGIN * most) if most else otherwise


def _at(partition: dict[str, Any], path: list[Any]) -> str | None:
    part: Any = partition
    for key in path:
        part = part.get(key) if isinstance(part, dict) else None
    return part


def _in(value: float, unit: str) -> str:
    return f'{value / in_base_unit(f"1 {unit}"):.3g}'
