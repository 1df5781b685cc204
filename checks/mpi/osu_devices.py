# SPDX-License-Identifier: BSD-3-Clause
"""OSU Micro-Benchmarks in the memory of GPUs: between two of a node, between nodes, and collectives of all.

Each rank sees only its own GPU, and runs on cores near it, if the site names them. A metric has a series for each
message size, and for each pair: ``pair=0-1`` is from device 0 to device 1. The runs of a trial follow each other.
"""

import re
from collections.abc import Sequence
from math import inf
from statistics import fmean

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.nodes import OnNodes
from checks.core.placement import Placement, cpus_of_devices, gpu_of_ranks
from checks.core.reading.causes import Run, said
from checks.core.reading.metrics import Metric, Of
from checks.core.reading.outputs import text_of
from checks.core.topology import Topology, gpu_pairs, node_counts, on_this_system
from checks.mpi import osu_output as osu
from checks.mpi.osu import Osu
from plumbline.record import Dim
from plumbline.site.mpi import FAMILIES

HOST = 'host_buffers'  # the run whose times show whether MPI stages the buffers of GPUs
# Bytes of the message that shows staging through the host: between GPUs of one node, and of two nodes
STAGED_WITHIN, STAGED_BETWEEN = 4 * 2**20, 64 * 1024
TWO_COPIES = 8.0  # us: of a short message from a GPU to its host, and from a host to its GPU (003, Table 7)
STAGING = {True: 'staged through the host', False: 'direct', None: 'not decided: the path has no peak, or a low one'}


def is_staged(device: float, host: float, direct: float | None = None) -> bool | None:
    """Return whether MPI staged a message between two GPUs through the host; None if the times do not show it.

    Of one message, in us: `device` between the GPUs; `host` between the memories of their hosts, by the same ranks;
    `direct` at the peak of the path of two GPUs of a node, inf where it has none; None for two nodes. A staged message
    includes the message between the hosts, so it is not faster. Within a node this is conclusive if the path is at
    least twice as fast as the host's. Between nodes both cross the network, and staging adds two copies.
    """
    if direct is None:
        return device > 2 * host and device - host > TWO_COPIES
    return device >= host if host > 2 * direct else None


def device_errors_of(errors: str) -> list[str]:
    """Return why there are no device buffers, from the messages of OSU, MPI and the launchers."""
    causes = {
        'the programs were built without support for such buffers':
            r'Benchmark Does Not Support Accelerator Transfers|(?:CUDA|ROCm|Managed Memory) Support Not Enabled'
            r'|Managed memory support requires CUDA kernels|Invalid device type|Invalid option \[-d\]',
        'the program is not linked with GTL, the library of Cray MPICH for GPUs: see `ldd`, and docs/stacks.md':
            r'GTL library is not linked',
        # the library takes them for host memory
        'the MPI library does not seem to support device buffers':
            r'segmentation fault|SIGSEGV|signal:? 11\b|bus error|bad address|memory access fault',
    }  # fmt: skip
    matches = {cause: re.search(pattern, errors, re.IGNORECASE) for cause, pattern in causes.items()}
    return [f'{cause}: {match[0]}' for cause, match in matches.items() if match]


class OsuOnDevices(Osu):
    """Ranks with a GPU each, whose buffers are in its memory."""

    last_run = 'not yet on a GPU'
    valid_prog_environs = ['+osu-cuda', '+osu-rocm']

    @property
    def gpu(self) -> str:
        return gpu_of_ranks(self.topology)

    def sanity_faults(self, run: Run) -> list[str]:
        """Say also why there are no device buffers; MPICH's mpiexec reports a crash on standard output."""
        return said(device_errors_of(run.errors) + device_errors_of(run.output)) + super().sanity_faults(run)


