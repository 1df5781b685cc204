"""A sweep: the whole job of a case on every node of an allocation by itself, or on every pair of its nodes.

`ci/sweep` holds the allocation and names its nodes in the file ``PLUMBLINE_SWEEP``. Each node runs the job in a folder
of its own, so a thousand nodes take as long as one and a node that fails costs the others nothing. Pairs run in the
rounds of a tournament: all pairs of a round at the same time, no node in two of them. Nothing begins or goes on after
``PLUMBLINE_SWEEP_UNTIL``, in seconds since 1970.
"""

from __future__ import annotations

import functools
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from plumbline.errors import SiteError

if TYPE_CHECKING:
    from checks.core.benchmark import Benchmark

Place = tuple[str, ...]
_IN_MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None  # a file system
_WEEK = 7 * 86400
# By the exit code of `timeout` in job/sweep.sh: Slurm's word for such an end, and ours; no code: the node has gone
_ENDINGS = {
    '0': ('COMPLETED', ''),
    '': ('NODE_FAIL', 'did not come to its end'),
    '124': ('TIMEOUT', 'exit code 124: it took longer than it may'),
    '137': ('FAILED', 'exit code 137: it was killed, perhaps because it took longer than it may'),
}


def swept_nodes() -> list[str]:
    """The nodes of the sweep that this ReFrame is part of; none where it is part of none."""
    path = os.environ.get('PLUMBLINE_SWEEP')
    return _words_of(path) if path else []


@functools.cache
def _words_of(path: str) -> list[str]:
    return Path(path).read_text(encoding='utf-8').split()


def number_of_rounds(nodes: int) -> int:
    """In which each of so many nodes meets each other; ``PLUMBLINE_SWEEP_ROUNDS`` limits them to a sample."""
    every = nodes - 1 + nodes % 2
    return min(int(os.environ.get('PLUMBLINE_SWEEP_ROUNDS', every)), every)


