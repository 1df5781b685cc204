# SPDX-License-Identifier: BSD-3-Clause
"""Open XDMoD's CSV exports of application kernels: one block for each kernel, resource, metric and number of nodes.

A block has the lines ``title``, ``App Kernel Data``, ``parameters``, ``"App Kernel = HPCC","Resource = ..."``,
``start,end``, both dates, a rule, ``Date,Value,Control,Changed``, a line for each run, a rule. It has no unit.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import better_by_name, word
from postprocess.readers import fields

_RULE = ['---------']
_HEADER = ['Date', 'Value', 'Control', 'Changed']
_PARAMETERS = ('App Kernel', 'Resource', 'Metric', 'Processing Units')


def read(path: Path) -> Iterator[Measurement]:
    """Yield the value of each run; the runs of one day are a session."""
    rows = fields.csv_of(fields.lines_of(path))
    while rows:
        try:
            begin = rows.index(_RULE)
            end = rows.index(_RULE, begin + 1)
        except ValueError:
            raise ValueError('expected a line --------- before and after the rows of each block') from None
        title, name, heading, parameters, dates, span = rows[:begin] if begin == 6 else [[]] * 6
        if (title, name, heading, dates) != (['title'], ['App Kernel Data'], ['parameters'], ['start', 'end']):
            raise ValueError(f'expected a block of "App Kernel Data", found {",".join(map(",".join, rows[:2])):.60}')
        block = dict(parameter.split(' = ', 1) for parameter in parameters)
        if tuple(block) != _PARAMETERS or rows[begin + 1] != _HEADER:
            raise ValueError(f'expected {", ".join((*_PARAMETERS, *_HEADER))}, found {",".join(parameters):.80}')
        runs = rows[begin + 2 : end]
        rows = rows[end + 1 :]
        if not runs or [runs[0][0][:10], runs[-1][0][:10]] != span:
            raise ValueError(f'{block["Metric"]}: expected runs from {" to ".join(span)}, found {len(runs)} others')
        for run in runs:
            if len(run) != len(_HEADER):
                raise ValueError(f'expected {len(_HEADER)} fields, found {",".join(run):.60}')
            yield Measurement(
                check=block['App Kernel'], partition=word(block['Resource']), metric=block['Metric'],
                params={'processing_units': block['Processing Units']}, time=fields.utc(run[0]),
                session=f'{block["Resource"]} {run[0][:10]}', better=better_by_name(block['Metric']),
                value=fields.number(run[1]) if run[1] else math.nan,
            )  # fmt: skip
