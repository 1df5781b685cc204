# SPDX-License-Identifier: BSD-3-Clause
"""fio: bandwidth, rate and latency of a disk of the node, with O_DIRECT and many requests in flight."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter

from checks.core.placement import Execution, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, NotMeasured, OutputRow, Spread
from checks.core.topology import Topology
from checks.storage.storage import FILE_SYSTEM_KINDS, FILE_SYSTEMS, SPREAD, StorageBenchmark, in_job_directory
from plumbline.record import Dim

MIB = 2**20
SIZE = 512 * MIB
SECONDS = 3  # of each random pattern
SLOW = 50e6  # bytes/s, for estimates
PATTERNS = {  # the first one makes the file
    'write': '--bs=1M --iodepth=16 --end_fsync=1',
    'read': '--bs=1M --iodepth=16',
    'randwrite': f'--bs=4k --iodepth=32 --time_based --runtime={SECONDS}',
    'randread': f'--bs=4k --iodepth=32 --time_based --runtime={SECONDS}',
}


def job_of(output: str) -> dict[str, Any]:
    """Return the only job of fio's JSON, behind its warnings. Raises NotMeasured."""
    try:
        (job,) = json.loads(output[output.index('{') :])['jobs']
        return dict(job)
    except (ValueError, KeyError, TypeError):
        raise NotMeasured('the output is no JSON of fio with one job') from None


def number(pattern: str, *keys: str) -> Callable[[str], Iterator[OutputRow]]:
    """Return the function that reads the number of a pattern's direction at these keys."""

    def read(output: str) -> Iterator[OutputRow]:
        value: Any = job_of(output).get('write' if 'write' in pattern else 'read')
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, int | float):
            raise NotMeasured(f"fio's JSON has no number {'.'.join(keys)}")
        yield OutputRow({}, value)

    return read


def metrics_of(pattern: str) -> list[Metric]:
    """Return what a pattern measures: of large requests the bandwidth, of small ones their rate and latency."""
    at = {'pattern': pattern}
    if not pattern.startswith('rand'):
        return [Metric('bandwidth', 'MB/s', 'higher', number(pattern, 'bw_bytes'), at, scale=1e-6, run=pattern)]
    slowest = number(pattern, 'clat_ns', 'percentile', '99.000000')
    return [
        Metric('operations', 'ops/s', 'higher', number(pattern, 'iops'), at, run=pattern),
        Metric('latency_p99', 'us', 'lower', slowest, at, scale=1e-3, run=pattern),
    ]


def faults_of(output: str) -> list[str]:
    """Return a sentence if fio's JSON has an error; that it is no such JSON its metrics say."""
    with suppress(NotMeasured):
        if error := job_of(output).get('error'):
            return [f'fio ended with error {error}']
    return []


@rfm.simple_test
class LocalDisk(StorageBenchmark):
    """Writes and reads a file of 512 MiB on a file system that one node uses, in order and at random.

    Parses of fio's JSON ``"bw_bytes" : 176602273``, bytes/s; ``"iops" : 25651.6``; ``"99.000000" : 284672``, ns.
    """

    descr = 'fio, a disk of the node'
    last_run = '2026-11-28, virtual machine, 2 cores (AMD EPYC, Zen 4), ext4'
    valid_prog_environs = ['+fio']
    executable = 'fio'
    mpi = False
    dims = {'pattern': Dim('name')}
    usual_spread = Spread(SPREAD, floor=0.15)
    file_system = parameter(FILE_SYSTEMS, loggable=True)
    size, nodes = 'nightly', 1

    def supports(self, topology: Topology) -> bool:
        if not super().supports(topology):
            return False
        kind = FILE_SYSTEM_KINDS[topology.file_systems[self.file_system].kind]
        return kind.direct and not kind.on_all_nodes and not kind.own_cache  # which O_DIRECT may not pass by

    def placement_of_node(self):
        return one_rank_on(self.topology.cpu_of_core[:1])

    def add_runs(self):
        words = ['--name=disk', f'--size={SIZE}', '--direct=1', '--ioengine=libaio', '--output-format=json']
        for name, options in PATTERNS.items():
            self.runs[name] = Execution(
                [*words, f'--rw={name}', *options.split(), '--filename', in_job_directory('file')]
            )
        self.metrics = [metric for name in PATTERNS for metric in metrics_of(name)]
        self.need_bytes, self.need_inodes = SIZE, 4
        self.estimate(3 * SIZE / SLOW + 2 * SECONDS)

    def sanity_faults(self, run: Run) -> list[str]:
        return super().sanity_faults(run) + faults_of(run.output)
