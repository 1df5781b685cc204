# SPDX-License-Identifier: BSD-3-Clause
"""Read the health counters and clocks of the nodes of a job, as `job/load.sh` wrote them. Imports no ReFrame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import cast

from checks.core.reading.outputs import other_clock, seconds_of, text_of
from plumbline.causes import Cause, Code
from plumbline.record import Record

_LEAST_STEP = 0.1  # s; chrony and ntpd slew the clock for less, which the uptime follows


def short(host: str) -> str:
    """Return the name of a host in lower case and without its domain."""
    return host.partition('.')[0].lower()


def facts_in(text: str) -> dict[str, str]:
    """Return the facts that a text has in lines ``key=value``, by key."""
    return dict(line.split('=', 1) for line in text.splitlines() if '=' in line)


def add_health(
    folder: Path, record: Record, nodes: Sequence[str], clocks: Mapping[str, Sequence[int]],
    host_of: Callable[[str], str] | None,
) -> tuple[list[Cause], list[Cause]]:  # fmt: skip
    """Add counters and clocks of the nodes to a record.

    Return a cause for each error, which may be why a program failed, and one for each setting that was changed.
    The counters of the first node are in the provenance already. `clocks`: node -> kHz of each sample; the record gets
    the median in MHz.
    """
    names = {short(name): node for node in nodes for name in (node, (host_of or str)(node))}
    first = nodes[0]

    def errors_of(node: str, at: str = '') -> list[Cause]:
        """Return a cause for each line that `job/health.sh` wrote of a node: a code and a sentence."""
        lines = [line.partition(' ') for line in text_of(folder / f'health{at}.txt').splitlines()]
        limits = text_of(folder / f'limit{at}.txt').splitlines()  # of the job, which is no fault of the node
        return [Cause(cast('Code', code), f'{node}: {line}') for code, _, line in lines] + [
            Cause('oom-limit', f'on {node} {line}') for line in limits
        ]

    errors = errors_of(first)
    changes = [Cause('settings', f'{first}: {line}') for line in text_of(folder / 'changes.txt').splitlines()]
    for path in sorted(folder.glob('facts.*')):
        at = path.name.removeprefix('facts.')
        node = names.get(short(at), at)
        if node != first:
            record.health[node] = facts_in(text_of(path))
            errors += errors_of(node, f'.{at}')
    if gpu_states := state_of(text_of(folder / 'gpus.txt')):
        record.provenance['gpus_in_run'] = gpu_states
    lost = [node for node in nodes[1:] if node not in record.health]
    if lost and any(folder.glob('counts.*')):
        record.provenance['counters_not_read'] = f'of {len(lost)} of {len(nodes)} nodes: {", ".join(lost[:8])}'
    for at, looks in clocks.items():
        node = names.get(short(at), first)
        if looks:
            of_node = record.provenance if node == first else record.health.setdefault(node, {})
            of_node['clock_in_run'] = f'{median(looks) / 1000:.0f}'
    for facts in record.health.values():
        if facts.get('counters_lacking') == record.provenance.get('counters_lacking'):
            facts.pop('counters_lacking', None)  # equal on all nodes, and already in the provenance
    return errors, changes


def clock_steps(folder: Path, record: Record, nodes: str) -> Iterator[Cause]:
    """Add the seconds of each trial to the record; yield a cause for each trial during which the clock was set.

    The numbers of a job whose programs have another clock than the kernel are invalid.
    """
    for trial in range(1, record.trials + 1):
        if times := seconds_of(folder / f'trial_{trial}'):
            seconds, step = times
            record.trial_seconds.append(seconds)
            # many benchmarks compute durations from the time of day; of each trial, 1 % matters
            if abs(step) > min(1.0, max(_LEAST_STEP, seconds / 100)):
                sentence = f'the clock was set by {step:+.{0 if abs(step) > 1 else 1}f} s'
                yield Cause('clock', sentence, nodes, (trial,), record.trials)
            elif sentence := other_clock(folder / f'trial_{trial}'):
                for _, _, series in record.series():
                    series.invalid = series.invalid or (f'trial {trial}: {sentence}' if series.samples else None)


def state_of(samples: str) -> str:
    """Return the means of the samples of `job/gpus.sh`: ``0: 1410 MHz, 398 W, 61 C; 1: ...``; empty without samples.

    The first tenth of the samples, when a GPU is still cold or idle, is not counted.
    """
    by_gpu: dict[str, list[list[str]]] = {}
    for words in map(str.split, samples.splitlines()):
        if len(words) == 4:
            by_gpu.setdefault(words[0], []).append(words[1:])
    means = {device: _means(rows[len(rows) // 10 :]) for device, rows in by_gpu.items()}
    return '; '.join(f'{device}: {text}' for device, text in means.items() if text)


def _means(rows: Sequence[Sequence[str]]) -> str:
    parts = []
    for values, unit in zip(zip(*rows, strict=True), ('MHz', 'W', 'C'), strict=True):
        numbers = [float(value) for value in values if re.fullmatch(r'[0-9]{1,7}(\.[0-9]{1,3})?', value)]
        parts += [f'{fmean(numbers):.0f} {unit}'] if numbers else []
    return ', '.join(parts)