class OsuOfPairs(OsuOnDevices):
    """Pairs of devices. If `compared` says so, a short run of the first pair has buffers of the host."""

    dims = {'message_bytes': Dim('size', 'B'), 'pair': Dim('pair')}
    usual_spread = {'*bandwidth': 0.01, '*': 0.02}  # latency: 0.7 % within 100 runs, up to 2 % (003, Table 5)
    buffers: str  # kinds of memory of two ranks
    #: (message in bytes, its direct time) that is compared with buffers of the host; see `is_staged`.
    compared: tuple[int, float | None] | None = None

    @property
    def memory(self) -> Sequence[str]:
        return [osu.MEMORY[kind] for kind in self.buffers.split('-')]

    def of_pairs(self, pairs: Sequence[tuple[int, int]], across: bool = False) -> dict[str, Placement]:
        """Return the placement of each pair of devices, such as of ``0-1``; `trial_seconds` becomes that of all."""
        cores, near = cpus_of_devices(self.topology), self.topology.gpu_numa_ids
        placements = {}
        for a, b in pairs:
            memory = ((near[a],), (near[b],)) if near and self.buffers == 'host-device' else None
            placements[f'{a}-{b}'] = Placement(
                1 if across else 2, (cores[a], cores[b]), devices=((a,), (b,)), gpu=self.gpu, memory=memory,
                across=across, gpu_buffers=True,
            )  # fmt: skip
        self.trial_seconds *= len(placements)
        return placements

    @run_after('setup')
    def place(self):
        super().place()
        if self.compared:
            first, size = next(iter(self.runs)), self.compared[0]
            options = ['-m', f'{size}:{size}', '-d', self.gpu, 'H', 'H']
            self.runs[HOST], self.asked[HOST] = self.runs[first]._replace(options=options), ([size], ('H', 'H'))

    def sanity_faults(self, run: Run) -> list[str]:
        """Return a sentence, too, if GPU buffers were staged through the host."""
        if (faults := super().sanity_faults(run)) or run.name != HOST:
            return faults
        first, (size, direct) = next(iter(self.runs)), self.compared
        outputs = text_of(run.folder.with_name(first) / 'stdout'), run.output
        device, host = (osu.time_of(self.programs[0], output, size) for output in outputs)
        if host is None:  # no metric is read from this run
            return [f'expected the time of a message of {size} bytes between the hosts, found none']
        if device is None:  # which a metric of the first run says
            return []
        staged = is_staged(device, host, direct)
        times = f'{size} bytes take {device:.1f} us between the GPUs and {host:.1f} us between the hosts'
        run.provenance['gpu_buffers'] = f'{STAGING[staged]}: {times}'
        family = self.stack.mpi
        needs = (family and FAMILIES[family].needs) or 'state mpi of the environment in site.yaml'
        where = f'in {first} {times}; {family or "this MPI"} needs {needs}'
        return [f'MPI stages buffers of GPUs through the host: {where}'] * bool(staged)


class OsuDevices(OsuOfPairs):
    """Two GPUs of a node. Memory of the host is near the cores of the first device; `managed` is CUDA's unified memory,
    at first on the device.
    """

    buffers = parameter(['device-device', 'host-device', 'managed-managed'], loggable=True)
    link_class = parameter(on_this_system(lambda topology: topology.link_classes), loggable=True)
    pairs = parameter(['first', 'all'], type=str, loggable=True)
    trial_seconds = 10  # of a pair

    def supports(self, topology: Topology) -> bool:
        able = ('cuda',) if self.buffers == 'managed-managed' else ('cuda', 'rocm')
        return gpu_of_ranks(topology) in able and bool(gpu_pairs(topology, self.link_class, self.pairs))

    @run_after('init')
    def choose_modes(self):
        quick = self.pairs == 'first' and self.buffers == 'device-device'
        self.tags = {'nightly', 'acceptance'} | ({'quick'} if quick else set())

    def path_peak(self):
        return self.partition.link_classes[self.link_class].peak if self.buffers == 'device-device' else None

    @property
    def compared(self):
        peak = self.path_peak()
        direct = 1e6 * STAGED_WITHIN / peak if peak else inf
        return (STAGED_WITHIN, direct) if self.buffers == 'device-device' else None

    def placements(self):
        return self.of_pairs(gpu_pairs(self.topology, self.link_class, self.pairs))


