# SPDX-License-Identifier: BSD-3-Clause
"""The node ladder: find slow nodes, rails, pairs and switches, and the largest group of nodes without them."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable

import plumbline
from checks.core.benchmark import Benchmark
from checks.core.placement import LISTS, Placement, cpus_of_devices, gpu_of_ranks, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, series_of
from checks.core.topology import Topology, on_this_system
from checks.ladder.judge import rounds_within, seconds_of
from plumbline.causes import Cause
from plumbline.record import Dim, Record, Sample
from plumbline.site.locations import locations

# Launcher -> command that starts ranks on some nodes of a job while others run
STARTS = {
    'srun': 'srun --overlap --nodes={count} --nodelist={nodes} --ntasks={ranks} --ntasks-per-node={each} '
            '--kill-on-bad-exit=1',
    'jsrun': 'jsrun --erf_input {resources}',
    'pals': 'mpiexec --hosts {nodes} -n {ranks} --ppn {each} --cpu-bind none',
    'mpirun': 'mpirun -host {slots} -n {ranks}',
    'mpiexec': 'mpiexec -host {slots} -n {ranks}',
}  # fmt: skip
# Files of the suite that the job needs: compute nodes may not see the clone
MODULES = (
    'checks/__init__.py', 'checks/ladder/__init__.py', 'checks/ladder/judge.py',
    *(f'plumbline/{name}.py' for name in ('__init__', 'errors', 'settings', 'rounds', 'grouping')),
)  # fmt: skip
SECONDS = 840  # of the whole ladder
PAIR_SECONDS = 30  # time limit of a pair
PAIR_BYTES = 2**20  # of a message of a pair, 64 in flight; of the allreduce 16 times as many
EVERY_NIGHT, LARGEST = 16, 2048  # nodes; for more there is no time to tell a node from its partners
PAIR = re.compile(r'^pair [0-9]+ ([0-9]+) (\S+) ([0-9.]+)$', re.MULTILINE)
ENDED = re.compile(r'^largest \d+ [\d.]+\ntook [\d.]+ s\n', re.MULTILINE)
NAMED = re.compile(r'^named (\[.*\])$', re.MULTILINE)
LARGEST_GROUP = re.compile(r'^largest ([1-9]\d*) ([\d.]+)$', re.MULTILINE)
WITHIN = re.compile(r'^loopback (\S+) ([0-9.]+)$', re.MULTILINE)


def node_counts_of(topology: Topology) -> list[int]:
    """Return the numbers of nodes of the ladders of a night and of an acceptance; empty if the launcher starts none."""
    every = min(topology.nodes_of_partition, LARGEST)
    return sorted({min(EVERY_NIGHT, every), every} - {1}) if topology.launcher in STARTS else []


def rails_of(topology: Topology, buffers: str) -> tuple[list[Placement], Placement | None]:
    """Return the placement of one rank for each rail, and the placement of two ranks within a node, None without room.

    Rails are the network devices, each with a core near it; for device buffers they are the GPUs, which mostly have a
    network device each.
    """
    if buffers == 'host':
        ends = topology.cpu_of_core[:1], topology.cpu_of_core[-1:]
        rails = [
            replace(one_rank_on((topology.cpu_near_nic(number),)), nics=((nic,),) if nic else None)
            for number, nic in enumerate(topology.nics or (None,))
        ]
        return rails, one_rank_on(ends[0] + ends[1]) if ends[0] != ends[1] else None
    gpu, cores = gpu_of_ranks(topology), cpus_of_devices(topology)
    rails = [Placement(1, (its,), devices=((device,),), gpu=gpu, gpu_buffers=True) for device, its in enumerate(cores)]
    within = Placement(2, cores[:2], devices=((0,), (1,)), gpu=gpu, gpu_buffers=True)
    return rails, within if cores[1:] else None


class Ladder(NamedTuple):
    """A ladder over `nodes`: `rounds` of pairs on each of `rails`, with a rank of each; two ranks `within` a node."""

    nodes: int
    rails: Sequence[Placement]
    within: Placement | None
    rounds: int

    def __str__(self) -> str:
        return f'rails {len(self.rails)}, rounds {self.rounds} of {self.nodes // 2} pairs'

    def metrics(self, peak: float | None) -> list[Metric]:
        """Return its metrics. `peak`: of a rail in B/s, where the site states it."""
        # An allreduce sends all bytes at least once from each node
        of_group = peak and peak * 2 * (self.nodes - 1) / self.nodes
        return [
            *[Metric('loopback_bandwidth', 'MB/s', 'higher')] * bool(self.within),
            Metric('pair_bandwidth', 'MB/s', 'higher', expected={'rail': range(len(self.rails))}, peak=peak),
            Metric('group_bandwidth', 'MB/s', 'higher', peak=of_group),
            Metric('good_nodes', '1', 'higher', judged=False),
        ]  # fmt: skip

    def plan(
        self, topology: Topology, options: Sequence[str], places: Mapping[str, Iterable[str]], tolerance: float
    ) -> dict[str, Any]:
        """Return the plan that ``on_node.py`` reads, of JSON types. `options`: of the launcher."""
        size, repeat, gpu = PAIR_BYTES, ['-i', '20', '-x', '2'], self.rails[0].gpu
        device = ['-d', gpu] if gpu else []
        return {
            'start': shlex.split(' '.join([STARTS[topology.launcher], *options])),
            'cpus': len(topology.all_cpus),
            'pair': ['osu_bw', '-m', f'{size}:{size}', *repeat, *device, *['D', 'D'] * bool(device)],
            'group': ['osu_allreduce', '-m', f'{16 * size}:{16 * size}', *repeat, *device],
            'rails': [rail.env_vars for rail in self.rails], 'within': self.within and self.within.env_vars,
            'lists': list(LISTS.values()), 'rounds': self.rounds, 'seconds': SECONDS,
            'places': {node: sorted(names) for node, names in places.items()},
            'limit': PAIR_SECONDS, 'tolerance': tolerance,
        }  # fmt: skip


def samples_of(printed: str, nodes: int, names: str) -> Iterator[tuple[str, dict[str, str], Sample]]:
    """Yield metric, dims and sample of what a ladder printed: of each pair, each node, and the largest group.

    `nodes`, `names`: all nodes of the job.
    """
    for rail, pair, value in PAIR.findall(printed):
        if float(value):
            yield 'pair_bandwidth', {'rail': rail}, (1, pair, float(value))
    for node, value in WITHIN.findall(printed):
        if float(value):
            yield 'loopback_bandwidth', {}, (1, node, float(value))
    for number, bandwidth in LARGEST_GROUP.findall(printed)[-1:]:
        yield 'group_bandwidth', {}, (1, names, float(bandwidth))
        yield 'good_nodes', {}, (1, names, int(number) / nodes)


def write_files(stage: Path, plan: dict[str, Any]):
    """Write the plan of the ladder into the case's folder, and copy the files of the suite that the job needs."""
    (stage / 'ladder.json').write_text(json.dumps(plan))
    here = Path(__file__).parent
    shutil.copy(here / 'on_node.py', stage / 'ladder.py')
    for name in MODULES:
        package = here.parents[1] if name.startswith('checks') else Path(plumbline.__file__).parents[1]
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package / name, stage / name)


