# SPDX-License-Identifier: BSD-3-Clause
"""The energy counters of a node: the command of each, its parser, and the energy between two marks.

A counter (J) is read at the marks of a phase, and in between if it may wrap. Other sources are modules of
`checks/extras`, in which `source_of` looks a meter up that is none of these. Imports no ReFrame.
"""

from __future__ import annotations

import functools
import math
import pkgutil
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from checks.core.reading.outputs import last_words, text_of
from plumbline.machine.vendors import VENDORS

# In a phase: 001 section 8.2.4 took 2400 s for an error below 5 %, by meters with one value a minute (its Table 16)
LEAST_SAMPLES = 40
_MOST_POWER = 1000.0  # W; more than the parts behind one counter of RAPL take: beyond it, the counter was reset
_MARKS = 0.05  # s; largest distance between a mark of a phase and the reading of its meter
_POWERCAP = '/sys/class/powercap'
_PM_COUNTERS = '/sys/cray/pm_counters'
_EXTRAS = Path(__file__).parents[2] / 'extras'
_FOOTER = re.compile(r'look ([0-9]+\.[0-9]+) ([0-9]+) ([0-9]+)')


class Count(NamedTuple):
    """A counter in J, or a power in W. `top`: the value at which a counter wraps to 0, None for 64 bits."""

    value: float
    top: float | None = None


class MeterReading(NamedTuple):
    """A reading at `time` (seconds since 1970). `counts`: by part of the node. `own`: CPU seconds of the sampler."""

    time: float
    counts: Mapping[str, Count]
    own: float = 0.0


class Spent(NamedTuple):
    """The energy of a phase in J, its observed seconds, its number of samples, and their mean power in W."""

    joules: float
    seconds: float
    samples: float
    watts: float
    doubt: str = ''


@dataclass(frozen=True)
class Source:
    """A counter of energy. `read`: output and boundary -> counts; it raises ValueError with the remedy.

    `interval`: seconds between two values of the source, unless site.yaml states them. `wraps`: seconds in which a
    counter may wrap twice at full power; it is then also read between the marks. `of_job`: one reading is of all nodes
    of the job.
    """

    command: str
    read: Callable[[str, str], Mapping[str, Count]]
    interval: float
    wraps: float = math.inf
    of_job: bool = False

    at_marks: ClassVar[bool] = True  # whether the job reads it at the marks of a phase
    waits: ClassVar[int] = 0  # seconds; a source that is read once, so long after the last trial

    def pause(self, interval: float, trial_seconds: float) -> float:
        """Return the seconds between two readings of the sampler; 0 without a sampler."""
        return self.wraps / 2 if trial_seconds > self.wraps else 0.0

    def readings(self, folder: Path, name: str, boundary: str) -> list[list[Any]]:
        """Return the readings of each node below the `folder` of a job. Raises ValueError if they cannot be read."""
        paths = sorted(folder.glob(f'energy/{name}.*'))[: 1 if self.of_job else None]
        return [looks_at(path, self, boundary) for path in paths]

    def spent(self, readings: Sequence[Any], start: float, end: float, interval: float, accuracy: float) -> Spent:
        """Return the energy of a node between two times in seconds since 1970. Raises ValueError."""
        return counted(readings, start, end, interval)


def _rapl(output: str, boundary: str) -> dict[str, Count]:
    """Read the zones of packages and memory; the others (core, uncore, psys) would count the same energy twice."""
    zones: dict[str, dict[str, str]] = {}
    for match in re.finditer(rf'{_POWERCAP}/(intel-rapl:[0-9:]+)/(\w+):(.*)', output):
        zones.setdefault(match[1], {})[match[2]] = match[3]
    if not zones:
        raise ValueError(f'this node has no {_POWERCAP}/intel-rapl:*, the energy counters that site.yaml names')
    counters, parts = {}, set()
    for zone, files in zones.items():
        part = re.sub(r'-\d+.*', '', files.get('name', ''))
        if part not in boundary.split('+'):
            continue
        if 'energy_uj' not in files:
            raise ValueError(
                f'{_POWERCAP}/{zone}/energy_uj cannot be read: since Linux 5.10 root alone may; let all users read '
                'it, such as by a rule of udev or tmpfiles.d, or remove `energy` from site.yaml'
            )
        counters[zone] = Count(int(files['energy_uj']) / 1e6, int(files['max_energy_range_uj']) / 1e6)
        parts.add(part)
    if lacking := set(boundary.split('+')) - parts:
        raise ValueError(f'{_POWERCAP} has no intel-rapl zone of {", ".join(sorted(lacking))}, as site.yaml says')
    return counters


def _pm_counters(output: str, boundary: str) -> dict[str, Count]:
    """Read lines such as ``/sys/cray/pm_counters/cpu_energy:12345 J 1700000000000000 us``."""
    files = {name: float(joules) for name, joules in re.findall(r'/(\w*energy):([0-9]+) J', output)}
    counters: dict[str, Count] = {}
    for part in boundary.split('+'):
        name = 'energy' if part == 'node' else rf'{"accel[0-9]+" if part == "accel" else part}_energy'
        of_part = {file: Count(joules) for file, joules in files.items() if re.fullmatch(name, file)}
        if not of_part:
            known = ', '.join(sorted(files)) or 'none'
            raise ValueError(f'{_PM_COUNTERS} has no counter of {part}, as site.yaml says; it has {known}')
        counters |= of_part
    return counters


