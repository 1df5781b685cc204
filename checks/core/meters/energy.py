# SPDX-License-Identifier: BSD-3-Clause
"""Energy, power and efficiency of the trials of a case, by the meters that its partition states. Imports no ReFrame.

The job looks at each meter at the marks of its phases (`job/energy.sh`): a rest before the first trial, each trial, and
a rest after the last. One sampler for each node runs only where a meter needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from checks.core.job import node_sweep
from checks.core.job.spec import MeterLines
from checks.core.meters.energy_sources import LEAST_SAMPLES, SOURCES, Source, Spent, doubt_of, source_of
from checks.core.reading.metrics import Metric, by_trial, series_of
from checks.core.reading.outputs import CLOCKS, marks_of
from plumbline.record import Dim, Record, Series
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Partition
from plumbline.units import in_base_unit

_MOST_REST = 60  # s; longest rest: a meter that needs a longer one measures no idle power
_MARKED, _RESTS = ('started', 'ended'), ('before', 'after')
_OF_TRIALS = {'energy': 'J', 'power': 'W', 'energy_delay': 'J s'}  # figure of a phase, which is a metric -> unit


@dataclass(frozen=True)
class Meter:
    """A meter of a partition. `boundary`: what it includes. `accuracy`: relative. `interval`: s between two values.

    `pause`: seconds between two readings of the sampler, 0 without a sampler.
    """

    name: str
    boundary: str
    accuracy: float
    interval: float
    source: Source
    pause: float = 0.0

    @property
    def dim(self) -> str:
        """The value of the dim `meter`, with the boundary: figures of different boundaries are different series."""
        return f'{self.name}:{self.boundary}'

    @property
    def rest(self) -> float:
        """Seconds of a rest with enough samples of the idle power; 0 if that would take too long."""
        needed = max(1.0, 1.25 * LEAST_SAMPLES * self.interval)
        return needed if not self.source.waits and needed <= _MOST_REST else 0.0


@dataclass(frozen=True)
class Metering:
    """The meters of a case. `rates`: metrics that give work per energy. `left_out`: why meters are left out.

    `figures`: what follows from that efficiency.
    """

    meters: Sequence[Meter] = ()
    nodes: int = 1
    rates: Sequence[Metric] = ()
    left_out: str = ''
    figures: Mapping[str, object] = field(default_factory=dict)

    # In the job

    @property
    def table(self) -> str:
        """The text of energy.meters, for `energy.sh`."""
        return ''.join(
            f'{meter.name}\t{int(meter.source.at_marks)}\t{1000 * meter.pause:.0f}\t{meter.source.command}\n'
            for meter in self.meters
            if not meter.source.waits
        )

    @property
    def seconds(self) -> int:
        """Seconds that metering adds to the job."""
        return math.ceil(2 * self._rest) + sum(meter.source.waits for meter in self.meters)

    @property
    def lines(self) -> MeterLines:
        """The lines of the job that read the meters: counters at the marks, a sampler, rests, and others at the end."""
        if not self.meters:
            return MeterLines()
        everywhere = node_sweep.on_each_node(self.nodes) if self.nodes > 1 else ''
        counters = any(meter.source.at_marks for meter in self.meters)
        started, ended = ([f'{everywhere}bash ./energy.sh {mark}'] * counters for mark in _MARKED)

        def rest(at: str) -> list[str]:
            lines = [f'mkdir {at}', f'{CLOCKS} > {at}/started', f'sleep {self._rest:g}', f'{CLOCKS} > {at}/ended']
            return [*started, *lines, *ended] if self._rest else []

        sampler = f'{everywhere}bash ./energy.sh sample > /dev/null 2>&1 & sampler=$!'
        is_sampled = any(meter.pause for meter in self.meters)
        before = ['mkdir energy', *[sampler] * is_sampled, *rest('energy/before')]
        after = [*rest('energy/after'), *['kill $sampler 2> /dev/null || true'] * is_sampled]
        after += [
            f'{{ {of.source.command}; }} > energy/{of.name} 2>&1 || true' for of in self.meters if of.source.waits
        ]
        return MeterLines(before, started, ended, after, self.table)

    @property
    def _rest(self) -> float:
        return max((meter.rest for meter in self.meters), default=0.0)

    # In the record

    @property
    def dims(self) -> dict[str, Dim]:
        """The dims of the metrics."""
        return {'meter': Dim('name'), 'when': Dim('name')} if self.meters else {}

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of the meters, as 000 section 5.1 and 001 section 4 define them; `power` is per node."""
        declared = []
        for meter in self.meters:
            at = {'meter': meter.dim}
            declared += [Metric(name, unit, 'lower', dims=at, judged=False) for name, unit in _OF_TRIALS.items()]
            if meter.rest:
                declared.append(Metric('active_power', 'W', 'lower', dims=at, judged=False))
                declared.append(Metric('idle_power', 'W', 'lower', dims=at, expected={'when': _RESTS}, judged=False))
            for rate in self.rates:
                unit, dims = rate.unit.replace('/s', '/J'), {**rate.dims, **at}
                declared.append(Metric(
                    'efficiency', unit, 'higher', dims=dims, expected=rate.expected, judged=False, figures=self.figures,
                ))  # fmt: skip
        return declared

    def read(self, folder: Path, record: Record, nodes: str) -> None:
        """Add the figures of all meters for the trials below `folder` on `nodes`, or why there are none."""
        if self.left_out:
            record.provenance['energy_left_out'] = self.left_out
        for meter in self.meters:
            words = f'{meter.boundary} of each node, accuracy {meter.accuracy:g}, a value every {meter.interval:g} s'
            record.provenance[f'energy_{meter.name}'] = words
            self._read(meter, folder, record, nodes)

    def _read(self, meter: Meter, folder: Path, record: Record, nodes: str) -> None:
        def of(name: str, **dims: object) -> Series:
            return series_of(record, name, **dims, meter=meter.dim)

        try:
            readings = meter.source.readings(folder, meter.name, meter.boundary)
        except ValueError as reason:
            for _, _, series in record.series():
                if ('meter', meter.dim) in series.dims:
                    series.missing = str(reason)
            return

        def add(of_phase: str, at: str, trial: int, into: Mapping[str, Series]) -> None:
            """Add the figures of a phase to the series `into`, or the reason why there are none."""
            try:
                started, ended = marks_of(folder / of_phase)
                if len(started) < 2 or len(ended) < 2:
                    raise ValueError('the phase did not end')
                times = started[0], ended[0], meter.interval, meter.accuracy
                spent = [meter.source.spent(of_node, *times) for of_node in readings]
                figures, doubt = self._figures(meter, spent, ended[1] - started[1])
            except ValueError as reason:
                for series in into.values():
                    series.missing = series.missing or f'{at}: {reason}'
                return
            for figure, series in into.items():
                series.samples.append((trial, nodes, figures[figure]))
                series.invalid = series.invalid or (f'{at}: {doubt}' if doubt else None)

        power = of('power')
        for trial in range(1, record.trials + 1):
            add(f'trial_{trial}', f'trial {trial}', trial, {name: of(name) for name in _OF_TRIALS})
        for rate in self.rates:
            for point in map(dict, rate.points()):
                of_rate = series_of(record, rate.name, **point)
                _derive(of('efficiency', **point), [of_rate, power], lambda values: values[0] / values[1] / self.nodes)
        if meter.rest:
            rests = [of('idle_power', when=when) for when in _RESTS]
            for when, series in zip(_RESTS, rests, strict=True):
                add(f'energy/{when}', f'{when} the trials', 1, {'power': series})
            idle = fmean(watts for series in rests for _, _, watts in series.samples or [(0, '', 0.0)])
            _derive(of('active_power'), [power], lambda values: values[0] - idle, rests)
        if meter.pause and readings:
            shares = [looks[-1].own / max(looks[-1].time - looks[0].time, 1.0) for looks in readings]
            record.provenance[f'energy_{meter.name}_sampler'] = f'{max(shares):.2%} of a core'

    def _figures(self, meter: Meter, spent: Sequence[Spent], seconds: float) -> tuple[dict[str, float], str]:
        """Return the figures of a phase of so many seconds, and why they are invalid. Raises ValueError.

        energy: of all nodes in J. power: the mean of a node in W. energy_delay: EDP = E x T (000 section 5.1).
        """
        if len(spent) != (1 if meter.source.of_job else self.nodes):
            raise ValueError(f'expected what {self.nodes} nodes spent, found that of {len(spent)}')
        doubts = filter(None, (doubt_of(each, seconds, meter.accuracy) for each in spent))
        watts = fmean(each.joules / each.seconds for each in spent) / (self.nodes if meter.source.of_job else 1)
        joules = sum(each.joules for each in spent)
        return {'energy': joules, 'power': watts, 'energy_delay': joules * seconds}, next(doubts, '')


