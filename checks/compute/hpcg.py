# SPDX-License-Identifier: BSD-3-Clause
"""HPCG: conjugate gradients with a multigrid preconditioner on a sparse matrix, bound by memory bandwidth."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.compute.hpcg_output import BYTES_PER_POINT, accepts, faults_of, is_quick, local_grid, metrics_of
from checks.compute.scaled import Implementation, ScaledBenchmark, offered_here
from checks.core import budget
from checks.core.meters.power_cap import UnderPowerCap
from checks.core.placement import ranks_with_threads
from checks.core.reading.causes import Run
from plumbline.errors import SiteError

# Packages that derive from 3.0 name Intel's file n<nx>-<ranks>p-<threads>t...; no other file has a hyphen.
IMPLEMENTATIONS = {
    'reference': Implementation('hpcg', 'xhpcg', output='HPCG-Benchmark*'),
    'intel': Implementation('hpcg-intel', 'xhpcg_skx', output='[Hn]*-*'),
    'nvidia': Implementation('hpcg-nvidia', 'hpcg.sh', ['--dat', 'hpcg.dat'], on_gpus=True, output='HPCG-Benchmark*'),
}
RUN_SECONDS = {'quick': 10, 'full': 1800}
PART_OF_MEMORY = 0.25  # that `size=full` fills, as HPCG's rules require, and `size=quick` at most
# Before the time that counts it solves three times, 50 iterations of 358 Flop each (its output for 65 536 points), and
# sets up. Two busy cores of Zen 4 did 1.4 GFlop/s; 192 cores of two sockets with 920 GB/s do about 100.
START, FLOP_PER_POINT, FLOP_OF_CORE = 3.0, 54e3, 0.5e9


@rfm.simple_test
class HPCG(ScaledBenchmark):
    """HPCG's rating in GFLOP/s (000, section 4.2, table 5) and its model of GB/s.

    Parses ``Final Summary::HPCG result is VALID with a GFLOP/s rating of=1.43461`` of 3.1, and 3.0's YAML.
    `size=quick`: data of four times the last-level caches, for 10 s. `size=full`: at least a quarter of the memory, for
    1800 s, as HPCG's rules require; weak scaling over 1, 2, 4, ... nodes, with the same grid in each rank.
    """

    descr = 'High-Performance Conjugate Gradients'
    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), reference; not yet on a GPU'
    implementations = IMPLEMENTATIONS
    trial_seconds: Any = {'quick': 25, 'full': 5400}
    efficiency_of = 'gflops'
    solver, intensity = 'sparse', 'raw_total_bandwidth'
    implementation = parameter(offered_here(IMPLEMENTATIONS), loggable=True)
    #: Seconds for which HPCG repeats its solution, without checks and set-up; None: the seconds of the size.
    run_seconds = variable(int, type(None), value=None)

    @run_after('setup')
    def write_input(self):
        settings = self.settings
        usual = len(self.topology.gpus) if self.program.on_gpus else self.most_ranks()
        ranks = settings.get('ranks_per_node') or usual
        if not accepts(all_ranks := ranks * self.nodes):
            raise SiteError(f'HPCG refuses {all_ranks} ranks: the sides of their grid differ more than eightfold')
        placed = ranks_with_threads(self.topology, ranks, settings.get('threads_per_rank'))
        self.placement = replace(placed, gpu_buffers=None if self.program.on_gpus else False)
        if self.program.on_gpus and 'grid' not in settings:
            raise self.topology.undescribed(
                f'site.yaml: benchmarks.{self.program.feature}.grid: expected one that fits the GPU of a rank'
            )
        usual = RUN_SECONDS[self.size]
        seconds = self.run_seconds or (settings.get('run_seconds', usual) if self.size == 'full' else usual)
        self.trial_seconds += seconds - usual
        beyond = budget.BEYOND_CACHES * self.topology.last_level_cache_bytes(self.topology.cpu_of_core) * self.nodes
        full = self.size == 'full' and PART_OF_MEMORY * self.topology.memory_bytes * self.nodes
        pace = FLOP_PER_POINT / BYTES_PER_POINT / (FLOP_OF_CORE * len(self.topology.cores) * self.nodes)
        data = self.fit(full or beyond, beyond, lambda size: seconds + START + pace * size, PART_OF_MEMORY)
        self.grid = tuple(settings.get('grid') or local_grid(data / all_ranks / BYTES_PER_POINT))
        lines = ('HPCG benchmark input file', 'of Plumbline', ' '.join(map(str, self.grid)), str(seconds))
        Path(self.stagedir, 'hpcg.dat').write_text('\n'.join(lines) + '\n', encoding='utf-8')
        self.provenance |= {'hpcg_grid': 'x'.join(map(str, self.grid)), 'hpcg_seconds': str(seconds)}
        self.metrics = self.with_figures(metrics_of(self.nodes, self.peak))
        self.output = self.program.output

    def most_ranks(self) -> int:
        """Return the number of ranks: one per core, or the next lower number that HPCG accepts, such as 75 on 76 cores.

        The reference smoother, 80 % of the time, is serial in each rank: on two busy cores, two ranks got 1.36 GFLOP/s
        and one rank with two threads 0.99 (medians of six runs).
        """
        return next(n for n in range(len(self.topology.cores), 0, -1) if accepts(n))

    def sanity_faults(self, run: Run) -> list[str]:
        ranks = self.placement.ranks_per_node * self.num_nodes
        quick = ['HPCG took its quick path instead of the requested run time'] * is_quick(run.output)
        return quick + faults_of(run.output, self.grid, ranks, self.placement.threads)


@rfm.simple_test
class HPCGPowerCap(UnderPowerCap, HPCG):
    """GFLOP/s, energy and GFlop/J of HPCG, bound by memory."""

    descr = 'HPCG under a power cap'
    last_run = 'not yet under a real cap'
    size = parameter(['quick'], loggable=True)
    nodes = parameter([1])
