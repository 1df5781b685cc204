# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks of a node check: installed programs that run for a second or two on all places of the node at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.job_variables import of_jobs
from plumbline.machine.node import bits, cores_of
from plumbline.node_check.jobs import Busy

SECONDS = 60.0  # for one look of one benchmark
_CACHES = 4  # arrays are so many times the last-level cache of their domain
_LEAST = 256 * 2**20  # bytes of an array where no cache is known


@dataclass(frozen=True)
class Place:
    """One place of a node, such as a NUMA domain, and the commands that run there at once; the slowest rate counts."""

    dims: Mapping[str, str]
    commands: Sequence[Sequence[str]]


@dataclass(frozen=True)
class NodeBenchmark:
    """A program that measures one metric. `rate`: pattern of its number, in `unit` after `scale`."""

    metric: str
    unit: str
    program: str
    work: str  # which kernel it runs: only numbers of the same work are compared
    rate: str
    scale: float
    places: Callable[[NodeShape], Iterator[Place]]


@dataclass(frozen=True)
class NodeShape:
    """What benchmarks need to know of a node. `step`: hardware threads of a core; 0 if cores differ.

    `domains`: of each NUMA domain with CPUs its number, one CPU of each core, and the bytes of its last-level cache.
    """

    domains: Sequence[tuple[int, Sequence[int], int]]
    step: int
    gpus: int


def node_of(processor: dict[str, Any], gpus: int) -> NodeShape:
    """Return what benchmarks need of a processor as `plumbline.machine.node.processor_of` describes it."""
    topology, every_core = processor['topology'], cores_of(processor)
    last = max((cache['type'] for cache in topology['caches']), default='')
    domains = []
    for number, cpus in enumerate(map(bits, topology['numa_nodes'])):
        sizes = [
            cache['size'] * sum(not cpus.isdisjoint(bits(shared)) for shared in cache['cpusets'])
            for cache in topology['caches'] if cache['type'] == last
        ]  # fmt: skip
        domains.append((number, [core[0] for core in every_core if core[0] in cpus], sum(sizes)))
    threads = {*map(len, every_core)}
    return NodeShape(domains, max(threads) if len(threads) == 1 else 0, gpus)


def _likwid(kernel: str, bytes_of: Callable[[int, int], int]) -> Callable[[NodeShape], Iterator[Place]]:
    def places(node: NodeShape) -> Iterator[Place]:
        for number, cores, cache in node.domains if node.step else ():  # it chooses cores by a stride in threads
            group = f'M{number}:{bytes_of(cache, len(cores)) // 1000}kB:{len(cores)}:1:{node.step}'
            words = ['likwid-bench', '-t', kernel, '-s', '1', '-w', group]
            yield Place({'numa_domain': str(number)}, [words])

    return places


def _beyond(cache: int) -> int:
    return max(_CACHES * cache, _LEAST)


