# SPDX-License-Identifier: BSD-3-Clause
"""OpenSSL: how fast one core hashes. The example of docs/writing-checks.md."""

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.benchmark import Benchmark
from checks.core.placement import Execution, one_rank_on
from checks.core.reading.metrics import Metric
from plumbline.record import Dim

ALGORITHMS = ('sha1', 'sha256', 'sha512')


def hash_rate(block_bytes: int, run: str) -> Metric:
    """Return the metric of a run: a series for each algorithm."""
    return Metric(
        'hash_rate', 'MB/s', 'higher', r'^(?P<algorithm>sha\d+) +(?P<value>[\d.]+)k$', scale=1e-3, run=run,
        dims={'block_bytes': block_bytes}, expected={'algorithm': ALGORITHMS},
    )  # fmt: skip


@rfm.simple_test
class OpenSSLSpeed(Benchmark):
    """Rate at which one core hashes, by algorithm and block size. Parses ``sha256    1343816.92k``: 1000 bytes/s."""

    descr = 'OpenSSL hash rates of one core'
    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4)'
    valid_prog_environs = ['*']
    executable = 'openssl'
    tags = {'tutorial'}
    dims = {'algorithm': Dim('name'), 'block_bytes': Dim('size', 'B')}
    usual_spread = 0.01

    @run_after('setup')
    def choose_runs(self):
        self.placement = one_rank_on(self.topology.cpu_of_core[:1])
        sizes = {f'block_{size}': size for size in (64, 1024, 16384)}
        self.runs |= {
            run: Execution(['speed', '-seconds', '1', '-bytes', str(n), *ALGORITHMS]) for run, n in sizes.items()
        }
        self.metrics = [hash_rate(size, run) for run, size in sizes.items()]
