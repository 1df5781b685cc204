# SPDX-License-Identifier: BSD-3-Clause
"""How the folders of a job become a record. Imports no ReFrame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

from checks.core.placement import Execution
from checks.core.reading import causes, signatures, transport
from checks.core.reading.binding import Request, binding_faults, granted, unlike
from checks.core.reading.causes import WELL, Ending, Run
from checks.core.reading.health import add_health, clock_steps, facts_in
from checks.core.reading.metrics import Metric, Spread, compute, figures_of, mark_impossible, variable_name
from checks.core.reading.outputs import LONGEST, cut_of, first_words, own_words, some, text_of
from checks.core.reading.watched import Watched
from plumbline.causes import Cause, Code
from plumbline.identity import Pairs, to_text
from plumbline.outputs import Lines, write_numbers
from plumbline.record import MetricRecord, Record, Series

_TIMES = ('s', 'ms', 'us', 'ns')


class Hooks:
    """What a check says of its outputs; a check overrides what it knows."""

    def sanity_faults(self, run: Run) -> list[str]:
        """Return one sentence for each sign in a run's output or stderr that the program failed.

        What the program reported itself is `causes.said`; it counts also where the program failed or wrote no output.
        What else the check learns it adds to the run.
        """
        return []

    def derive(self, record: Record) -> None:
        """Add the samples of the metrics that only the check can compute, after all trials are read."""


@dataclass(frozen=True)
class Plan:
    """What a job must measure, and where it is read.

    `record`: that of a case which has measured nothing. `runs`: by name. `ranks`: what they must get. `output`: file of
    a run's folder that holds the numbers, or a pattern of its name. `environ`: name of the stack. `nics`: the devices
    of the fabric that must each carry traffic, none: any of them; None: the ranks send nothing between nodes by it.
    `read_meters`: adds the energy of the trials below a folder to a record.
    """

    record: Record
    metrics: Sequence[Metric]
    runs: Mapping[str, Execution]
    ranks: Request
    output: str = 'stdout'
    environ: str = ''
    nics: Sequence[str] | None = None
    read_meters: Callable[[Path, Record, str], None] | None = None

    def who(self, run: str) -> str:
        """Return the program of a run, with the name of the run if they differ."""
        program = self.runs[run].program
        return program if run in ('run', program) else f'{program} ({run})'

    def problems(self) -> list[str]:
        """Return one sentence for each metric that contradicts the plan or another metric."""
        sentences = [] if self.metrics else ['the check declares no metric']
        seen: dict[str, Metric] = {}
        points: set[tuple[str, Pairs]] = set()
        for metric in self.metrics:
            where = f'metric {metric.name}'
            if unknown := sorted({*metric.dims, *metric.expected} - set(self.record.dims)):
                sentences.append(f'{where}: dim {", ".join(unknown)}: expected one of the dims that the check declares')
            if not metric.computed and metric.run not in self.runs:
                sentences.append(f'{where}: run {metric.run!r}: expected one of {", ".join(self.runs)}')
            first = seen.setdefault(metric.name, metric)
            if (metric.unit, metric.better) != (first.unit, first.better):
                sentences.append(
                    f'{where}: expected {first.unit}, {first.better}; found {metric.unit}, {metric.better}'
                )
            if (of := metric.of) and not of.points(self.metrics):
                sentences.append(f'{where}: is computed of {of.metric} at {dict(of.at)}: no metric has such a series')
            for point in metric.points():
                if (metric.name, point) in points:
                    sentences.append(f'{where}: {to_text(point)} is declared twice')
                points.add((metric.name, point))
        return sentences

    def empty_record(self) -> Record:
        """Return a copy of the record of a case that has measured nothing."""
        return deepcopy(self.record)


def add_metrics(
    record: Record, metrics: Sequence[Metric], usual_spread: Spread | float | Mapping[str, float] | None
) -> Record:
    """Return the record with the series that a check must measure, and the tolerance that it states for them."""
    stated = usual_spread if isinstance(usual_spread, Spread) else Spread(usual_spread)
    for metric in metrics:
        if metric.name not in record.metrics:
            of_unit = 0.05 if metric.unit in _TIMES else 0.02
            record.metrics[metric.name] = MetricRecord(
                metric.unit, metric.better, usual_spread=stated.of(metric.name),
                floor=of_unit if stated.floor is None else stated.floor,
            )  # fmt: skip
        record.metrics[metric.name].series += [Series(at, judged=metric.is_judged(at)) for at in metric.points()]
        if metric.draw:
            record.draw[metric.name] = dict(metric.draw)
    record.figures |= figures_of(metrics)
    return record


NO_HOOKS = Hooks()


def read_trials(folder: Path, plan: Plan, nodes: str = '', ending: Ending = WELL, hooks: Hooks = NO_HOOKS) -> Record:
    """Return the record of the trials below `folder` of a job that ran on `nodes`; its causes are the worst first.

    Series that are missing because a program or the job failed have this cause as their reason. The line numbers of all
    values are written to `folder`, see :mod:`plumbline.outputs`.
    """
    files = _Files(folder, plan, nodes, hooks)
    record, runs = files.record, files.runs
    died: dict[Run, Cause] = {}
    for run in runs:
        faults = files.faults_of(files.with_texts(run)) if run.exit_code else []
        if cause := causes.of_program(run, record.trials, nodes, plan.environ, faults):
            died[run] = cause
    # a job script may have failed only because the program did
    job = None if died and ending.own_fault else causes.of_job(ending, runs, record.trials, nodes, plan.environ)
    fatal = job or next(iter(died.values()), None)
    wrong: list[Cause] = []  # what is wrong with the outputs
    for run in runs:
        because = died.get(run) or (None if run.exit_code == 0 else fatal)
        found = list(files.read(run, because))
        if found and not because:
            detail = f': {"; ".join(fault for _, fault in found)}'
            words = first_words(text_of(run.folder / 'stderr'))
            if words and 'its stderr says' not in detail:
                detail += f'; its stderr begins: "{words}"'
            wrong.append(Cause(found[0][0], run.who, nodes, (run.trial,), record.trials, detail))
    with suppress(OSError):  # without the file, the report marks no line of the output
        write_numbers(folder, files.lines)
    wrong += clock_steps(folder, record, nodes)
    errors, changes = add_health(folder, record, nodes.split(','), files.clocks, plan.ranks.host_of)
    wrong += [*changes, *files.transport_faults()]
    compute(record, plan.metrics)
    hooks.derive(record)
    mark_impossible(record, plan.metrics, nodes)
    if plan.read_meters:
        plan.read_meters(folder, record, nodes)
    wrong += files.lost_computed(fatal)
    record.causes = causes.merged([*errors, *([job] if job else []), *died.values(), *wrong])
    return record


class _Files:
    """The files of a job, as far as they are read: `record`, line numbers of its values, and CPU clocks by node."""

    def __init__(self, folder: Path, plan: Plan, nodes: str, hooks: Hooks):
        self.plan, self.nodes, self.hooks = plan, nodes, hooks
        self.record = record = plan.empty_record()
        record.provenance |= facts_in(text_of(folder / 'provenance.txt'))
        record.trials = int(record.provenance.pop('trials_run', record.trials))  # fewer if the time did not suffice
        self.runs = [
            Run(run, '', '', trial, folder / f'trial_{trial}' / run, record.provenance, plan.who(run))
            for trial in range(1, record.trials + 1)
            for run in plan.runs
        ]
        self.series = {(name, each.dims): each for name, _, each in record.series()}
        self.lines: Lines = {}
        self.clocks: dict[str, list[int]] = defaultdict(list)
        self.watched: dict[str, Watched] = {}  # of each rank, the trial with the fewest looks at it
        self.faults: dict[Path, list[str]] = {}  # of the outputs that the check has seen

    def faults_of(self, run: Run) -> list[str]:
        """Return what the check finds wrong with a run `with_texts` that started; it is asked once."""
        if run.folder not in self.faults:
            self.faults[run.folder] = self.hooks.sanity_faults(run) if run.folder.exists() else []
        return self.faults[run.folder]

    def with_texts(self, run: Run) -> Run:
        """Return a run with what it printed: its output, if that is one file, and its standard error."""
        written = [*run.folder.glob(self.plan.output)]
        output = text_of(written[0]) if len(written) == 1 else ''
        return replace(run, output=output, errors=text_of(run.folder / 'stderr'))

    def read(self, run: Run, because: Cause | None) -> Iterator[tuple[Code, str]]:
        """Add what one run of a trial measured to the record; yield each fault with its code.

        `because`: why the program or its job failed, the reason of everything missing.
        """
        run = self.with_texts(run)
        yield from (('validation', fault) for fault in self.faults_of(run) if isinstance(fault, causes.Said))
        written = sorted(run.folder.glob(self.plan.output))
        if len(written) != 1:
            for metric in self._metrics_of(run):
                for point in metric.points():
                    self._lose(run, metric, point, f'it wrote no {self.plan.output}', because)
            found = f'expected one file {self.plan.output}, found {len(written)}'
            yield 'output', found if run.folder.exists() else 'did not start'
            return
        if run.running:
            yield 'output', 'expected its exit code in the file exit_code, found none'
        if run.exit_code == 0 and (line := signatures.of_death(run.errors)):
            yield 'crash', f'it ended with exit code 0, and its stderr says that a program died: "{line[:LONGEST]}"'
        yield from _some('refused', own_words(run.errors))
        yield from _some('binding', self._binding_faults(run))
        yield from self._values(run, written[0], because)

    def _metrics_of(self, run: Run) -> list[Metric]:
        return [metric for metric in self.plan.metrics if metric.run == run.name and not metric.computed]

    def _lose(self, run: Run, metric: Metric, point: Pairs, reason: str, because: Cause | None) -> None:
        target = self.series[metric.name, point]
        target.missing = target.missing or (because.brief if because else f'trial {run.trial}: {reason}')

    def _binding_faults(self, run: Run) -> list[str]:
        """Add what the ranks got, and their clocks, to the record; return what differs from the request."""
        actual, own = granted(run.folder), self.plan.runs[run.name].placement
        granted_to, watched = (self.record.placement.setdefault(key, {}) for key in ('actual', 'watched'))
        for rank, got in actual.items():
            where = f'{run.name} {rank}' if own else rank
            granted_to[where] = str(got)
            self.watched[where] = min(self.watched.get(where, got.watched), got.watched, key=Watched.number)
            watched[where] = str(self.watched[where])
            self.clocks[rank.rpartition('.')[0]] += got.watched.clocks
        ranks = replace(self.plan.ranks, placement=own or self.plan.ranks.placement)
        faults = binding_faults(ranks, actual, self.nodes.split(',') if self.nodes else [])
        return faults + unlike(run.devices, actual, ranks.archs)

    def _values(self, run: Run, written: Path, because: Cause | None) -> Iterator[tuple[Code, str]]:
        """Add the samples of an output to the record; yield what is wrong with it."""
        readings = [(metric, metric.reading_of(run.output)) for metric in self._metrics_of(run)]
        self.lines[str(written.relative_to(run.folder.parents[1]))] = {
            variable_name(metric.name, point): at for metric, reading in readings for point, at in reading.lines.items()
        }
        cuts = [cut for path in (written, run.folder / 'stderr') if (cut := cut_of(path))]
        yield from _some('output', cuts)
        times = set().union(*(reading.times for _, reading in readings))
        faults = [fault for fault in self.faults_of(run) if not isinstance(fault, causes.Said)]
        one_fault = causes.of_output(run.output, times, self.plan.output)
        yield from _some('output', [one_fault] * bool(one_fault))
        yield from _some('validation', faults) if len(faults) == 1 or not one_fault else []
        lost = []
        for metric, reading in readings:
            yield from _some('validation', [f'metric {metric.name}: {fault}' for fault in reading.faults])
            for point, value in reading.values.items():
                target = self.series[metric.name, point]
                target.samples.append((run.trial, self.nodes, value))
                if reason := next(iter(run.invalid), metric.invalid_reason(value)):
                    target.invalid = target.invalid or f'trial {run.trial}: {reason}'
            for point, reason in reading.missing.items():
                reason = cuts[0] if cuts else one_fault or reason
                self._lose(run, metric, point, reason, because)
                lost.append(f'metric {variable_name(metric.name, point)} not measured: {reason}')
        if not (one_fault or cuts):
            yield from (('lost-metric', fault) for fault in lost[:1])
            yield from [('lost-metric', f'{len(lost) - 1} metrics more not measured')] * (len(lost) > 1)

    def transport_faults(self) -> list[Cause]:
        """Add to the record how MPI sent between nodes; return a cause if that was not by the fabric."""
        if self.plan.nics is None:
            return []
        if lanes := sorted({lane for run in self.runs for lane in transport.lanes_of(run.folder)}):
            self.record.provenance['mpi_transport'] = ', '.join(lanes)
        of_nodes = {self.nodes.partition(',')[0]: self.record.provenance} | self.record.health
        return list(transport.faults_of(of_nodes, self.plan.nics, lanes))

    def lost_computed(self, fatal: Cause | None) -> list[Cause]:
        """Say in each computed series without samples why it has none; return a cause for each reason but `fatal`."""
        lost: dict[str, list[str]] = {}
        for metric in self.plan.metrics:
            for point in metric.points() if metric.computed else ():
                if not (each := self.series[metric.name, point]).samples:
                    each.missing = each.missing or (fatal.brief if fatal else 'what it is computed from is missing')
                    lost.setdefault(each.missing, []).append(variable_name(metric.name, point))
        words = {why: f'{name} and {len(more)} more' if more else name for why, (name, *more) in lost.items()}
        return [
            Cause('lost-metric', f'metric {names} not measured: {why}') for why, names in words.items() if not fatal
        ]


def _some(code: Code, faults: list[str]) -> list[tuple[Code, str]]:
    return [(code, fault) for fault in some(faults)]
