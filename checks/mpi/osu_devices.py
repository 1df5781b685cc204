"""OSU Micro-Benchmarks between two GPUs of a node: two ranks, each of which sees its own GPU and no other.

A metric has a series for each message size of each pair: ``pair=0-1`` is from device 0 to device 1. The runs of a trial
are the pairs of a class of paths, one after the other.
"""

from statistics import fmean

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import Benchmark
from checks.core.placement import Placement, cpus_of_devices, models_for
from checks.core.topology import gpu_pairs, link_classes_of_this_system
from checks.core.trials import Metric, by_trial, series_of
from checks.mpi.osu_output import (
    device_errors_of,
    errors_of,
    faults_of,
    metrics_of,
    options_of,
    sizes_of,
    version_of,
)
from plumbline.record import Dim

# What option -d takes -> (feature of the stack, -, prefix of the architectures that it is for)
MODELS = {'cuda': ('osu-cuda', '', 'sm_'), 'rocm': ('osu-rocm', '', 'gfx')}
# Memory of the first and of the second rank, as OSU names it. Host: near the cores of the first device. Managed: CUDA's
# unified memory, whose pages are on the device at first; OSU has it for CUDA alone.
BUFFERS = {'device-device': ('D', 'D'), 'host-device': ('H', 'D'), 'managed-managed': ('MD', 'MD')}


class OsuDevices(Benchmark):
    """A rank runs on the cores of its device. Where the site says which NUMA domain is near to that, the memory of the
    host in `host-device` is of that domain, too."""

    requires = ' '.join(feature for feature, *_ in MODELS.values())
    mpi = True
    own_programs = True
    programs: list[str]
    dims = {'message_bytes': Dim('size', 'B'), 'pair': Dim('pair')}
    buffers = parameter(list(BUFFERS), loggable=True)
    link_class = parameter(link_classes_of_this_system(), loggable=True)
    pairs = parameter(['first', 'all'], type=str, loggable=True)

    def supports(self, topology):
        able = ['cuda'] if self.buffers == 'managed-managed' else list(MODELS)
        found = set(able).intersection(models_for(topology, MODELS))
        return bool(found and gpu_pairs(topology, self.link_class, self.pairs) and cpus_of_devices(topology))

    @run_after('init')
    def choose_modes(self):
        quick = self.pairs == 'first' and self.buffers == 'device-device'
        self.tags = {'nightly', 'acceptance'} | ({'quick'} if quick else set())
        if self.pairs == 'all':
            # an hour and more, with 28 pairs of which each takes 10 s
            self.trials_by_mode = self.trials_by_mode | {'acceptance': 10}

    @run_after('setup')
    def place(self):
        (self.gpu,) = models_for(self.topology, MODELS)
        self.measured = gpu_pairs(self.topology, self.link_class, self.pairs)
        cores, near, self.metrics = cpus_of_devices(self.topology), self.topology.gpu_numa_ids, []
        for a, b in self.measured:
            memory = ((near[a],), (near[b],)) if near and self.buffers == 'host-device' else None
            placement = Placement(2, (cores[a], cores[b]), devices=((a,), (b,)), gpu=self.gpu, memory=memory)
            for program in self.programs:
                sizes, run = sizes_of(program), f'{program}_{a}_{b}'
                buffers = ['-d', self.gpu, *BUFFERS[self.buffers]]
                self.runs[run] = [program, *options_of(program, sizes), *buffers]
                self.run_env[run] = placement.env_vars
                self.metrics += metrics_of(program, sizes, run, pair=f'{a}-{b}')
        self.placement = placement  # of the last pair; each run has its own
        self.executable = self.programs[0]
        self.trial_time_limit = 60 * len(self.runs)

    def sanity_faults(self, run):
        run.provenance['osu_version'] = version_of(run.output)
        program = run.name.rsplit('_', 2)[0]
        faults = faults_of(run.output, program, sizes_of(program), 2, self.gpu, BUFFERS[self.buffers])
        # MPICH's mpiexec tells of a crash on standard output
        return device_errors_of(run.errors) + errors_of(run.errors) + device_errors_of(run.output) + faults


@rfm.simple_test
class OsuDeviceLatency(OsuDevices):
    """Half the time of a ping-pong, 1 byte to 4 MiB (003, section 3.2).

    `mpi_latency` of `buffers=device-device` is what table 5 of 003 publishes for a class: the mean of its pairs.
    """

    descr = 'MPI latency between two GPUs'
    programs = ['osu_latency']

    @run_after('setup')
    def add_published(self):
        if self.buffers == 'device-device':
            self.metrics.append(Metric('mpi_latency', 'us', 'lower'))

    def derive(self, record):
        if self.buffers == 'device-device':
            pairs = [series_of(record, 'latency', message_bytes=1, pair=f'{a}-{b}') for a, b in self.measured]
            series_of(record, 'mpi_latency').samples = by_trial(pairs, fmean)


@rfm.simple_test
class OsuDeviceBandwidth(OsuDevices):
    """64 messages in flight, 1 byte to 4 MiB, one way and both ways at the same time."""

    descr = 'MPI bandwidth between two GPUs'
    programs = ['osu_bw', 'osu_bibw']

    def peak_of(self, metric):
        """Copies between devices cannot be faster than the path of their class, where its peak is known."""
        peak = self.partition.link_classes[self.link_class].peak
        if peak is None or self.buffers != 'device-device':
            return None
        return 2 * peak if metric.name.startswith('bidirectional') else peak