@rfm.simple_test
class NodeLadder(Benchmark):
    """Settings of nodes, then OSU's bandwidth within each node, of pairs in a tournament, and of the remaining nodes.

    One job (``judge.py``). Parses lines such as ``pair 3 0 n1,n2 12345.67``: round, rail, nodes, MB/s.
    """

    descr = 'Slow nodes, rails, pairs and switches by name'
    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4), 64 virtual nodes of Slurm, a network link each'
    mpi = True
    executable = sys.executable
    nodes = parameter(on_this_system(node_counts_of), loggable=True)
    buffers = parameter(['host', 'device'], loggable=True)
    most_nodes = variable(int, type(None), value=None)  #: most nodes; None: as `nodes` says
    tolerance = variable(float, value=0.1)  #: least loss, against comparable pairs, at which something is named
    trial_seconds, trial_time_limit = SECONDS, 900
    trials = 1
    dims, printed = {'rail': Dim('name')}, ''

    def supports(self, topology: Topology) -> bool:
        able = self.buffers == 'host' or bool(gpu_of_ranks(topology))
        return able and self.nodes in node_counts_of(topology)

    @run_after('init')
    def choose(self):
        self.valid_prog_environs = ['+osu'] if self.buffers == 'host' else ['+osu-cuda', '+osu-rocm']
        self.num_nodes = min(self.nodes or 1, self.most_nodes or self.nodes or 1)
        self.tags = {'mpi', 'acceptance'} | ({'nightly'} if self.num_nodes <= EVERY_NIGHT else set())

    @run_after('setup')
    def place(self):
        rails, within = rails_of(self.topology, self.buffers)
        rounds = rounds_within(self.num_nodes, len(rails), SECONDS)
        self.ladder = Ladder(self.num_nodes, rails, within, rounds)
        self.placement, self.provenance['ladder'] = rails[0], str(self.ladder)
        self.estimates.append(seconds_of(self.num_nodes, rounds))
        self.metrics = self.ladder.metrics(self.partition.network_peak(self.placement.carriers or ()))

    def job_spec(self):
        """Start the ladder on the first node as it is: it starts the ranks, each through rank.sh."""
        self.executable_opts = ['../../ladder.py', '../../ladder.json', self.provenance['ladder']]
        spec = replace(super().job_spec(), through_rank=False)
        plan = self.ladder.plan(self.topology, self.job.launcher.options, locations(self.site.name), self.tolerance)
        write_files(Path(self.stagedir), plan)  # after the spec, as no execution needs a copy of these
        return spec

    def sanity_faults(self, run: Run) -> list[str]:
        self.printed = run.output
        return [] if ENDED.search(run.output) else ['the ladder did not come to its end']

    @run_before('sanity')
    def put_names_first(self):
        if named := [json.loads(line) for line in NAMED.findall(self.printed)]:
            self.faults[:0] = [Cause('named', text) for _, _, _, text, *_ in named]
            self.result.provenance['named'] = json.dumps(named)  # from which incidents are made

    def derive(self, record: Record) -> None:
        """Add the samples that the ladder printed."""
        for metric, dims, sample in samples_of(self.printed, self.num_nodes, ','.join(self.job.nodelist or [])):
            series_of(record, metric, **dims).samples.append(sample)
