# SPDX-License-Identifier: BSD-3-Clause
"""NCCL's and RCCL's own tests: collectives of all GPUs of a node and of several, one rank a GPU."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import Benchmark
from checks.core.nodes import OnNodes
from checks.core.placement import Execution, Placement, cpus_of_devices, gpu_of_ranks
from checks.core.reading.causes import Run
from checks.core.reading.outputs import text_of
from checks.core.reading.transport import sent_of
from checks.core.topology import Topology, node_counts
from checks.gpu import xccl_output as xccl
from plumbline.record import Dim

LOG = 'nccl.%h.%p'  # host and process; a log on standard output would break the rows of rank 0


@rfm.simple_test
class XcclTests(OnNodes, Benchmark):
    """Parses ``1073741824  268435456  float  sum  -1  5990.7  179.24  313.66  0  5996.4  179.06  313.36  0``.

    Every element is compared. Provenance says through what the channels went, as the library decided.
    """

    descr = 'NCCL or RCCL collectives'
    last_run = 'not yet on a GPU'
    valid_prog_environs = ['+nccl-tests', '+rccl-tests']
    mpi = True
    dims = {'collective': Dim('name'), 'message_bytes': Dim('size', 'B')}
    usual_spread = 0.02  # a guess: no source has several sessions
    trial_seconds = 120
    trials = {'quick': 3, 'nightly': 3, 'acceptance': 10}
    nodes = parameter(node_counts())

    def supports(self, topology: Topology) -> bool:
        able = bool(gpu_of_ranks(topology))
        return super().supports(topology) and able and len(topology.gpus) * self.nodes > 1

    @run_after('setup')
    def place(self):
        gpus = range(len(self.topology.gpus))  # each rank sees all, and takes that of its local rank
        self.placement = Placement(
            len(gpus),
            cpus_of_devices(self.topology),
            devices=(tuple(gpus),) * len(gpus),
            gpu=gpu_of_ranks(self.topology),
            must_carry=self.topology.nics,
        )
        self.ranks = len(gpus) * self.num_nodes
        self.sizes, self.metrics = xccl.sizes_of(self.ranks), []
        for name in xccl.OF_NETWORK:
            self.runs[name] = Execution(xccl.options_of(self.sizes), program=f'{name}_perf')
            network = self.partition.network_peak() if self.num_nodes > 1 else None
            peak = network and network * xccl.OF_NETWORK[name](self.num_nodes, len(gpus))
            self.metrics += xccl.metrics_of(name, self.sizes, self.ranks, peak)
        self.executable = 'all_reduce_perf'
        self.env_vars |= {'NCCL_DEBUG': 'INFO', 'NCCL_DEBUG_SUBSYS': 'INIT,NET,TUNING', 'NCCL_DEBUG_FILE': LOG}

    def sanity_faults(self, run: Run) -> list[str]:
        log = ''.join([run.output, *map(text_of, sorted(run.folder.glob(LOG.replace('%h.%p', '*'))))])
        ways = ', '.join(f'{way} {number}' for way, number in xccl.transports_of(log).items())
        run.provenance[f'transport_{run.name}'] = ways or 'the library did not say'
        run.provenance[f'algorithm_{run.name}'] = xccl.algorithm_of(log) or 'the library did not say'
        run.provenance['nccl_version'] = xccl.version_of(log)
        run.devices.extend(xccl.devices_of(run.output))
        fabric = list(sent_of(run.provenance.get('fabric_sent', '')))
        transport, fallbacks = self.partition.transport, []
        if self.num_nodes > 1 and transport != 'sockets':
            fallbacks = xccl.fallbacks_of(log, self.topology.nics, fabric, transport == 'direct')
        faults = xccl.faults_of(run.output, run.name, self.sizes, self.ranks)
        return fallbacks + faults + xccl.iteration_faults(run.output)