@rfm.simple_test
class OsuDeviceLatency(OsuDevices):
    """Half the time of a ping-pong, 1 byte to 4 MiB (003, section 3.2).

    `mpi_latency` of `buffers=device-device` is that of table 5 of 003 for a class: the mean of its pairs.
    """

    descr = 'MPI latency between two GPUs'
    programs = ['osu_latency']

    @property
    def published(self):
        mean = Metric('mpi_latency', 'us', 'lower', of=Of('latency', fmean, {'message_bytes': 1}))
        return [mean] if self.buffers == 'device-device' else []


@rfm.simple_test
class OsuDeviceBandwidth(OsuDevices):
    """64 messages in flight, 1 byte to 4 MiB, one way and both ways at the same time."""

    descr = 'MPI bandwidth between two GPUs'
    programs = ['osu_bw', 'osu_bibw']


@rfm.simple_test
class OsuDeviceRails(OsuOfPairs):
    """Each GPU of a node with one of another node: of the same number (a rail: on most machines behind the same NIC),
    or of the other half of the node (across rails).

    `host-host` runs on the same cores: its advantage over `device-device` is lost between GPU and NIC.
    """

    descr = 'MPI between GPUs of two nodes, by rail'
    programs = ['osu_latency', 'osu_bw', 'osu_bibw']
    trials = {'quick': 3, 'nightly': 3, 'acceptance': 10}
    trial_seconds = 30  # of a pair
    num_nodes = 2
    buffers = parameter(['device-device', 'host-host'], loggable=True)
    rail = parameter(['same', 'cross'], loggable=True)

    def supports(self, topology: Topology) -> bool:
        able, crosses = bool(gpu_of_ranks(topology)), len(topology.gpus) > 1 and len(topology.nics) != 1
        return topology.nodes_of_partition > 1 and able and (crosses or self.rail == 'same')

    @property
    def compared(self):
        direct = self.buffers == 'device-device' and self.partition.transport == 'direct'
        return (STAGED_BETWEEN, None) if direct else None

    def placements(self):
        number = len(self.topology.gpus)
        half = 0 if self.rail == 'same' else number // 2
        return self.of_pairs([(a, (a + half) % number) for a in range(number)], across=True)


@rfm.simple_test
class OsuDeviceCollectives(OnNodes, OsuOnDevices):
    """Time of a call in the memory of all GPUs, mean over the ranks, 1 byte (reductions: 4) to 1 MiB per rank."""

    descr = 'MPI collectives of GPUs'
    programs = ['osu_bcast', 'osu_reduce', 'osu_allreduce', 'osu_reduce_scatter', 'osu_allgather', 'osu_alltoall']
    by_mpi = True  # which gets the buffers
    nodes = parameter(node_counts())

    def supports(self, topology: Topology) -> bool:
        able = bool(gpu_of_ranks(topology))
        return super().supports(topology) and able and len(topology.gpus) * self.nodes > 1

    def placements(self):
        devices = tuple((device,) for device in range(len(self.topology.gpus)))
        near = cpus_of_devices(self.topology)
        return {'': Placement(len(near), near, devices=devices, gpu=self.gpu, gpu_buffers=self.by_mpi)}


@rfm.simple_test
class OsuXcclCollectives(OsuDeviceCollectives):
    """`OsuDeviceCollectives` by OSU's programs that call NCCL or RCCL, where the build has them."""

    descr = 'OSU collectives by NCCL or RCCL'
    valid_prog_environs = ['+osu-xccl']
    by_mpi = False
    programs = [program.replace('osu_', 'osu_xccl_') for program in OsuDeviceCollectives.programs]
