# SPDX-License-Identifier: BSD-3-Clause
"""A node sweep: the whole job of a case on every node of an allocation, or on every pair of its nodes.

`ci/node-sweep` holds the allocation and names its nodes in the file ``PLUMBLINE_NODE_SWEEP``. Each node runs the job in
a folder of its own, so that a thousand nodes take as long as one, and a failed node does not affect the others. Pairs
run in the rounds of a tournament. No job runs after ``PLUMBLINE_NODE_SWEEP_UNTIL``, in seconds since 1970.
"""

from __future__ import annotations

import functools
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from checks.core.reading.causes import Ending
from checks.core.reading.metrics import mean, variable_name
from checks.core.reading.outputs import first_words, text_of
from checks.core.reading.trials import NO_HOOKS, Hooks, Plan, read_trials
from plumbline import settings
from plumbline.errors import InputError
from plumbline.outputs import NUMBERS
from plumbline.record import Record
from plumbline.rounds import Place, number_of_rounds, rounds_of

_IN_MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None  # noqa: S108 # nosec B108
WEEK = 7 * 86400
_STATES = {'0': 'COMPLETED', '124': 'TIMEOUT'}  # exit code of `timeout` in parts/sweep.sh -> Slurm's state
_JOB = 'the job of this place'
_LATE = 'the time of the allocation was used up'
_OF_SLURM = '$(compgen -v SLURM_ | grep -vx SLURM_JWT)'  # its token is in no file


@dataclass(frozen=True)
class Round:
    """What ``parts/sweep_round.sh`` wrote of a round.

    `late`: the time of the allocation was used up before it. `down`: nodes that Slurm took for down. `code`: exit code
    of srun, empty if that did not end; `errors`: what it said. `began`: the job of at least one place began.
    """

    late: bool = False
    down: frozenset[str] = frozenset()
    code: str = ''
    errors: str = ''
    began: bool = True

    @classmethod
    def of(cls, folder: Path, number: int, places: Sequence[Place]) -> Round:
        """Return what is known of a round of these places from the stage directory."""
        down, code, errors = (text_of(folder / f'rounds/{number}.{name}') for name in ('down', 'exit', 'errors'))
        names = (f'{",".join(place)}{packed}' for place in places for packed in ('', '.tar'))
        began = any((folder / 'places' / name).exists() for name in names)
        late = (folder / f'rounds/{number}.late').exists()
        return cls(late, frozenset(down.split()), code.strip(), errors, began)

    def ending(self, place: Place, errors: str = '') -> Ending:
        """Return how a place of the round ended that has no exit code. `errors`: its standard error."""
        if self.late:
            return Ending('CANCELLED', None, _JOB, refused=_LATE)
        if self.down.intersection(place):
            return Ending('NODE_FAIL', None, _JOB, errors=errors)
        if not self.code:
            return Ending('CANCELLED', None, _JOB, refused='there is no exit code of the srun of its round')
        words = first_words(self.errors)
        step = f'the srun of its round ended with exit code {self.code}' + (f': "{words}"' if words else '')
        if self.began:
            return Ending('FAILED', None, _JOB, errors=f'plumbline: it wrote no exit code; {step}')
        return Ending('CANCELLED', None, _JOB, refused=step)


def swept_nodes() -> list[str]:
    """Return the nodes of the sweep that this ReFrame is part of; an empty list outside a sweep."""
    path = settings.NODE_SWEEP.get()
    return _words_of(path) if path else []


@functools.cache
def _words_of(path: str) -> list[str]:
    return Path(path).read_text(encoding='utf-8').split()


def fits(num_nodes: int) -> bool:
    """Return True if a case on `num_nodes` nodes can be part of the sweep: on one, or on two if it sweeps pairs."""
    nodes = len(swept_nodes())
    return num_nodes == 1 or (num_nodes == 2 <= nodes and number_of_rounds(nodes) > 0)


def step(num_nodes: int, num_tasks: int, num_tasks_per_node: int) -> str:
    """Return the command that starts the ranks of a place, from within the step of its round."""
    return (
        f'srun --overlap --nodes={num_nodes} --nodelist=$PLUMBLINE_PLACE '
        f'--ntasks={num_tasks} --ntasks-per-node={num_tasks_per_node} --kill-on-bad-exit=1 '
    )


def on_each_node(num_nodes: int) -> str:
    """Return the command that starts one process on each node of a job of Slurm, or of a place of a node sweep."""
    of_place = '--nodelist=$PLUMBLINE_PLACE ' if swept_nodes() else ''
    return (
        f'srun --overlap --nodes={num_nodes} {of_place}--ntasks={num_nodes} --ntasks-per-node=1 --cpu-bind=none '
        '--mpi=none '
    )


def write_places(folder: Path, num_nodes: int, job: Sequence[str], seconds: int, mpi: bool) -> list[str]:
    """Write the job of a place and the rounds to `folder`; return the lines of the job that runs all places."""
    lines = ["trap 'exit $?' ERR"]
    if mpi:
        # unset the variables of the round's step: srun and PMIx would take nodes and tasks from them
        lines.append(f'unset {_OF_SLURM} ${{!PMI*}}; . ./slurm.env')
    (folder / 'place.sh').write_text('\n'.join([*lines, *job, '']))
    (folder / 'rounds').mkdir()
    number = 0
    for number, places in enumerate(rounds_of(swept_nodes(), num_nodes), start=1):
        (folder / f'rounds/{number}').write_text(''.join(f'{place[0]} {",".join(place)}\n' for place in places))
    return [
        'exec 9>> "$PLUMBLINE_NODE_SWEEP" && flock 9',  # one case at a time, while ReFrame reads the case before
        f'declare -px {_OF_SLURM} > slurm.env',
        f'for ((round = 1; round <= {number}; round++)); do bash ./sweep_round.sh $round {seconds}; done',
    ]


