"""BabelStream in the memory of GPUs: one device, and all of a node at the same time."""

import reframe as rfm

from checks.core.devices import devices_of_this_system, models_for, models_of_this_system
from checks.core.metrics import Metric
from checks.core.placement import Placement
from checks.memory.babelstream_base import BabelStream, all_cpus, kernel_metrics, mean

# Programming model -> (feature of the stack, program, prefix of the architectures that it is for)
MODELS = {
    'cuda': ('babelstream-cuda', 'cuda-stream', 'sm_'),
    'hip': ('babelstream-hip', 'hip-stream', 'gfx'),
    'omp-target': ('babelstream-omp-target', 'omp-stream', ''),
    'sycl': ('babelstream-sycl', 'sycl-stream', ''),
    'kokkos': ('babelstream-kokkos', 'kokkos-stream', ''),
    'std': ('babelstream-std', 'std-data-stream', 'sm_'),
}


class BabelStreamOnDevices(BabelStream):
    """In the devices' own memory, with arrays of 1 GiB (003, section 3.2); each GCD of an MI250X is a device."""

    model = parameter(models_of_this_system(MODELS), loggable=True)
    offers = 'babelstream-cuda'  # until the model is known
    elements_of_1_gib = 2**27

    @run_after('init')
    def choose_program(self):
        if self.model:
            self.offers, self.executable, _ = MODELS[self.model]

    @run_after('setup')
    def place(self):
        self.placement = Placement(1, (all_cpus(self.topology),))


@rfm.simple_test
class BabelStreamDevice(BabelStreamOnDevices):
    """One device. `best` is the kernel with the highest mean, which is what Table 5 of 003 publishes."""

    descr = 'BabelStream on a device'
    device = parameter(devices_of_this_system(), loggable=True)
    tags = {'quick', 'nightly', 'acceptance'}
    metrics = [*kernel_metrics(peak='device_memory_bandwidth'), Metric('best', 'GB/s', 'higher')]

    def exists_on(self, topology):
        return self.model in models_for(topology, MODELS) and self.device < len(topology.gpus)

    @run_after('setup')
    def choose_device(self):
        self.executable_opts = self.stream(self.elements_of_1_gib, device=self.device)

    def derive(self):
        if measured := {kernel: samples for kernel, samples in self.samples.items() if kernel not in self.void}:
            best = max(measured, key=lambda kernel: mean(measured[kernel]))
            self.samples['best'], self.remarks['best'] = measured[best], best


@rfm.simple_test
class BabelStreamAllDevices(BabelStreamOnDevices):
    """All devices of a node at the same time, one process each: what power and cooling leave of them together.

    `slowest` and `all` are the triad of the slowest device and of all in each trial.
    """

    descr = 'BabelStream on all devices at once'
    tags = {'nightly', 'acceptance'}
    concurrent = True

    def exists_on(self, topology):
        return self.model in models_for(topology, MODELS) and len(topology.gpus) > 1

    @run_after('setup')
    def start_on_each(self):
        self.metrics = [Metric('slowest', 'GB/s', 'higher'), Metric('all', 'GB/s', 'higher')]
        for device in range(len(self.topology.gpus)):
            run = f'device_{device}'
            self.runs[run] = self.stream(self.elements_of_1_gib, run, device)
            self.metrics += kernel_metrics(run, f'_{device}', 'device_memory_bandwidth')

    def derive(self):
        triads = [self.samples.get(f'triad_{device}', []) for device in range(len(self.topology.gpus))]
        if all(len(samples) == self.trials for samples in triads):
            for metric, reduce in (('slowest', min), ('all', sum)):
                self.samples[metric] = [
                    (*trial[0][:2], reduce(value for *_, value in trial)) for trial in zip(*triads, strict=True)
                ]
