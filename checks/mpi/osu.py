# SPDX-License-Identifier: BSD-3-Clause
"""OSU Micro-Benchmarks in the memory of the host: two ranks, many pairs of ranks, collectives.

A metric has a series for each message size. One job runs several programs, on the same nodes and after one wait in the
queue.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import Benchmark
from checks.core.nodes import OnNodes
from checks.core.placement import APART, Execution, Placement, one_rank_on
from checks.core.reading.causes import Run, said
from checks.core.reading.metrics import Metric
from checks.core.topology import Topology, node_counts, on_this_system
from checks.mpi import osu_output as osu
from plumbline.record import Dim

# Pairs that the scheduler must place, by the name of the resource that requests them -> switches of their nodes
SWITCHES = {'same_switch': 'same', 'different_switch': 'different'}


def pairs(topology: Topology) -> dict[str, tuple[int, ...]]:
    """Return where two communicating processes run: on two CPUs of a node, or on one CPU of each of two nodes.

    same_numa: the first two cores. same_socket: in two NUMA domains of a socket. different_socket: in two sockets.
    first_last: the ends of a node of one socket. two_nodes: the first core of each, near its first network device. Of
    pairs on the same cores, only the first is returned.
    """
    first, last = topology.cpu_of_core[0], topology.cpu_of_core[-1]
    domains = [cpus for domain in topology.numa_domains if (cpus := topology.cpus_in(domain))]
    sockets = topology.cpus_by_socket()
    candidates = {
        'same_numa': [cpus[:2] for cpus in domains],
        'same_socket': [(first, cpus[0]) for cpus in domains[1:] if cpus[0] in sockets[0]],
        'different_socket': [(first, cpus[0]) for cpus in sockets[1:]],
        'first_last': [(first, last)] if len(sockets) == 1 else [],
    }
    chosen: dict[str, tuple[int, ...]] = {}
    for name, options in candidates.items():
        usable = [cpus for cpus in options if len(set(cpus)) == 2 and cpus not in chosen.values()]
        if usable:
            chosen[name] = usable[0]
    if topology.nodes_of_partition > 1:
        chosen['two_nodes'] = (topology.cpu_near_nic(),)
    return chosen


def pairs_of(topology: Topology) -> list[str]:
    """Return the names of the pairs that a partition has."""
    placed = [name for name in SWITCHES if name in topology.resources and topology.nodes_of_partition > 1]
    return [*pairs(topology), *placed]


def options_of(name: str, sizes: list[int]) -> list[str]:
    """Return the options of a run. Sizes start at 1, which reductions count in elements up to version 7.0."""
    return [*(['-m', f'1:{sizes[-1]}'] if sizes else []), *osu.program_of(name).options]


class Osu(Benchmark):
    """A run for each of `programs` and pair of ranks. Parses rows such as ``8     0.39``: bytes, then us or MB/s."""

    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), and virtual nodes of Slurm on it'
    valid_prog_environs = ['+osu']
    mpi = True
    tags = {'nightly', 'acceptance'}
    programs: list[str]
    dims = {'message_bytes': Dim('size', 'B')}
    trial_seconds = 60
    # Latency of 1 byte within 100 runs: at most 2.6 % on eleven machines, 13 % on Perlmutter, 21 % on Summit; on the
    # last two one digit counts for that much (003, Tables 4 and 5: +- 0.06, 0.07 us). Half a printed digit is 3 % of
    # the shortest. Bandwidth on a virtual machine: 2 % between sessions (docs/verdicts.md). Collectives: no source.
    usual_spread = {'*bandwidth': 0.015, '*latency': 0.04, '*': 0.05}
    published: Sequence[Metric] = ()  # of tables, beside those of the programs
    gpu = ''  # the kind of GPU whose memory the ranks use, by the name of OSU's option -d
    memory: Sequence[str] = ()  # of the two ranks, by OSU's letters, where a program lets one choose

    def placements(self) -> dict[str, Placement]:
        """Return where the ranks of each pair run, such as of ``0-1``; the name of ranks that are all is empty."""
        raise NotImplementedError

    @run_after('setup')
    def place(self):
        self.executable, self.metrics = self.programs[0], []
        self.asked: dict[str, tuple[list[int], Sequence[str]]] = {}  # run -> sizes of messages, memory of the two ranks
        device = ['-d', self.gpu, *self.memory] if self.gpu else []
        for pair, placement in self.placements().items():
            self.placement, ranks = placement, placement.ranks_per_node * self.num_nodes
            for program in self.programs:
                run, sizes = '_'.join([program, *pair.split('-')]).rstrip('_'), osu.sizes_of(program, ranks)
                options, own = [*options_of(program, sizes), *device], placement if pair else None
                self.runs[run] = Execution(options, program=program, placement=own)
                self.asked[run] = sizes, self.memory
                dims = {'pair': pair} if pair else {}
                self.metrics += osu.metrics_of(program, sizes, run, self.path_peak(), **dims)
        self.metrics += self.published

    def path_peak(self) -> float | None:
        """Return the B/s of the path of the ranks one way: of the network devices that they ask for, else of a node."""
        return self.partition.network_peak(self.placement.carriers or ()) if self.num_nodes > 1 else None

    def sanity_faults(self, run: Run) -> list[str]:
        run.provenance['osu_version'] = osu.version_of(run.output)
        sizes, memory = self.asked[run.name]
        faults = osu.faults_of(run.output, self.runs[run.name].program, sizes, self.num_tasks, self.gpu, memory)
        return said(osu.errors_of(run.errors)) + faults


class OsuPair(Osu):
    """Two ranks: on two cores of a node, or on two nodes."""

    pair = parameter(on_this_system(pairs_of), loggable=True)
    quick = False  # whether the pair in a NUMA domain is measured in each mode

    def supports(self, topology: Topology) -> bool:
        return self.pair in pairs_of(topology)

    @run_after('init')
    def choose_pair(self):
        self.num_nodes = 2 if self.pair in ('two_nodes', *SWITCHES) else 1
        self.extra_resources: dict[str, dict[str, Any]] = {self.pair: {}} if self.pair in SWITCHES else {}
        self.tags = {'nightly', 'acceptance'} | ({'quick'} if self.quick and self.pair == 'same_numa' else set())

    def placements(self):
        where = 'two_nodes' if self.num_nodes == 2 else self.pair
        nics = (self.topology.nics[:1],) if self.num_nodes == 2 and self.topology.nics else None
        ranks = one_rank_on(pairs(self.topology)[where])
        apart = self.pair if self.pair in APART else None
        return {'': replace(ranks, switches=SWITCHES.get(self.pair), apart=apart, nics=nics)}


@rfm.simple_test
class OsuLatency(OsuPair):
    """Half the time of a ping-pong, 1 byte to 4 MiB (003, section 3.1).

    `mpi_latency` is the "MPI latency" of tables 4 and 5 of 003: "on-socket" is `pair=same_numa`, "on-node" is
    `different_socket`, on a Xeon Phi `first_last`. The tables name no message size. A latency below a microsecond is of
    a small message; the smallest message that the version of the tables (7.1) prints is 1 byte.
    """

    descr = 'MPI latency between two ranks'
    programs = ['osu_latency']
    trial_seconds = 5
    quick = True
    published = [Metric('mpi_latency', 'us', 'lower', rf'^1 +({osu.NUMBER})(?: +Pass)?$', run='osu_latency')]


@rfm.simple_test
class OsuBandwidth(OsuPair):
    """64 messages in flight, 1 byte to 4 MiB, one way and both ways at the same time."""

    descr = 'MPI bandwidth between two ranks'
    programs = ['osu_bw', 'osu_bibw']
    trial_seconds = 12
    quick = True


@rfm.simple_test
class OsuOneSided(OsuPair):
    """Put and get, 1 byte to 4 MiB, in a window that MPI allocated, completed by a flush."""

    descr = 'MPI one-sided latency and bandwidth between two ranks'
    programs = ['osu_put_latency', 'osu_get_latency', 'osu_put_bw', 'osu_get_bw']


@rfm.simple_test
class OsuMultiPair(OnNodes, Osu):
    """One rank per core; each of the first half exchanges with one of the second half, in a node or between two."""

    descr = 'MPI latency, bandwidth and message rate of many pairs'
    programs = ['osu_multi_lat', 'osu_mbw_mr']
    nodes = parameter(node_counts()[:2])

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and len(topology.cores) * self.nodes > 1

    def placements(self):
        cpus = self.topology.cpu_of_core
        return {'': one_rank_on(cpus[: len(cpus) // 2 * 2] if self.nodes == 1 else cpus)}


def one_rank_each(topology: Topology) -> dict[str, Placement]:
    """Return the placements `node` (a rank on its first core), `socket` and `core`; only those that differ."""
    candidates = {
        'node': topology.cpu_of_core[:1],
        'socket': tuple(cpus[0] for cpus in topology.cpus_by_socket()),
        'core': topology.cpu_of_core,
    }
    placements: dict[str, Placement] = {}
    for name, cpus in candidates.items():
        if one_rank_on(cpus) not in placements.values():
            placements[name] = one_rank_on(cpus)
    return placements


@rfm.simple_test
class OsuCollectives(OnNodes, Osu):
    """Time of a call, mean over the ranks, 1 byte (reductions: 4) to 1 MiB per rank."""

    descr = 'MPI collectives'
    programs = [
        'osu_barrier', 'osu_bcast', 'osu_reduce', 'osu_allreduce', 'osu_reduce_scatter', 'osu_allgather',
        'osu_alltoall',
    ]  # fmt: skip
    layout = parameter(on_this_system(one_rank_each), loggable=True)
    nodes = parameter(node_counts())

    def supports(self, topology: Topology) -> bool:
        ranks = one_rank_each(topology).get(self.layout)
        return super().supports(topology) and ranks is not None and ranks.ranks_per_node * self.nodes > 1

    def placements(self):
        return {'': one_rank_each(self.topology)[self.layout]}
