# SPDX-License-Identifier: BSD-3-Clause
"""Energy, power and efficiency of the trials of a case, by the meters that its partition states. Imports no ReFrame.

The job looks at each meter at the marks of its phases (`job/energy.sh`): a rest before the first trial, each trial, and
a rest after the last. One sampler for each node runs only where a meter needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from checks.core.job import node_sweep
from checks.core.job.spec import MeterLines
from checks.core.meters.energy_sources import (
    EAR,
    EAR_INTERVAL,
    LEAST_SAMPLES,
    SOURCES,
    MeterReading,
    Source,
    Spent,
    counted,
    doubt_of,
    looks_at,
    of_command,
    of_steps,
    sampled,
)
from checks.core.reading.outputs import CLOCKS, text_of
from checks.core.reading.trials import Metric, by_trial, series_of
from plumbline.record import Dim, Record, Series
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Partition
from plumbline.units import in_base_unit

_MOST_REST = 60  # s; longest rest: a meter that needs a longer one measures no idle power
_RESTS = ('before', 'after')


@dataclass(frozen=True)
class Meter:
    """A meter of a partition. `boundary`: what it includes. `accuracy`: relative. `interval`: s between two values.

    `source`: None for EAR, which is read after the job. `pause`: seconds between two readings of the sampler, 0 without
    a sampler.
    """

    name: str
    boundary: str
    accuracy: float
    interval: float
    source: Source | None
    pause: float = 0.0

    @property
    def dim(self) -> str:
        """The value of the dim `meter`, with the boundary: figures of different boundaries are different series."""
        return f'{self.name}:{self.boundary}'

    @property
    def rest(self) -> float:
        """Seconds of a rest with enough samples of the idle power; 0 if that would take too long."""
        needed = max(1.0, 1.25 * LEAST_SAMPLES * self.interval)
        return needed if self.source and needed <= _MOST_REST else 0.0

    def read(self, folder: Path) -> MeterReadings:
        """Return the readings of the meter below the `folder` of a job. Raises ValueError if they cannot be read."""
        if not self.source:
            return MeterReadings(self, [], text_of(folder / 'energy/ear'))
        paths = sorted(folder.glob(f'energy/{self.name}.*'))[: 1 if self.source.of_job else None]
        return MeterReadings(self, [looks_at(path, self.source, self.boundary) for path in paths])


class MeterReadings(NamedTuple):
    """The readings of a meter: those of each node, or EAR's table of all nodes."""

    meter: Meter
    looks: list[list[MeterReading]]
    table: str = ''

    def spent(self, start: float, end: float) -> list[Spent]:
        """Return the energy of each node between two times in seconds since 1970. Raises ValueError."""
        meter = self.meter
        if not meter.source:
            return [*of_steps(self.table, start, end, meter.boundary, meter.interval).values()]
        if meter.source.unit == 'W':
            return [sampled(looks, start, end, meter.interval, meter.accuracy) for looks in self.looks]
        return [counted(looks, start, end, meter.interval) for looks in self.looks]

    @property
    def cost(self) -> str:
        """The largest share of a core that the sampler used on a node, as provenance; empty without a sampler."""
        lasted = [max(looks[-1].time - looks[0].time, 1.0) for looks in self.looks]
        shares = [looks[-1].own / seconds for looks, seconds in zip(self.looks, lasted, strict=True)]
        return f'{max(shares):.2%} of a core' if self.meter.pause and shares else ''


class Phase(NamedTuple):
    """The energy of all nodes in J, the mean power of a node in W, and the seconds of a phase."""

    joules: float
    watts: float
    seconds: float

    @property
    def delay(self) -> float:
        """The energy-delay product, EDP = E x T (000 section 5.1)."""
        return self.joules * self.seconds


