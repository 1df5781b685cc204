# SPDX-License-Identifier: BSD-3-Clause
"""Multiplication of matrices in each precision by the vendors' libraries, on all GPUs of a node at the same time.

Provenance of `size=burn` has the clock, power and temperature of each GPU meanwhile, where the node tells them.
"""

from collections.abc import Callable

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.job.spec import Execution
from checks.core.meters.health import state_of
from checks.core.nodes import ByModel
from checks.core.placement import Models, Placement, cpus_of_devices, models_of_this_system, one_process
from checks.core.reading.outputs import text_of
from checks.core.reading.trials import by_trial, series_of
from checks.gpu import gemm_output as gemm
from plumbline.machine.vendors import AMD, INTEL, NVIDIA
from plumbline.record import Dim

# CoralGemm by cuBLAS, by hipBLAS and hipBLASLt; Argonne's program by oneMKL
MODELS: Models = {
    'cuda': ('coralgemm-cuda', 'gemm', NVIDIA.arch),
    'hip': ('coralgemm-rocm', 'gemm', AMD.arch),
    'sycl': ('onemkl-gemm', 'gemm', INTEL.arch),
}
DURATIONS = {'sniff': 5, 'burn': 300}  # seconds of each precision
STATE = 'gpus.txt'


@rfm.simple_test
class Gemm(ByModel, Benchmark):
    """Square matrices of random numbers: `flops` of each GPU, `slowest` of them, and `all` together."""

    descr = 'Matrix multiplication on all GPUs at once'
    last_run = 'not yet on a GPU'
    metered = True
    dims = {'precision': Dim('name'), 'device': Dim('name')}
    usual_spread = 0.01  # of A100 0.1 to 0.8 %, of MI100 1.2 to 6 % between GPUs (superbenchmark)
    seconds = {'sniff': 120, 'burn': 700}
    models, model = MODELS, parameter(models_of_this_system(MODELS), loggable=True)
    size = parameter(DURATIONS, loggable=True)
    #: Some of gemm_output.CORAL, used as far as the GPUs have them; None: all, or double and bf16 for `burn`.
    precisions = variable(typ.List[str], type(None), value=None)

    def supports(self, topology):
        able = super().supports(topology) and cpus_of_devices(topology)
        return bool(able and (self.size, self.model) != ('burn', 'sycl'))

    @run_after('init')
    def choose_program(self):
        sniff = self.size == 'sniff'
        self.tags = {'nightly', 'acceptance'} if sniff else {'acceptance'}
        self.trials_by_mode = FEW_TRIALS if sniff else dict.fromkeys(FEW_TRIALS, 1)
        self.precisions = self.precisions or (list(gemm.CORAL) if sniff else ['double', 'bf16'])
        self.mpi = self.model == 'sycl'

    @run_after('setup')
    def place(self):
        without = {'tf32'} if self.model == 'cuda' and self.stack.provider != 'spack' else set()
        self.precisions = gemm.known(self.precisions, self.topology.gpus[0], self.mpi, without)
        self.devices, self.metrics = range(len(self.topology.gpus)), []
        if self.mpi:
            self.placement = Placement(len(self.devices), cpus_of_devices(self.topology))
            self.wrapper = ['gpu_tile_compact.sh']  # of the system's MPI: gives each rank its GPU
            self.metrics = [gemm.of_onemkl(precision) for precision in self.precisions]
            return
        self.placement = one_process(self.topology, range(len(self.topology.gpus)))
        for precision in self.precisions:
            self.runs[precision] = Execution(
                gemm.options_of(precision, DURATIONS[self.size]),
                {'CORALGEMM_TF32': '1'} if precision == 'tf32' else {},
                # a look takes longer than 0.1 % of the seconds of a sniff
                before=f'bash ../../gpus.sh > {STATE} &' if self.size == 'burn' else '',
            )
            self.metrics += gemm.metrics_of(
                precision, self.devices, f'device_flops_{precision}' in self.partition.peaks
            )

    def sanity_faults(self, run):
        if self.mpi:
            return gemm.onemkl_faults(run.output)
        if self.size == 'burn':
            run.provenance[f'gpus_{run.name}'] = state_of(text_of(run.folder / STATE)) or 'the node did not say'
        return gemm.coral_faults(run.output, len(self.devices), DURATIONS[self.size])

    def derive(self, record):
        for precision in () if self.mpi else self.precisions:
            flops = [series_of(record, 'flops', precision=precision, device=device) for device in self.devices]
            peak = self.partition.peaks.get(f'device_flops_{precision}', 0) / 1e12
            functions: dict[str, Callable[[list[float]], float]] = {'slowest': min, 'all': sum}
            if peak:
                functions['peak_fraction'] = lambda rates, peak=peak: min(rates) / peak
            for name, function in functions.items():
                series_of(record, name, precision=precision).samples = by_trial(flops, function)
