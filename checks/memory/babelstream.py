"""BabelStream: five kernels over three arrays, in the memory of the host and of each device.

All of its programs print lines such as ``Triad   45644.122   0.01764   0.02890   0.01994``: the rate of the best of its
repetitions in MB/s (10^6 bytes), then its shortest, longest and mean time. The rate counts the bytes that the
kernel names: twice the array for copy, mul and dot, three times for add and triad, no write-allocate traffic.
"""

import math
import re
from statistics import fmean

import reframe as rfm

from checks.core.benchmark import Benchmark
from checks.core.metrics import Metric
from checks.core.placement import Placement
from checks.core.topology import Topology, current_site, topologies

KERNELS = ('Copy', 'Mul', 'Add', 'Triad', 'Dot')
# Table 1 of the US DOE study (003): OMP_NUM_THREADS (one, all cores, all hardware threads), OMP_PROC_BIND, OMP_PLACES
BINDINGS = {
    'one': ('one', None, None),
    'one-true': ('one', 'true', None),
    'cores': ('cores', None, None),
    'cores-true': ('cores', 'true', None),
    'cores-spread': ('cores', 'spread', 'cores'),
    'threads': ('threads', None, None),
    'threads-true': ('threads', 'true', None),
    'threads-close': ('threads', 'close', 'threads'),
}
# Programming model -> (feature of the stack, program, prefix of the architectures that it is for)
MODELS = {
    'cuda': ('babelstream-cuda', 'cuda-stream', 'sm_'),
    'hip': ('babelstream-hip', 'hip-stream', 'gfx'),
    'omp-target': ('babelstream-omp-target', 'omp-stream', ''),
    'sycl': ('babelstream-sycl', 'sycl-stream', ''),
    'kokkos': ('babelstream-kokkos', 'kokkos-stream', ''),
    'std': ('babelstream-std', 'std-data-stream', 'sm_'),
}
SWEPT_ELEMENTS = [2**power for power in range(14, 28)]  # 003, appendix B.2: 16 k to 128 M doubles
MEBI = 2**20


def kernel_metrics(run: str = 'run', suffix: str = '', peak: str | None = 'memory_bandwidth') -> list[Metric]:
    """The five rates of one execution in GB/s."""
    return [
        Metric(kernel.lower() + suffix, 'GB/s', 'higher', rf'^{kernel}\s+(\d\S*)(?:\s+\d\S*){{3}}\s*$', scale=1e-3,
               run=run, peak=peak)
        for kernel in KERNELS
    ]  # fmt: skip


def faults_of(output: str, elements: int, repetitions: int) -> list[str]:
    """One sentence for each sign that an output is no whole run of `elements` doubles."""
    size = f'{elements * 8e-6:.1f} MB'
    signs = (
        (
            r'^Function\s+(?:MBytes/sec|MB/s)\s+Min \(sec\)\s+Max\s+Average\s*$',
            'no one table in MB/s of four columns',
        ),
        (r'^Precision: double\s*$', 'it did not run in double precision'),
        (rf'^(?:Array size: {re.escape(size)} \(=|Number of elements: {elements}$)', f'the arrays are not of {size}'),
        (rf'^Running .*\b{repetitions} times', f'it did not say that it ran {repetitions} times'),
    )
    return [sentence for pattern, sentence in signs if len(re.findall(pattern, output, re.MULTILINE)) != 1]


def differs(binding: str, topology: Topology) -> bool:
    """Whether a binding is another than those before it on such a node: without SMT, threads are cores."""
    return topology.threads_per_core > 1 or binding not in ('threads', 'threads-true')


def all_cpus(topology: Topology) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in topology.cores for cpu in core))


def models_for(topology: Topology) -> list[str]:
    """The programming models that the devices of a node can run."""
    archs = {arch for arch in topology.gpus if arch}
    return [model for model, (*_, prefix) in MODELS.items() if any(arch.startswith(prefix) for arch in archs)]


def models_of_this_system() -> list[str | None]:
    """Those that a partition can run and a stack offers; a parameter must not be empty, and None exists nowhere."""
    offered = {feature for stack in current_site().stacks.values() for feature in stack.features}
    able = {model for _, topology in topologies() for model in models_for(topology)}
    return [model for model, (feature, *_) in MODELS.items() if model in able and feature in offered] or [None]


def devices_of_this_system() -> list[int]:
    return list(range(max((len(topology.gpus) for _, topology in topologies()), default=0) or 1))


