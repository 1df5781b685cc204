# SPDX-License-Identifier: BSD-3-Clause
"""Comm|Scope: the times to launch a kernel, to wait for a device, and to copy between memories of a node.

Copies of 256 bytes give latencies, of 2^30 bytes bandwidths. 003 says 128 bytes and 1 GB, but its version, 0.12.0,
copies powers of two from 2^8 on.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import SanityError

from checks.core.benchmark import Benchmark
from checks.core.nodes import ByModel, Models, devices_of_this_system, models_of_this_system
from checks.core.placement import one_process
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, Of
from checks.core.topology import Topology, gpu_pairs, on_this_system
from checks.gpu import comm_scope_output as scope
from plumbline.machine.vendors import AMD, NVIDIA
from plumbline.record import Dim

MODELS: Models = {
    'cuda': ('comm-scope-cuda', 'comm_scope', NVIDIA.arch),
    'hip': ('comm-scope-hip', 'comm_scope', AMD.arch),
}
# The metrics of copies, each with the bytes that are copied
COPIES = ((Metric('latency', 'us', 'lower'), 2**8), (Metric('bandwidth', 'GB/s', 'higher'), 2**30))


def numa_ids(topology: Topology, device: int) -> list[int]:
    """Return the operating system's number of one NUMA domain of each socket, the domain near the device first.

    If the site does not state the domain near the device, the order is that of the sockets.

    Comm|Scope binds itself to a domain, which is part of a benchmark's name. Crossing to another socket costs most.
    """
    near, ids = topology.gpu_numa_ids[device : device + 1], []
    for socket in (socket for socket in topology.sockets if topology.cpus_in(socket)):
        domains = zip(topology.numa_ids, topology.numa_domains, strict=True)
        own = [number for number, domain in domains if socket & domain and topology.cpus_in(domain)]
        ids.append(near[0] if set(near) & set(own) else own[0])
    return sorted(dict.fromkeys(ids), key=lambda number: number not in near)


class CommScope(ByModel, Benchmark):
    """Each metric reads one benchmark of the JSON file; see comm_scope_output.py.

    Parses ``"real_time": 8.3006545256262498e+01``, in the unit of the line after the next.
    """

    last_run = 'not yet on a GPU'
    # medians within 100 runs: copy latencies 0.3 to 0.5 %, up to 4 %; launch and wait 0.1 to 0.2 %; bandwidths 0.01 %
    # (003, Table 6)
    usual_spread = {'*latency': 0.015, '*bandwidth': 0.003, '*': 0.01}

    models, model = MODELS, parameter(models_of_this_system(MODELS), loggable=True)
    #: Seconds of all iterations of a benchmark. Google Benchmark's default, which 003 used, is 0.5.
    min_time = variable(float, value=0.05)
    #: Whether it may run as root: upstream's program then turns the CPUs' turbo off, and leaves it off if killed.
    as_root = variable(typ.Bool, value=False)
    output = 'benchmarks.json'
    trial_seconds = 2  # of a benchmark
    tags = {'quick', 'nightly', 'acceptance'}

    @run_before('run')
    def leave_clocks_alone(self):
        ours = self.stack.provider == 'spack'  # the suite's recipe of libscope removes that
        if os.geteuid() == 0 and not (ours or self.as_root or self.is_dry_run()):
            raise SanityError(
                'not run as root: Comm|Scope would set governor and turbo of the CPUs; run it as another user, from a '
                'Spack stack, or with -S as_root=true'
            )

    def run_benchmarks(self, metrics: Mapping[str, Metric], derived: Sequence[Metric]):
        """Set metrics, by the benchmark that each reads, options and time.

        Copies reset their devices before each round, which takes about a second.
        """
        self.placement = one_process(self.topology, range(len(self.topology.gpus)))
        self.metrics = [scope.reading(metric, name) for name, metric in metrics.items()] + [*derived]
        self.names = [*metrics]
        self.executable_opts = scope.options_of(self.names, self.min_time)
        self.trial_seconds *= len(self.names)

    def sanity_faults(self, run: Run) -> list[str]:
        return scope.faults_of(run.output, self.names)


class CommScopeDevice(CommScope):
    """A check of one device that runs from each socket: ``domain=0``.

    Series without a domain are of the nearest domain or, if the site does not state it, of the first socket's.
    """

    dims = {'direction': Dim('name'), 'domain': Dim('name')}
    device = parameter(devices_of_this_system(), loggable=True)

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and self.device < len(topology.gpus)

    @run_after('setup')
    def choose_domains(self):
        self.domains = numa_ids(self.topology, self.device)
        known = self.topology.gpu_numa_ids or len(self.domains) == 1
        self.provenance['nearest_numa_domain'] = str(self.domains[0]) if known else 'not stated by the site'

    def at_nearest(self, metric: Metric, **dims: str) -> Metric:
        """Return a metric at these dims that is measured from the nearest domain."""
        return replace(metric, dims=dims, of=Of(metric.name, fmean, {**dims, 'domain': self.domains[0]}))


@rfm.simple_test
class CommScopeKernel(CommScopeDevice):
    """Launch of an empty kernel, not its completion, and wait for an empty queue (003, section 3.2 and Table 6)."""

    descr = 'Kernel launch and empty-queue wait'

    @run_after('setup')
    def choose_benchmarks(self):
        kinds = [Metric('launch', 'us', 'lower'), Metric('wait', 'us', 'lower')]
        metrics = {
            scope.name_of(self.model, metric.name, numa, self.device): replace(
                metric, dims={'domain': numa}, judged=False
            )
            for numa in self.domains
            for metric in kinds
        }
        self.run_benchmarks(metrics, [self.at_nearest(metric) for metric in kinds])


@rfm.simple_test
class CommScopeHostDevice(CommScopeDevice):
    """Copies between pinned memory of the host and a device; `latency` and `bandwidth` are (H→D + D→H)/2 of Table 6."""

    descr = 'Copies between host and device'

    @run_after('setup')
    def choose_benchmarks(self):
        ways, kinds = ('h2d', 'd2h'), [metric for metric, _ in COPIES]
        metrics = {
            scope.name_of(self.model, way, numa, self.device, size): replace(
                metric, dims={'direction': way, 'domain': numa}, judged=False
            )
            for way in ways
            for numa in self.domains
            for metric, size in COPIES
        }
        of_ways = [self.at_nearest(metric, direction=way) for way in ways for metric in kinds]
        self.run_benchmarks(metrics, [self.at_nearest(metric) for metric in kinds] + of_ways)


@rfm.simple_test
class CommScopeDevicePair(CommScope):
    """Copies from one device to another, each pair a series; `latency` and `bandwidth` are the mean of the pairs.

    As in 003, CUDA copies without peer access and hence through the host (CUDA C++ Programming Guide, Peer-to-Peer
    Memory Copy): that bandwidth is not the link's, which `DeviceCopies` measures.
    """

    descr = 'Copies between two devices'
    dims = {'pair': Dim('pair')}
    link_class = parameter(on_this_system(lambda topology: topology.link_classes), loggable=True)
    pairs = parameter(['first', 'all'], type=str, loggable=True)

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and bool(gpu_pairs(topology, self.link_class, self.pairs))

    @run_after('init')
    def choose_modes(self):
        self.tags = {'nightly', 'acceptance'} | ({'quick'} if self.pairs == 'first' else set())

    @run_after('setup')
    def choose_benchmarks(self):
        peak = self.partition.link_classes[self.link_class].peak
        kinds = [(replace(metric, peak=peak if metric.unit == 'GB/s' else None), size) for metric, size in COPIES]
        metrics = {
            scope.name_of(self.model, 'd2d', numa_ids(self.topology, a)[0], a, size, b): replace(
                metric, dims={'pair': f'{a}-{b}'}
            )
            for a, b in gpu_pairs(self.topology, self.link_class, self.pairs)
            for metric, size in kinds
        }
        self.run_benchmarks(metrics, [replace(metric, of=Of(metric.name, fmean)) for metric, _ in kinds])
