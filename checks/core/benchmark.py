# SPDX-License-Identifier: BSD-3-Clause
"""The base class of every check: stack, job, placement, metrics, references and provenance."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import loggable, required, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError, SanityError
from reframe.core.logging import getlogger

from checks.core import budget, own_configuration, source
from checks.core.job import again, node_sweep
from checks.core.job import script as jobscript
from checks.core.meters import energy
from checks.core.placement import Placement, nodes_of
from checks.core.reading import causes
from checks.core.reading.causes import Ending
from checks.core.reading.trials import Metric, Plan, Run, mean, read_trials, variable_name
from checks.core.report import RecordOf
from checks.core.topology import Topology, current_site, environs_with, topologies, topology_of
from plumbline import checkout, evidence
from plumbline.causes import Cause, Code, sentence
from plumbline.errors import InputError, SiteError
from plumbline.identity import Pairs, SeriesId, pairs
from plumbline.limits import judges, tolerance_for
from plumbline.machine.vendors import numbering
from plumbline.paths import results_directory
from plumbline.record import EXPERIMENTAL, OWN_CONFIGURATION, Dim, Record
from plumbline.references import load_references
from plumbline.site.sites import Partition
from plumbline.stacks.manifest import Installed
from plumbline.units import UNITS

#: `trials_by_mode` of a check whose one execution takes minutes.
FEW_TRIALS = {'quick': 3, 'nightly': 3, 'acceptance': 5}


class Benchmark(budget.Budgeted, rfm.RunOnlyRegressionTest):
    """A check states `requires`, `executable`, its options, `metrics`, `dims` and `placement`; the rest is done here.

    One job has `trials` trials. A trial executes the program once, or once for each of `runs` (kernels, say), each in a
    folder ``trial_<i>/<run>`` of its own that keeps stdout, stderr, the files that the program wrote and the binding of
    each rank. All that was measured is in the variable `record` of the run report.
    """

    #: The feature that an environ must have, or several of which any suffices. Empty: nothing beyond the operating
    #: system.
    requires = variable(str)
    last_run = variable(str, value='not yet', loggable=True)  #: on real hardware: date and machine
    #: quick, nightly or acceptance: sets the number of trials unless `trials` does.
    mode = variable(str, type(None), value=None)
    #: Trials in the job; None: what `trials_by_mode` says of the mode.
    trials = variable(int, type(None), value=None, loggable=True)
    #: Whether the launcher starts the program; otherwise it runs as one plain process on the job's first node.
    mpi = variable(bool, value=False)
    #: Whether the program starts its ranks by itself, on some of the nodes of the job, through rank.sh.
    starts_ranks = variable(bool, value=False)
    #: The kind of check, as a tag: compute, gpu, memory, mpi, node or storage; empty: the name of its folder.
    tagged_as = ''
    #: Variables of the job. Set after init: if the class has a value, ReFrame searches the call stack twice for each
    #: test for uses of the deprecated name `variables`, which takes half of the time of a listing.
    env_vars = required
    num_nodes = variable(int, value=1, loggable=True)
    #: Whether the check measures bytes that go between its ranks. If not, they may go through sockets, as to a file
    #: system.
    communicates = True
    #: Whether the ranks hand GPU buffers to MPI; None: that depends on the build of the program.
    device_buffers: bool | None = False
    #: The file in a run's folder that holds the numbers, or a shell pattern of its name.
    output = variable(str, value='stdout')
    #: Files of the stage directory that each run gets a copy of.
    inputs = variable(typ.List[str], value=[])
    #: Whether all runs of a trial run at the same time, instead of one after the other.
    concurrent = variable(bool, value=False)
    #: Whether to measure energy where the partition states meters; and the name of the metric of work per second, if
    #: any.
    metered = variable(bool, value=False)
    work_rate = ''
    #: Whether the options of each of `runs` begin with a program; provenance then names `executable`.
    own_programs = variable(bool, value=False)

    #: acceptance: 100 executions, their mean and standard deviation: the method of the DOE paper (003, section 4).
    trials_by_mode: dict[str, int] = {'quick': 3, 'nightly': 10, 'acceptance': 100}
    metrics: list[Metric] = []
    #: The dims of the metrics: name -> kind and unit.
    dims: Mapping[str, Dim] = {}
    figures: Mapping[str, Mapping[str, object]] = {}  #: figures derived from a metric, see plumbline.record.FIGURES
    #: Usual coefficient of variation of the metrics from session to session, each the mean of its trials; a number, or
    #: pattern of metric names -> number, of which the first that matches holds. It stands in for the measured spread
    #: while a site has few sessions, and should be right within a factor of 2 or 3. The default is a cautious guess.
    usual_spread: float | Mapping[str, float] = 0.03
    #: Least loss of performance that a limit of this check allows; None: the default of the suite.
    floor: float | None = None
    placement: Placement | None = None
    facts: Sequence[str] = ('provenance.txt',)  # files of the job with key=value lines for the provenance
    wrapper: list[str] = []  # words before the program, such as numactl and its options
    beside = 0.0  # CPUs of this host that others keep busy, where no scheduler chooses the node
    before_trials: list[str] = []  # lines of the job after its stack was activated
    after_trials: list[str] = []
    expected_settings = 'required.tsv'  # file of the settings that a node must have to run a program
    sourcesdir = str(Path(__file__).parent / 'job' / 'parts')
    exclusive_access = True
    maintainers = ['plumbline']

    def _mark_stagedir(self):  # ReFrame copies the mode of `sourcesdir`, too, and a clone may be read-only
        os.chmod(self.stagedir, 0o700 | os.stat(self.stagedir).st_mode)
        super()._mark_stagedir()

    # What a check may override

    @property
    def is_experimental(self) -> bool:
        """True if this kind of case had never run on real hardware when it was released."""
        return self.last_run.startswith('not yet')

    def supports(self, topology: Topology) -> bool:
        """Return True if this case makes sense on such a node; otherwise the case is not listed."""
        return True

    def sanity_faults(self, run: Run) -> list[str]:
        """Return one sentence for each sign in a run's output or stderr that the program failed."""
        return []

    def devices_named(self, run: Run) -> list[str]:
        """Return the GPUs on which a program says that it ran, each as ``name`` or ``name at PCI address``."""
        return []

    def complaints(self, folder: Path) -> list[str]:
        """Return one sentence for each fault that the files of a run show; also called for a run without output."""
        return []

    def peak_of(self, metric: Metric) -> float | None:
        """Return the physical peak of a metric in its base unit; None where unknown."""
        peak = self.partition.peaks.get(metric.peak or '')
        return None if peak is None else peak * self.num_nodes

    @property
    def sends_by_fabric(self) -> bool:
        """True if the ranks send from node to node, and not by sockets alone."""
        between_nodes = self.mpi and self.communicates and self.num_nodes > 1
        return bool(between_nodes and self.current_partition and self.partition.transport != 'sockets')

    def nics_asked_for(self) -> Sequence[str]:
        """Return the network devices that must each carry traffic; if empty, any device of the fabric may."""
        asked = (self.placement.nics or ()) if self.placement and not self.run_env else ()
        return list(dict.fromkeys(name for of_rank in asked for name in of_rank))

    def invalid_reason(self, metric: Metric, value: float, run: Run | None) -> str | None:
        """Return why a measured value cannot be true or trusted; None if it can."""
        if metric.unit == '1' and metric.better == 'higher' and value > 1:
            return f'{value:.4g} of the theoretical peak'
        peak = self.peak_of(metric)
        if peak is None or value * UNITS[metric.unit] <= peak:
            return None
        return f'{value:.6g} {metric.unit} is above the physical peak of {peak / UNITS[metric.unit]:.6g}'

    def derive(self, record: Record) -> None:
        """Add the samples of the computed metrics after all trials are read."""

    @property
    def slowed(self) -> float:
        """How many times longer a trial takes beside what others do here; 1 where a reference needs the usual size."""
        slowed = budget.slowed_by(self.beside, len(self.topology.all_cpus))
        rows = load_references(self.site.name).rows if slowed > 1 else ()
        has_reference = any(row.kind != 'elsewhere' and row.id.check in (self.check, '*') for row in rows)
        return 1.0 if has_reference else slowed

    # Before the run

    @run_after('init')
    def start_empty(self):
        if not hasattr(self, 'env_vars'):  # set by its class, or by -S env_vars=...
            self.env_vars = {}
        self.runs: dict[str, list[str]] = {}  # name -> options of the program
        self.run_env: dict[str, dict[str, str]] = {}  # name -> variables of that run alone
        self.before_run: dict[str, str] = {}  # name -> a shell command just before it
        self.provenance: dict[str, str] = {}
        self.started: dict[str, str] = {}  # name of a run -> its program
        self.result: Record | None = None
        self.faults: list[Cause] = []
        self.swept: list[dict[str, Any]] = []  # in a node sweep: the record of each of its places
        self.hurries = False  # whether the queue may allow a job less time than all trials need

    @run_after('init', always_last=True)
    def select(self):
        """Choose systems and environs after the check's own hooks, which may set `requires` from a parameter."""
        self.tags = self.tags | {self.tagged_as or Path(self.prefix).name}
        self.tags |= {EXPERIMENTAL} if self.is_experimental else set()
        if self.trials is None:
            self.trials = self.trials_by_mode[self.mode or 'quick']
        self.trials_of_case = self.trials  # a further job may run fewer trials, with the same sizes
        self.choose_budget()
        self.valid_systems = [fullname for fullname, topology in topologies() if self.supports(topology)]
        if hasattr(self, '.nid'):  # --distribute makes a test for each node of each partition
            self.valid_systems = [fullname for fullname in self.valid_systems if fullname == getattr(self, '.part')]
        if node_sweep.swept_nodes() and (self.local or self.extra_resources or not node_sweep.fits(self.num_nodes)):
            self.valid_systems = []
        self.valid_prog_environs = environs_with(self.requires.split())
        if (places := again.chosen(self)) is not None:
            parts = [place.rpartition('+') for place in places]
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
            why = own_configuration.lacking(self.current_partition, self.current_environ, self.requires.split())
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
        if (places := again.chosen(self)) is not None:
            place = f'{self.current_partition.fullname}+{self.stack.name}'
            self.skip_if(place not in places, 'of this check, only cases with other partitions or environs run again')
            self.job.options += places[place]  # such as the nodes on which ci/nightly runs it again
            self.trials = again.trials_left(self, place) or self.trials

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
        jobscript.limit_time(self)
        jobscript.write_inputs(self)
        self.env_vars |= self.placement.env_vars
        if self.site.from_reframe:
            own_configuration.ask_for_gpus(self)
        if self.topology.gpus:
            self.env_vars |= numbering()  # GPUs get the numbers of link classes
        if self.mpi:
            self.env_vars['SLURM_KILL_BAD_EXIT'] = '1'  # else srun waits for ranks that wait for a failed one
            jobscript.pass_buffers_of_gpus(self)
        self.runs = self.runs or {'run': self.executable_opts}
        self.started = {run: words[0] if self.own_programs else self.executable for run, words in self.runs.items()}
        self.prerun_cmds = jobscript.prerun(self, jobscript.activation(self.stack, self.installed))
        self.postrun_cmds = jobscript.postrun(self)
        self.executable, self.executable_opts = jobscript.command(self)
        if not self.mpi or self.starts_ranks or node_sweep.swept_nodes():
            self.job.launcher = getlauncher('local')()
        if node_sweep.swept_nodes():
            self.spread_over_all_nodes()
        else:
            self.job.launcher.modifier, self.job.launcher.modifier_options = jobscript.end_at_limit()

    def spread_over_all_nodes(self):
        """Replace the job of one place by a job of all places, with one Slurm step for each round."""
        start = node_sweep.step(self.num_nodes, self.num_tasks, self.num_tasks_per_node) if self.mpi else ''
        program, options = jobscript.end_at_limit()
        run = f'{program} {" ".join(options)} {start}{self.executable} {" ".join(self.executable_opts)}'
        self.prerun_cmds = node_sweep.write_places(
            Path(self.stagedir), self.num_nodes, [*self.prerun_cmds, run, *self.postrun_cmds], int(self.time_limit),
            self.mpi,
        )  # fmt: skip
        self.time_limit = node_sweep.WEEK  # in effect none: each place and the allocation have a limit
        self.executable, self.executable_opts, self.postrun_cmds = 'true', [], []

    def figures_with_peaks(self, metrics: Iterable[Metric]) -> dict[str, dict[str, object]]:
        """Return `figures` with the physical peak, in its unit, of each metric with one peak for all its series."""
        figures = {name: dict(of) for name, of in self.figures.items()}
        peaks: dict[str, set[float | None]] = {}
        for metric in metrics if self.current_partition else ():  # no partition while ReFrame only describes the check
            peak = self.peak_of(metric)
            peaks.setdefault(metric.name, set()).add(peak and peak / UNITS[metric.unit])
        for name, (peak, *others) in peaks.items():
            if peak and not others:
                figures.setdefault(name, {})['peak'] = peak
        return figures

    def plan(self) -> Plan:
        """Return what the trials of this case must measure, and how to read it."""
        topology = self.topology if self.current_partition else None
        own, meter = budget.informational(self.metrics) if self.below_caches else self.metrics, energy.metering_of(self)
        return Plan(
            check=self.check, params=self.params, tags=sorted(self.tags), dims={**self.dims, **meter.dims},
            metrics=[*own, *meter.metrics], meter=meter.read, figures=self.figures_with_peaks(own),
            floor=self.floor, usual_spread=self.usual_spread, trials=self.trials,
            num_nodes=self.num_nodes, placement=self.placement, output=self.output, facts=self.facts,
            over_network=self.sends_by_fabric, nics=self.nics_asked_for() if self.sends_by_fabric else (),
            runs={run: self.run_env.get(run, {}) for run in self.runs or ['run']}, programs=self.started,
            environ=self.current_environ.name if self.current_environ else '',
            provenance={
                'suite_version': checkout.version(),
                'check_code': source.digest(type(self)),  # type: ignore[arg-type]  # ReFrame's classes are hashable
            } | (topology.hardware if topology else {}) | self.provenance,
            near=topology.gpu_numa_ids if topology else (), archs=topology.gpus if topology else (),
            devices_named=self.devices_named, sanity_faults=self.sanity_faults, complaints=self.complaints,
            invalid_reason=self.invalid_reason,
            derive=self.derive, host_of=self.host_of(),
            looks_required=not self.current_partition or self.partition.looks == 'required',
        )  # fmt: skip

    def host_of(self) -> Callable[[str], str] | None:
        """Return the scheduler's function node -> host name; None where no scheduler chose the nodes."""
        if self.job is None or self.is_local():
            return None
        return getattr(self.job.scheduler, 'host_of', str)

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
        stage, plan, ending = Path(self.stagedir), self.plan(), self.ending()
        if node_sweep.swept_nodes():
            self.swept, self.result = node_sweep.read_places(stage, plan, self.limits())
            cause = causes.of_job(ending, [], 0, ','.join(self.job.nodelist or []), plan.environ)
            self.faults += [cause] if cause else []
            self.faults += [Cause('said', each) for each in node_sweep.summary(self.swept, 'faults')]
        else:
            nodes = nodes_of(self.job.nodelist or [], self.num_nodes, stage, plan.host_of)
            self.job.nodelist[:] = nodes  # the record, ReFrame's report and its log take the nodes from there
            self.result, _ = read_trials(stage, plan, ','.join(nodes), ending)
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

    def ending(self) -> Ending:
        """Return how the job ended."""
        return Ending.of(self.job, Path(self.stagedir), self.max_pending_time)

    @run_before('performance')
    def compare_with_references(self):
        """Make ReFrame's performance variables and references from the series that were measured."""
        if self.is_dry_run():
            return
        worst = 'worst_' if self.swept else ''  # of all places
        self.perf_variables, invalid = {}, []
        for metric, facts, series in self.result.series():
            name = variable_name(metric, series.dims)
            self.perf_variables[worst + name] = sn.make_performance_function(mean, facts.unit, series)
            if series.invalid:
                invalid.append(f'invalid: {name}: {series.invalid}')
        if invalid:
            raise self.unmet('invalid', '; '.join(invalid))
        try:
            bounds = self.bounds()
        except SiteError as error:
            raise self.unmet('site', str(error)) from None
        if self.swept:  # each place is judged by itself
            bounds = {worst + name: (reference, None, None, unit) for name, (reference, *_, unit) in bounds.items()}
        self.reference = {self.current_partition.fullname: bounds}

    def unmet(self, code: Code, what: str) -> PerformanceError:
        """Return the error that fails the performance phase, after its cause was added to the record."""
        self.result.causes.append(Cause(code, what))
        return PerformanceError(what)

    def bounds(self) -> dict[str, tuple[float, float | None, float | None, str]]:
        """Return ReFrame's reference tuples by performance variable; a reference that only warns has no thresholds.

        Raises SiteError where a unit or direction differs.
        """
        references, tuples = load_references(self.site.name), {}
        for metric, facts, series in self.plan().empty_record().series():
            name = variable_name(metric, series.dims)
            id = SeriesId(self.partition.name, self.current_environ.name, self.check, self.params, metric, series.dims)
            tolerance = tolerance_for(self.site.tolerance, id, facts.floor, facts.usual_spread)
            rows = judges(references, id, tolerance)
            if not rows:
                continue
            reference, bound = rows[0]
            if why := reference.mismatch(facts.quantity):
                raise SiteError(f'{name}: {why}')
            threshold = bound.bad / reference.mean - 1 if bound.gates else None
            lower, upper = (threshold, None) if facts.better == 'higher' else (None, threshold)
            tuples[name] = (reference.mean, lower, upper, facts.unit)
        return tuples

    def limits(self) -> dict[str, float]:
        """Return the worst value that passes, by performance variable, where there is a threshold."""
        try:
            bounds = self.bounds()
        except SiteError:
            return {}  # the performance phase fails with the same error
        return {
            name: reference * (1 + threshold)
            for name, (reference, lower, upper, _) in bounds.items()
            if (threshold := upper if lower is None else lower) is not None
        }

    @run_after('performance', always_last=True)
    def every_variable_has_a_value(self):
        """Fail if a performance function raised (ReFrame only warns) or a place of a node sweep is beyond a limit."""
        measured = {name.rpartition(':')[2] for name in self.perfvalues}
        if lost := set(self.perf_variables) - measured:
            raise self.unmet('lost-metric', f'declared and not measured: {", ".join(sorted(lost))}')
        if breaches := node_sweep.summary(self.swept, 'breaches'):
            more = f'; and {len(breaches) - 5} more' if breaches[5:] else ''
            raise PerformanceError(f'{len(breaches)} of {len(self.swept)} places: {"; ".join(breaches[:5])}{more}')

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

    @loggable
    @property
    def peaks(self) -> dict[str, float]:
        """In a dry run, for `plumbline sites --cases`: the physical peak of each series that has one, in its unit."""
        by_name: dict[str, float] = {}
        for metric in self.metrics if self.is_dry_run() and self.job else ():
            if peak := self.peak_of(metric):
                by_name |= {variable_name(metric.name, at): peak / UNITS[metric.unit] for at in metric.points()}
        return by_name

    @loggable
    @property
    def record(self) -> RecordOf:
        """The record that `plumbline ingest` reads; in a node sweep `swept` has the records of its places."""
        return RecordOf(self)
