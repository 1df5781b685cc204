# SPDX-License-Identifier: BSD-3-Clause
"""The base class of every check: stack, job, placement, metrics and provenance."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import loggable, required, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

from checks.core import budget, own_configuration, source
from checks.core.bounds import Bounded, bounded, limits_of
from checks.core.budget import Budgeted
from checks.core.job import again, assembly, node_sweep
from checks.core.job import script as jobscript
from checks.core.job.spec import JobSpec
from checks.core.meters.energy import Metering, metering_of
from checks.core.placement import ONE_RANK, Execution, Placement
from checks.core.reading import causes
from checks.core.reading.binding import Request, nodes_of
from checks.core.reading.causes import Ending
from checks.core.reading.metrics import Metric, Spread
from checks.core.reading.trials import Hooks, Plan, add_metrics, read_trials
from checks.core.topology import Topology, current_site, environs_with, topologies, topology_of
from plumbline import checkout, evidence
from plumbline.causes import Cause, sentence
from plumbline.errors import InputError, SiteError
from plumbline.identity import Pairs, pairs
from plumbline.paths import results_directory
from plumbline.record import EXPERIMENTAL, OWN_CONFIGURATION, Dim, Record
from plumbline.site.schedulers import ON_LAUNCH_NODES, scheduler
from plumbline.site.sites import Partition
from plumbline.stacks.manifest import Installed

#: acceptance: 100 executions, their mean and standard deviation: the method of the DOE paper (003, section 4).
USUAL_TRIALS = {'quick': 3, 'nightly': 10, 'acceptance': 100}
#: The trials of a check whose one execution takes minutes.
FEW_TRIALS = {'quick': 3, 'nightly': 3, 'acceptance': 5}


class Benchmark(Hooks, Bounded, Budgeted, rfm.RunOnlyRegressionTest):
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
    #: Trials in the job: a number, or by mode.
    trials: Any = variable(int, typ.Dict[str, int], value=USUAL_TRIALS, loggable=True)
    #: Whether the launcher starts the program; otherwise it runs as one plain process on the job's first node.
    mpi = variable(bool, value=False)
    #: Variables of the job. Set after init: if the class has a value, ReFrame searches the call stack twice for each
    #: test for uses of the deprecated name `variables`, which takes half of the time of a listing.
    env_vars = required
    # ReFrame plans a variable of this name for 5.0
    num_nodes = 1 if hasattr(rfm.RunOnlyRegressionTest, 'num_nodes') else variable(int, value=1, loggable=True)
    #: The file in a run's folder that holds the numbers, or a shell pattern of its name.
    output = variable(str, value='stdout')
    #: Whether to measure energy where the partition states meters; or the name of the metric of work per second, which
    #: then gives the efficiency, too.
    metered = variable(typ.Bool, str, value=False)
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

    # What a check may override, beside the hooks of its outputs

    def supports(self, topology: Topology) -> bool:
        """Return True if this case makes sense on such a node; otherwise the case is not listed."""
        return True

    # Before the run

    @run_after('init')
    def start_empty(self):
        if not hasattr(self, 'env_vars'):  # set by its class, or by -S env_vars=...
            self.env_vars = {}
        self.runs: dict[str, Execution] = {}
        self.provenance: dict[str, str] = {}
        self.started = ''  # the program of runs that name none, once the job is assembled
        self.result: Record | None = None
        self.faults: list[Cause] = []
        self.swept: list[dict[str, Any]] = []  # in a node sweep: the record of each of its places

    @run_after('init', always_last=True)
    def select(self):
        """Choose systems and environs after the check's own hooks, which may set `valid_prog_environs`."""
        experimental = {EXPERIMENTAL} if self.last_run.startswith('not yet') else set()
        self.tags = self.tags | {Path(self.prefix).name} | experimental
        if isinstance(self.trials, dict):
            self.trials = self.trials[self.mode or 'quick']
        self.trials_of_case = self.trials  # a further job may run fewer trials, with the same sizes
        self.choose_budget()
        self.valid_systems = [fullname for fullname, topology in topologies() if self.supports(topology)]
        if hasattr(self, '.nid'):  # --distribute makes a test for each node of each partition
            self.valid_systems = [fullname for fullname in self.valid_systems if fullname == getattr(self, '.part')]
        if node_sweep.swept_nodes() and (self.local or self.extra_resources or not node_sweep.fits(self.num_nodes)):
            self.valid_systems = []
        self.features = [word.removeprefix('+') for word in self.valid_prog_environs if word != '*']
        self.valid_prog_environs = environs_with(self.features)
        generation = [base.__name__ for base in type(self).__mro__].count(self.check) - 1
        self.again = again.chosen(self.hashcode, generation)
        if self.again is not None:
            parts = [place.rpartition('+') for place in self.again]
            self.valid_systems = [name for name in self.valid_systems if name in {partition for partition, *_ in parts}]
            self.valid_prog_environs = [environ for *_, environ in parts]

    @run_after('setup')
    def look_at_the_partition(self):
        for path in Path(self.stagedir).iterdir():  # left by --dont-restage, from earlier runs
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.site = current_site()
        self.partition: Partition = self.site.partitions[self.current_partition.name]
        self.topology = topology_of(self.site.name, self.partition.name)
        self.stack = self.site.environs[self.current_environ.name]
        if self.site.from_reframe:
            self.provenance['configuration'] = OWN_CONFIGURATION
        if self.stack.provider == own_configuration.LOOKED_FOR and not self.is_dry_run():
            why = own_configuration.lacking(self.current_partition, self.current_environ, self.features)
            self.skip_if(bool(why), why)
        if self.topology.cache_note:
            self.provenance['caches'] = self.topology.cache_note
        here = self.partition.entry.get('scheduler') == 'local' and not node_sweep.swept_nodes()
        if here and not self.is_dry_run():
            self.beside = budget.cpus_of_others()
        if self.partition.max_time:  # sizes are chosen for a trial that the queue allows
            self.trial_seconds = math.ceil(min(self.trial_seconds, budget.longest_trial(self.partition.max_time)))
        names = self.site.name, self.partition.name, self.stack.name
        self.installed = Installed(*names) if self.stack.provider == 'spack' else None
        if self.again is not None:
            place = f'{self.current_partition.fullname}+{self.stack.name}'
            why = 'of this check, only cases with other partitions or environs run again'
            self.skip_if(place not in self.again, why)
            self.job.options += self.again[place]  # such as the nodes on which ci/nightly runs it again
            self.trials = again.trials_left(self.hashcode, place) or self.trials

    @property
    def metering(self) -> Metering:
        """The meters of the partition, if the check measures energy."""
        if not self.metered:
            return Metering()
        rates = [metric for metric in self.metrics if metric.name == self.metered]
        return metering_of(getattr(self, 'partition', None), self.trial_seconds, self.num_nodes, rates)

    def plan(self) -> Plan:
        """Return what the trials of this case must measure, and where it is read."""
        is_set_up, metering, placement = bool(self.current_partition), self.metering, self.placement or ONE_RANK
        by_fabric = self.mpi and self.num_nodes > 1 and is_set_up and self.partition.transport != 'sockets'
        metrics = [*(budget.informational(self.metrics) if self.below_caches else self.metrics), *metering.metrics]
        if is_set_up:
            metrics = [bounded(metric, self.partition.peaks, self.num_nodes) for metric in metrics]
        hardware = self.topology.hardware if is_set_up else {}
        code = source.digest(type(self))  # type: ignore[arg-type]  # ReFrame's classes are hashable
        record = Record(
            self.check, self.params, tags=sorted(self.tags), trials=self.trials, dims={**self.dims, **metering.dims},
            provenance={'suite_version': checkout.version(), 'check_code': code} | hardware | self.provenance,
        )  # fmt: skip
        if self.placement:
            record.placement = {'requested': self.placement.env_vars.get('PLUMBLINE_CPUS', ''), 'actual': {}}
        chosen = self.job is not None and not self.is_local()  # a scheduler chose the nodes
        runs = self.runs or {'run': Execution(self.executable_opts)}
        return Plan(
            add_metrics(record, metrics, self.usual_spread), metrics,
            {name: of._replace(program=of.program or self.started or self.check) for name, of in runs.items()},
            Request(
                placement, self.num_nodes,
                getattr(self.job.scheduler, 'host_of', str) if chosen else None,
                near=self.topology.gpu_numa_ids if is_set_up else (), archs=self.topology.gpus if is_set_up else (),
                looks_required=not is_set_up or self.partition.looks == 'required',
            ),
            output=self.output, environ=self.current_environ.name if self.current_environ else '',
            nics=placement.carriers if by_fabric else None, read_meters=metering.read,
        )  # fmt: skip

    # The job

    @run_before('run', always_last=True)
    def assemble_job(self):
        """Write the job script after the check's own hooks."""
        if self.installed and not self.is_dry_run() and (fault := jobscript.bring_up(self.installed)):
            raise SanityError(fault)
        if problems := self.plan().problems():
            raise SanityError(f'{self.check}: {"; ".join(problems[:3])}')
        names = {metric.name for metric in self.metrics}
        if isinstance(self.metered, str) and self.metered not in names:
            named = ', '.join(sorted(names))
            raise SanityError(f'{self.check}: metered={self.metered}: expected true, false, or a metric: {named}')
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

    # After the run

    @run_before('sanity')
    def read_trials(self):
        """Read all trials, also those before a failure."""
        if self.is_dry_run():
            return
        try:
            self.provenance |= self.installed.provenance() if self.installed else {}
        except SiteError as error:
            self.faults.append(Cause('site', str(error)))
        stage, plan = Path(self.stagedir), self.plan()
        ending = Ending.of(self.job, stage, self.max_pending_time)
        if node_sweep.swept_nodes():
            limits: dict[str, float] = {}
            with suppress(SiteError):  # with which the performance phase fails
                limits = limits_of(self.bounds())
            self.swept, self.result = node_sweep.read_places(stage, plan, limits, self)
            cause = causes.of_job(ending, [], 0, ','.join(self.job.nodelist or []), plan.environ)
            self.faults += [cause] if cause else []
            self.faults += [Cause('said', each) for each in node_sweep.summary(self.swept, 'faults')]
        else:
            nodes = nodes_of(self.job.nodelist or [], self.num_nodes, stage, plan.ranks.host_of)
            self.job.nodelist[:] = nodes  # the record, ReFrame's report and its log take the nodes from there
            self.result = read_trials(stage, plan, ','.join(nodes), ending, self)
            self.faults = self.result.causes + self.faults
        try:
            self.result.evidence = evidence.pack(
                stage, results_directory(), self.site.name, f'{self.check}-{self.hashcode}-{self.job.jobid}',
                without=os.listdir(self.sourcesdir),
            )  # fmt: skip
        except InputError as error:
            self.faults.append(Cause('file-system', str(error)))
        for place in self.swept:
            place['evidence'] = self.result.evidence
        if left_out := self.result.provenance.get('trials_left_out'):
            getlogger().warning(f'{self.display_name}: {left_out}; ci/nightly runs them in further jobs')
        if self.faults and shutil.disk_usage(stage).free < 2**20:
            on = ','.join(self.job.nodelist or [])
            self.faults.insert(0, Cause('file-system', f'the file system of {stage} is full', on))
        self.result.causes = self.faults
        if not ending.well:
            self.has_no_fault().evaluate()  # ReFrame itself would name the exit code alone

    @sanity_function
    def has_no_fault(self):
        """Assert that there is no fault; the message has the worst faults and the folder of the output."""
        message = sentence(self.faults, self.result.evidence if self.result else '')
        return sn.assert_false(self.faults, message.replace('{', '{{').replace('}', '}}'))

    # What leaves with the run report

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

    def made_record(self) -> dict[str, Any] | None:
        """Return the record; None before the check knows its node."""
        if self.current_partition and not hasattr(self, 'topology'):
            return None
        if self.result is None and node_sweep.began(self.stagedir):  # the sweep ended before its last place
            self.swept, self.result = node_sweep.read_places(Path(self.stagedir), self.plan(), {}, self)
        record = self.result or self.plan().record
        if job := self.job:
            record.job = {'id': str(job.jobid), 'state': job.state, 'exitcode': job.exitcode}
            record.job['nodes'] = list(job.nodelist or [])
        return record.to_dict() | ({'swept': self.swept} if self.swept else {})

    @loggable
    @property
    def record(self) -> RecordOf:
        """The record that `plumbline ingest` reads; in a node sweep `swept` has the records of its places."""
        return RecordOf(self)


class RecordOf:
    """The record of a case, made when ReFrame writes its report or the journal.

    ReFrame reads every loggable attribute some 20 times for each case, once for each log line, but writes the record
    once.
    """

    _is_busy = False  # of the class: one record is made at a time

    def __init__(self, check: Benchmark):
        self._check = check

    def __rfm_json_encode__(self) -> dict[str, Any] | None:
        """Return None if it cannot be made: any error would lose the report of all other cases.

        Return None also while another record is made: with the log level debug, ReFrame asks for it at each message.
        """
        if RecordOf._is_busy:
            return None
        RecordOf._is_busy = True
        try:
            return self._check.made_record()
        except Exception as error:
            getlogger().error(f'{self._check.display_name}: has no record: {type(error).__name__}: {error}')
            return None
        finally:
            RecordOf._is_busy = False
