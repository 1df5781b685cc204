# SPDX-License-Identifier: BSD-3-Clause
"""Compare numbers of a site with what its hardware can reach: a factor of 1000 means a wrong unit."""

import math
from collections.abc import Iterator
from typing import Any

from plumbline.machine import hardware
from plumbline.machine.node import gpus_in
from plumbline.units import in_base_unit
from plumbline.yaml_faults import Fault, stated

_SLIP = 100.0  # a number that is so many times below what its kind of hardware reaches has a wrong unit
_MARGIN = 1.25  # a number may exceed it so many times: newer memory, or a clock above the nominal one
# Least and most of any hardware, where the table has no entry: of a socket, core, device or network device
_MEMORY = 1e9, 6e12
_FLOPS_OF_CORE = 5e8, 64 * hardware.CLOCK
_CLOCK = 1e8, hardware.CLOCK
_DEVICE_MEMORY = 2e10, 2.5e13
_DEVICE_FLOPS = 1e10, 2e16
_NIC = 1e7, 2e11
_LINK = 1e8, 2e12
_MEMORY_OF_CORE = 2.0**25, 2.0**40  # bytes
_CACHES = {'L1': (2.0**12, 2.0**20), 'L2': (2.0**15, 2.0**28), 'L3': (2.0**18, 2.0**31), 'L4': (2.0**20, 2.0**36)}
#: Most bytes of all caches of a socket, 30 % above those of the largest today: AmpereOne, EPYC 9684X.
_CACHES_OF_SOCKET = {'L2': 2.0**29, 'L3': 1.5 * 2**30}
#: Least and most seconds of a metric by its unit: latencies of caches and memory are stated in ns.
_TIMES = {'ns': (1e-10, 2e-5)}
_SMALL_MESSAGE = 64  # bytes; the latency of such messages is at most that of sockets in a busy network
_LATENCY = 2e-8, 1e-3


def faults_of_magnitudes(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield path and fault of each number that no hardware of its kind has; what is wrong already bounds nothing."""
    peaks, nics, rate = (stated(partition, path) for path in (['peaks'], ['nics'], ['expects', 'nic_rate']))
    cpus, per_core, sockets, arch, caches = (
        stated(partition, ['processor', key])
        for key in ('num_cpus', 'num_cpus_per_core', 'num_sockets', 'arch', 'caches')
    )
    cores = cpus // per_core if cpus and per_core else 0
    devices = stated(partition, ['devices']) or []
    archs = {stated(device, ['arch']) for device in devices} - {None}
    known = hardware.gpu(next(iter(archs))) if len(archs) == 1 else None
    of_device = f'one device of {next(iter(archs))}' if known else 'one device'
    unified = any(stated(device, ['unified']) for device in devices)
    memory = _of_kind(None if unified else hardware.memory_of_socket(arch or ''), _MEMORY)
    network, of_nics = _NIC, f'{len(nics or ()) or 8} network devices'
    if nics and rate:
        network, of_nics = _of_kind(float(rate.split()[0]) * 1e9 / 8, _NIC), f'{of_nics} of {rate}, 8 bits a byte'
    # path, unit, number of parts, limits of one, what has them
    bounds: list[tuple[list[Any], str, float, tuple[float, float], str]] = [
        (
            ['peaks', 'memory_bandwidth'],
            'GB/s',
            sockets,
            memory,
            f'{sockets} sockets' + (f' of {arch}' if arch else ''),
        ),
        (['peaks', 'flops_dp'], 'GFlop/s', cores, _FLOPS_OF_CORE, f'{cores} cores'),
        (['memory_per_node'], 'GiB', cores, _MEMORY_OF_CORE, f'{cores} cores'),
        (['peaks', 'core_clock'], 'GHz', 1, _CLOCK, 'a processor'),
        (['peaks', 'device_memory_bandwidth'], 'GB/s', 1, _of_kind(known and known.memory, _DEVICE_MEMORY), of_device),
        (['peaks', 'network_bandwidth'], 'GB/s', len(nics or ()) or 8, network, of_nics),
    ]
    for level in caches or ():
        (least, most), sharing = _CACHES[level], stated(caches, [level, 'num_cpus'])
        number = max(1, cpus // sharing // sockets) if cpus and sharing and sockets else 1
        limits = least, min(most, _CACHES_OF_SOCKET.get(level, math.inf) / number)
        of = f'one cache of {level}' + (f', {number} on a socket' if number > 1 else '')
        unit = 'KiB' if least < 2**17 else 'MiB'
        bounds.append((['processor', 'caches', level, 'size'], unit, 1, limits, of))
    for name in peaks or ():
        if name.startswith('device_flops_'):
            double = name.endswith('double')
            high = known and (known.double if double else known.any)
            limits = (high / (_SLIP if double else 10 * _SLIP), _MARGIN * high) if high else _DEVICE_FLOPS
            bounds.append((['peaks', name], 'GFlop/s', 1, limits, of_device))
    for name in stated(partition, ['link_classes']) or ():
        bounds.append((['link_classes', name, 'peak'], 'GB/s', 1, _LINK, 'the path between two GPUs'))
    for path, unit, number, limits, of in bounds:
        text = stated(partition, path)
        if text and number and not limits[0] * number <= in_base_unit(text) <= limits[1] * number:
            lower, upper = (_in(value * number, unit) for value in limits)
            yield path, f'expected {lower} to {upper} {unit}, as of {of}; found {text}: a slip of the unit?'
    for name, published in (stated(partition, ['published_peaks']) or {}).items():
        peak = stated(peaks, [name])
        if peak and not 0.1 <= in_base_unit(published) / in_base_unit(peak) <= 10:
            yield ['published_peaks', name], f'expected about that of peaks, {peak}; found {published}'


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
    devices = gpus_in(partition)
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


def _of_kind(most: float | None, otherwise: tuple[float, float]) -> tuple[float, float]:
    return (most / _SLIP, _MARGIN * most) if most else otherwise


def _in(value: float, unit: str) -> str:
    digits = f'{value / in_base_unit(f"1 {unit}"):.3g}'
    return f'{float(digits):.10g}'
