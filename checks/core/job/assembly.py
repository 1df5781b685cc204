# SPDX-License-Identifier: BSD-3-Clause
"""The job of a case from its `JobSpec`: variables, script, files beside it, and the job of a node sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from checks.core.job import node_sweep
from checks.core.job import script as jobscript
from checks.core.job.spec import JobSpec
from checks.core.placement import Placement
from plumbline.machine.vendors import numbering
from plumbline.site.mpi import FAMILIES


class Assembled(NamedTuple):
    """A job as ReFrame's attributes. `seconds`: its time limit. `modifier`: a program before the launcher."""

    before: list[str]
    program: str
    options: list[str]
    after: list[str]
    seconds: int
    modifier: str = ''
    modifier_options: list[str] = []


def variables_of(spec: JobSpec) -> dict[str, str]:
    """Return the variables of a job: those of its placement, of its GPUs, and of MPI."""
    variables = dict(spec.placement.env_vars)
    if spec.gpus:
        variables |= numbering()  # GPUs get the numbers of link classes
    if spec.mpi:
        variables['SLURM_KILL_BAD_EXIT'] = '1'  # else srun waits for ranks that wait for a failed one
    return variables


def gpu_buffers(family: str | None, placement: Placement, launcher: str) -> tuple[dict[str, str], list[str]]:
    """Return variables and launcher options with which MPI passes GPU buffers without a copy through the host.

    Of ranks without such buffers it is switched off. `family`: of the MPI library.
    """
    if not family or placement.gpu_buffers is None:
        return {}, []
    aware = FAMILIES[family]
    if not placement.gpu_buffers:
        return dict(aware.off), []
    return dict(aware.env_vars.get(placement.gpu or '', {})), list(aware.options.get(launcher, []))


def table_of(settings: Sequence[tuple[str, str]]) -> str:
    """Return the expected settings of a node as settings.sh reads them."""
    return ''.join(f'{key}\t{wanted}\n' for key, wanted in settings)


def write_tables(spec: JobSpec, stage: Path) -> None:
    """Write the inputs of settings.sh (expected settings), energy.sh (meters) and load.sh (how to reach nodes).

    rank.sh refuses a node that differs from the settings in required.tsv.
    """
    everywhere = f'{spec.launch}\n' if spec.mpi and spec.nodes > 1 else ''
    tables = {'required.tsv': table_of(spec.expects), 'on_all_nodes': everywhere, 'energy.meters': spec.meters.table}
    for name, text in tables.items():
        if text:
            (stage / name).write_text(text, encoding='utf-8')


def assemble(spec: JobSpec, stage: Path) -> Assembled:
    """Write the files of a job to `stage`, and return it; in a node sweep it runs the spec at all places."""
    write_tables(spec, stage)
    program, options = jobscript.command(spec)
    modifier, modifier_options = jobscript.end_at_limit()
    before, after = jobscript.prerun(spec), jobscript.postrun(spec)
    if not node_sweep.swept_nodes():
        return Assembled(before, program, options, after, spec.seconds, modifier, modifier_options)
    ranks = spec.placement.ranks_per_node
    start = node_sweep.step(spec.nodes, ranks * spec.nodes, ranks) if spec.mpi else ''
    run = f'{modifier} {" ".join(modifier_options)} {start}{program} {" ".join(options)}'
    places = node_sweep.write_places(stage, spec.nodes, [*before, run, *after], spec.seconds, spec.mpi)
    # in effect without a limit: each place and the allocation have one
    return Assembled(places, 'true', [], [], node_sweep.WEEK)
