# SPDX-License-Identifier: BSD-3-Clause
"""The base class of every check: what a check states, and the job that follows from it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import required, run_after, run_before, variable
from reframe.core.exceptions import SanityError

from checks.core import budget, own_configuration
from checks.core.bounds import Bounded
from checks.core.budget import Budgeted
from checks.core.job import assembly, node_sweep
from checks.core.job import script as jobscript
from checks.core.job.spec import JobSpec
from checks.core.placement import ONE_RANK, Execution, Placement
from checks.core.reading.metrics import Metric, Spread
from checks.core.recorded import Recorded
from checks.core.selection import Selected
from plumbline.identity import Pairs, pairs
from plumbline.record import Dim
from plumbline.site.schedulers import ON_LAUNCH_NODES, scheduler

#: acceptance: 100 executions, their mean and standard deviation: the method of the DOE paper (003, section 4).
USUAL_TRIALS = {'quick': 3, 'nightly': 10, 'acceptance': 100}
#: The trials of a check whose one execution takes minutes.
FEW_TRIALS = {'quick': 3, 'nightly': 3, 'acceptance': 5}


class Benchmark(Selected, Recorded, Bounded, Budgeted, rfm.RunOnlyRegressionTest):
    """A check states `valid_prog_environs`, `executable`, its options, `metrics`, `dims` and `placement`.

    One job has `trials` trials. A trial executes the program once, or once for each of `runs` (kernels, say), each in a
    folder ``trial_<i>/<run>`` of its own that keeps stdout, stderr, the files that the program wrote and the binding of
    each rank. All that was measured is in the variable `record` of the run report.

    `valid_prog_environs`: of several, any suffices. ``['*']``: what needs nothing beyond the operating system, which
    runs in the first environ of each partition. `prerun_cmds`, `postrun_cmds`: lines around all trials.
    """

    #: On real hardware: date and machine; a case that begins with ``not yet`` has the tag `experimental`.
    last_run = variable(str, value='not yet', loggable=True)
    #: quick, nightly or acceptance: the mode whose number of trials counts.
    mode = variable(str, type(None), value=None)
    #: Trials in the job: a number, or by mode. As a text, which `-S` sets, it is checked beside the mode.
    trials: Any = variable(typ.Dict[str, int], str, int, value=USUAL_TRIALS, loggable=True)
    #: Whether the launcher starts the program; otherwise it runs as one plain process on the job's first node.
    mpi = variable(bool, value=False)
    #: Variables of the job. Set after init: if the class has a value, ReFrame searches the call stack twice for each
    #: test for uses of the deprecated name `variables`, which takes half of the time of a listing.
    env_vars = required
    # ReFrame plans a variable of this name for 5.0
    num_nodes = 1 if hasattr(rfm.RunOnlyRegressionTest, 'num_nodes') else variable(int, value=1, loggable=True)
    #: The file in a run's folder that holds the numbers, or a shell pattern of its name.
    output = variable(str, value='stdout')
    #: Whether to measure energy where the partition states meters, or the metric whose efficiency is measured, too;
    #: None: as `efficiency_of` says.
    metered = variable(typ.Bool, str, type(None), value=None)
    efficiency_of = ''  # the metric of work per second whose efficiency is measured; empty: the check is not metered
    features = variable(typ.List[str], value=[], loggable=True)  #: those of the environ that it needs

    metrics: list[Metric] = []
    #: The dims of the metrics: name -> kind and unit.
    dims: Mapping[str, Dim] = {}
    #: See `Spread`. It stands in for the measured spread while a site has few sessions, and should be right within a
    #: factor of 2 or 3. The default is a cautious guess.
    usual_spread: Spread | float | Mapping[str, float] = 0.03
    placement: Placement | None = None
    sourcesdir = str(Path(__file__).parent / 'job' / 'parts')
    exclusive_access = True

    def _mark_stagedir(self):  # ReFrame copies the mode of `sourcesdir`, too, and a clone may be read-only
        os.chmod(self.stagedir, 0o700 | os.stat(self.stagedir).st_mode)
        super()._mark_stagedir()

    # Before the run

    @run_after('init')
    def start_empty(self):
        if not hasattr(self, 'env_vars'):  # set by its class, or by -S env_vars=...
            self.env_vars = {}
        self.runs: dict[str, Execution] = {}
        self.provenance: dict[str, str] = {}
        self.started = ''  # the program of runs that name none, once the job is assembled

    # The job

    @run_before('run', always_last=True)
    def assemble_job(self):
        """Write the job script after the check's own hooks."""
        if self.installed and not self.is_dry_run() and (fault := jobscript.bring_up(self.installed)):
            raise SanityError(fault)
        if problems := self.plan().problems():
            raise SanityError(f'{self.check}: {"; ".join(problems[:3])}')
        names = {metric.name for metric in self.metrics}
        if (rate := self.metered_rate) and rate not in names:
            named = ', '.join(sorted(names))
            raise SanityError(f'{self.check}: metered={rate}: expected true, false, or a metric: {named}')
        ranks, gpus = self.placement.ranks_per_node, len(self.topology.gpus)
        self.num_tasks, self.num_tasks_per_node = ranks * self.num_nodes, ranks
        # no num_cpus_per_task: a job has whole nodes, and its ranks take any of their CPUs
        # For schedulers; counts CPUs that the system keeps, too
        self.job.cpus_of_node = max(self.topology.all_cpus) + 1
        if gpus and self.site.from_reframe:
            self.num_gpus_per_node = gpus
            of_gpus = own_configuration.resources_of_gpus(self.current_partition, gpus)
            self.extra_resources = self.extra_resources | of_gpus
        launcher = self.job.launcher
        family = self.stack.mpi if self.mpi else None
        variables, options = assembly.gpu_buffers(family, self.placement or ONE_RANK, launcher.registered_name)
        launcher.options += options
        spec = self.job_spec()
        self.env_vars |= assembly.variables_of(spec) | variables
        self.started = spec.program
        job = assembly.assemble(spec, Path(self.stagedir))
        self.prerun_cmds, self.executable, self.executable_opts, self.postrun_cmds = job[:4]
        if not spec.mpi or not spec.through_rank or node_sweep.swept_nodes():
            self.job.launcher = getlauncher('local')()
        self.job.launcher.modifier, self.job.launcher.modifier_options = job.modifier, job.modifier_options
        self.time_limit = f'{job.seconds}s'

    def job_spec(self) -> JobSpec:
        """Return what the job does; its time limit is that of all trials, at most what the queue allows."""
        self.limit_trial()
        metering, most = self.metering, self.partition.max_time or math.inf
        needed = budget.seconds_of_job(self.trials, self.trial_time_limit) + metering.seconds
        launcher, by_slurm = self.partition.entry['launcher'], scheduler(self.partition.entry['scheduler']).is_slurm
        elsewhere = not self.mpi and not self.is_local() and launcher in ON_LAUNCH_NODES
        self.job.num_tasks, self.job.num_tasks_per_node = self.num_tasks, self.num_tasks_per_node
        return JobSpec(
            program=self.executable, runs=self.runs or {'run': Execution(self.executable_opts)}, trials=self.trials,
            trial_limit=self.trial_time_limit, seconds=int(min(self.time_limit or needed, most)),
            placement=self.placement or ONE_RANK, nodes=self.num_nodes, stack=self.stack, installed=self.installed,
            gpus=len(self.topology.gpus), expects=self.topology.expects, mpi=self.mpi,
            inputs=self.inputs(), output=self.output, before=self.prerun_cmds,
            after=self.postrun_cmds, meters=metering.lines, hurries=not self.time_limit and most < needed,
            launch=node_sweep.on_each_node(self.num_nodes) if by_slurm and not elsewhere
            else self.job.launcher.run_command(self.job), elsewhere=elsewhere,
        )  # fmt: skip

    def inputs(self) -> list[str]:
        """Return the files that the check itself has written to its stage directory; each run gets a copy of them."""
        ours = {'.rfm_mark', *os.listdir(self.sourcesdir)}
        return sorted(path.name for path in Path(self.stagedir).iterdir() if path.is_file() and path.name not in ours)

    # What a case is called, and what ReFrame logs of it

    @classmethod
    def loggable_attrs(cls) -> list[tuple[str, str | None]]:
        """Return what ReFrame logs of a case, without `variables`, the deprecated name of `env_vars`.

        Each time that ReFrame reads `variables`, it reads the source of its call stack to name the user: 8 ms a case.
        """
        return [names for names in type(cls).loggable_attrs(cls) if names[0] != 'variables']

    @property
    def check(self) -> str:
        """The name of the check, without parameters."""
        return type(self).__name__

    @property
    def params(self) -> Pairs:
        """The parameters of the check with their values; also the number of nodes, if there are several."""
        space = type(self).param_space.params
        # names with a dot are ReFrame's own (--distribute, --repeat)
        own = {name: space[name].format(getattr(self, name)) for name in space if '.' not in name and name != 'nodes'}
        return pairs(own | ({'num_nodes': self.num_nodes} if self.num_nodes > 1 else {}))
