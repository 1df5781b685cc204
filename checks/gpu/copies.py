# SPDX-License-Identifier: BSD-3-Clause
"""Copies of all GPUs of a node at the same time, by TransferBench: the rate that shared ports and links leave to each.

A transfer is SOURCE->EXECUTOR->DESTINATION: memory C0 of NUMA domain 0 or G0 of GPU 0, and what copies, the engine D0
or the cores G0 of a GPU. All transfers of a run are started together, and their data are compared.
"""

import re
from collections.abc import Iterator, Sequence

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from checks.core.benchmark import Benchmark
from checks.core.nodes import ByModel, Models, models_of_this_system
from checks.core.placement import Execution, one_process
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, Of, OutputRow
from checks.core.topology import Topology
from plumbline.machine.vendors import AMD, NVIDIA
from plumbline.record import Dim

MODELS: Models = {
    'cuda': ('transferbench-cuda', 'TransferBench', NVIDIA.arch),
    'hip': ('transferbench-rocm', 'TransferBench', AMD.arch),
}
# Memory of the host in TransferBench's letters; managed memory is allocated by a GPU, and wanders
MEMORY_KINDS = {'pinned': 'C', 'unpinned': 'U', 'fine': 'B', 'managed': 'M'}
MIB = 256  # of each transfer
CORES = 8  # compute units of a transfer by the cores of a GPU, as in the preset a2a
_BAR = r' *[|\u2502] *'  # newer versions draw frames
_NUMBER = r'([0-9]{1,9}\.[0-9]{3})'
_ROW = re.compile(
    rf' *Transfer +[0-9]+{_BAR}{_NUMBER} GB/s{_BAR}{_NUMBER} ms{_BAR}([0-9]{{1,15}}) bytes{_BAR}(\w+) -> \S+ -> (\w+) *'
)


def rates_of(output: str) -> Iterator[OutputRow]:
    """Yield the rate of each transfer of a run, by its ends: ``C0-G3``."""
    for line, text in enumerate(output.split('\n'), start=1):
        if match := _ROW.fullmatch(text):
            yield OutputRow({'transfer': f'{match[4]}-{match[5]}'.lower()}, float(match[1]), (line,))


def domains_of(topology: Topology) -> list[tuple[int, int]]:
    """Return for each GPU its NUMA domain and the domain farthest from it, both counted from 0."""
    count = len(topology.numa_domains)
    near = [topology.numa_ids.index(number) for number in topology.gpu_numa_ids] or [0] * len(topology.gpus)

    def far(domain: int) -> int:
        if not topology.numa_distances:
            return (domain + count // 2) % count
        return max(range(count), key=lambda other: topology.numa_distances[domain][other])

    return [(domain, far(domain)) for domain in near]


def copies_of(topology: Topology, kinds: Sequence[str]) -> dict[str, list[str]]:
    """Return the transfers of each run: to and from the host, from far memory, between halves, and each to each."""
    domains, gpus = domains_of(topology), range(len(topology.gpus))
    half = len(gpus) // 2
    copies: dict[str, list[str]] = {}
    for kind in kinds:
        more = '' if kind == 'pinned' else f'_{kind}'
        ends = [f'{MEMORY_KINDS[kind]}{i if kind == "managed" else domains[i][0]}' for i in gpus]
        copies[f'h2d{more}'] = [f'{end}->D{i}->G{i}' for i, end in enumerate(ends)]
        copies[f'd2h{more}'] = [f'G{i}->D{i}->{end}' for i, end in enumerate(ends)]
    copies['both'] = copies.get('h2d', []) + copies.get('d2h', [])
    copies['far'] = [f'C{far}->D{i}->G{i}' for i, (near, far) in enumerate(domains) if far != near]
    halves = [(i, (i + half) % len(gpus)) for i in gpus] if len(gpus) % 2 == 0 else []
    copies['bisection'] = [f'G{a}->D{a}->G{b}' for a, b in halves]
    copies['all_to_all'] = [f'G{a}->G{a}->G{b}' for a in gpus for b in gpus if a != b]
    return {run: transfers for run, transfers in copies.items() if transfers}


def faults_of(output: str, transfers: int, mib: int = MIB) -> list[str]:
    """Return one sentence for each sign that an output is not of so many transfers, all compared."""
    faults = [f'TransferBench says: {line.strip()[:150]}' for line in output.splitlines() if '[ERROR]' in line][:1]
    lines = [line for line in output.splitlines() if re.match(r' *Transfer +[0-9]', line)]
    rows = [match for match in map(_ROW.fullmatch, lines) if match]
    if broken := [line.strip() for line in lines if not _ROW.fullmatch(line)]:
        faults.append(f'cannot parse row: expected GB/s, ms, bytes and ends of a transfer, found {broken[0][:80]!r}')
    if len(rows) != transfers or not re.search(rf'^ *Aggregate \(CPU\){_BAR}.*\n', output, re.MULTILINE):
        faults.append(f'expected {transfers} transfers and their aggregate, found {len(rows)} transfers')
    for row in rows:
        if int(row[3]) != mib * 2**20:
            faults.append(f'{row[4]} to {row[5]}: {mib} MiB were to be copied, {int(row[3])} bytes were')
    return faults


@rfm.simple_test
class DeviceCopies(ByModel, Benchmark):
    """`slowest` of the copies of a path, and `all` together; `bandwidth` of each transfer is informational.

    Parses ``Transfer 0 | 28.257 GB/s | 38.000 ms | 1073741824 bytes | C0 -> D0:1 -> G0``.
    """

    descr = 'Copies of all GPUs at the same time'
    last_run = 'not yet on a GPU'
    dims = {'path': Dim('name'), 'transfer': Dim('name')}
    usual_spread = 0.02  # a guess: no source has several sessions
    trial_seconds = 60
    tags = {'nightly', 'acceptance'}
    trials = {'quick': 3, 'nightly': 3, 'acceptance': 10}
    models, model = MODELS, parameter(models_of_this_system(MODELS), loggable=True)
    #: Memory of the host for h2d and d2h, of KINDS; empty: pinned, and all where host and GPUs address one memory.
    kinds = variable(typ.List[str], value=[])

    @run_after('setup')
    def choose_copies(self):
        self.placement = one_process(self.topology, range(len(self.topology.gpus)))
        kinds = self.kinds or (list(MEMORY_KINDS) if self.topology.unified else ['pinned'])
        self.copies, self.metrics = copies_of(self.topology, kinds), []
        for path, transfers in self.copies.items():
            cores = CORES if path == 'all_to_all' else 1
            asked = [f'({transfer})' for transfer in transfers]
            self.runs[path] = Execution(['cmdline', f'{MIB}M', str(len(transfers)), str(cores), *asked])
            ends = {'transfer': [re.sub('->.*->', '-', transfer).lower() for transfer in transfers]}
            self.metrics += [
                Metric('bandwidth', 'GB/s', 'higher', rates_of, {'path': path}, ends, run=path, judged=False),
                *(Metric(name, 'GB/s', 'higher', dims={'path': path}, of=Of('bandwidth', function, {'path': path}))
                  for name, function in (('slowest', min), ('all', sum))),
            ]  # fmt: skip
        self.env_vars['HIDE_ENV'] = '1'

    def sanity_faults(self, run: Run) -> list[str]:
        return faults_of(run.output, len(self.copies[run.name]))
