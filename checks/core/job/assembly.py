# SPDX-License-Identifier: BSD-3-Clause
"""The job of a check: its stack, its limits and its script, as ReFrame's attributes."""

from __future__ import annotations

import math
from pathlib import Path

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before, variable
from reframe.core.exceptions import SanityError

from checks.core import own_configuration
from checks.core.budget import seconds_of_job
from checks.core.job import node_sweep
from checks.core.job import script as jobscript
from checks.core.job.spec import Execution, JobSpec
from plumbline.machine.vendors import numbering
from plumbline.site.schedulers import ON_LAUNCH_NODES, scheduler


class Assembled(rfm.RegressionTestPlugin):
    """The part of a check that writes its job; `features`: those of the environ that it needs, known before any job."""

    features = variable(typ.List[str], value=[], loggable=True)

    @run_before('run')
    def bring_stack_up(self):
        if self.installed and not self.is_dry_run() and (fault := jobscript.bring_up(self.installed)):
            raise SanityError(fault)

    @run_before('run', always_last=True)
    def assemble_job(self):
        """Write the job script after the check's own hooks."""
        if problems := self.plan().problems():
            raise SanityError(f'{self.check}: {"; ".join(problems[:3])}')
        ranks = self.placement.ranks_per_node
        self.num_tasks, self.num_tasks_per_node = ranks * self.num_nodes, ranks
        # no num_cpus_per_task: a job has whole nodes, and its ranks take any of their CPUs
        # For schedulers; counts CPUs that the system keeps, too
        self.job.cpus_of_node = max(self.topology.all_cpus) + 1
        self.limit_trial()
        self.env_vars |= self.placement.env_vars
        if self.topology.gpus:
            self.env_vars |= numbering()  # GPUs get the numbers of link classes
            if self.site.from_reframe:
                self.num_gpus_per_node = len(self.topology.gpus)
                of_gpus = own_configuration.resources_of_gpus(self.current_partition, len(self.topology.gpus))
                self.extra_resources = self.extra_resources | of_gpus
        if self.mpi:
            self.env_vars['SLURM_KILL_BAD_EXIT'] = '1'  # else srun waits for ranks that wait for a failed one
            self.pass_gpu_buffers()
        spec = self.job_spec()
        self.started = spec.program
        self.write_tables(self.metering.table)
        self.prerun_cmds, self.postrun_cmds = jobscript.prerun(spec), jobscript.postrun(spec)
        self.executable, self.executable_opts = jobscript.command(spec)
        if not spec.mpi or not spec.through_rank or node_sweep.swept_nodes():
            self.job.launcher = getlauncher('local')()
        if node_sweep.swept_nodes():
            self.spread_over_all_nodes()
        else:
            self.job.launcher.modifier, self.job.launcher.modifier_options = jobscript.end_at_limit()

    def pass_gpu_buffers(self):
        """Give MPI the variables, and the launcher the options, that GPU buffers need."""
        launcher = self.job.launcher
        variables, options = jobscript.gpu_buffers(
            self.stack.mpi, self.device_buffers, self.placement.gpu, launcher.registered_name
        )
        self.env_vars |= variables
        launcher.options += options

    def job_spec(self) -> JobSpec:
        """Return what the job does; set its time limit to that of all trials, at most what the queue allows."""
        metering, most = self.metering, self.partition.max_time or math.inf
        needed = seconds_of_job(self.trials, self.trial_time_limit) + metering.seconds
        is_late = not self.time_limit and most < needed
        self.time_limit = f'{min(self.time_limit or needed, most):.0f}s'
        elsewhere = not self.mpi and not self.is_local() and self.partition.entry['launcher'] in ON_LAUNCH_NODES
        return JobSpec(
            program=self.executable, runs=self.runs or {'run': Execution(self.executable_opts)}, trials=self.trials,
            trial_limit=self.trial_time_limit, activation=jobscript.activation(self.stack, self.installed),
            unset=self.placement.unset, mpi=self.mpi, wrapper=self.wrapper, concurrent=self.concurrent,
            inputs=self.inputs, output=self.output, before=self.prerun_cmds, after=self.postrun_cmds,
            meters=metering.lines, late_after=int(self.time_limit) if is_late else None,
            restart=f'{self.launch()} bash ./rfm_job.sh' if elsewhere else '',
        )  # fmt: skip

    def launch(self) -> str:
        """Return the words by which the job's launcher starts its ranks."""
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        return self.job.launcher.run_command(self.job)

    def write_tables(self, meters: str):
        """Write the inputs of settings.sh (expected settings), energy.sh (meters) and load.sh (how to reach nodes).

        rank.sh refuses a node that differs from the settings in required.tsv.
        """
        everywhere = ''
        if self.mpi and self.num_nodes > 1:
            by_slurm = scheduler(self.partition.entry['scheduler']).is_slurm
            everywhere = f'{node_sweep.on_each_node(self.num_nodes) if by_slurm else self.launch()}\n'
        settings = ''.join(f'{key}\t{wanted}\n' for key, wanted in self.topology.expects)
        tables = {'required.tsv': settings, 'on_all_nodes': everywhere, 'energy.meters': meters}
        for name, text in tables.items():
            if text:
                Path(self.stagedir, name).write_text(text, encoding='utf-8')

    def spread_over_all_nodes(self):
        """Replace the job of one place by a job of all places, with one Slurm step for each round."""
        start = node_sweep.step(self.num_nodes, self.num_tasks, self.num_tasks_per_node) if self.mpi else ''
        program, options = jobscript.end_at_limit()
        run = f'{program} {" ".join(options)} {start}{self.executable} {" ".join(self.executable_opts)}'
        self.prerun_cmds = node_sweep.write_places(
            Path(self.stagedir), self.num_nodes, [*self.prerun_cmds, run, *self.postrun_cmds], int(self.time_limit),
            self.mpi,
        )  # fmt: skip
        self.time_limit = f'{node_sweep.WEEK}s'  # in effect none: each place and the allocation have a limit
        self.executable, self.executable_opts, self.postrun_cmds = 'true', [], []
