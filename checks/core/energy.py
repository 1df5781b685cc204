"""Energy to solution of a trial, from the counters of RAPL that the job reads at its two marks. Imports no ReFrame."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from checks.core.outputs import seconds_of, text_of
from checks.core.trials import Metric, series_of
from plumbline.record import Dim, Record

_FOLDER = '/sys/class/powercap'
_LINE = re.compile(rf'.*{_FOLDER}/(intel-rapl:[0-9:]+)/(\w+):(.*)')
_ZONE = re.compile(r'(package)-\d+.*|(dram)')  # others are parts of a package, or count it again (psys, core, uncore)
#: Seconds of the longest trial that is metered. Two reads cannot tell one wrap of a counter from two, and the smallest
#: counters, of 65 kJ, wrap after 131 s of `_MOST_POWER`.
LONGEST = 120
_MOST_POWER = 500.0  # W of one package
_UPDATES = 40  # the least updates of a counter within a trial, of one each millisecond (001: 40 samples for 5 %)
_MARKS = 0.05  # seconds by which the marks of a trial and of its meter may differ
#: The line of the job that reads the counters of its node into the file ``energy_<mark>`` of a trial.
READ = (
    f"""{{ echo $EPOCHREALTIME; grep --no-messages --with-filename '' {_FOLDER}/intel-rapl:*/"""
    '{name,energy_uj,max_energy_range_uj} || true; } > trial_$trial/energy_'
)


class _Mark(NamedTuple):
    """Seconds since 1970; zone -> name, energy and largest energy in microjoules, as text."""

    time: float
    zones: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Meter:
    """What measures the energy of the trials of a case: counters of this `boundary`, such as ``package+dram``.

    Without a boundary nothing does; `why_not`: where the partition has counters. `accuracy`: relative, of the energy.
    """

    boundary: str = ''
    accuracy: float = 0.0
    why_not: str = ''

    @property
    def reads(self) -> bool:
        """Whether the job reads the counters."""
        return bool(self.boundary)

    @property
    def dims(self) -> dict[str, Dim]:
        """The dims of the metrics: figures of different boundaries are different series."""
        return {'meter': Dim('name')} if self.reads else {}

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of a metered case."""
        return [
            Metric(name, unit, 'lower', dims={'meter': f'rapl:{self.boundary}'}, judged=False)
            for name, unit in (('energy', 'J'), ('power', 'W'))
            if self.reads
        ]

    def read(self, folder: Path, record: Record, nodes: str) -> None:
        """Add the energy in J and the mean power in W of each trial below `folder`, or why there are none."""
        if not self.reads:
            record.provenance |= {'energy_left_out': self.why_not} if self.why_not else {}
            return
        energy, power = (series_of(record, metric.name, **metric.dims) for metric in self.metrics)
        record.provenance['energy_meter'] = f'RAPL, {self.boundary} of one node, accuracy {self.accuracy:g}'
        for trial in range(1, record.trials + 1):
            try:
                start, end = (_mark(folder / f'trial_{trial}' / f'energy_{mark}') for mark in ('started', 'ended'))
                joules = self._joules(start, end)
            except ValueError as reason:
                energy.missing = power.missing = energy.missing or f'trial {trial}: {reason}'
                continue
            seconds = end.time - start.time
            energy.samples.append((trial, nodes, joules))
            power.samples.append((trial, nodes, joules / seconds))
            if why := self._doubt(start, end, seconds_of(folder / f'trial_{trial}')):
                energy.invalid = power.invalid = energy.invalid or f'trial {trial}: {why}'

    def _joules(self, start: _Mark, end: _Mark) -> float:
        """Return the energy between two marks; a counter that wrapped begins again at 0. Raises ValueError."""
        total, found = 0, set()
        for zone, was in start.zones.items():
            part = ''.join(filter(None, match.groups())) if (match := _ZONE.fullmatch(was.get('name', ''))) else ''
            if part not in self.boundary.split('+'):
                continue
            now = end.zones.get(zone, {})
            if 'energy_uj' not in was or 'energy_uj' not in now:
                raise ValueError(
                    f'{_FOLDER}/{zone}/energy_uj cannot be read: since Linux 5.10 root alone may; let all users read '
                    'it, such as by a rule of udev or tmpfiles.d, or remove `energy` from site.yaml'
                )
            more = int(now['energy_uj']) - int(was['energy_uj'])
            total += more if more >= 0 else more + int(was['max_energy_range_uj'])
            found.add(part)
        if lacking := set(self.boundary.split('+')) - found:
            raise ValueError(f'{_FOLDER} has no intel-rapl zone of {", ".join(sorted(lacking))}, as site.yaml says')
        if total <= 0:
            raise ValueError('the counters of RAPL stand still')
        return total / 1e6

    def _doubt(self, start: _Mark, end: _Mark, of_trial: tuple[float, float] | None) -> str:
        """Return why the energy of a trial is invalid; `of_trial`: its seconds by the time of day and by uptime."""
        seconds = end.time - start.time
        smallest = min(int(zone['max_energy_range_uj']) / 1e6 for zone in start.zones.values())
        if seconds * 1000 < _UPDATES:
            return f'{seconds * 1000:.0f} updates of the counter in {seconds:.3f} s, expected at least {_UPDATES}'
        if seconds * _MOST_POWER > smallest:
            return f'a counter of {smallest:.0f} J may wrap more than once in {seconds:.0f} s of {_MOST_POWER:.0f} W'
        if (watts := self._joules(start, end) / seconds) > _MOST_POWER * len(start.zones):
            return f'{watts:.0f} W cannot be: a counter was reset'
        # power x time of the trial against the energy, each by its own clock
        if of_trial and abs(of_trial[1] - seconds) > self.accuracy * seconds + _MARKS:
            off = abs(of_trial[1] / seconds - 1)
            return f'power x time is {off:.1%} off the energy, expected at most {self.accuracy:.1%}'
        return ''


def meter_of(check: Any) -> Meter:
    """Return the meter of a case: where its check asks for one, and site.yaml says that its nodes have one."""
    partition = getattr(check, 'partition', None)  # none before its setup
    stated = partition.energy if partition and check.metered else {}
    if not stated:
        return Meter()
    if check.num_nodes > 1:
        return Meter(why_not='only the first of several nodes is read')
    if check.trial_seconds > LONGEST:
        return Meter(why_not=f'two reads are enough for {LONGEST} s, and a trial may take {check.trial_seconds} s')
    return Meter(stated['boundary'], stated['accuracy'])


def _mark(path: Path) -> _Mark:
    """Return what the job read at a mark. Raises ValueError."""
    time, *lines = text_of(path).splitlines() or ['']
    if not time:
        raise ValueError(f'expected the energy counters in {path.name}, found nothing')
    zones: dict[str, dict[str, str]] = {}
    for match in filter(None, map(_LINE.fullmatch, lines)):
        zones.setdefault(match[1], {})[match[2]] = match[3]
    if not zones:
        raise ValueError(f'this node has no {_FOLDER}/intel-rapl:*, the energy counters that site.yaml names')
    return _Mark(float(time), zones)
