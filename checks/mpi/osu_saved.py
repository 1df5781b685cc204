# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of the OSU Micro-Benchmarks, also several in one file."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from checks.core.reading.saved import measured, saved
from checks.mpi import osu_output as osu
from plumbline.machine.vendors import VENDORS
from plumbline.measurement import Measurement

_BANNER = re.compile(r'^# OSU (?P<title>.*) v[0-9][0-9.]*$\n?', re.MULTILINE)
_HINT = 'it was cut off, or -m asked for others; then its command belongs above the output, as set -x prints it'
# What -f adds to the mean of a collective
_FULL_HEADER = re.compile(
    r'^(# (?:Size +)?Avg Latency\(us\)) +Min Latency\(us\) +Max Latency\(us\) +Iterations$', re.MULTILINE
)
_FULL_ROW = re.compile(
    r'^(?P<kept>(?P<size>[0-9]*) +(?P<mean>[0-9.]+)) +(?P<least>[0-9.]+) +(?P<most>[0-9.]+) +[0-9]+$', re.MULTILINE
)
_LETTERS = {'HOST': 'H', 'DEVICE': 'D', 'MANAGED': 'MD'}
_BUFFERS = re.compile(r'^# Send Buffer on (\w+) .* Receive Buffer on (\w+) ', re.MULTILINE)


def read(path: Path) -> Iterator[Measurement]:
    """Yield the metrics of each program; the check has the name of the program. A repeated program is a further trial.

    Each size that the program prints by default is expected; if a line above its output has the command, as ``set -x``
    prints it, each size that ``-m`` asks for there.
    """
    text, trials = saved(path), Counter[str]()
    banners = list(_BANNER.finditer(text))
    banners = [match for n, match in enumerate(banners) if not (n and _is_again(banners[n - 1], match))]
    if not banners:
        raise ValueError('expected a line such as "# OSU MPI Latency Test v7.4"')
    ends = [*(match.start() for match in banners), len(text)]
    for banner, (start, end), before in zip(banners, pairwise(ends), [0, *ends], strict=False):
        name, gpu = _program(banner['title'])
        output, contradicting = _without_spread(text[start:end])
        sizes, ranks = _sizes(name, text[before:start]), 2
        if pairs := re.search(r'^# \[ pairs: ([0-9]{1,6}) \]', output, re.MULTILINE):
            ranks = 2 * int(pairs[1])
        memory = _BUFFERS.search(output)
        buffers = tuple(_LETTERS.get(word, word) for word in memory.groups()) if memory else ()
        if unknown := set(buffers) - {*_LETTERS.values()}:
            raise ValueError(f'expected buffers on HOST, DEVICE or MANAGED, found {", ".join(unknown):.40}')
        of_params = {'gpu': gpu, 'buffers': '-'.join(buffers) if gpu else '', 'pairs': str(ranks // 2) if pairs else ''}
        params = {key: value for key, value in of_params.items() if value}
        case = f'{name} {params}'
        trials[case] += 1
        faults = osu.faults_of(output, name, sizes, ranks, gpu, buffers) + contradicting
        printed = [int(size) for size in re.findall(r'^([0-9]{1,12}) ', output, re.MULTILINE)]
        if sizes and (last := max(printed, default=0)) != sizes[-1]:
            faults.insert(0, f'expected sizes up to {sizes[-1]} bytes, found up to {last}: {_HINT}')
        yield from measured(name, params, osu.metrics_of(name, sizes), output, faults, trial=trials[case])


def _without_spread(output: str) -> tuple[str, list[str]]:
    """Return an output of -f as it is without that option, and a sentence for each mean beyond its least and most."""
    if not _FULL_HEADER.search(output):
        return output, []
    faults = [
        f'size {row["size"] or 0}: the mean of {row["least"]} to {row["most"]} us cannot be {row["mean"]}'
        for row in _FULL_ROW.finditer(output)
        if not float(row['least']) <= float(row['mean']) <= float(row['most'])
    ]
    return _FULL_ROW.sub(r'\g<kept>', _FULL_HEADER.sub(r'\1', output)), faults


def _is_again(before: re.Match[str], banner: re.Match[str]) -> bool:
    """Return True if a banner repeats the line before it, as osu_mbw_mr 6.0 to 7.2 does."""
    return before.end() == banner.start() and before[0].strip() == banner[0].strip()


def _program(title: str) -> tuple[str, str]:
    """Return the name of a program, and the kind of device whose buffers it used."""
    for name, program in osu.PROGRAMS.items():
        for gpu in ('', *VENDORS):
            libraries = ['MPI', VENDORS[gpu].collectives] if gpu else ['MPI']
            for library in filter(None, libraries):
                spelled = f'{library}-{gpu}' if gpu else library
                if program.title.replace('MPI', spelled, 1).lower() == title.lower():
                    return (name if library == 'MPI' else name.replace('osu_', 'osu_xccl_')), gpu
    raise ValueError(f'found "{title:.60}", expected one of {", ".join(osu.PROGRAMS)}')


def _sizes(name: str, above: str) -> list[int]:
    """Return the message sizes that were asked for; `above`: the text between this output and the output before it."""
    plain = name.replace('osu_xccl_', 'osu_')
    program = osu.PROGRAMS[plain]
    if not program.largest:
        return []
    asked = re.findall(rf'\b{name}\b[^\n]*? -m[ =]?(?:([0-9]{{1,12}}):)?([0-9]{{1,12}})\b', above)
    first, last = asked[-1] if asked else ('', '')
    smallest, largest = max(program.smallest, int(first or 1)), int(last or program.largest)
    return [2**power for power in range(largest.bit_length()) if smallest <= 2**power]
