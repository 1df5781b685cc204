# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream in the memory of GPUs: one device, and all of a node at the same time."""

import re
from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.core.nodes import ByModel, Models, devices_of_this_system, models_for, models_of_this_system
from checks.core.placement import Execution, Placement, one_process
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, Of, mean, series_of
from checks.core.topology import Topology
from checks.memory.babelstream import FEWEST_REPETITIONS, SWEPT_ELEMENTS, BabelStream
from checks.memory.babelstream_output import bandwidth
from plumbline.machine.vendors import AMD, NVIDIA
from plumbline.record import Dim, Record

MODELS: Models = {
    'cuda': ('babelstream-cuda', 'cuda-stream', NVIDIA.arch),
    'hip': ('babelstream-hip', 'hip-stream', AMD.arch),
    'omp-target': ('babelstream-omp-target', 'omp-stream', ''),
    'sycl': ('babelstream-sycl', 'sycl-stream', ''),
    'kokkos': ('babelstream-kokkos', 'kokkos-stream', ''),
    'std': ('babelstream-std', 'std-data-stream', NVIDIA.arch),
    'ocl': ('babelstream-ocl', 'ocl-stream', 'opencl'),
}


class BabelStreamOnDevices(ByModel, BabelStream):
    """BabelStream in the memory of devices, with arrays of 1 GiB (003, section 3.2); a GCD of an MI250X is a device."""

    last_run = 'not yet on a GPU'
    models, model = MODELS, parameter(models_of_this_system(MODELS), loggable=True)
    #: Doubles of an array; a quarter of this on processors that are OpenCL devices.
    array_elements = variable(int, value=2**27)
    usual_spread = 0.003  # 0.01 to 0.08 % within 100 runs (003, Table 5); temperature and clock differ between sessions

    def stream_on(self, device: int, run: str = 'run') -> tuple[Placement, list[str]]:
        """Return placement and options of a run on a device, the only GPU that the program then sees."""
        placement = one_process(self.topology, [device])
        seen_as = device if placement.devices is None else 0
        return placement, [*self.stream(self.array_elements, run), '--device', str(seen_as)]

    def sanity_faults(self, run: Run) -> list[str]:
        run.devices.extend(re.findall(r'^Using \w+ device (.*\S)', run.output, re.MULTILINE))
        return super().sanity_faults(run)


@rfm.simple_test
class BabelStreamDevice(BabelStreamOnDevices):
    """One device. `best` is the kernel with the highest mean, as in Table 5 of 003."""

    descr = 'BabelStream on a device'
    last_run = (
        '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4), `ocl` as two devices of PoCL 3.1, `hip` by HIP-CPU; '
        'not yet on a GPU'
    )
    device = parameter(devices_of_this_system(), loggable=True)
    tags = {'quick', 'nightly', 'acceptance'}
    metrics = [bandwidth(peak='device_memory_bandwidth'), Metric('best', 'GB/s', 'higher')]

    @run_after('init')
    def tell_where_it_ran(self):
        if self.model not in (None, 'ocl'):
            self.last_run = 'not yet on a GPU'

    def supports(self, topology: Topology) -> bool:
        devices = topology.opencl_devices if self.model == 'ocl' else len(topology.gpus)
        return self.model in models_for(topology, MODELS) and self.device < devices

    @run_after('setup')
    def choose_device(self):
        if not self.topology.gpus:  # PoCL's dot has a thousandth of a GPU's rate
            self.array_elements, self.repetitions = self.array_elements // 4, FEWEST_REPETITIONS
        self.placement, self.executable_opts = self.stream_on(self.device)

    def derive(self, record: Record) -> None:
        if measured := [
            series for series in record.metrics['bandwidth'].series if series.samples and not series.invalid
        ]:
            best = max(measured, key=mean)
            series_of(record, 'best').samples = best.samples
            record.provenance['best'] = dict(best.dims)['kernel']


@rfm.simple_test
class BabelStreamAllDevices(BabelStreamOnDevices):
    """All devices of a node at the same time, one process each: they share power and cooling.

    `slowest` and `all` are the triad of the slowest device in each trial, and of all devices together.
    """

    descr = 'BabelStream on all devices at once'
    dims = BabelStream.dims | {'device': Dim('name')}
    tags = {'nightly', 'acceptance'}

    def supports(self, topology: Topology) -> bool:
        return self.model in models_for(topology, MODELS) and len(topology.gpus) > 1

    @run_after('setup')
    def start_on_each(self):
        self.metrics = [
            Metric(name, 'GB/s', 'higher', of=Of('bandwidth', function, {'kernel': 'triad'}))
            for name, function in (('slowest', min), ('all', sum))
        ]
        for device in range(len(self.topology.gpus)):
            run = f'device_{device}'
            self.placement, options = self.stream_on(device, run)
            self.runs[run] = Execution(options, placement=self.placement if self.placement.devices else None)
            self.metrics.append(bandwidth(run, 'device_memory_bandwidth', device=device))

    def job_spec(self):
        return replace(super().job_spec(), concurrent=True)


@rfm.simple_test
class BabelStreamDeviceSizes(BabelStreamOnDevices):
    """All kernels over the size of an array on the first device, 16 k to 128 M doubles (003, appendix B.2).

    All arrays but the largest may fit into caches, and have no peak.
    """

    descr = 'BabelStream over array sizes on a device'
    trial_seconds = 300
    dims = BabelStream.dims | {'elements': Dim('size', '1')}
    tags = {'acceptance'}

    def supports(self, topology: Topology) -> bool:
        return self.model in models_for(topology, MODELS) and bool(topology.gpus)

    @run_after('setup')
    def sweep(self):
        self.metrics = []
        for elements in SWEPT_ELEMENTS:
            self.array_elements, run = elements, f'elements_{elements}'
            self.placement, options = self.stream_on(0, run)
            self.runs[run] = Execution(options)
            peak = 'device_memory_bandwidth' if elements == SWEPT_ELEMENTS[-1] else None
            self.metrics.append(bandwidth(run, peak, elements=elements))
