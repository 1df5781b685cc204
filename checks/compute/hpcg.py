"""HPCG: conjugate gradients with a multigrid preconditioner on a sparse matrix, bound by memory bandwidth."""

from pathlib import Path
from typing import NamedTuple

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.compute.hpcg_output import BYTES_PER_POINT, accepts, faults_of, local_grid, metrics_of
from checks.compute.scaled import ScaledBenchmark, offered_here
from checks.core.placement import ranks_with_threads
from plumbline.errors import SiteError


class Implementation(NamedTuple):
    feature: str
    executable: str
    options: list[str]
    output: str
    on_gpus: bool


# Packages that derive from 3.0 name Intel's file n<nx>-<ranks>p-<threads>t...; no other file has a hyphen.
IMPLEMENTATIONS = {
    'reference': Implementation('hpcg', 'xhpcg', [], 'HPCG-Benchmark*', on_gpus=False),
    'intel': Implementation('hpcg-intel', 'xhpcg_skx', [], '[Hn]*-*', on_gpus=False),
    'nvidia': Implementation('hpcg-nvidia', 'hpcg.sh', ['--dat', 'hpcg.dat'], 'HPCG-Benchmark*', on_gpus=True),
}


@rfm.simple_test
class HPCG(ScaledBenchmark):
    """HPCG's rating in GFLOP/s (000, section 4.2, table 5) and its model of GB/s.

    Parses ``Final Summary::HPCG result is VALID with a GFLOP/s rating of=1.43461`` of 3.1, and 3.0's YAML.
    `size=quick`: data of four times the last-level caches, for 10 s. `size=full`: at least a quarter of the memory, for
    1800 s, as HPCG's rules require; weak scaling over 1, 2, 4, ... nodes, with the same grid in each rank.
    """

    descr = 'HPCG'
    implementations = IMPLEMENTATIONS
    implementation = parameter(offered_here(IMPLEMENTATIONS), loggable=True)
    #: Least part of a node's memory that `size=full` fills.
    memory_fraction = variable(float, value=0.25)
    #: Seconds that HPCG repeats its solution for, without checks and set-up; None: those of the size.
    run_seconds = variable(int, type(None), value=None)
    inputs = ['hpcg.dat']

    @run_after('setup')
    def write_input(self):
        self.output = self.program.output
        settings = self.partition.benchmarks.get(self.requires, {})
        usual = len(self.topology.gpus) if self.program.on_gpus else self.most_ranks()
        ranks = settings.get('ranks_per_node') or usual
        if not accepts(all_ranks := ranks * self.nodes):
            raise SiteError(f'HPCG refuses {all_ranks} ranks: the sides of their grid differ more than eightfold')
        self.placement = ranks_with_threads(self.topology, ranks, settings.get('threads_per_rank'))
        if self.program.on_gpus and 'grid' not in settings:
            raise SiteError(f'site.yaml: benchmarks.{self.requires}.grid: expected one that fits the GPU of a rank')
        self.grid = tuple(settings.get('grid') or local_grid(self.bytes_of_node() / ranks / BYTES_PER_POINT))
        seconds = self.run_seconds or (settings.get('run_seconds', 1800) if self.size == 'full' else 10)
        lines = ('HPCG benchmark input file', 'of Plumbline', ' '.join(map(str, self.grid)), str(seconds))
        Path(self.stagedir, 'hpcg.dat').write_text('\n'.join(lines) + '\n', encoding='utf-8')
        self.provenance |= {'hpcg_grid': 'x'.join(map(str, self.grid)), 'hpcg_seconds': str(seconds)}
        self.trial_time_limit = seconds + (3600 if self.size == 'full' else 600)
        # sites state the peak of the processors
        self.metrics = metrics_of(self.nodes, None if self.program.on_gpus else self.partition.peaks.get('flops_dp'))

    def most_ranks(self) -> int:
        """Return one per core, or the next lower number that HPCG accepts: 75 on 76 cores.

        The reference smoother, 80 % of the time, is serial in each rank: on two busy cores, two ranks got 1.36 GFLOP/s
        and one rank with two threads 0.99 (medians of six runs).
        """
        return next(n for n in range(len(self.topology.cores), 0, -1) if accepts(n))

    def bytes_of_node(self) -> float:
        """Return the bytes that all ranks of a node together fill."""
        part_of_memory = self.memory_fraction * self.topology.memory_bytes
        if self.size == 'full':
            return part_of_memory
        return min(part_of_memory, 4 * self.topology.last_level_cache_bytes(self.topology.cpu_of_core))

    def sanity_faults(self, run):
        ranks = self.placement.ranks_per_node * self.num_nodes
        return faults_of(run.output, self.grid, ranks, self.placement.threads)
