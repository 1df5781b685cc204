"""A sweep: the whole job of a case on every node of an allocation by itself, or on every pair of its nodes.

`ci/sweep` holds the allocation and names its nodes in ``PLUMBLINE_SWEEP``. Each node runs the job in a folder of its
own, so a thousand nodes take as long as one and a node that fails costs the others nothing. Pairs run in the rounds of
a tournament: all pairs of a round at the same time, no node in two of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checks.core.benchmark import Benchmark

Place = tuple[str, ...]


def swept_nodes() -> list[str]:
    """The nodes of the sweep that this ReFrame is part of; none where it is part of none."""
    return os.environ.get('PLUMBLINE_SWEEP', '').split()


def rounds_of(nodes: list[str], per_place: int) -> list[list[Place]]:
    """Every node in one round, or every pair of nodes in as few rounds as there can be.

    `per_place` nodes are one place. The circle method: one node stays, the others turn round it; of an odd number of
    nodes one pauses in each round. ``PLUMBLINE_SWEEP_ROUNDS`` limits the rounds of pairs to a sample.
    """
    if per_place == 1:
        return [[(node,) for node in nodes]]
    ring: list[str | None] = [*nodes, None] if len(nodes) % 2 else [*nodes]
    half, rounds = len(ring) // 2, []
    for _ in range(len(ring) - 1):
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        rounds.append([pair for pair in pairs if None not in pair])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds[: int(os.environ.get('PLUMBLINE_SWEEP_ROUNDS', len(rounds)))]


def can_be_swept(check: Benchmark) -> bool:
    """Not what takes more than two nodes, what runs on none, and what only the scheduler can place."""
    return check.num_nodes in (1, 2) and not check.local and not check.extra_resources


def spread(check: Benchmark):
    """Turns the assembled job of one place into that of all places, a step of Slurm for each round."""
    launch = ''
    if check.mpi:
        ranks = check.num_tasks_per_node
        launch = (
            f'srun --overlap --nodes={check.num_nodes} --nodelist=$PLUMBLINE_PLACE --ntasks={check.num_tasks} '
            f'--ntasks-per-node={ranks} --kill-on-bad-exit=1 '
        )
    run = f'{launch}{check.executable} {" ".join(check.executable_opts)}'
    folder = Path(check.stagedir)
    lines = ["trap 'exit $?' ERR", *check.prerun_cmds, run, *check.postrun_cmds, '']
    (folder / 'place.sh').write_text('\n'.join(lines))
    check.prerun_cmds = []
    for number, places in enumerate(rounds_of(swept_nodes(), check.num_nodes), start=1):
        name = f'round_{number}'
        (folder / name).write_text(''.join(f'{place[0]} {",".join(place)}\n' for place in places))
        check.prerun_cmds.append(f'bash ./sweep_round.sh {name}')
    check.postrun_cmds = []
    check.executable, check.executable_opts = 'true', []


def measure(check: Benchmark) -> list[str]:
    """Reads each place as if it were a job of its own; keeps its record in `check.swept`. Returns their faults."""
    faults = []
    for place in (place for places in rounds_of(swept_nodes(), check.num_nodes) for place in places):
        name = ','.join(place)
        folder = Path(check.stagedir, 'places', name)
        check.forget()
        found = check.read_trials(folder, name)
        code = _text(folder / 'place.exit')
        if code not in ('0', ''):
            found.insert(0, f'exit code {code}')
        elif not code:
            found = [f'{name} printed nothing' if not folder.exists() else 'did not come to its end', *found]
        check.swept.append(record_of(check, place, code, found))
        faults += [f'{name}: {"; ".join(found[:2])}'] if found else []
    return faults


def record_of(check: Benchmark, place: Place, code: str, faults: list[str]) -> dict[str, Any]:
    job = {'id': os.environ.get('SLURM_JOB_ID', ''), 'nodes': list(place), 'exitcode': int(code) if code else None,
           'state': 'COMPLETED' if code else 'NODE_FAIL'}  # fmt: skip
    return check.own_record() | {'job': job, 'faults': faults}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8').strip()
    except OSError:
        return ''