def began(stage: str | None) -> bool:
    """Return True if the job in this stage directory was part of a node sweep."""
    return bool(swept_nodes() and stage and Path(stage, 'rounds').is_dir())


def read_places(
    folder: Path, plan: Plan, limits: Mapping[str, float], hooks: Hooks = NO_HOOKS
) -> tuple[list[dict[str, Any]], Record]:
    """Return the record of each place with its ``faults`` and ``breaches``, and a record of the worst places.

    In the latter, each series has the samples of the place with the worst mean.

    `limits`: name of the performance variable -> the worst value that passes.
    """
    swept, records = [], []
    for number, places in enumerate(rounds_of(swept_nodes(), plan.ranks.num_nodes), start=1):
        of_round = Round.of(folder, number, places)
        for place in places:
            record = read_place(folder / 'places', place, plan, of_round, hooks)
            records.append(record)
            faults = list(map(str, record.causes))
            swept.append(record.to_dict() | {'faults': faults, 'breaches': breaches_of(record, limits)})
    return swept, worst_of(records, plan)


def read_place(places: Path, place: Place, plan: Plan, of_round: Round, hooks: Hooks = NO_HOOKS) -> Record:
    """Return the record of a place."""
    number = None
    try:
        with opened(places, ','.join(place)) as folder:
            code, errors = (text_of(folder / name).strip() for name in ('place.exit', 'place.err'))
            ending = of_round.ending(place, errors)
            if code:
                number = int(code)
                ending = Ending(_STATES.get(code, 'FAILED'), number, _JOB, errors=errors)
            if (folder / 'place.late').exists():
                ending = Ending('CANCELLED', number, _JOB, errors=errors, remark=_LATE)
            record = read_trials(folder, plan, ','.join(place), ending, hooks)
    except (InputError, tarfile.TarError) as error:
        ending = Ending('FAILED', None, _JOB, refused=f'its files cannot be read: {error}')
        record = read_trials(places / 'none', plan, ','.join(place), ending, hooks)
    record.job = {
        'id': os.environ.get('SLURM_JOB_ID', ''), 'nodes': list(place), 'exitcode': number, 'state': ending.state,
    }  # fmt: skip
    return record


@contextmanager
def opened(places: Path, name: str) -> Iterator[Path]:
    """Yield the folder of a place, unpacked if ``parts/sweep.sh`` has packed it.

    ``numbers.json``, if it was written meanwhile, is then added to the archive.
    """
    packed = places / f'{name}.tar'
    if not packed.exists():
        yield places / name
        return
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as folder, tarfile.open(packed, 'r:') as archive:
        _unpack(archive, Path(folder))
        yield Path(folder)
        if (numbers := Path(folder, NUMBERS)).exists() and not packed.is_symlink():
            with suppress(OSError), tarfile.open(packed, 'a:') as archive:
                archive.add(numbers, NUMBERS)


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract the plain files of an archive below `folder`; ``parts/sweep.sh`` packs nothing else. Raises InputError.

    The filter of `extractall` does the same from Python 3.12, 3.11.4 and 3.10.12 on; Debian 12 has 3.11.2.
    """
    for member in archive:
        path = PurePosixPath(member.name)
        if not (member.isreg() or member.isdir()) or path.is_absolute() or '..' in path.parts:
            raise InputError(
                f'{archive.name!s}: {member.name!r}: expected a plain file below its folder; '
                'somebody else changed the archive: see SECURITY.md'
            )
        if member.isreg():
            archive.extract(member, folder, set_attrs=False)


def breaches_of(record: Record, limits: Mapping[str, float]) -> list[str]:
    """Return one sentence for each series of a place that is invalid or beyond its limit."""
    breaches = []
    for metric, facts, series in record.series():
        name = variable_name(metric, series.dims)
        if series.invalid:
            breaches.append(f'invalid: {name}: {series.invalid}')
        elif series.samples and name in limits:
            value, limit = mean(series), limits[name]
            if value < limit if facts.better == 'higher' else value > limit:
                breaches.append(f'failed to meet reference: {name}={value:.6g} {facts.unit}, limit {limit:.6g}')
    return breaches


def worst_of(records: Sequence[Record], plan: Plan) -> Record:
    """Return a record with, for each series, the samples of the place that has the worst mean."""
    worst = plan.empty_record()
    for (_, facts, series), *places in zip(worst.series(), *(record.series() for record in records), strict=True):
        measured = [at_place for _, _, at_place in places if at_place.samples]
        if measured:
            chosen = (min if facts.better == 'higher' else max)(measured, key=mean)
            series.samples = chosen.samples
        else:
            series.missing = 'no place measured it'
    return worst


def summary(places: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """Return the first two ``faults`` or ``breaches`` of each place that has any, with its nodes."""
    return [f'{",".join(place["job"]["nodes"])}: {"; ".join(place[key][:2])}' for place in places if place[key]]
