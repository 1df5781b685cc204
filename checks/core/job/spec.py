# SPDX-License-Identifier: BSD-3-Clause
"""What a job does, as plain data that the base class makes from a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from checks.core.placement import Placement


class Execution(NamedTuple):
    """One execution of a program in each trial.

    `env_vars`: variables of this one; the others of its trial have what the job has set. `before`: a shell command just
    before it. `program`: where each execution has a program of its own; empty: that of the check. `placement`: where
    its ranks run, if not as those of the check.
    """

    options: Sequence[str]
    env_vars: Mapping[str, str] = {}
    before: str = ''
    program: str = ''
    placement: Placement | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The variables that it sets: `env_vars`, and the lists of its placement, not its threads."""
        return {**(self.placement.lists if self.placement else {}), **self.env_vars}


class MeterLines(NamedTuple):
    """The lines of a job that read its meters: around all trials, and at the marks of each trial."""

    before: Sequence[str] = ()
    started: Sequence[str] = ()
    ended: Sequence[str] = ()
    after: Sequence[str] = ()


@dataclass(frozen=True)
class JobSpec:
    """The trials of a job: what each executes, through what, and for how long.

    `trial_limit`: seconds after which a trial is ended. `activation`: lines that put the stack on PATH. `unset`:
    variables that must not reach the program. `mpi`: a launcher starts it. `through_rank`: each process starts through
    rank.sh. `wrapper`: words before the program. `concurrent`: all executions of a trial run at the same time.
    `inputs`: files that each gets a copy of. `output`: the file with the numbers, or a pattern of its name. `before`,
    `after`: lines around all trials. `late_after`: the time limit of the job in s, if not all trials may fit into it.
    `restart`: the command that starts the script on its compute node, where the scheduler starts it elsewhere.
    """

    program: str
    runs: Mapping[str, Execution]
    trials: int
    trial_limit: int
    activation: Sequence[str] = ()
    unset: Sequence[str] = ()
    mpi: bool = False
    through_rank: bool = True
    wrapper: Sequence[str] = ()
    concurrent: bool = False
    inputs: Sequence[str] = ()
    output: str = 'stdout'
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    meters: MeterLines = field(default_factory=MeterLines)
    late_after: int | None = None
    restart: str = ''

    @property
    def variables(self) -> list[str]:
        """The variables that any of the executions sets, each once."""
        return list(dict.fromkeys(variable for of in self.runs.values() for variable in of.variables))
