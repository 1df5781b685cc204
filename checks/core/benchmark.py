"""The base class of every check: stack, trials, binding, metrics, references and provenance."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from statistics import fmean

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.exceptions import PerformanceError, SanityError

from checks.core import sweep
from checks.core.metrics import Metric, NotMeasured
from checks.core.placement import Placement, binding_faults, granted
from checks.core.stacks import activation, bring_up
from checks.core.topology import Topology, current_site, topologies, topology_of
from plumbline.errors import SiteError
from plumbline.limits import judges
from plumbline.references import canonical_case, load_references
from plumbline.sites import Partition
from plumbline.stacks.manifest import Installed
from plumbline.units import UNITS

ROOT = Path(__file__).resolve().parent.parent.parent
CLOCKS = 'read -r uptime _ < /proc/uptime; echo $EPOCHREALTIME $uptime'  # nobody can set the second one
_DONE = ('COMPLETED', 'SUCCESS')  # Slurm's and the local scheduler's words for a job that ended well


@functools.cache
def suite_version() -> str:
    """``git describe`` of this clone; ``unknown`` where it is none."""
    answer = subprocess.run(
        ['git', '-C', str(ROOT), 'describe', '--always', '--dirty'], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or 'unknown'


class Benchmark(rfm.RunOnlyRegressionTest):
    """A check states `offers`, `executable`, its options, `metrics` and its `placement`; this class does the rest.

    One job holds `trials` trials. A trial executes the program once, or once for each of `runs` where a check needs
    several (kernels, say), each in a folder ``trial_<i>/<run>`` of its own that keeps stdout, stderr, the files that
    the program wrote and the binding of each rank. What was measured leaves in the one variable `record`.
    """

    #: Feature of the stack that holds this benchmark; of several with blanks between, any.
    offers = variable(str)
    #: Executions of the benchmark in the job.
    trials = variable(int, value=3, loggable=True)
    #: Seconds after which one trial, all its runs together, is taken for hung.
    trial_time_limit = variable(int, value=120)
    #: Whether the launcher must start it; other benchmarks run as one plain process on the job's first node.
    mpi = variable(bool, value=False)
    num_nodes = variable(int, value=1, loggable=True)
    #: File in a run's folder that holds the numbers, or a pattern of it where the program puts a date into its name.
    output = variable(str, value='stdout')
    #: Files of the stage directory that each run gets a copy of.
    inputs = variable(typ.List[str], value=[])
    #: Whether all runs of a trial run at the same time, instead of one after the other.
    concurrent = variable(bool, value=False)
    #: Whether the words of each of `runs` begin with a program; `executable` is then the one that provenance names.
    own_programs = variable(bool, value=False)

    metrics: list[Metric] = []
    placement: Placement
    runs: dict[str, list[str]]  # name -> options of the program
    run_env: dict[str, dict[str, str]]  # name -> variables of that run alone
    reading: str  # name of the run whose output is being read
    wrapper: list[str] = []  # words before the program, such as numactl and its options
    sourcesdir = str(Path(__file__).parent / 'job')
    exclusive_access = True
    maintainers = ['plumbline']

    def exists_on(self, topology: Topology) -> bool:
        """Whether this case makes sense on such a node; cases that do not are never listed."""
        return True

    def void_reason(self, metric: Metric, value: float) -> str | None:
        """Why a measured value cannot be true; None where it can."""
        if metric.unit == '1' and metric.better == 'higher' and value > 1:
            return f'{value:.4g} of the theoretical peak'
        peak = self.peak_of(metric)
        if peak is None or value * UNITS[metric.unit] <= peak:
            return None
        return f'{value:.6g} {metric.unit} is above the physical peak of {peak / UNITS[metric.unit]:.6g}'

    def peak_of(self, metric: Metric) -> float | None:
        """What a value of the case cannot exceed, in the base unit of its dimension; None where nobody says."""
        peak = self.partition.peaks.get(metric.peak)
        return None if peak is None else peak * self.num_nodes

    def sanity_faults(self, output: str) -> list[str]:
        """One sentence for each sign in a run's output that the program did not do its work."""
        return []

    def stderr_faults(self, errors: str) -> list[str]:
        """The same for its standard error, where some programs tell of a failed validation and exit with 0."""
        return []

    def derive(self):
        """Adds the samples of the metrics that have no pattern, from those of the others, when all trials are read."""

    # Before the run

    @run_after('init')
    def start_empty(self):
        self.forget()
        self.swept: list[dict] = []  # of a sweep: the record of each of its places
        self.runs, self.run_env = {}, {}

    def forget(self):
        """What was measured, before anything is."""
        self.samples: dict[str, list[tuple[int, str, float]]] = {}
        self.missing: dict[str, str] = {}
        self.void: dict[str, str] = {}
        self.bound: dict[str, str] = {}
        self.remarks: dict[str, str] = {}
        self.trial_seconds: list[float] = []

    @run_after('init', always_last=True)
    def select(self):
        """After the check's own hooks: one may choose `offers` from its parameters."""
        self.valid_systems = [fullname for fullname, topology in topologies() if self.exists_on(topology)]
        if hasattr(self, '.nid'):  # --distribute: a case of its own for each node, which -n /HASH cannot select
            wanted = os.environ.get('PLUMBLINE_CASES', self.hashcode).split()
            own = getattr(self, '.part') if self.hashcode in wanted else None
            self.valid_systems = [fullname for fullname in self.valid_systems if fullname == own]
        if sweep.swept_nodes() and not sweep.can_be_swept(self):
            self.valid_systems = []
        self.valid_prog_environs = [f'+{feature}' for feature in self.offers.split()]

    @run_after('setup')
    def look_at_the_partition(self):
        self.site = current_site()
        self.partition: Partition = self.site.partitions[self.current_partition.name]
        self.topology = topology_of(self.site.name, self.partition.name)
        self.stack = self.site.environs[self.current_environ.name]
        names = self.site.name, self.partition.name, self.stack.name
        self.installed = Installed(*names) if self.stack.provider == 'spack' else None
        # of single cases, such as the nodes that ci/nightly wants one to run on again
        self.job.options += json.loads(os.environ.get('PLUMBLINE_JOB_OPTIONS', '{}')).get(self.hashcode, [])

    @run_before('run')
    def bring_stack_up(self):
        if self.installed and not self.is_dry_run() and (fault := bring_up(self.installed)):
            raise SanityError(fault)

    @run_before('run')
    def assemble_job(self):
        ranks = self.placement.ranks_per_node
        self.num_tasks, self.num_tasks_per_node = ranks * self.num_nodes, ranks
        self.num_cpus_per_task = max(len(cpus) for cpus in self.placement.cpus) if self.placement.cpus else None
        if not self.mpi:
            self.job.launcher = getlauncher('local')()
        self.time_limit = self.time_limit or f'{60 + self.trials * self.trial_time_limit}s'
        self.env_vars |= self.placement.env_vars
        if self.topology.gpus:
            self.env_vars['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID'  # the numbers of nvidia-smi and of link classes
        if self.mpi:
            self.env_vars['SLURM_KILL_BAD_EXIT'] = '1'  # or srun waits for the ranks that wait for one that has failed
        runs = self.runs or {'run': self.executable_opts}
        self.prerun_cmds = [
            f'unset {" ".join(self.placement.unset)}',
            *activation(self.stack, self.installed),
            f'bash ./provenance.sh {shlex.quote(self.executable)} > provenance.txt',
            f'for trial in {" ".join(str(i + 1) for i in range(self.trials))}; do',
            'mkdir trial_$trial',
            f'{CLOCKS} > trial_$trial/started',
            f'for run in {" ".join(runs)}; do',
            'mkdir trial_$trial/$run',
            *(f'cp {shlex.quote(name)} trial_$trial/$run/' for name in self.inputs),
            'cd trial_$trial/$run',
            'case $run in',
            *(self.shell_case(name, options) for name, options in runs.items()),
            'esac',
        ]
        program = [] if self.own_programs else [self.executable]
        self.executable = shlex.join(['bash', '../../rank.sh', *self.wrapper, *program])
        self.executable_opts = ['"${options[@]}"', '> stdout', '2> stderr']
        wait_for_all = []
        if self.concurrent:
            self.executable_opts.append('& started+=($!)')
            # none may be left running when another has failed
            wait_for_all = ['code=0; for pid in ${started[@]}; do wait $pid || code=$?; done; started=(); (exit $code)']
        self.postrun_cmds = ['cd ../..', 'done', *wait_for_all, f'{CLOCKS} > trial_$trial/ended', 'done']

    @run_before('run', always_last=True)
    def spread_over_all_nodes(self):
        """After the check's own hooks, which may change the job of a place."""
        if sweep.swept_nodes():
            sweep.spread(self)
            self.job.launcher = getlauncher('local')()

    def shell_case(self, name: str, options: list[str]) -> str:
        exports = ''.join(f' export {key}={shlex.quote(value)};' for key, value in self.run_env.get(name, {}).items())
        return f'{name}){exports} options=({" ".join(map(shlex.quote, options))}) ;;'

    # After the run

    @run_before('sanity')
    def measure(self):
        """Reads all trials, also those before a failure; then fails with what went wrong, worst first."""
        if self.is_dry_run():
            return
        job = self.job_faults()
        faults = job + ([] if self.metrics else ['the check declares no metric'])
        if sweep.swept_nodes():
            faults += sweep.measure(self)
        else:
            faults += self.read_trials(Path(self.stagedir), ','.join(self.job.nodelist or []))
        self.missing = {name: '; '.join([why, *job]) for name, why in self.missing.items()}
        if faults:
            if shutil.disk_usage(self.stagedir).free < 2**20:
                faults.insert(0, f'the file system of {self.stagedir} is full')
            raise SanityError('; '.join(faults[:3]) + (f'; and {len(faults) - 3} more' if faults[3:] else ''))

    def read_trials(self, where: Path, nodes: str) -> list[str]:
        """Takes the samples of all trials below a folder, and returns a sentence for each thing that is wrong."""
        faults = []
        for trial in range(1, self.trials + 1):
            folder = where / f'trial_{trial}'
            for run in self.runs or ['run']:
                if found := self.measure_run(trial, run, folder / run, nodes):
                    faults.append(f'trial {trial}, {run}: {"; ".join(found)}{last_words(folder / run / "stderr")}')
            for by_time_of_day, by_uptime in seconds_of(folder):
                self.trial_seconds.append(by_uptime)
                if abs(by_time_of_day - by_uptime) > 1:  # many benchmarks take their times from the time of day
                    set_by = f'{by_time_of_day - by_uptime:+.0f} s'
                    faults.append(f'trial {trial}: the clock of {nodes} was set by {set_by} while it ran')
        self.derive()
        for metric in self.metrics:
            if metric.pattern is None and metric.name not in self.samples:
                self.missing.setdefault(metric.name, 'what it is computed from is missing')
                faults.append(f'metric {metric.name} not measured: {self.missing[metric.name]}')
        self.remarks |= (self.installed.provenance() if self.installed else {}) | facts_of(where / 'provenance.txt')
        return faults

    def job_faults(self) -> list[str]:
        state, exitcode, nodes = self.job.state, self.job.exitcode, ','.join(self.job.nodelist or [])
        if state in _DONE and exitcode == 0:
            return []
        said = last_words(Path(self.stagedir) / self.job.stderr)
        where = f', on {nodes}' if nodes else ', before it had a node'
        if state == 'CANCELLED' and not nodes and self.max_pending_time:
            where += f'; the longest that it may wait is {self.max_pending_time:.0f} s'
        return [f'job {self.job.jobid} ended in state {state}, exit code {exitcode}{where}{said}']

    def measure_run(self, trial: int, run: str, folder: Path, nodes: str) -> list[str]:
        """Takes the samples of one run of a trial; returns a sentence for each thing that is wrong with it."""
        self.reading = run
        metrics = [metric for metric in self.metrics if metric.run == run and metric.pattern]
        written = sorted(folder.glob(self.output))
        if len(written) != 1:
            self.missing |= {metric.name: f'trial {trial} wrote no {self.output}' for metric in metrics}
            found = f'expected one file {self.output}, found {len(written)}'
            return [found if folder.exists() else 'did not start']
        text = written[0].read_text(encoding='utf-8', errors='replace')
        got, own = granted(folder), self.run_env.get(run, {})
        asked = self.placement.with_lists(own)
        self.bound |= {f'{run} {rank}' if 'PLUMBLINE_CPUS' in own else rank: str(has) for rank, has in got.items()}
        errors = (folder / 'stderr').read_text(encoding='utf-8', errors='replace')
        faults = [line for line in errors.splitlines() if line.startswith('plumbline:')]  # of rank.sh
        faults += binding_faults(asked, got, self.num_nodes) + self.stderr_faults(errors) + self.sanity_faults(text)
        unmeasured = []
        for metric in metrics:
            try:
                value = metric.read(text)
            except NotMeasured as reason:
                self.missing[metric.name] = f'trial {trial}: {reason}'
                unmeasured.append(f'metric {metric.name} not measured: {reason}')
                continue
            self.samples.setdefault(metric.name, []).append((trial, nodes, value))
            if reason := self.void_reason(metric, value):
                self.void[metric.name] = f'trial {trial}: {reason}'
        more = [f'and {len(unmeasured) - 2} metrics more'] if len(unmeasured) > 3 else unmeasured[2:]
        return faults + unmeasured[:2] + more

    @sanity_function
    def ran_as_asked(self):
        return True  # `measure` raises otherwise, before ReFrame looks at the exit code alone

    @run_before('performance')
    def compare_with_references(self):
        if self.is_dry_run():
            return
        what = 'worst_' if self.swept else ''  # of all places
        self.perf_variables = {
            what + metric.name: sn.make_performance_function(self.mean, metric.unit, metric.name)
            for metric in self.metrics
        }
        if self.void:
            raise PerformanceError('; '.join(f'void: {name}: {reason}' for name, reason in self.void.items()))
        try:
            bounds = self.bounds()
        except SiteError as error:
            raise PerformanceError(str(error)) from None
        if self.swept:  # each place is judged by itself
            bounds = {f'worst_{name}': (mean, None, None, unit) for name, (mean, *_, unit) in bounds.items()}
        self.reference = {self.current_partition.fullname: bounds}

    def mean(self, metric: str) -> float:
        return fmean(value for _, _, value in self.samples[metric])

    def bounds(self) -> dict[str, tuple[float, float | None, float | None, str]]:
        """ReFrame's reference tuples of the metrics that have a reference; those of one that only warns have no bound.

        Raises SiteError on a unit that differs.
        """
        references = load_references(self.site.name)
        found = {}
        for metric in self.metrics:
            key = (self.partition.name, self.current_environ.name, self.check, self.case, metric.name)
            rows = judges(references, key, self.site.tolerance)
            if not rows:
                continue
            reference, bound = rows[0]
            if reference.unit != metric.unit:
                raise SiteError(
                    f'{metric.name}: the reference is in {reference.unit}, the check measures {metric.unit} '
                    f'({reference.kind}, {reference.source})'
                )
            if reference.better != metric.better:
                raise SiteError(f'{metric.name}: {metric.better} is better, the reference says {reference.better}')
            threshold = bound.bad / reference.mean - 1 if bound.gates else None
            lower, upper = (threshold, None) if metric.better == 'higher' else (None, threshold)
            found[metric.name] = (reference.mean, lower, upper, metric.unit)
        return found

    @run_after('performance', always_last=True)
    def every_variable_has_a_value(self):
        """ReFrame only warns when a performance function fails; a check that brings its own must not pass so."""
        measured = {name.rpartition(':')[2] for name in self.perfvalues}
        if lost := set(self.perf_variables) - measured:
            raise PerformanceError(f'declared and not measured: {", ".join(sorted(lost))}')
        if self.swept and (breaches := sweep.breaches(self)):
            raise PerformanceError(breaches)

    # What leaves with the run report

    @property
    def check(self) -> str:
        return type(self).__name__

    @property
    def case(self) -> str:
        params = type(self).param_space.params
        # a name with a dot was put there by ReFrame (--distribute, --repeat) and is no parameter of the check
        # and `nodes` is said by num_nodes, where there are several
        own = {name: params[name].format(getattr(self, name)) for name in params if '.' not in name and name != 'nodes'}
        return canonical_case(own | ({'num_nodes': self.num_nodes} if self.num_nodes > 1 else {}))

    @loggable
    @property
    def record(self) -> dict:
        """All that `plumbline ingest` takes from this case; samples are (trial, nodes, value)."""
        return self.own_record() | ({'swept': self.swept} if self.swept else {})

    def own_record(self) -> dict:
        return {
            'schema': 1,
            'check': self.check,
            'case': self.case,
            'tags': sorted(self.tags),
            'trials': self.trials,
            'metrics': {
                metric.name: {
                    'unit': metric.unit,
                    'better': metric.better,
                    'judged': metric.judged,
                    'samples': [list(sample) for sample in self.samples.get(metric.name, [])],
                    'void': self.void.get(metric.name),
                }
                for metric in self.metrics
            },
            'missing': self.missing,
            'trial_seconds': self.trial_seconds,
            'binding': {'asked': self.env_vars.get('PLUMBLINE_CPUS', ''), 'got': self.bound},
            'job': {
                'id': str(self.job.jobid),
                'state': self.job.state,
                'exitcode': self.job.exitcode,
                'nodes': list(self.job.nodelist or []),
            }
            if self.job
            else {},
            'provenance': {'suite_version': suite_version(), **self.remarks},
        }


# ReFrame looks through the call stack twice for each test that it makes, because of its deprecated variable `variables`
# (now `env_vars`): a fifth of the time of a long listing. No check has that variable.
if hasattr(Benchmark, '_rfm_var_space'):
    Benchmark._rfm_var_space.vars.pop('variables', None)


def last_words(stderr: Path) -> str:
    """The last line of a file that has words, to stand in a message."""
    try:
        lines = stderr.read_text(encoding='utf-8', errors='replace').splitlines()
    except OSError:
        return ''
    said = [line.strip() for line in lines if re.search(r'\w', line)]  # not a launcher's line of dashes
    return f' (stderr ends: {said[-1][:200]})' if said else ''


def seconds_of(folder: Path) -> list[tuple[float, float]]:
    """What a trial took by each of the `CLOCKS`, as a list of one; empty when it did not end."""
    try:
        started, ended = (map(float, (folder / name).read_text().split()) for name in ('started', 'ended'))
        by_time_of_day, by_uptime = (end - start for start, end in zip(started, ended, strict=True))
    except (OSError, ValueError):
        return []
    return [(by_time_of_day, by_uptime)]


def facts_of(path: Path) -> dict[str, str]:
    """The key=value lines that ``job/provenance.sh`` wrote."""
    try:
        lines = path.read_text(encoding='utf-8', errors='replace').splitlines()
    except OSError:
        return {}
    return dict(line.split('=', 1) for line in lines if '=' in line)
