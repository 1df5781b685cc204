"""OSU Micro-Benchmarks between two GPUs of a node: two ranks, each of which sees only its own GPU.

A metric has a series for each message size of each pair: ``pair=0-1`` is from device 0 to device 1. The runs of a trial
are the pairs of a class of paths, one after the other.
"""

from statistics import fmean

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import Benchmark
from checks.core.outputs import text_of
from checks.core.placement import Models, Placement, cpus_of_devices, models_for
from checks.core.topology import gpu_pairs, on_this_system
from checks.core.trials import Metric, by_trial, series_of
from checks.mpi import osu_output as osu
from plumbline.record import Dim

MODELS: Models = {'cuda': ('osu-cuda', '', 'sm_'), 'rocm': ('osu-rocm', '', 'gfx')}  # the names of option -d
# Memory of the two ranks, by OSU's letters. Host: near the cores of the first device. Managed: CUDA's unified memory,
# at first on the device.
BUFFERS = {'device-device': ('D', 'D'), 'host-device': ('H', 'D'), 'managed-managed': ('MD', 'MD')}


class OsuDevices(Benchmark):
    """Each rank runs on cores near its device, if the site names them, and in `host-device` with memory near it."""

    requires = ' '.join(feature for feature, *_ in MODELS.values())
    mpi = True
    own_programs = True
    programs: list[str]
    dims = {'message_bytes': Dim('size', 'B'), 'pair': Dim('pair')}
    usual_spread = {'*bandwidth': 0.01, '*': 0.02}  # latency: 0.7 % within 100 runs, up to 2 % (003, Table 5)
    buffers = parameter(list(BUFFERS), loggable=True)
    link_class = parameter(on_this_system(lambda topology: topology.link_classes), loggable=True)
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
            # 28 pairs of 10 s each would take more than an hour
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
                sizes, run = osu.sizes_of(program), f'{program}_{a}_{b}'
                buffers = ['-d', self.gpu, *BUFFERS[self.buffers]]
                self.runs[run] = [program, *osu.options_of(program, sizes), *buffers]
                self.run_env[run] = placement.env_vars
                self.metrics += osu.metrics_of(program, sizes, run, pair=f'{a}-{b}')
        self.placement = placement  # of the last pair; each run has its own
        self.executable = self.programs[0]
        self.trial_time_limit = 60 * len(self.runs)

    def sanity_faults(self, run):
        run.provenance['osu_version'] = osu.version_of(run.output)
        program = run.name.rsplit('_', 2)[0]
        return osu.faults_of(run.output, program, osu.sizes_of(program), 2, self.gpu, BUFFERS[self.buffers])

    def complaints(self, folder):
        """Return why there are no device buffers; MPICH's mpiexec reports a crash on standard output."""
        errors, output = (text_of(folder / name) for name in ('stderr', 'stdout'))
        return osu.device_errors_of(errors) + osu.errors_of(errors) + osu.device_errors_of(output)


@rfm.simple_test
class OsuDeviceLatency(OsuDevices):
    """Half the time of a ping-pong, 1 byte to 4 MiB (003, section 3.2).

    `mpi_latency` of `buffers=device-device` is that of table 5 of 003 for a class: the mean of its pairs.
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
        """Bound copies between devices by the path of their class."""
        peak = self.partition.link_classes[self.link_class].peak
        if peak is None or self.buffers != 'device-device':
            return None
        return 2 * peak if metric.name.startswith('bidirectional') else peak