def _derive(
    series: Series, inputs: Sequence[Series], function: Callable[[list[float]], float], more: Sequence[Series] = ()
) -> None:
    """Compute the samples of a series; it is missing or invalid if one of `inputs` or `more` is."""
    every = [*inputs, *more]
    series.missing = next((each.missing for each in every if not each.samples), None)
    series.invalid = next((each.invalid for each in every if each.invalid), None)
    series.samples = [] if series.missing else by_trial(inputs, function)


def metering_of(
    partition: Partition | None, trial_seconds: float, nodes: int = 1, rates: Sequence[Metric] = ()
) -> Metering:
    """Return the metering of a case on a partition, if that is known. `rates`: its metrics of work per second."""
    if not partition:
        return Metering()
    if not partition.energy:
        return Metering(left_out='site.yaml states no meter of this partition (key `energy`)')
    swept = bool(node_sweep.swept_nodes())
    if nodes > 1 and not scheduler(partition.entry['scheduler']).is_slurm:
        return Metering(left_out='on several nodes only a job of Slurm of its own looks at the meters of each')
    meters, short = [], []
    for name, stated in partition.energy.items():
        if not (source := source_of(name, stated)):
            short.append(f'{name} is read by no module of checks/extras')
            continue
        interval = in_base_unit(stated['interval']) if 'interval' in stated else source.interval
        pause = source.pause(interval, trial_seconds)
        meter = Meter(name, stated['boundary'], stated['accuracy'], interval, source, pause)
        needed = LEAST_SAMPLES * interval
        if swept and (source.of_job or source.waits):
            short.append(f'{name} tells the energy of the whole allocation of a node sweep')
        elif trial_seconds < needed:
            takes = f'one may take {trial_seconds} s'
            short.append(f'{name} needs trials of {needed:.0f} s for {LEAST_SAMPLES} samples, and {takes}')
        else:
            meters.append(meter)
    order = [*SOURCES]  # the quickest look is the innermost
    meters.sort(key=lambda meter: order.index(meter.name) if meter.name in order else len(order))
    return Metering(meters, nodes, rates, '; '.join(short))