def memory_kinds_of_this_system() -> list[str | None]:
    return list(dict.fromkeys(kind for _, topology in topologies() for kind in topology.memory_kinds)) or [None]


class BabelStream(Benchmark):
    """Arrays, repetitions and sanity of every variant."""

    #: Times that the program repeats each kernel; its default.
    repetitions = variable(int, value=100)
    trial_time_limit = 600
    elements: dict[str, int]  # of an array, by run

    def stream(self, elements: int, run: str = 'run', device: int | None = None) -> list[str]:
        """The options of one run with arrays of `elements` doubles."""
        self.elements = getattr(self, 'elements', {}) | {run: elements}
        on_device = [] if device is None else ['--device', str(device)]
        return ['--arraysize', str(elements), '--numtimes', str(self.repetitions), *on_device]

    def sanity_faults(self, output):
        return faults_of(output, self.elements[self.reading], self.repetitions)

    def stderr_faults(self, errors):
        return [f'the program says: {line}' for line in errors.splitlines() if line.startswith('Validation failed')]


class BabelStreamOnHost(BabelStream):
    """One process that may use the whole node; OpenMP alone places its threads."""

    offers = 'babelstream-omp'
    executable = 'omp-stream'

    def whole_node(self, threads: int, proc_bind: str | None = None, places: str | None = None) -> Placement:
        return Placement(1, (all_cpus(self.topology),), threads=threads, proc_bind=proc_bind, places=places)

    @run_after('setup')
    def size_arrays(self):
        """Four times the last-level caches of the node in each array, at least 2^25 doubles, the program's default."""
        caches = self.topology.last_level_cache_bytes(self.topology.cpu_of_core)
        self.beyond_caches = max(2**25, math.ceil(4 * caches / 8 / MEBI) * MEBI)

    def void_reason(self, metric, value):
        if metric.peak and 3 * 8 * self.beyond_caches > 0.8 * self.topology.memory_bytes:
            return 'the memory is too small for arrays of four times the last-level cache'
        return super().void_reason(metric, value)


@rfm.simple_test
class BabelStreamHost(BabelStreamOnHost):
    """Sustainable bandwidth of the host's memory, a variant for each binding of Table 1 of 003 that differs here."""

    descr = 'BabelStream, OpenMP'
    binding = parameter(list(BINDINGS), loggable=True)
    metrics = kernel_metrics()

    def exists_on(self, topology):
        return differs(self.binding, topology)

    @run_after('init')
    def choose_modes(self):
        self.tags = {'nightly', 'acceptance'} | ({'quick'} if self.binding == 'cores-spread' else set())

    @run_after('setup')
    def place(self):
        count, proc_bind, places = BINDINGS[self.binding]
        threads = {'one': 1, 'cores': len(self.topology.cores), 'threads': len(all_cpus(self.topology))}[count]
        self.placement = self.whole_node(threads, proc_bind, places)
        self.executable_opts = self.stream(self.beyond_caches)


@rfm.simple_test
class BabelStreamBest(Benchmark):
    """What Table 4 of 003 publishes: the best kernel with the best binding, of one thread and of all.

    It runs nothing: it takes the samples of the kernel and binding with the highest mean from the BabelStreamHost cases
    of this session, and names both in its provenance.
    """

    descr = 'BabelStream, best over kernels and bindings'
    offers = 'babelstream-omp'
    tags = {'nightly', 'acceptance'}
    local = True
    executable = 'true'
    metrics = [Metric('single_best', 'GB/s', 'higher'), Metric('all_best', 'GB/s', 'higher')]

    @run_after('init')
    def depend_on_bindings(self):
        exist = [name for name in BINDINGS if any(differs(name, topology) for _, topology in topologies())]
        variants = BabelStreamHost.get_variant_nums(binding=exist.__contains__)
        self.parts = [BabelStreamHost.variant_name(variant) for variant in variants]
        for name in self.parts:
            self.depends_on(name)

    @run_before('run')
    def assemble_job(self):
        self.trials = 0

    def derive(self):
        cases = [self.getdep(name) for name in self.parts]
        for metric, one_thread in (('single_best', True), ('all_best', False)):
            measured = {
                (case.binding, kernel): samples
                for case in cases
                for kernel, samples in case.samples.items()
                if (BINDINGS[case.binding][0] == 'one') is one_thread and kernel not in case.void
            }
            if measured:
                best = max(measured, key=lambda which: fmean(value for *_, value in measured[which]))
                self.samples[metric] = measured[best]
                self.remarks[metric] = '{1} with binding {0}'.format(*best)
        self.remarks |= {'binary_sha256': cases[0].remarks.get('binary_sha256', '')}
        self.trials = cases[0].trials