def _gpus(output: str, _: str) -> dict[str, Count]:
    gpus = {name: Count(float(joules)) for name, joules in re.findall(r'^(gpu[0-9]+) ([0-9.]+)$', output, re.M)}
    if not gpus:
        last = output.split('\n')[-1] or 'nothing'
        raise ValueError(
            f'no GPU told its energy: "{last}"; {", or ".join(meter.needs for meter in _METERS)}, for '
            f'{sys.executable}, which the node must be able to run'
        )
    return gpus


def _python(statements: str) -> str:
    """Return a command that prints the J of each GPU in a new process: amdsmi reads a counter once per process."""
    return f'env -u PYTHONHOME -u PYTHONPATH {shlex.quote(sys.executable)} -c {shlex.quote(statements)}'


_METERS = [vendor.meter for vendor in VENDORS.values() if vendor.meter]
SOURCES = {
    # the smallest counters hold 65 kJ, 65 s at _MOST_POWER
    'rapl': Source(
        f"grep -s -H '' {_POWERCAP}/intel-rapl:*/{{name,energy_uj,max_energy_range_uj}}; true", _rapl, 0.001, wraps=60
    ),
    'pm_counters': Source(f"grep -s -H '' {_PM_COUNTERS}/*energy; true", _pm_counters, 0.1),
    **{meter.name: Source(_python(meter.statements), _gpus, 0.1) for meter in _METERS},
}


def source_of(name: str, stated: Mapping[str, Any]) -> Source | None:
    """Return the source of a meter of ``site.yaml``; None if neither this module nor an extra knows it."""
    if name in SOURCES:
        return SOURCES[name]
    return next(filter(None, (extra.source_of(name, stated) for extra in _extras())), None)


@functools.cache
def _extras() -> list[Any]:
    names = sorted((module.name for module in pkgutil.iter_modules([str(_EXTRAS)])), key='meters'.__eq__)  # ours last
    modules = [import_module(f'checks.extras.{name}') for name in names]
    return [module for module in modules if hasattr(module, 'source_of')]


def looks_at(path: Path, source: Source, boundary: str) -> list[MeterReading]:
    """Return all readings of a meter on a node. Raises ValueError if one is unreadable."""
    looks, unread = [], []
    for line in text_of(path).splitlines():
        if not (match := _FOOTER.fullmatch(line)):
            unread.append(line)
            continue
        output, unread = '\n'.join(unread), []
        try:
            counts = source.read(output, boundary)
            if match[2] != '0':  # after a part of it, such as two of eight GPUs
                raise ValueError(f'expected the energy of all parts of the node, found "{last_words(output)}"')
        except ValueError as error:
            failed = f' (exit code {match[2]} of `{source.command}`)' if match[2] != '0' else ''
            raise ValueError(f'{error}{failed}') from None
        looks.append(MeterReading(float(match[1]), counts, int(match[3]) / 1000))
    if not looks:
        raise ValueError(f'expected what the meter said in {path.name}, found nothing')
    return looks


def counted(looks: Sequence[MeterReading], start: float, end: float, interval: float) -> Spent:
    """Return the energy between the readings nearest to `start` and `end`, in seconds since 1970.

    Accounts for counters that wrapped. Raises ValueError if the counters do not change.
    """
    early = [look.time <= (start + end) / 2 for look in looks]
    if len(set(early)) < 2:
        raise ValueError('expected a look at the counters at the beginning and at the end of the phase')
    first = min((i for i, is_early in enumerate(early) if is_early), key=lambda i: abs(looks[i].time - start))
    last = min((i for i, is_early in enumerate(early) if not is_early), key=lambda i: abs(looks[i].time - end))
    joules, doubt = 0.0, ''
    for before, after in zip(looks[first:last], looks[first + 1 : last + 1], strict=True):
        seconds = after.time - before.time
        if seconds <= 0:
            doubt = doubt or 'the clock was set back between two looks at the counters'
        for zone, was in before.counts.items():
            now = after.counts.get(zone)
            if now is None:
                raise ValueError(f'the counter {zone} was gone at the next look')
            more = now.value - was.value
            if was.top and seconds * _MOST_POWER > was.top:
                doubt = doubt or f'a counter of {was.top:.0f} J may wrap more than once in {seconds:.0f} s'
            if more < 0 and was.top:
                more += was.top
            if more < 0 or (was.top and more > max(seconds, _MARKS) * _MOST_POWER):
                doubt = doubt or f'{more:.0f} J in {seconds:.3g} s cannot be: the counter {zone} was reset'
            joules += more
    seconds = looks[last].time - looks[first].time
    if joules <= 0 and not doubt:
        raise ValueError('the counters stand still')
    return Spent(joules, seconds, seconds / interval, joules / seconds, doubt)


def doubt_of(spent: Spent, seconds: float, accuracy: float) -> str:
    """Return why the energy of a phase is invalid; empty if not. `seconds`: its duration by the monotonic clock."""
    if spent.doubt:
        return spent.doubt
    if spent.samples < LEAST_SAMPLES:
        return f'{spent.samples:.0f} samples of the power in {spent.seconds:.3g} s, expected at least {LEAST_SAMPLES}'
    # power x time of the phase against the energy, each by its own clock
    allowed = accuracy + spent.watts * _MARKS / spent.joules
    if (off := abs(spent.watts * seconds - spent.joules) / spent.joules) > allowed:
        return f'power x time is {off:.1%} off the energy, expected at most {accuracy:.1%}'
    return ''