def _omp_stream(node: NodeShape) -> Iterator[Place]:
    for number, cores, cache in node.domains:
        bound = [
            'env',
            f'OMP_NUM_THREADS={len(cores)}',
            'OMP_PROC_BIND=true',
            'taskset',
            '-c',
            ','.join(map(str, cores)),
        ]
        sizes = ['--arraysize', str(_beyond(cache) // 8 // 1024 * 1024), '--numtimes', '20']
        yield Place({'numa_domain': str(number)}, [[*bound, 'omp-stream', *sizes]])


def _openssl(node: NodeShape) -> Iterator[Place]:
    for number, cores, _ in node.domains:
        words = ['openssl', 'speed', '-seconds', '1', '-bytes', '16384', '-evp', 'sha256']
        yield Place({'numa_domain': str(number)}, [['taskset', '-c', str(core), *words] for core in cores])


def _gpu_stream(program: str) -> Callable[[NodeShape], Iterator[Place]]:
    def places(node: NodeShape) -> Iterator[Place]:
        for gpu in range(node.gpus):
            words = [program, '--device', str(gpu), '--arraysize', str(2**27), '--numtimes', '100']
            yield Place({'gpu': str(gpu)}, [words])

    return places


_TRIAD = r'^Triad\s+(\S+)'
#: For each metric, the first benchmark counts whose program is on PATH. openssl divides by the CPU time of its process,
#: so that other processes disturb it least, and runs on each core by itself; in likwid-bench one slow core holds up its
#: domain.
BENCHMARKS = (
    NodeBenchmark('memory_bandwidth', 'GB/s', 'likwid-bench', 'load', r'^MByte/s:\s+(\S+)$', 1e-3,
              _likwid('load', lambda cache, cores: _beyond(cache))),
    NodeBenchmark('memory_bandwidth', 'GB/s', 'omp-stream', 'triad', _TRIAD, 1e-3, _omp_stream),
    NodeBenchmark('core_rate', 'MB/s', 'openssl', 'sha256', r'^sha256 +(\S+)k$', 1e-3, _openssl),
    NodeBenchmark('core_rate', 'GFlop/s', 'likwid-bench', 'peakflops', r'^MFlops/s:\s+(\S+)$', 1e-3,
              _likwid('peakflops', lambda cache, cores: 20_000 * cores)),
    NodeBenchmark('gpu_memory_bandwidth', 'GB/s', 'cuda-stream', 'triad', _TRIAD, 1e-3, _gpu_stream('cuda-stream')),
    NodeBenchmark('gpu_memory_bandwidth', 'GB/s', 'hip-stream', 'triad', _TRIAD, 1e-3, _gpu_stream('hip-stream')),
)  # fmt: skip


def installed(node: NodeShape) -> tuple[list[NodeBenchmark], list[str]]:
    """Return the benchmarks that can run, and a sentence for each metric that none can measure."""
    by_metric: dict[str, NodeBenchmark] = {}
    for benchmark in BENCHMARKS:
        if benchmark.metric not in by_metric and shutil.which(benchmark.program) and any(benchmark.places(node)):
            by_metric[benchmark.metric] = benchmark
    lacking: dict[str, list[str]] = {}
    for benchmark in BENCHMARKS:
        if benchmark.metric not in by_metric and any(benchmark.places(node)):
            lacking.setdefault(benchmark.metric, []).append(benchmark.program)
    return [*by_metric.values()], [f'{name} (no {" or ".join(programs)} on PATH)' for name, programs in lacking.items()]


def look(benchmark: NodeBenchmark, places: Sequence[Place]) -> tuple[list[float], float]:
    """Return the rate at each place, all measured at once, and how many CPUs other processes kept busy.

    Raises ValueError if a program fails.
    """
    busy, started = Busy(), []
    for place in places:
        started += [(place, _start(words)) for words in place.commands]
    end = time.monotonic() + SECONDS
    texts: dict[int, list[str]] = {}
    try:
        for place, process in started:
            printed, _ = process.communicate(timeout=max(end - time.monotonic(), 0.1))
            if process.returncode:
                raise ValueError(f'{benchmark.program} ended with {process.returncode} at {name_of(place.dims)}')
            texts.setdefault(id(place), []).append(printed)
    except subprocess.TimeoutExpired:
        raise ValueError(f'{benchmark.program} did not end within {SECONDS:g} s') from None
    finally:
        for _, process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()
    rates = []
    for place in places:
        of_place = [re.findall(benchmark.rate, text, re.MULTILINE) for text in texts[id(place)]]
        if not all(len(matches) == 1 and re.fullmatch(r'\d+(\.\d+)?', matches[0]) for matches in of_place):
            raise ValueError(f'{benchmark.program} printed no rate at {name_of(place.dims)}')
        rates.append(benchmark.scale * min(float(matches[0]) for matches in of_place))
    return rates, busy.cpus()


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    quiet = subprocess.DEVNULL
    environment = of_jobs(os.environ) | {'LC_ALL': 'C', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
    try:
        return subprocess.Popen(
            command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True, errors='replace', env=environment
        )
    except OSError as error:
        raise ValueError(f'{command[0]} cannot be run: {error.strerror}') from None


def name_of(dims: Mapping[str, str]) -> str:
    """Return the dims of a place as text, such as ``numa_domain=0``."""
    return ','.join(f'{name}={value}' for name, value in dims.items())
