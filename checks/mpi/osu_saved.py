# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of the OSU Micro-Benchmarks, also several in one file."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from checks.core.reading.saved import Part, Result, results_of
from checks.mpi import osu_output as osu
from plumbline.machine.vendors import VENDORS
from plumbline.measurement import Measurement

_BANNER = re.compile(r'^# OSU (?P<title>.*) v[0-9][0-9.]*$\n?', re.MULTILINE)
_HINT = 'it was cut off, or -m asked for others; then its command belongs above the output, as set -x prints it'
# What -f adds to the mean of a collective
_FULL_HEADER = re.compile(
    r'^(# (?:Size +)?Avg Latency\(us\)) +Min Latency\(us\) +Max Latency\(us\) +Iterations$', re.MULTILINE
)
_FULL_ROW = re.compile(r'^(?P<kept>[0-9]* +[0-9.]+) +[0-9.]+ +[0-9.]+ +[0-9]+$', re.MULTILINE)
_KINDS = '|'.join(osu.MEMORY).upper()
_BUFFERS = re.compile(rf'^# Send Buffer on ({_KINDS}) .* Receive Buffer on ({_KINDS}) ', re.MULTILINE)


def read(path: Path) -> Iterator[Measurement | str]:
    """Yield the metrics of each program; the check has the name of the program.

    Each size that the program prints by default is expected; if a line above its output has the command, as ``set -x``
    prints it, each size that ``-m`` asks for there. That command is a param: the output does not say where ranks ran.
    """
    yield from results_of(path, _begins, '# OSU MPI Latency Test v7.4', _run)


def _begins(text: str) -> list[int]:
    """Return where the programs' banners are; osu_mbw_mr 6.0 to 7.2 prints its own twice."""
    banners = list(_BANNER.finditer(text))
    again = [one.end() == two.start() and one[0].strip() == two[0].strip() for one, two in pairwise(banners)]
    return [banner.start() for banner, repeats in zip(banners, [False, *again], strict=False) if not repeats]


def _run(part: Part) -> Iterator[Result]:
    title = _BANNER.match(part.output)
    name, gpu = _program(title['title'] if title else '')
    output = _FULL_ROW.sub(r'\g<kept>', _FULL_HEADER.sub(r'\1', part.output))
    sizes, ranks = _sizes(name, part.above), 2
    if pairs := re.search(r'^# \[ pairs: ([0-9]{1,6}) \]', output, re.MULTILINE):
        ranks = 2 * int(pairs[1])
    memory = _BUFFERS.search(output)
    buffers = tuple(osu.MEMORY[word.lower()] for word in memory.groups()) if memory else ()
    params = {
        'gpu': gpu, 'buffers': '-'.join(buffers) if gpu else '', 'pairs': ranks // 2 if pairs else '',
        'command': part.command(name),
    }  # fmt: skip
    faults = [*osu.errors_of(output), *osu.faults_of(output, name, sizes, ranks, gpu, buffers)]
    printed = [int(size) for size in re.findall(r'^([0-9]{1,12}) ', output, re.MULTILINE)]
    if sizes and (last := max(printed, default=0)) != sizes[-1]:
        faults.insert(0, f'expected sizes up to {sizes[-1]} bytes, found up to {last}: {_HINT}')
    header = ''.join(re.findall(r'^#.*\n', output, re.MULTILINE))
    yield Result(name, params, osu.metrics_of(name, sizes), output, faults, header)


def _program(title: str) -> tuple[str, str]:
    """Return the name of a program, and the kind of device whose buffers it used."""
    of_mpi = [(name, gpu) for gpu in ('', *VENDORS) for name in osu.PROGRAMS]
    programs = of_mpi + [(name.replace('osu_', 'osu_xccl_'), gpu) for name, gpu in of_mpi if gpu]
    known = {osu.title_of(name, gpu).lower(): (name, gpu) for name, gpu in programs}
    if title.lower() not in known:
        raise ValueError(f'no check reads the program "{title:.60}"')
    return known[title.lower()]


def _sizes(name: str, above: str) -> list[int]:
    """Return the message sizes that were asked for; `above`: the text between this output and the output before it."""
    asked = re.findall(rf'\b{name}\b[^\n]*? -m[ =]?(?:([0-9]{{1,12}}):)?([0-9]{{1,12}})\b', above)
    first, last = asked[-1] if asked else ('', '')
    return osu.sizes_of(name, first=int(first or 1), last=int(last or 0))
