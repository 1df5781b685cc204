# SPDX-License-Identifier: BSD-3-Clause
"""Meters of energy that are no counter of a node: Slurm's accounting, EAR, and a command of the site.

`checks.core.meters.energy_sources.source_of` finds them here.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from checks.core.meters.energy_sources import Count, MeterReading, Source, Spent
from checks.core.reading.outputs import first_words, text_of

_RAISE = 'where samples cost more than 0.1 % of a core they come later: raise `interval`'
_SSTAT = 'sstat --noheader --parsable2 --format=ConsumedEnergyRaw --jobs="$SLURM_JOB_ID.$([ "$SLURM_NNODES" = 1 ] && '


def source_of(name: str, stated: Mapping[str, Any]) -> Source | None:
    """Return the source of a meter, as ``site.yaml`` states it; None if it is none of these."""
    if name == 'slurm':
        return Source(f'{_SSTAT}echo batch || echo extern)"', _slurm, 30.0, of_job=True)
    if name == 'ear':
        return Ear('sleep 60; eacct -j "$SLURM_JOB_ID" -l -c ear.csv && cat ear.csv', _number, 60.0)
    if 'command' in stated:
        kind = Source if stated.get('prints') == 'J' else Power
        return kind(stated['command'], _number, 1.0)
    return None


def _slurm(output: str, _: str) -> dict[str, Count]:
    joules = [float(line) for line in output.split('\n') if re.fullmatch(r'[0-9]+', line.strip())]
    if not joules:
        raise ValueError(f'sstat told no ConsumedEnergyRaw: "{first_words(output)}"')
    if joules[0] == 0:
        raise ValueError(
            'Slurm counts no energy here: AcctGatherEnergyType of slurm.conf says what does (none: nothing)'
        )
    return {'job': Count(joules[0])}


def _number(output: str, _: str) -> dict[str, Count]:
    numbers = re.findall(r'^\s*([0-9]+\.?[0-9]*)\s*$', output, re.M)
    if len(numbers) != 1:
        found = ', '.join(numbers[:8]) or f'"{first_words(output) or "nothing"}"'
        raise ValueError(f'expected a line of one number alone, found {found}')
    return {'node': Count(float(numbers[0]))}


class Power(Source):
    """A command that prints W: a sampler on each node runs it all the time."""

    at_marks: ClassVar[bool] = False

    def pause(self, interval: float, trial_seconds: float) -> float:
        return interval

    def spent(self, readings: Sequence[Any], start: float, end: float, interval: float, accuracy: float) -> Spent:
        return sampled(readings, start, end, interval, accuracy)


def sampled(looks: Sequence[MeterReading], start: float, end: float, interval: float, accuracy: float) -> Spent:
    """Return the integral of the power samples from `start` to `end`, by the trapezoid rule.

    The first and last sample are extended to the marks. Raises ValueError where no sample lies between.
    """
    inside = [(look.time, sum(count.value for count in look.counts.values())) for look in looks]
    inside = [(time, watts) for time, watts in inside if start <= time <= end]
    if not inside:
        raise ValueError('no sample of the power lies between the marks')
    times = [start, *(time for time, _ in inside), end]
    powers = [inside[0][1], *(watts for _, watts in inside), inside[-1][1]]
    steps = [after - before for before, after in itertools.pairwise(times)]
    joules = sum(step * (powers[i] + powers[i + 1]) / 2 for i, step in enumerate(steps))
    if joules <= 0:
        raise ValueError('the power is 0 W')
    doubt = ''
    if min(steps) < 0:
        doubt = 'the clock was set back between two samples'
    elif max(steps) - interval > accuracy * (end - start):
        doubt = f'no sample for {max(steps):.3g} of {end - start:.3g} s, expected one every {interval:g} s: {_RAISE}'
    return Spent(joules, end - start, len(inside), fmean(watts for _, watts in inside), doubt)


class Step(NamedTuple):
    """A job step on a node: its beginning and end in seconds since 1970, mean power in W, and seconds."""

    begin: float
    end: float
    watts: float
    seconds: float


class Ear(Source):
    """EAR, which tells the mean power of each job step, after the job.

    Its daemons take a sample every 60 s and store it within a minute; its library takes one every 10 s (000, section
    2.6).
    """

    at_marks: ClassVar[bool] = False
    waits: ClassVar[int] = 60

    def readings(self, folder: Path, name: str, boundary: str) -> list[list[Any]]:
        """Return the steps of each node in the CSV that eacct wrote, behind other lines."""
        columns = {'node': ['DC'], 'package': ['PCK'], 'package+dram': ['PCK', 'DRAM']}[boundary]
        table = text_of(folder / f'energy/{name}')
        rows = itertools.dropwhile(lambda line: 'JOB_START_TIME' not in line, table.splitlines())
        by_node: dict[str, list[Step]] = {}
        for row in csv.DictReader(rows, delimiter=';'):
            try:
                begin, end = float(row['JOB_START_TIME']), float(row['JOB_END_TIME'])
                watts = sum(float(row[f'NODEMGR_{part}{"_NODE" * (part == "DC")}_POWER_W']) for part in columns)
                seconds = float(row['NODEMGR_TIME_SEC'])
            except (KeyError, TypeError, ValueError):
                continue
            if watts > 0 and seconds > 0:
                by_node.setdefault(row['NODENAME'], []).append(Step(begin, end, watts, seconds))
        if not by_node:
            raise ValueError(f'eacct lists no job step: "{first_words(table)}"')
        return [*by_node.values()]

    def spent(self, readings: Sequence[Any], start: float, end: float, interval: float, accuracy: float) -> Spent:
        # EAR's times are whole seconds
        steps = [step for step in readings if start - 1 <= step.begin and step.end <= end + 1]
        if not steps:
            raise ValueError('eacct knows no job step between the marks; it sees what srun starts')
        joules, seconds = (
            sum(of) for of in zip(*((step.watts * step.seconds, step.seconds) for step in steps), strict=True)
        )
        return Spent(joules, seconds, seconds / interval, joules / seconds)