@dataclass(frozen=True)
class Metering:
    """The meters of a case. `rates`: metrics that give work per energy. `left_out`: why meters are left out."""

    meters: Sequence[Meter] = ()
    nodes: int = 1
    rates: Sequence[Metric] = ()
    left_out: str = ''

    # In the job

    @property
    def table(self) -> str:
        """The text of energy.meters, for `energy.sh`."""
        return ''.join(
            f'{meter.name}\t{int(meter.source.unit == "J")}\t{1000 * meter.pause:.0f}\t{meter.source.command}\n'
            for meter in self.meters
            if meter.source
        )

    @property
    def seconds(self) -> int:
        """Seconds that metering adds to the job."""
        return math.ceil(2 * self._rest) + 60 * len(self._ear)

    @property
    def lines(self) -> MeterLines:
        """The lines of the job that read the meters."""
        return MeterLines(self.before, self.look('started'), self.look('ended'), self.after)

    def look(self, mark: str) -> list[str]:
        """Return the line that reads all counters; `mark`: ``started`` or ``ended``, for the phase."""
        counters = any(meter.source and meter.source.unit == 'J' for meter in self.meters)
        return [f'{self._everywhere}bash ./energy.sh {mark}'] * counters

    @property
    def before(self) -> list[str]:
        """The lines before the first trial: the sampler, and a rest."""
        sampler = f'{self._everywhere}bash ./energy.sh sample > /dev/null 2>&1 & sampler=$!'
        return [*['mkdir energy'] * bool(self.meters), *[sampler] * self._sampled, *self._resting('before')]

    @property
    def after(self) -> list[str]:
        """The lines after the last trial."""
        return [*self._resting('after'), *['kill $sampler 2> /dev/null || true'] * self._sampled, *self._ear]

    @property
    def _sampled(self) -> bool:
        return any(meter.pause for meter in self.meters)

    @property
    def _rest(self) -> float:
        return max((meter.rest for meter in self.meters), default=0.0)

    @property
    def _ear(self) -> list[str]:
        return [f'{{ {EAR}; }} > energy/ear 2>&1 || true'] * any(meter.source is None for meter in self.meters)

    @property
    def _everywhere(self) -> str:
        return node_sweep.on_each_node(self.nodes) if self.nodes > 1 else ''

    def _resting(self, when: str) -> list[str]:
        at = f'energy/{when}'
        lines = [f'mkdir {at}', f'{CLOCKS} > {at}/started', f'sleep {self._rest:g}', f'{CLOCKS} > {at}/ended']
        return [*self.look('started'), *lines, *self.look('ended')] if self._rest else []

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
            words = [('energy', 'J'), ('power', 'W'), ('energy_delay', 'J s')] + [('active_power', 'W')] * bool(
                meter.rest
            )
            declared += [Metric(name, unit, 'lower', dims=at, judged=False) for name, unit in words]
            if meter.rest:
                declared.append(Metric('idle_power', 'W', 'lower', dims=at, expected={'when': _RESTS}, judged=False))
            for rate in self.rates:
                unit, dims = rate.unit.replace('/s', '/J'), {**rate.dims, **at}
                declared.append(Metric('efficiency', unit, 'higher', dims=dims, expected=rate.expected, judged=False))
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
            seen = meter.read(folder)
        except ValueError as reason:
            for _, _, series in record.series():
                if ('meter', meter.dim) in series.dims:
                    series.missing = str(reason)
            return
        power = of('power')
        for trial in range(1, record.trials + 1):
            into = [(of('energy'), 'joules'), (power, 'watts'), (of('energy_delay'), 'delay')]
            self._add(seen, folder / f'trial_{trial}', f'trial {trial}', (trial, nodes), into)
        for rate in self.rates:
            for point in map(dict, rate.points()):
                of_rate = series_of(record, rate.name, **point)
                _derive(of('efficiency', **point), [of_rate, power], lambda values: values[0] / values[1] / self.nodes)
        if meter.rest:
            rests = [of('idle_power', when=when) for when in _RESTS]
            for when, series in zip(_RESTS, rests, strict=True):
                self._add(seen, folder / 'energy' / when, f'{when} the trials', (1, nodes), [(series, 'watts')])
            idle = fmean(watts for series in rests for _, _, watts in series.samples or [(0, '', 0.0)])
            _derive(of('active_power'), [power], lambda values: values[0] - idle, rests)
        if seen.cost:
            record.provenance[f'energy_{meter.name}_sampler'] = seen.cost

    def _add(
        self, seen: MeterReadings, of_phase: Path, at: str, sample: tuple[int, str], into: Sequence[tuple[Series, str]]
    ) -> None:
        """Add the figures of a phase to the series `into`, or the reason why there are none."""
        try:
            phase, doubt = self._phase(seen, of_phase)
        except ValueError as reason:
            for series, _ in into:
                series.missing = series.missing or f'{at}: {reason}'
            return
        for series, figure in into:
            series.samples.append((*sample, getattr(phase, figure)))
            series.invalid = series.invalid or (f'{at}: {doubt}' if doubt else None)

    def _phase(self, seen: MeterReadings, folder: Path) -> tuple[Phase, str]:
        """Return the figures of a phase, and why they are invalid. Raises ValueError."""
        times = [[float(word) for word in text_of(folder / mark).split()[:2]] for mark in ('started', 'ended')]
        if [len(words) for words in times] != [2, 2]:
            raise ValueError('the phase did not end')
        (start, uptime), (end, until) = times
        spent, together = seen.spent(start, end), bool(seen.meter.source and seen.meter.source.of_job)
        if len(spent) != (1 if together else self.nodes):
            raise ValueError(f'expected what {self.nodes} nodes spent, found that of {len(spent)}')
        doubts = filter(None, (doubt_of(each, until - uptime, seen.meter.accuracy) for each in spent))
        watts = fmean(each.joules / each.seconds for each in spent) / (self.nodes if together else 1)
        return Phase(sum(each.joules for each in spent), watts, until - uptime), next(doubts, '')


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
    for name in sorted(partition.energy, key=[*SOURCES, *partition.energy].index):  # shortest first
        meter = _meter(name, partition.energy[name], trial_seconds)
        needed = LEAST_SAMPLES * meter.interval
        if swept and (meter.source is None or meter.source.of_job):
            short.append(f'{name} tells the energy of the whole allocation of a node sweep')
        elif trial_seconds < needed:
            takes = f'one may take {trial_seconds} s'
            short.append(f'{name} needs trials of {needed:.0f} s for {LEAST_SAMPLES} samples, and {takes}')
        else:
            meters.append(meter)
    return Metering(meters, nodes, rates, '; '.join(short))


def _meter(name: str, stated: Mapping[str, Any], trial_seconds: float) -> Meter:
    """Return a meter as site.yaml states it."""
    source = of_command(stated['command'], stated.get('prints', 'W')) if 'command' in stated else SOURCES.get(name)
    interval = in_base_unit(stated['interval']) if 'interval' in stated else source.interval if source else EAR_INTERVAL
    pause = 0.0
    if source and (source.unit == 'W' or trial_seconds > source.wraps):
        pause = interval if source.unit == 'W' else source.wraps / 2
    return Meter(name, stated['boundary'], stated['accuracy'], interval, source, pause)