@rfm.simple_test
class BabelStreamThreads(BabelStreamOnHost):
    """All kernels over the number of threads, close and spread (000, figures 6, 8 and 28): powers of two, a full
    socket, 75 % of the cores, all cores."""

    descr = 'BabelStream over threads'
    tags = {'acceptance'}

    @run_after('setup')
    def sweep(self):
        cores, socket = len(self.topology.cores), len(self.topology.cpus_in(self.topology.sockets[0]))
        counts = sorted({2**power for power in range(cores.bit_length())} | {socket, max(1, 3 * cores // 4), cores})
        self.metrics = []
        for proc_bind in ('close', 'spread'):
            for threads in counts:
                run = f'{proc_bind}_{threads}'
                self.runs[run] = self.stream(self.beyond_caches, run)
                self.run_env[run] = {'OMP_NUM_THREADS': str(threads), 'OMP_PROC_BIND': proc_bind}
                self.metrics += kernel_metrics(run, f'_{run}')
        self.placement = self.whole_node(cores, 'close', 'cores')
        self.trial_time_limit = 300 * len(self.runs)


@rfm.simple_test
class BabelStreamSizes(BabelStreamOnHost):
    """All kernels over the size of an array, 16 k to 128 M doubles (003, appendix B.2), on all cores, spread.

    Arrays below four times the last-level cache measure caches: they have no peak to exceed.
    """

    descr = 'BabelStream over array sizes'
    tags = {'acceptance'}

    @run_after('setup')
    def sweep(self):
        room = 0.8 * self.topology.memory_bytes / (3 * 8)
        self.metrics = []
        for elements in filter(room.__gt__, SWEPT_ELEMENTS):
            run = f'elements_{elements}'
            self.runs[run] = self.stream(elements, run)
            peak = 'memory_bandwidth' if elements >= self.beyond_caches else None
            self.metrics += kernel_metrics(run, f'_{elements}', peak)
        self.placement = self.whole_node(len(self.topology.cores), 'spread', 'cores')
        self.trial_time_limit = 900


@rfm.simple_test
class BabelStreamMemory(BabelStreamOnHost):
    """Each kind of memory of a node that has several, such as HBM beside DDR (000, section 6): all cores, spread, and
    all arrays in the NUMA domains of that kind."""

    descr = 'BabelStream by kind of memory'
    kind = parameter(memory_kinds_of_this_system(), loggable=True)
    tags = {'nightly', 'acceptance'}
    metrics = kernel_metrics(peak=None)

    def exists_on(self, topology):
        return self.kind in topology.memory_kinds

    @run_after('setup')
    def place(self):
        domains = ','.join(map(str, self.topology.memory_kinds[self.kind]))
        self.wrapper = ['numactl', f'--membind={domains}']
        self.placement = self.whole_node(len(self.topology.cores), 'spread', 'cores')
        self.executable_opts = self.stream(self.beyond_caches)


@rfm.simple_test
class BabelStreamDevice(BabelStream):
    """Sustainable bandwidth of one device's own memory, with arrays of 1 GiB (003, section 3.2); each GCD of an MI250X
    is a device. `best` is the kernel with the highest mean, which is what Table 5 of 003 publishes."""

    descr = 'BabelStream on a device'
    offers = 'babelstream-cuda'  # until the model is known
    model = parameter(models_of_this_system(), loggable=True)
    device = parameter(devices_of_this_system(), loggable=True)
    tags = {'quick', 'nightly', 'acceptance'}
    metrics = [*kernel_metrics(peak='device_memory_bandwidth'), Metric('best', 'GB/s', 'higher')]

    def exists_on(self, topology):
        return self.model in models_for(topology) and self.device < len(topology.gpus)

    @run_after('init')
    def choose_model(self):
        if self.model:
            self.offers, self.executable, _ = MODELS[self.model]

    @run_after('setup')
    def place(self):
        self.placement = Placement(1, (all_cpus(self.topology),))
        self.executable_opts = self.stream(2**27, device=self.device)

    def derive(self):
        measured = {kernel: samples for kernel, samples in self.samples.items() if kernel not in self.void}
        if measured:
            best = max(measured, key=lambda kernel: fmean(value for *_, value in measured[kernel]))
            self.samples['best'] = measured[best]
            self.remarks['best'] = best
