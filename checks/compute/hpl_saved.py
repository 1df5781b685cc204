# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of HPL, also of Intel's, NVIDIA's and AMD's, and of several runs."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.compute import hpl_output as hpl
from checks.core.reading.saved import Part, Result, results_of
from plumbline.measurement import Measurement

_LINES = re.compile(r'^(?:(?P<banner>HPL\S* [\d.]+ +--)|(?P<table>T/V|W[RC]\d)|(?P<end>End of Tests))', re.MULTILINE)


def read(path: Path) -> Iterator[Measurement | str]:
    """Yield rate and time of each solved system; those of a run fail if a residual FAILED or a test is missing."""
    yield from results_of(path, _begins, 'WR11C2R4  2000  192  1  2  0.44  1.2001e+01', _run)


def _begins(text: str) -> list[int]:
    """Return where runs begin: with their banners, which a vendor may precede with its own, else with a table."""
    begins, before = [], 'end'
    for match in _LINES.finditer(text):
        kind = match.lastgroup or ''
        if kind != 'end' and (before == 'end' or (kind == 'banner' and before == 'table')):
            begins.append(match.start())
        before = kind
    return begins


def _run(part: Part) -> Iterator[Result]:
    output, lines = part.output, part.output.split('\n')
    results = hpl.results_of(output)
    faults = hpl.errors_of(output) or hpl.faults_of(output, tuple(result.configuration for result in results))
    dates = re.findall(r'^HPL_pdgesv\(\) start time +(.*\S)', output, re.MULTILINE)
    for result in results:
        solved = dict(zip(('n', 'nb', 'p', 'q'), result.configuration, strict=True))
        row = lines[result.line - 1]
        metrics = hpl.metrics_of((result.configuration,), 1, None)
        of_row = solved | {'variant': row.split()[0]}
        yield Result('HPL', of_row, metrics, output, faults, dates=dates, numbers=f'{row}\n')
    if not results:
        asked = dict(re.findall(r'^(N|NB|P|Q) +: +([0-9]+) *$', output, re.MULTILINE))
        params = {name.lower(): number for name, number in asked.items()}
        yield Result('HPL', params, hpl.metrics_of(((0, 0, 0, 0),), 1, None), output, faults, dates=dates)
