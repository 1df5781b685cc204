# SPDX-License-Identifier: BSD-3-Clause
"""Comm|Scope's benchmarks: their names, and their times in the JSON file of Google Benchmark.

An entry of that file says ``"real_time": 1.9e+03, "time_unit": "ns"``, the mean of its iterations, beside its counters.
Names, sizes and counters are those of the sources of version 0.12.0, Google Benchmark's of 1.7.1 to 1.8.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from checks.core.reading.metrics import Metric, NotMeasured, OutputRow
from plumbline.units import UNITS

_TIMES = ('ns', 'us', 'ms', 's')
# Model and what is measured -> name of the benchmark. `real_time` is that of the wall clock, which includes waiting;
# `manual_time` that of the benchmark, from an event before the copy on the device to one after it. `launch` is of an
# empty kernel without argument (0), for which it does not wait; `wait` for an idle device. Between devices CUDA's
# benchmark switches peer access off; HIP's does not switch it and binds to no NUMA domain.
_OF_DEVICE, _COPY = '{numa}/{device}', 'log2(N):{power}/manual_time'
_NAMES = {
    ('cuda', 'launch'): f'Comm_cudart_kernel/{_OF_DEVICE}/0/real_time/threads:1',
    ('hip', 'launch'): f'Comm_hip_kernel/{_OF_DEVICE}/0/real_time/threads:1',
    ('cuda', 'wait'): f'Comm_cudaDeviceSynchronize/{_OF_DEVICE}/real_time/threads:1',
    ('hip', 'wait'): f'Comm_hipDeviceSynchronize/{_OF_DEVICE}/real_time/threads:1',
    ('cuda', 'h2d'): f'Comm_cudaMemcpyAsync_PinnedToGPU/{_OF_DEVICE}/{_COPY}',
    ('hip', 'h2d'): f'Comm_hipMemcpyAsync_PinnedToGPU/{_OF_DEVICE}/{_COPY}',
    ('cuda', 'd2h'): f'Comm_cudaMemcpyAsync_GPUToPinned/{_OF_DEVICE}/{_COPY}',
    ('hip', 'd2h'): f'Comm_hipMemcpyAsync_GPUToPinned/{_OF_DEVICE}/{_COPY}',
    ('cuda', 'd2d'): f'Comm_cudaMemcpyAsync_GPUToGPU/{{numa}}/{{device}}/{{target}}/{_COPY}',
    ('hip', 'd2d'): f'Comm_hipMemcpyAsync_GPUToGPU/{{device}}/{{target}}/{_COPY}',
}


def name_of(model: str, what: str, numa: int, device: int, size: int = 0, target: int = 0) -> str:
    """Return the name of a benchmark; of copies with their `size` in bytes, between devices with the `target`."""
    return _NAMES[model, what].format(numa=numa, device=device, power=size.bit_length() - 1, target=target)


def options_of(names: list[str], seconds: float) -> list[str]:
    """Return the options that run exactly these benchmarks, each for `seconds`."""
    families: dict[str, list[str]] = {}
    for name in names:
        family, _, rest = name.partition('/')
        families.setdefault(family, []).append(re.escape(rest))
    filters = '|'.join(f'^{family}/({"|".join(rests)})$' for family, rests in families.items())
    return [
        f'--benchmark_filter={filters}', f'--benchmark_min_time={seconds}', '--benchmark_out=benchmarks.json',
        '--benchmark_out_format=json',
    ]  # fmt: skip


def reading(metric: Metric, name: str) -> Metric:
    """Return the metric with a reader of the benchmark `name`: its mean time or, in a unit of rate, bytes by time."""

    def read(output: str) -> Iterator[OutputRow]:
        seconds = seconds_of(output, name)
        rate = metric.unit.endswith('/s')
        yield OutputRow({}, (bytes_of(name) / seconds if rate else seconds) / UNITS[metric.unit])

    return replace(metric, read=read)


def bytes_of(name: str) -> int:
    """Return the bytes that an iteration of a benchmark copies; 0 if it copies none."""
    size = re.search(r'/log2\(N\):([0-9]{1,2})/', name)
    return 2 ** int(size[1]) if size else 0


def seconds_of(output: str, name: str) -> float:
    """Return the seconds of an iteration of a benchmark. Raises NotMeasured."""
    entries = [entry for entry in _entries(output) if entry.get('run_name') == name]
    if len(entries) != 1:
        raise NotMeasured(f'{name} is there {len(entries)} times, expected 1')
    (entry,) = entries
    for sign, words in (('error_occurred', 'error_message'), ('skipped', 'skip_message')):
        if entry.get(sign):
            raise NotMeasured(f'{name} did not run: {entry.get(words) or "no reason given"}')
    if entry.get('run_type') != 'iteration':
        raise NotMeasured(f'{name} is of type {entry.get("run_type")!r}, expected iteration')
    if (unit := entry.get('time_unit')) not in _TIMES:
        raise NotMeasured(f'{name} has time_unit {unit!r}, expected one of {", ".join(_TIMES)}')
    if (size := bytes_of(name)) and _number(entry, 'bytes') != size:
        raise NotMeasured(f'{name} copied {entry["bytes"]:.0f} bytes, expected {size}')
    return _number(entry, 'real_time') * UNITS[unit]


def faults_of(output: str, names: list[str]) -> list[str]:
    """Return one sentence for each sign that an output is not of these benchmarks alone."""
    try:
        others = {str(entry.get('run_name')) for entry in _entries(output)} - set(names)
    except NotMeasured as reason:
        return [str(reason)]
    return [f'a benchmark that was not requested: {name}' for name in sorted(others)]


def _entries(output: str) -> list[dict[str, Any]]:
    return _document(output)['benchmarks']


@functools.lru_cache(maxsize=1)  # all metrics of a run read the same text
def _document(output: str) -> dict[str, Any]:
    if not output.strip():
        raise NotMeasured('Comm|Scope has none of the requested benchmarks, or ended before the first')
    try:
        document = json.loads(output, parse_int=float, object_pairs_hook=_of_unique_keys)
        entries = document['benchmarks']
        if not (entries and all(isinstance(entry, dict) for entry in entries)):
            raise ValueError('no benchmarks in it')
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotMeasured(f'no complete JSON of Google Benchmark: {type(error).__name__}: {str(error)[:80]}') from None
    return document


def _number(entry: dict[str, Any], key: str) -> float:
    value = entry.get(key)
    if not (isinstance(value, float) and math.isfinite(value) and value > 0):
        raise NotMeasured(f'{entry["run_name"]} has {key} {value!r}, expected a finite number above zero')
    return value


def _of_unique_keys(members: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(members)
    if len(entry) < len(members):  # two entries of a torn output
        raise ValueError('a key is there twice')
    return entry
