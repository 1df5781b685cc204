# SPDX-License-Identifier: BSD-3-Clause
"""heFFTe: Fourier transforms in three dimensions over all GPUs, or cores, of one node and of several."""

import re

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.core.benchmark import Benchmark
from checks.core.nodes import CPU, ByModel, Models, OnNodes, models_of_this_system
from checks.core.placement import Placement, cpus_of_devices, one_rank_per_core
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric
from checks.core.topology import Topology, node_counts
from plumbline.machine.vendors import AMD, NVIDIA

MODELS: Models = {
    'cpu': ('heffte-fftw', 'speed3d_c2c', CPU),
    'cuda': ('heffte-cuda', 'speed3d_c2c', NVIDIA.arch),
    'rocm': ('heffte-rocm', 'speed3d_c2c', AMD.arch),
}
BACKENDS = {'cpu': 'fftw', 'cuda': 'cufft', 'rocm': 'rocfft'}
POINTS = {'cpu': 2**19, 'cuda': 2**26, 'rocm': 2**26}  # of each rank, 16 bytes each
RUNS = 10  # forward and backward
NUMBER = r'[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?'
RATE = rf'^Performance: +(?P<value>{NUMBER}) GFlops/s$'


def size_of(ranks: int, points: int) -> tuple[int, int, int]:
    """Return the sides of a cuboid with `points` points for each rank; the last side grows with the ranks."""
    side = 2 ** ((points.bit_length() - 1) // 3)
    return side, side, points // side**2 * ranks


def faults_of(output: str, backend: str, size: tuple[int, int, int], ranks: int) -> list[str]:
    """Return one sentence for each sign that an output is not of a complete and correct transform of this size."""
    wanted = {'Backend': backend, 'Size': 'x'.join(map(str, size)), 'MPI ranks': str(ranks)}
    faults = []
    for name, value in wanted.items():
        matches = re.findall(rf'^{name}: +(\S+)$', output, re.MULTILINE)
        faults += [f'expected one line {name}: {value}, found {matches or "none"}'] if matches != [value] else []
    limit, error = (re.findall(rf'^{name}: +({NUMBER})$', output, re.MULTILINE) for name in ('Tolerance', 'Max error'))
    if len(limit) != 1 or len(error) != 1 or not output.endswith('\n') or float(error[0]) > float(limit[0]):
        faults.append(f'expected an error below the tolerance {limit or "(not printed)"}, found {error or "none"}')
    return faults


@rfm.simple_test
class Fft(OnNodes, ByModel, Benchmark):
    """Forward and backward, complex to complex, double precision. Parses ``Performance:  8.02941 GFlops/s``."""

    descr = 'heFFTe in three dimensions'
    last_run = (
        "2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4), `cpu` with heFFTe's own transforms; not yet on a GPU"
    )
    mpi = True
    trial_seconds = 60
    usual_spread = 0.05  # a guess: no source has several sessions
    trials = {'quick': 3, 'nightly': 3, 'acceptance': 10}
    metrics = [Metric('flops', 'GFlop/s', 'higher', RATE, figures={'scaling': 'weak'})]
    models, model = MODELS, parameter(models_of_this_system(MODELS), loggable=True)
    nodes = parameter(node_counts())
    #: The library, by heFFTe's name; None: the library of the model.
    backend = variable(str, type(None), value=None)

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and bool(self.model == 'cpu' or cpus_of_devices(topology))

    @run_after('init')
    def choose_backend(self):
        self.backend = self.backend or BACKENDS[self.model or 'cpu']
        self.last_run = 'not yet on a GPU' if self.model in ('cuda', 'rocm') else self.last_run

    @run_after('setup')
    def place(self):
        devices = tuple((device,) for device in range(len(self.topology.gpus)))
        self.placement = (
            one_rank_per_core(self.topology)
            if self.model == 'cpu'
            else Placement(
                len(devices), cpus_of_devices(self.topology), devices=devices, gpu=self.model, gpu_buffers=True
            )
        )
        self.ranks = self.placement.ranks_per_node * self.num_nodes
        self.grid = size_of(self.ranks, POINTS[self.model])
        self.executable_opts = [self.backend, 'double-long', *map(str, self.grid), f'-n{RUNS}']

    def sanity_faults(self, run: Run) -> list[str]:
        return faults_of(run.output, self.backend, self.grid, self.ranks)
