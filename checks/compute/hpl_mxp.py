# SPDX-License-Identifier: BSD-3-Clause
"""HPL-MxP on all GPUs: a dense system solved in low precision, and refined to double precision."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.compute.hpl import nearly_square
from checks.compute.hpl_mxp_output import METRICS, faults_of
from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.nodes import OnNodes
from checks.core.placement import cpus_of_devices, one_rank_per_gpu
from checks.core.reading.causes import Run
from checks.core.topology import Topology, node_counts
from plumbline.machine.vendors import NVIDIA

BLOCK = 1024


def order_of(ranks: int, order_of_gpu: int) -> int:
    """Return N, a multiple of the block size, that gives each of `ranks` GPUs as many elements as one has alone."""
    return max(1, round(order_of_gpu * ranks**0.5 / BLOCK)) * BLOCK


@rfm.simple_test
class HplMxp(OnNodes, Benchmark):
    """NVIDIA's ``hpl-mxp.sh``. Parses ``GFLOPS = 4.3468e+05, per GPU =   54335.58 ------ The HPL-MxP performance``.

    `gflops` counts the refinement, `lu_gflops` the factorization alone.
    """

    descr = 'HPL in mixed precision'
    last_run = 'not yet on a GPU'
    valid_prog_environs = ['+hpl-mxp-nvidia']
    executable = 'hpl-mxp.sh'
    mpi = True
    trial_seconds = 300
    usual_spread = 0.01  # as of HPL
    trials = FEW_TRIALS
    metrics = METRICS
    nodes = parameter(node_counts())
    order_of_gpu = variable(int, value=61440)  #: order of the matrix of one GPU: 61440^2 x 4 bytes = 15 GB

    def supports(self, topology: Topology) -> bool:
        able = topology.gpus and NVIDIA.made(topology.gpus[0]) and cpus_of_devices(topology)
        return super().supports(topology) and bool(able)

    @run_after('setup')
    def place(self):
        self.placement = one_rank_per_gpu(self.topology)
        ranks = self.placement.ranks_per_node * self.num_nodes
        self.order, self.grid = order_of(ranks, self.order_of_gpu), nearly_square(ranks)
        gpus = ':'.join(map(str, range(len(self.topology.gpus))))  # by local rank
        self.executable_opts = [
            '--n', str(self.order), '--nb', str(BLOCK), '--nprow', str(self.grid[0]), '--npcol', str(self.grid[1]),
            '--nporder', 'row', '--gpu-affinity', gpus,
        ]  # fmt: skip

    def sanity_faults(self, run: Run) -> list[str]:
        return faults_of(run.output, self.order, BLOCK, self.grid)
