# SPDX-License-Identifier: BSD-3-Clause
"""HPL: GFlop/s of a dense linear system, on 1, 2, 4, ... nodes."""

import math
from dataclasses import replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.compute.hpl_output import Configuration, errors_of, faults_of, metrics_of
from checks.compute.scaled import Implementation, ScaledBenchmark, offered_here
from checks.core import budget
from checks.core.meters.power_cap import UnderPowerCap
from checks.core.placement import one_rank_per_core, one_rank_per_gpu, ranks_with_threads
from checks.core.reading.causes import Run, said
from plumbline.errors import SiteError
from plumbline.units import in_base_unit

# One single-threaded rank per core suits any BLAS: with a sequential one (Spack's default of OpenBLAS), a rank uses one
# core only. Threads of OpenBLAS are no faster: at N=9984 on two busy cores, two ranks got 51.6 GFlop/s, one rank of two
# threads 50.4. A site that knows its BLAS sets ranks and threads.
IMPLEMENTATIONS = {
    'netlib': Implementation('hpl', 'xhpl', block_size=192),
    'nvidia': Implementation('hpl-nvidia', 'hpl.sh', ['--dat', 'HPL.dat'], on_gpus=True, block_size=1024),
    'rocm': Implementation('hpl-rocm', 'rochpl', on_gpus=True, block_size=512),
}
# N of the quick case grows with the cube root of the cores, for a constant time: 10 s if a core does 35 GFlop/s.
QUICK_ORDER_OF_ONE_CORE = 8000
START = 3.0  # seconds until all ranks have their matrix
# The lines of HPL.dat in its order and by its names, with the algorithm that hpcc ships: row-major grid, right-looking
# panels in Crout's recursion, modified ring broadcast, lookahead of one. None: computed for the nodes.
LINES: dict[str, str | None] = {
    'Ns': None, 'NBs': None, 'PMAP': '0', 'Ps': None, 'Qs': None, 'threshold': '16.0',
    'PFACTs': '2', 'NBMINs': '4', 'NDIVs': '2', 'RFACTs': '1', 'BCASTs': '1', 'DEPTHs': '1',
    'SWAP': '2', 'swapping threshold': '64', 'L1': '0', 'U': '0', 'Equilibration': '1', 'memory alignment': '8',
}  # fmt: skip
ALGORITHMS = ('PFACTs', 'NBMINs', 'NDIVs', 'RFACTs', 'BCASTs', 'DEPTHs')
COUNTED = ('Ns', 'NBs', 'Ps', *ALGORITHMS)  # a line before these has the number of values; Qs has as many values as Ps


def nearly_square(ranks: int) -> tuple[int, int]:
    """Return P <= Q with P x Q = `ranks`, as close as the divisors allow."""
    p = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
    return p, ranks // p


