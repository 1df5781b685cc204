# SPDX-License-Identifier: BSD-3-Clause
"""A small case of every program of the localhost CPU stack: shows that a job finds and runs it, not how fast it is."""

import reframe as rfm

from checks.core.benchmark import Benchmark
from checks.core.placement import Placement
from checks.core.reading.metrics import Metric


class Program(Benchmark):
    """One execution on the first two cores: two ranks, or one rank of two threads."""

    trials = 1
    mpi = True
    tags = {'quick'}

    @run_after('setup')
    def place(self):
        first, second = self.topology.cpu_of_core[:2]
        if self.mpi:
            self.placement = Placement(2, ((first,), (second,)))
        else:
            self.placement = Placement(1, ((first, second),), threads=2)


@rfm.simple_test
class BabelStream(Program):
    valid_prog_environs = ['+babelstream-omp']
    mpi = False
    executable = 'omp-stream'
    executable_opts = ['--arraysize', str(2**25), '--numtimes', '10']
    metrics = [Metric('triad', 'MB/s', 'higher', r'^Triad\s+(\S+)')]


@rfm.simple_test
class OsuLatency(Program):
    valid_prog_environs = ['+osu']
    executable = 'osu_latency'
    executable_opts = ['-m', '8:8']
    metrics = [Metric('latency', 'us', 'lower', r'^8\s+(\S+)')]


@rfm.simple_test
class Hpl(Program):
    valid_prog_environs = ['+hpl']
    executable = 'xhpl'
    inputs = ['HPL.dat']
    metrics = [Metric('hpl', 'GFlop/s', 'higher', r'^W[RC]\S+(?:\s+\S+){5}\s+(\S+)')]

    @run_after('setup')
    def write_input(self):
        lines = (
            'HPL.dat', 'two ranks', 'HPL.out', '6', '1', '2000', '1', '192', '0', '1', '1', '2', '16.0', '1', '2', '1',
            '4', '1', '2', '1', '1', '1', '1', '1', '1', '2', '64', '0', '0', '1', '8',
        )  # fmt: skip
        with open(f'{self.stagedir}/HPL.dat', 'w') as file:
            file.write('\n'.join(lines) + '\n')

    def sanity_faults(self, output):
        return [] if 'PASSED' in output else ['no residual passed']


@rfm.simple_test
class Hpcg(Program):
    valid_prog_environs = ['+hpcg']
    executable = 'xhpcg'
    executable_opts = ['--nx=32', '--ny=32', '--nz=32', '--rt=5']
    output = 'HPCG-Benchmark*.txt'
    metrics = [Metric('hpcg', 'GFlop/s', 'higher', r'HPCG result is VALID with a GFLOP/s rating of=(\S+)')]


@rfm.simple_test
class Ior(Program):
    valid_prog_environs = ['+ior']
    executable = 'ior'
    executable_opts = ['-a', 'MPIIO', '-w', '-r', '-b', '8m', '-t', '1m', '-o', 'ior.data']
    metrics = [Metric(kind, 'MiB/s', 'higher', rf'^{kind}\s+(\S+)(?:\s+\S+){{9}}\s*$') for kind in ('write', 'read')]


@rfm.simple_test
class Mdtest(Program):
    valid_prog_environs = ['+mdtest']
    executable = 'mdtest'
    executable_opts = ['-n', '50', '-i', '1', '-d', 'mdtest.data']
    metrics = [Metric('creation', 'ops/s', 'higher', r'^\s+File creation\s*:?\s+(\S+)')]
