# SPDX-License-Identifier: BSD-3-Clause
"""Multiplication of matrices in each precision by the vendors' libraries, on all GPUs of a node at the same time.

CoralGemm prints a line of labels, then each time that all devices are done a row: GFlop/s of each device, and the
seconds since the start, until these are more than it was asked for. Argonne's program prints ``DGEMM: 125020 GFlop/s``,
the sum of all ranks, for one precision after the other. Provenance of `size=burn` has the clock, power and temperature
of each GPU meanwhile, where the node tells them.
"""

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from statistics import median
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.nodes import ByModel, Models, models_of_this_system
from checks.core.placement import Execution, Placement, cpus_of_devices, one_process
from checks.core.reading.causes import Run
from checks.core.reading.health import state_of
from checks.core.reading.metrics import Metric, NotMeasured, Of, OutputRow
from checks.core.reading.outputs import text_of
from checks.core.topology import Topology
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
#: Precision -> types of A and B, of C, and of the sums, in CoralGemm's words; further words.
CORAL = {
    'double': ('R_64F', 'R_64F', 'R_64F'),
    'single': ('R_32F', 'R_32F', 'R_32F'),
    'tf32': ('R_32F', 'R_32F', 'R_32F'),
    'half': ('R_16F', 'R_32F', 'R_32F', 'ex'),
    'bf16': ('R_16B', 'R_32F', 'R_32F', 'ex'),
    'fp8': ('R_8F', 'R_32F', 'R_32F', 'lt'),
}
ONEMKL = {'double': 'DGEMM', 'single': 'SGEMM', 'half': 'HGEMM', 'bf16': 'BF16GEMM', 'tf32': 'TF32GEMM'}
_LAST_OF_ONEMKL = 'I8GEMM'
# Precision -> beginnings of the architectures whose libraries have it; all libraries have the other precisions. TF32
# is of NVIDIA's matrix units, by a patch in the suite's recipe of CoralGemm, and of oneMKL.
SINCE = {
    'tf32': ('sm_8', 'sm_9', 'sm_1', 'intel'),
    'bf16': ('sm_8', 'sm_9', 'sm_1', 'gfx9', 'intel'),
    'fp8': ('gfx94', 'gfx95'),
}
ORDER, MATRICES = 8448, 6  # no power of two, whose strides collide in the caches; 10 GiB in double precision
_NUMBER = r'[0-9]{1,12}\.[0-9]{2}'


def known(precisions: Sequence[str], arch: str, onemkl: bool, without: Collection[str] = ()) -> list[str]:
    """Return the precisions that the program knows and the libraries of this architecture have."""
    program = [
        precision for precision in precisions if precision in (ONEMKL if onemkl else CORAL) and precision not in without
    ]
    return [precision for precision in program if arch.startswith(SINCE.get(precision, ''))]


def options_of(precision: str, seconds: int) -> list[str]:
    """Return CoralGemm's options: square matrices, for so many seconds after the first round."""
    operands, result, sums, *more = CORAL[precision]
    order = [str(ORDER)] * 6
    return [operands, operands, result, sums, 'OP_N', 'OP_T', *order, str(MATRICES), str(seconds), *more]


@functools.lru_cache(maxsize=1)  # the rates of a run and its faults are of the same rows
def rows_of(output: str) -> tuple[tuple[float, ...], ...]:
    """Return the complete rows of an output: GFlop/s of each device, then seconds."""
    lines = output.splitlines()[1 : None if output.endswith('\n') else -1]
    whole = [line for line in lines if re.fullmatch(rf'( +{_NUMBER})+ *', line)]
    return tuple(tuple(float(number) for number in line.split()) for line in whole)