def matrix_order(memory: float, block_size: int) -> int:
    """Return N: the largest multiple of the block size whose N^2 doubles fit into `memory` bytes."""
    return math.isqrt(int(memory) // 8) // block_size * block_size


def operations(n: float) -> float:
    """Return the floating-point operations that HPL counts for a system of order `n`."""
    return 2 / 3 * n**3 + 3 / 2 * n**2


def lines_of(n: int, block_size: int, ranks: int, site: dict[str, object]) -> dict[str, str]:
    """Return all lines of HPL.dat by name: each as the site states it, else computed, else the default."""
    p, q = nearly_square(ranks)
    computed = {'Ns': n, 'NBs': block_size, 'Ps': p, 'Qs': q}
    return {name: ' '.join(str(value).split()) for name, value in (LINES | computed | site).items()}


def dat_of(lines: dict[str, str], device: int = 6) -> str:
    """Return HPL.dat with these lines; results go to standard output, or to a file if `device` is 8."""
    text = ['HPL.dat', 'written by Plumbline', 'HPL.out', f'{device} device out']
    for name in LINES:
        text += [f'{len(lines[name].split())} # of {name}'] if name in COUNTED else []
        text.append(f'{lines[name]} {name}')
    return '\n'.join(text) + '\n'


def configurations(lines: dict[str, str], ranks: int) -> tuple[Configuration, ...]:
    """Return the systems that HPL will solve, one for each test. Raises SiteError if a grid uses not all `ranks`."""
    ns, nbs, ps, qs = ([int(value) for value in lines[name].split()] for name in ('Ns', 'NBs', 'Ps', 'Qs'))
    if len(ps) != len(qs) or any(p * q != ranks for p, q in zip(ps, qs, strict=True)):
        raise SiteError(f'benchmarks.hpl.lines: expected grids Ps x Qs of {ranks} ranks, found {ps} x {qs}')
    algorithms = math.prod(len(lines[name].split()) for name in ALGORITHMS)
    return tuple(
        (n, nb, p, q) for p, q in zip(ps, qs, strict=True) for n in ns for nb in nbs for _ in range(algorithms)
    )


@rfm.simple_test
class HPL(ScaledBenchmark):
    """Sustained Flop/s of LU factorization and solve in double precision (000, section 4.1; 001, tables 106 to 110).

    Parses ``WR11C2R4   9984   192   1   2   13.09   5.0701e+01``: N, NB, P, Q, s, GFlop/s. `size=full` fills 0.8 of the
    memory, or the part that the site states, within half a day; `size=strong` solves the system of one node on up to
    eight. Of several configurations, the best and the mean are metrics, too.
    """

    descr = 'High-Performance Linpack'
    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), Netlib; not yet on a GPU'
    implementations = IMPLEMENTATIONS
    trial_seconds = {'quick': 15, 'full': 43200, 'strong': 43200}
    efficiency_of = 'gflops'
    solver, intensity = 'dense', 'high'
    implementation = parameter(offered_here(IMPLEMENTATIONS), loggable=True)
    size = parameter(['quick', 'full', 'strong'], loggable=True)

    @run_after('setup')
    def write_input(self):
        self.placement = (one_rank_per_gpu if self.program.on_gpus else one_rank_per_core)(self.topology)
        if ranks := self.settings.get('ranks_per_node'):
            placed = ranks_with_threads(self.topology, ranks, self.settings.get('threads_per_rank'))
            self.placement = replace(placed, gpu_buffers=self.placement.gpu_buffers)
        ranks = self.placement.ranks_per_node * self.num_nodes
        block_size = self.settings.get('block_size', self.program.block_size)
        n = matrix_order(self.bytes_of_matrix(), block_size)
        site = {k: v for k, v in self.settings.get('lines', {}).items() if not (k == 'Ns' and self.size == 'quick')}
        lines = lines_of(n, block_size, ranks, site)
        self.requested = configurations(lines, ranks)
        Path(self.stagedir, 'HPL.dat').write_text(dat_of(lines), encoding='utf-8')
        self.provenance['hpl_dat'] = '; '.join(f'{name} {value}' for name, value in lines.items())
        self.estimates = [sum(self.seconds_of(8 * n**2) for n, *_ in self.requested)]
        self.metrics = self.with_figures(metrics_of(self.requested, self.nodes, self.peak))

    def bytes_of_matrix(self) -> float:
        fraction = self.settings.get('memory_fraction', 0.8)
        available = fraction * self.memory_of_node() * self.nodes_that_it_fills
        quick = 8 * QUICK_ORDER_OF_ONE_CORE**2 * len(self.topology.cores) ** (2 / 3)
        wanted = min(quick, available) if self.size == 'quick' else available
        return self.fit(wanted, 0, self.seconds_of, share=math.inf)

    def seconds_of(self, matrix: float) -> float:
        """Return the estimated run time in s for a matrix of `matrix` bytes.

        `strong` solves the problem of one node on several: it gets the time that one node would take.
        """
        rate = self.nodes_that_it_fills * budget.dense_rate(self.topology, self.partition.peaks, self.program.on_gpus)
        return START + operations(math.sqrt(matrix / 8)) / rate

    def memory_of_node(self) -> float:
        if 'memory' in self.settings:
            return in_base_unit(self.settings['memory'])
        if self.program.on_gpus:
            raise self.topology.undescribed(
                f'site.yaml: benchmarks.{self.program.feature}.memory: expected that of all GPUs of a node'
            )
        return self.topology.memory_bytes

    def sanity_faults(self, run: Run) -> list[str]:
        return said(errors_of(run.errors)) + faults_of(run.output, self.requested)


@rfm.simple_test
class HPLPowerCap(UnderPowerCap, HPL):
    """GFlop/s, energy and GFlop/J of HPL, which loses as soon as the cap is below what the processors take."""

    descr = 'HPL under a power cap'
    last_run = 'not yet under a real cap'
    size = parameter(['quick'], loggable=True)
    nodes = parameter([1])
