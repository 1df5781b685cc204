# SPDX-License-Identifier: BSD-3-Clause
"""Check this node within a minute, against its own earlier checks and those of its peers.

Writes only below ``<results>/node-checks``: rates as `postprocess.results.node_checks` says, devices of a node to
``<node>.json``, its counters to ``<node>.counts``.
"""

from __future__ import annotations

import functools
import json
import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plumbline.errors import InputError
from plumbline.files import make_folder, write_text
from plumbline.machine.node import processor_of, this_node
from plumbline.node_check import benchmarks, jobs, looks

LOOKS = 8  # so many looks in a row must be too low before a node is drained
_PAUSE = 1.0  # seconds between two looks: a disturbance may end meanwhile
_QUIET = 0.02, 0.25  # others may use this share of all CPUs, or this number of CPUs, while a benchmark runs


@dataclass
class CheckedNode:
    """The result of a check.

    `faults`: (what, sentence), each a reason to drain. `undecided`: why nothing can be said. `notes`: warnings. `done`:
    what was checked. `lacking`: what was not measured. `measured`: each rate with its limit.
    """

    node: str
    faults: list[tuple[str, str]] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: nothing was found, 1: drain the node, 3: not known."""
        return 1 if self.faults else 3 if self.undecided else 0

    @property
    def reason(self) -> str:
        """The reason to drain the node in one line; empty without one."""
        return f'plumbline: {"; ".join(f"{what}: {said}" for what, said in self.faults)}' if self.faults else ''

    @property
    def line(self) -> str:
        """The result in one line; a fault in the form that NHC prints."""
        if self.faults:
            return f'ERROR:  plumbline:  Health check failed:  {self.reason.removeprefix("plumbline: ")}'
        parts = [f'not known: {"; ".join(self.undecided)}'] if self.undecided else []
        parts += [', '.join(self.done), *(f'warning: {note}' for note in self.notes)]
        parts += [f'not measured: {", ".join(self.lacking)}'] if self.lacking else []
        return f'{"UNKNOWN" if self.undecided else "OK"}:  plumbline:  {self.node}: {"; ".join(filter(None, parts))}'


def check(
    results: Path, expects: Sequence[tuple[str, str]] | str, partition: str, only_settings: bool, epilog: bool
) -> CheckedNode:
    """Check this node; `expects`: settings that its site states, or why they are not known. Raises InputError."""
    node = this_node().name or platform.node().partition('.')[0]
    if not re.fullmatch(r'[\w.-]+', node):
        raise InputError(f'{node!r}: expected a name of this node of letters, digits, "-", "_" and "."')
    folder, outcome = results / 'node-checks', CheckedNode(node)
    make_folder(folder)
    devices = _earlier_devices(folder / f'{node}.json')
    _look(outcome, expects, devices, folder / f'{node}.counts')
    if not only_settings:
        if here := jobs.jobs(epilog):
            outcome.undecided.append(f'no benchmark runs beside job {", ".join(here[:4])}')
        else:
            _measure(outcome, folder, int(devices.get('gpus', 0)), partition)
    write_text(folder / f'{node}.json', json.dumps({'devices': devices}) + '\n')
    return outcome


def _earlier_devices(path: Path) -> dict[str, float]:
    """Return the devices that an earlier check found. Raises InputError."""
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
        return dict(content['devices'])
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise InputError(f'{path}: expected what an earlier check wrote; remove it') from None


def _look(found: CheckedNode, expects: Sequence[tuple[str, str]] | str, before: dict[str, float], counts: Path) -> None:
    """Check settings, devices and counters; renew `before` and the file `counts`."""
    if isinstance(expects, str):
        found.lacking.append(f'settings ({expects})')
    else:
        try:
            found.faults += [('settings', fault) for fault in looks.settings_faults(expects)]
            found.done.append(f'{len(expects)} settings')
        except ValueError as error:
            found.undecided.append(f'settings: {error}')
    try:
        devices, unread = looks.devices()
        found.faults += [('devices', fault) for fault in looks.lost(devices, unread, before)]
        before |= {name: max(value, before.get(name, value)) for name, value in devices.items()}
        found.done.append(f'{len(devices)} facts of devices')
    except ValueError as error:
        found.undecided.append(f'devices: {error}')
    try:
        text, facts = looks.counters(counts, before.get('gpus', 0) > 0)
        hard, soft = looks.growth(facts)
        since = f'since {time.strftime("%Y-%m-%d %H:%M", time.localtime(counts.stat().st_mtime))}' if facts else ''
        found.faults += [('counters', f'{fault} {since}') for fault in hard]
        found.notes += [f'{note} {since}' for note in soft]
        found.done.append(f'{len(text.splitlines())} counters')
        write_text(counts, text)
    except ValueError as error:
        found.undecided.append(f'counters: {error}')


def _measure(found: CheckedNode, folder: Path, gpus: int, partition: str) -> None:
    """Run the benchmarks, judge their rates, and keep them."""
    from postprocess.results import node_checks as history
    from postprocess.statistics.lowest import lowest

    processor = processor_of(this_node())
    node = benchmarks.node_of(processor, gpus)
    chosen, lacking = benchmarks.installed(node)
    found.lacking += [*lacking, 'network bandwidth (needs a second node)']
    quiet = max(_QUIET[0] * processor['num_cpus'], _QUIET[1])
    busy = jobs.Busy()
    time.sleep(0.2)
    if (beside := busy.cpus()) > quiet:
        found.undecided.append(f'no benchmark runs: others keep {beside:.1f} CPUs busy')
        return
    own, peers, damaged = history.read(folder, found.node)
    found.notes += damaged
    rows: list[history.Row] = []
    judged = 0
    series = sum(len(list(benchmark.places(node))) for benchmark in chosen)
    for benchmark in chosen:
        places = list(benchmark.places(node))
        keys = [history.key_of(processor['model'], benchmark, place.dims) for place in places]
        limits = [
            lowest(own.get(key, []), [values for of in peers if (values := of.get(key))], series) for key in keys
        ]  # fmt: skip
        try:
            looks_at = functools.partial(benchmarks.look, benchmark, places)
            rates, best = take_looks(looks_at, [limit.limit if limit else None for limit in limits], quiet)
        except ValueError as error:
            found.undecided.append(f'{benchmark.metric}: {error}')
            continue
        rows += [(key, benchmark.unit, of) for key, of in zip(keys, zip(*rates, strict=True), strict=True)]
        for key, value, limit in zip(keys, best, limits, strict=True):
            words = f'{key.dims}: {value:.4g} {benchmark.unit}'
            if not limit:
                found.measured.append(
                    f'{benchmark.metric} {words}, not judged yet: {len(own.get(key, []))} earlier checks'
                )
                continue
            if not limit.limit:
                found.lacking.append(f'{benchmark.metric} {key.dims} (its checks scatter too much)')
                found.measured.append(
                    f'{benchmark.metric} {words}, not judged: would find a loss of {100 * limit.notices:.0f} %'
                )
                continue
            judged += 1
            usual = f'usual {limit.level:.4g}, lowest {limit.limit:.4g}'
            found.measured.append(f'{benchmark.metric} {words}, {usual}, finds a loss of {100 * limit.notices:.0f} %')
            if value < limit.limit:
                loss = f'-{100 * (1 - value / limit.level):.0f} % in the best of {len(rates)} looks'
                found.faults.append((benchmark.metric, f'{words}, {loss}; {usual}'))
    found.done.append(f'{len(found.measured)} rates, {judged} of them judged')
    history.write(folder, found.node, partition, rows, drained=bool(found.faults))


def take_looks(
    look: Callable[[], tuple[list[float], float]], limits: Sequence[float | None], quiet: float, pause: float = _PAUSE
) -> tuple[list[list[float]], list[float]]:
    """Return the rates of the undisturbed looks, and the best rate of each place.

    One look is taken if no rate is below its limit, `LOOKS` if one stays below. `look`: returns the rates, and how many
    CPUs others kept busy meanwhile; a look counts as undisturbed up to `quiet` CPUs. `limits`: None where there is
    none. Raises ValueError if too many looks are disturbed.
    """
    undisturbed: list[list[float]] = []
    best = [0.0] * len(limits)
    for number in range(2 * LOOKS):
        if number:
            time.sleep(pause)
        rates, beside = look()
        best = [
            max(pair) for pair in zip(best, rates, strict=True)
        ]  # a rate that is high although others work counts, too
        undisturbed += [rates] if beside <= quiet else []
        low = any(limit is not None and value < limit for limit, value in zip(limits, best, strict=True))
        if len(undisturbed) >= (LOOKS if low else 1):
            return undisturbed, best
    raise ValueError(f'others kept {beside:.1f} CPUs busy in {2 * LOOKS - len(undisturbed)} of {2 * LOOKS} looks')