def rates_of_devices(output: str) -> Iterator[OutputRow]:
    """Yield the rate of each device: the median of the second half of the rows, when the device is warm."""
    if not (rows := rows_of(output)):
        raise NotMeasured('there is no row of rates')
    *rates, _ = zip(*rows[len(rows) // 2 :], strict=False)
    for device, of_device in enumerate(rates):
        yield OutputRow({'device': str(device)}, median(of_device))


def metrics_of(precision: str, devices: Sequence[int], peak: float | None) -> list[Metric]:
    """Return the metrics of CoralGemm: each device, the slowest, and all together. `peak`: of a device in Flop/s."""
    dims, of_devices = {'precision': precision}, {'device': devices}
    slowest, together = Of('flops', min, dims), Of('flops', sum, dims)
    of_peak = Of('flops', lambda rates: min(rates) / (peak / 1e12), dims) if peak else None
    return [
        Metric('flops', 'TFlop/s', 'higher', rates_of_devices, dims, of_devices, scale=1e-3, run=precision,
               peak=f'device_flops_{precision}', judged=False),
        Metric('slowest', 'TFlop/s', 'higher', dims=dims, of=slowest),
        Metric('all', 'TFlop/s', 'higher', dims=dims, of=together),
        *[Metric('peak_fraction', '1', 'higher', dims=dims, judged=False, of=of_peak)] * bool(peak),
    ]  # fmt: skip


def of_onemkl(precision: str) -> Metric:
    """Return the metric of the rate of all ranks of Argonne's program together."""
    rows = rf'^{ONEMKL[precision]}: (?P<value>\S+) GFlop/s$'
    return Metric('all', 'TFlop/s', 'higher', rows, {'precision': precision}, scale=1e-3)


def coral_faults(output: str, devices: int, seconds: int) -> list[str]:
    """Return one sentence for each sign that an output is not of so many devices for so many seconds."""
    first, *lines = output.splitlines() or ['']
    labels = [*(f'device_{device}_[GFLOPS]' for device in range(devices)), 'timestamp_[sec]']
    if first.split() != labels:
        of_devices = ' to '.join(dict.fromkeys([labels[0], labels[-2]]))
        return [f'expected the columns {of_devices} and {labels[-1]}, found {first.strip()[:80]!r}']
    rows = rows_of(output)
    if len(rows) != len(lines) or any(len(row) != devices + 1 for row in rows):
        return [f'cannot parse row: expected {devices} rates and a time in each of {len(lines)} lines']
    times = [row[-1] for row in rows]
    if not times or times[-1] < seconds or times != sorted(times):
        return [f'it ended after {times[-1] if times else 0} s, expected at least {seconds}, in ascending order']
    return []


def onemkl_faults(output: str) -> list[str]:
    """Return a sentence where the program did not reach its last precision."""
    whole = re.search(rf'^{_LAST_OF_ONEMKL}: \S+ GFlop/s$', output, re.MULTILINE) and output.endswith('\n')
    return [] if whole else [f'it ended before its last line, {_LAST_OF_ONEMKL}: ... GFlop/s']


@rfm.simple_test
class Gemm(ByModel, Benchmark):
    """Square matrices of random numbers: `flops` of each GPU, `slowest` of them, and `all` together.

    Parses ``104.35            105.00            3.14``: GFlop/s of two GPUs, seconds since the start.
    """

    descr = 'Matrix multiplication on all GPUs at once'
    last_run = 'not yet on a GPU'
    metered = True
    dims = {'precision': Dim('name'), 'device': Dim('name')}
    usual_spread = 0.01  # of A100 0.1 to 0.8 %, of MI100 1.2 to 6 % between GPUs (superbenchmark)
    trial_seconds = {'sniff': 120, 'burn': 700}
    trials: Any = FEW_TRIALS  # of a burn one
    models, model = MODELS, parameter(models_of_this_system(MODELS), loggable=True)
    size = parameter(DURATIONS, loggable=True)
    #: Some of CORAL, used as far as the GPUs have them; None: all, or double and bf16 for `burn`.
    precisions = variable(typ.List[str], type(None), value=None)

    def supports(self, topology: Topology) -> bool:
        able = super().supports(topology) and cpus_of_devices(topology)
        return bool(able and (self.size, self.model) != ('burn', 'sycl'))

    @run_after('init')
    def choose_program(self):
        sniff = self.size == 'sniff'
        self.tags = {'nightly', 'acceptance'} if sniff else {'acceptance'}
        self.trials = 1 if not sniff and isinstance(self.trials, dict) else self.trials
        self.precisions = self.precisions or (list(CORAL) if sniff else ['double', 'bf16'])
        self.mpi = self.model == 'sycl'

    @run_after('setup')
    def place(self):
        without = {'tf32'} if self.model == 'cuda' and self.stack.provider != 'spack' else set()
        self.precisions = known(self.precisions, self.topology.gpus[0], self.mpi, without)
        self.devices, self.metrics = range(len(self.topology.gpus)), []
        if self.mpi:
            by_mpi = ('gpu_tile_compact.sh',)  # of the system's MPI: gives each rank its GPU
            self.placement = Placement(len(self.devices), cpus_of_devices(self.topology), wrapper=by_mpi)
            self.metrics = [of_onemkl(precision) for precision in self.precisions]
            return
        self.placement = one_process(self.topology, range(len(self.topology.gpus)))
        for precision in self.precisions:
            self.runs[precision] = Execution(
                options_of(precision, DURATIONS[self.size]),
                {'CORALGEMM_TF32': '1'} if precision == 'tf32' else {},
                # a look takes longer than 0.1 % of the seconds of a sniff
                before=f'bash ../../gpus.sh > {STATE} &' if self.size == 'burn' else '',
            )
            self.metrics += metrics_of(precision, self.devices, self.partition.peaks.get(f'device_flops_{precision}'))

    def sanity_faults(self, run: Run) -> list[str]:
        if self.mpi:
            return onemkl_faults(run.output)
        if self.size == 'burn':
            run.provenance[f'gpus_{run.name}'] = state_of(text_of(run.folder / STATE)) or 'the node did not say'
        return coral_faults(run.output, len(self.devices), DURATIONS[self.size])
