# SPDX-License-Identifier: BSD-3-Clause
"""What a job does, as plain data that the base class makes from a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from checks.core.placement import ONE_RANK, Execution, Placement
from plumbline.site.sites import Environ
from plumbline.stacks.manifest import Installed


class MeterLines(NamedTuple):
    """The lines of a job that read its meters, around all trials and at the marks of each; `table`: the meters."""

    before: Sequence[str] = ()
    started: Sequence[str] = ()
    ended: Sequence[str] = ()
    after: Sequence[str] = ()
    table: str = ''


#: The stack of a job that puts nothing on PATH.
NO_STACK = Environ('none', 'system')


@dataclass(frozen=True)
class JobSpec:
    """The trials of a job: what each executes, where its ranks run, through what, and for how long.

    `trial_limit`: seconds after which a trial is ended; `seconds`: those after which the job is. `placement`: of the
    ranks on each of `nodes`. `stack`, `installed`: what is put on PATH. `gpus`: those of a node. `expects`: settings of
    a node without which it runs nothing. `mpi`: a launcher starts the program. `through_rank`: each process starts
    through rank.sh. `concurrent`: all executions of a trial run at the same time.
    `inputs`: files that each gets a copy of. `output`: the file with the numbers, or a pattern of its name. `before`,
    `after`: lines around all trials. `hurries`: not all trials may fit into `seconds`. `launch`: the words that start a
    process on each node. `elsewhere`: the scheduler starts the script on another node than those of the job.
    """

    program: str
    runs: Mapping[str, Execution]
    trials: int
    trial_limit: int
    seconds: int = 0
    placement: Placement = ONE_RANK
    nodes: int = 1
    stack: Environ = NO_STACK
    installed: Installed | None = None
    gpus: int = 0
    expects: Sequence[tuple[str, str]] = ()
    mpi: bool = False
    through_rank: bool = True
    concurrent: bool = False
    inputs: Sequence[str] = ()
    output: str = 'stdout'
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    meters: MeterLines = field(default_factory=MeterLines)
    hurries: bool = False
    launch: str = ''
    elsewhere: bool = False

    @property
    def variables(self) -> list[str]:
        """The variables that any of the executions sets, each once."""
        return list(dict.fromkeys(variable for of in self.runs.values() for variable in of.variables))