def rounds_of(nodes: list[str], per_place: int) -> Iterator[list[Place]]:
    """Every node in one round, or every pair of nodes in as few rounds as there can be.

    `per_place` nodes are one place. Of an odd number of nodes one pauses in each round. In a sample, the nodes that one
    node meets lie as far apart in the list as they can: neighbours there are often neighbours in the network.
    """
    if per_place == 1:
        yield [(node,) for node in nodes]
        return
    size, count = len(nodes) - 1 + len(nodes) % 2, number_of_rounds(len(nodes))
    for number in range(count):
        # Those meet whose indices add up to `total` modulo `size`, which is odd; the one that would meet itself meets
        # the node of index `size`, where there is one.
        total = number * size // count
        alone = total * (size + 1) // 2 % size
        pairs = [(alone, size), *(((alone - i) % size, (alone + i) % size) for i in range(1, size // 2 + 1))]
        yield [tuple(nodes[i] for i in sorted(pair)) for pair in pairs if len(nodes) not in pair]


def can_be_swept(check: Benchmark) -> bool:
    """Not what takes more than two nodes, what runs on none, and what only the scheduler can place."""
    nodes = len(swept_nodes())
    enough = check.num_nodes == 1 or (check.num_nodes == 2 <= nodes and number_of_rounds(nodes) > 0)
    return enough and not check.local and not check.extra_resources


def spread(check: Benchmark):
    """Turns the assembled job of one place into that of all places, a step of Slurm for each round."""
    lines = ["trap 'exit $?' ERR"]
    run = f'{check.executable} {" ".join(check.executable_opts)}'
    if check.mpi:
        # as if in no step: of the step of the round, srun and PMIx would take its number of nodes and its tasks
        lines.append('unset ${!SLURM_*} ${!PMI*}; . ./slurm.env')
        run = (
            f'srun --overlap --nodes={check.num_nodes} --nodelist=$PLUMBLINE_PLACE '
            f'--ntasks={check.num_tasks} --ntasks-per-node={check.num_tasks_per_node} --kill-on-bad-exit=1 {run}'
        )
    folder = Path(check.stagedir)
    (folder / 'place.sh').write_text('\n'.join([*lines, *check.prerun_cmds, run, *check.postrun_cmds, '']))
    (folder / 'rounds').mkdir()
    number, seconds = 0, int(check.time_limit)
    for number, places in enumerate(rounds_of(swept_nodes(), check.num_nodes), start=1):
        (folder / f'rounds/{number}').write_text(''.join(f'{place[0]} {",".join(place)}\n' for place in places))
    check.prerun_cmds = [
        'exec 9>> "$PLUMBLINE_SWEEP" && flock 9',  # one case at a time; ReFrame reads one while the next one runs
        'declare -px ${!SLURM_*} > slurm.env',
        f'for ((round = 1; round <= {number}; round++)); do bash ./sweep_round.sh $round {seconds}; done',
    ]
    check.time_limit = _WEEK  # each place keeps to its own, and all to the allocation's
    check.postrun_cmds = []
    check.executable, check.executable_opts = 'true', []


def measure(check: Benchmark) -> list[str]:
    """Reads each place as if it were a job of its own, and keeps its record in `check.swept`; the check itself becomes
    that of the worst place of each metric. Returns the faults of all places."""
    try:
        limits = {name: limit for name, bound in check.bounds().items() if (limit := limit_of(bound)) is not None}
    except SiteError:
        limits = {}  # the performance phase fails with it
    faults = []
    for number, places in enumerate(rounds_of(swept_nodes(), check.num_nodes), start=1):
        late = Path(check.stagedir, f'rounds/{number}.late').exists()
        for place in places:
            record = measure_place(check, place, late)
            record['breaches'] = breaches_of(record, limits)
            check.swept.append(record)
            faults += [f'{",".join(place)}: {"; ".join(record["faults"][:2])}'] if record['faults'] else []
    become_the_worst(check)
    return faults


def measure_place(check: Benchmark, place: Place, late: bool) -> dict[str, Any]:
    check.forget()
    with opened(Path(check.stagedir, 'places'), ','.join(place)) as folder:
        faults = check.read_trials(folder, ','.join(place))
        code, said = (_text(folder / name) for name in ('place.exit', 'place.err'))
        state, why = _ENDINGS.get(code, ('FAILED', f'exit code {code}'))
        if late:
            state, why, faults = 'CANCELLED', 'not run: the time of the allocation was used up', []
        elif not folder.exists():
            why = 'printed nothing'
    if why:
        faults.insert(0, why + (f' (stderr ends: {said.splitlines()[-1][:200]})' if said else ''))
        check.missing = {metric: f'{why}; {reason}' for metric, reason in check.missing.items()}
    job = {
        'id': os.environ.get('SLURM_JOB_ID', ''), 'nodes': list(place), 'exitcode': int(code) if code else None,
        'state': state,
    }  # fmt: skip
    return check.own_record() | {'job': job, 'faults': faults}


@contextmanager
def opened(places: Path, name: str) -> Iterator[Path]:
    """The folder of a place; ``job/sweep.sh`` has packed it where the place ended well."""
    packed = places / f'{name}.tar'
    if not packed.exists():
        yield places / name
        return
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as folder, tarfile.open(packed, 'r:') as archive:
        archive.extractall(folder)
        yield Path(folder)


def limit_of(bound: tuple[float, float | None, float | None, str]) -> float | None:
    """The worst value that one of ReFrame's reference tuples lets pass; None where it has no bound."""
    reference, lower, upper, _ = bound
    beyond = upper if lower is None else lower
    return None if beyond is None else reference * (1 + beyond)


def breaches_of(record: dict[str, Any], limits: dict[str, float]) -> list[str]:
    """One sentence for each metric of a place that is void or beyond its limit."""
    found = []
    for name, metric in record['metrics'].items():
        if metric['void']:
            found.append(f'void: {name}: {metric["void"]}')
        elif metric['samples'] and name in limits:
            value, limit = mean_of(metric), limits[name]
            if value < limit if metric['better'] == 'higher' else value > limit:
                found.append(f'failed to meet reference: {name}={value:.6g} {metric["unit"]}, limit {limit:.6g}')
    return found


def mean_of(metric: dict[str, Any]) -> float:
    return fmean(value for *_, value in metric['samples'])


def become_the_worst(check: Benchmark):
    """Gives the check, of each metric, the samples of the place that has the worst."""
    check.forget()
    for metric in check.metrics:
        all_places = [record['metrics'][metric.name] for record in check.swept]
        measured = [found for found in all_places if found['samples']]
        if measured:
            worst = (min if metric.better == 'higher' else max)(measured, key=mean_of)
            check.samples[metric.name] = worst['samples']
        else:
            check.missing[metric.name] = 'no place measured it'


def breaches(check: Benchmark) -> str:
    """The places that measured something void or beyond its limit, the first few by name; empty where none did."""
    found = [f'{",".join(record["job"]["nodes"])}: {"; ".join(record["breaches"][:2])}'
             for record in check.swept if record['breaches']]  # fmt: skip
    more = f'; and {len(found) - 5} more' if found[5:] else ''
    return f'{len(found)} of {len(check.swept)} places: {"; ".join(found[:5])}{more}' if found else ''


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8').strip()
    except OSError:
        return ''
