# SPDX-License-Identifier: BSD-3-Clause
"""Look at the settings, devices and counters of this node, by the scripts that also look at them in jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from plumbline.machine.node import PARTS
from plumbline.machine.vendors import VENDORS
from plumbline.programs import output_of

_KEPT = {'memory_GiB': 0.98}  # of its earlier value; a lower one is a loss. The kernel reserves some memory
_SETTINGS = str(PARTS / 'settings.sh')
_SECONDS = 20.0  # a driver that hangs must not hold up a prolog
_MARK = '$ counts'
#: Counters of job/parts/health.sh that drain a node; the others are only reported. A user's program may cause Xid
#: errors and OOM kills, and a switch that boots may cause the loss of a link.
HARD = frozenset({
    'uncorrected_memory_errors', 'uncorrected_GPU_memory_errors', 'uncorrected_xGMI_errors', 'fatal_PCIe_errors',
})  # fmt: skip


def settings_faults(expects: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each setting that is not as expected. Raises ValueError if they cannot be compared."""
    wanted = ''.join(f'{key}\t{value}\n' for key, value in expects)
    # the list is an argument, so that no file needs to be written
    command = ['bash', '-c', 'bash "$1" compare <(printf %s "$2")', 'settings', _SETTINGS, wanted]
    *faults, summary = output_of(command, _SECONDS).splitlines() or ['']
    if not re.fullmatch(r'as expected: \d+ of \d+', summary):
        raise ValueError(f'settings.sh printed {summary[:80]!r}')
    return faults


def devices() -> tuple[dict[str, float], dict[str, str]]:
    """Return the counts and rates of the devices of this node, by name, and why others cannot be read.

    Names: ``cpus`` online, ``memory_GiB``, ``numa_domains``, ``gpus``, ``nics``, and ``nic_rate`` with its device.
    """
    facts = {
        'cpus': float(os.sysconf('SC_NPROCESSORS_ONLN')),
        'memory_GiB': round(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30, 2),
    }
    unread = {}
    keys = ('numa_domains', 'gpus', 'nics', 'nic_rate')
    for line in output_of(['bash', _SETTINGS, 'facts', *keys], _SECONDS).splitlines():
        key, what, value = line.split('\t')
        if what == '!':
            unread[key] = value
        elif number := re.match(r'\d+(\.\d+)?', value):
            facts[key if what == '-' else f'{key} {what}'] = float(number[0])
    return facts, unread


def lost(now: Mapping[str, float], unread: Mapping[str, str], before: Mapping[str, float]) -> list[str]:
    """Return a sentence for each device fact that is lower than before or cannot be read any more."""
    sentences = []
    for name, was in before.items():
        if name not in now:
            why = unread.get(name.split()[0], 'it is not listed')
            sentences.append(f'{name}: was {was:g}, cannot be read now: {why}')
        elif now[name] < _KEPT.get(name, 1.0) * was:
            sentences.append(f'{name}: {now[name]:g}, was {was:g}')
    return sentences


def counters(before: Path, gpus: bool) -> tuple[str, dict[str, str]]:
    """Return all counters as text, and by name how far they grew since the text in the file `before` was written.

    `job/parts/health.sh` reads and compares them. `gpus`: whether to read the counters of GPUs, too.

    Raises ValueError if the script fails.
    """
    script = '. "$1/health.sh"; compare_faults "$2" /dev/null; echo "$3"; count_faults; true'
    kind = next((vendor.kind for vendor in VENDORS.values() if gpus and _driver_is_loaded(vendor.driver)), '')
    command = ['bash', '-c', script, 'counters', str(PARTS), str(before), _MARK]
    growths, mark, counts = output_of(command, _SECONDS, env=os.environ | {'PLUMBLINE_GPU': kind}).partition(
        f'{_MARK}\n'
    )
    if not mark:
        raise ValueError('health.sh did not reach its end')
    return counts, dict(line.split('=', 1) for line in growths.splitlines() if '=' in line)


def _driver_is_loaded(driver: str) -> bool:
    return bool(driver) and Path('/sys/bus/pci/drivers', driver).is_dir()


def growth(facts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return a sentence for each grown counter: first those that drain a node, then those that are only reported."""
    hard: list[str] = []
    soft: list[str] = []
    for name, value in facts.items():
        what = name.removeprefix('health_')
        if what != name:
            (hard if what in HARD else soft).append(f'{what.replace("_", " ")} +{value}')
    return hard, soft
