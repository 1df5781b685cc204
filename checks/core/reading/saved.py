# SPDX-License-Identifier: BSD-3-Clause
"""A saved output of a program that no check ran: its numbers as measurements. Imports no ReFrame.

The reader of each program is beside its parser, in a module that imports no ReFrame, and registered in pyproject.toml
under ``plumbline.readers``.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

from checks.core.reading import signatures
from checks.core.reading.metrics import Metric, variable_name
from checks.core.reading.outputs import LONGEST, cut_of, errors_of, last_words, some, text_of
from plumbline.measurement import Measurement

# Options of launchers that say where, which is no part of what ran
_WHERE = re.compile(r' (?:-H|--?host(?:s|list|file)?|-w|--nodelist|-f|--?machinefile)[ =]\S+')
_DATES = (  # of ctime, mdtest and HPCG
    '%a %b %d %H:%M:%S %Y', '%Y-%m-%d %H:%M:%S', '%m/%d/%Y %H:%M:%S', '%Y-%m-%d_%H-%M-%S',
)  # fmt: skip
_LAST = 30  # lines at the end of an output that are searched for a known error
_OF_ONE_RUN = re.compile(r'(?<![A-Za-z0-9])(?:\d[\d.:_T-]{4,}\d|(?=[a-f]*\d)[0-9a-f]{12,})(?![A-Za-z0-9])')


@dataclass(frozen=True)
class Part:
    """The output of one run in a file, the text between it and the run before, and the name of the file."""

    output: str
    above: str = ''
    file: str = ''

    def command(self, program: str) -> str:
        """Return the last command above the output that names `program`, as ``set -x`` or a prompt shows it."""
        found = re.findall(rf'^(?:\++|.*[$#%]) +(.*\b{program}\b.*)', self.above, re.MULTILINE)
        return ' '.join(_WHERE.sub('', f' {found[-1]}').split()) if found else ''

    def stated(self, what: str, pattern: str) -> str:
        """Return the only match of `pattern`. Raises ValueError."""
        matches = re.findall(pattern, self.output, re.MULTILINE)
        if len(matches) != 1:
            raise ValueError(f'expected one line with {what}, found {len(matches)}')
        return str(matches[0])


@dataclass(frozen=True)
class Result:
    """What a run measured: name and params of its case, and where to read the numbers of its metrics.

    `faults`: what is wrong with it. `header`: what else the run says of itself; runs in one file are trials only if it
    is the same. `dates`: when it ran, as printed. `node`: names of its nodes. `numbers`: the part of `output` that has
    them; None: all of it.
    """

    check: str
    params: Mapping[str, object]
    metrics: Sequence[Metric]
    output: str
    faults: Sequence[str] = ()
    header: str = ''
    dates: Sequence[str] = ()
    node: str = ''
    numbers: str | None = None
    complaints: Callable[[str], Sequence[str]] = field(default=errors_of)


def begins(pattern: str, done: str = '') -> Callable[[str], list[int]]:
    """Return the function that finds each beginning of a run by a pattern.

    `done`: pattern of what each run prints late; what follows before it is still of that run.
    """

    def found(text: str) -> list[int]:
        places, within = [], False
        for match in re.finditer(f'(?P<begin>{pattern})' + f'|(?P<done>{done})' * bool(done), text, re.MULTILINE):
            if match['begin'] is not None and not within:
                places.append(match.start())
            within = bool(done) and match['begin'] is not None
        return places

    return found


def results_of(
    path: Path, begin: Callable[[str], list[int]], example: str, read: Callable[[Part], Iterator[Result]]
) -> Iterator[Measurement | str]:
    """Yield the numbers of all runs in a file, and a sentence for each run that cannot be read.

    `begin`: function of the text: where runs begin, with lines such as `example`. Raises ValueError if none does.
    """
    text = saved(path)
    starts = begin(text)
    if not starts:
        said = f'; it says "{errors[0]}"' if (errors := errors_of(text)) else ''
        raise ValueError(f'expected a line such as "{example}"{said}')
    headers: dict[str, str] = {}
    trials = Counter[str]()
    for (start, end), before in zip(pairwise([*starts, len(text)]), [0, *starts], strict=False):
        try:
            for result in read(Part(text[start:end], text[before:start], path.name)):
                case = f'{result.check} {params_of(result.params)} {result.node}'
                if headers.setdefault(case, result.header) != result.header:
                    raise ValueError(f'{result.check} ran above with the same params and other settings: {_APART}')
                series = f'{case} {[(metric.name, metric.points()) for metric in result.metrics]}'
                trials[series] += 1
                yield from measured(result, trials[series])
        except ValueError as error:
            line = text.count('\n', 0, start) + 1
            yield f'the output that begins in line {line} is left out: {error}'


_APART = 'put it into a file of its own, with --param to tell them apart'


def saved(path: Path) -> str:
    """Return the text of a saved output. Raises ValueError if there is none, or too much to read."""
    if cut := cut_of(path):
        raise ValueError(cut)
    if not (text := text_of(path)).strip():
        raise ValueError('it is empty')
    return text


def params_of(params: Mapping[str, object]) -> dict[str, str]:
    """Return params without the empty ones; in paths, a # stands for dates and numbers of jobs."""
    texts = {name: str(value).replace(',', ';') for name, value in params.items()}
    return {
        name: re.sub(r'/[^/\s]+', lambda part: _OF_ONE_RUN.sub('#', part[0]), text)
        for name, text in texts.items()
        if text
    }


def measured(of: Result, trial: int = 1) -> Iterator[Measurement]:
    """Yield each number that the metrics of a check expect, NaN where there is none: then the case failed."""
    readings = [(metric, metric.reading_of(of.output if of.numbers is None else of.numbers)) for metric in of.metrics]
    wrong = [f'metric {metric.name}: {fault}' for metric, reading in readings for fault in reading.faults]
    lost = [
        f'metric {variable_name(metric.name, point)} not measured: {reason}'
        for metric, reading in readings
        for point, reason in reading.missing.items()
    ]
    said = [f'the program says: {line}' for line in of.complaints(of.output)[:1]]
    faults = some([*of.faults, *wrong]) or lost[:1]
    if lost and not said:
        known = signatures.of_text('\n'.join(of.output.splitlines()[-_LAST:]), '')
        ends = f'its output says "{known.line[:LONGEST]}"' if known else f'its output ends "{last_words(of.output)}"'
        faults.insert(len(faults) if any(reading.values for _, reading in readings) else 0, ends)
    failed = '; '.join([*said, *faults])
    time = next(filter(None, map(utc, of.dates)), None)
    for metric, reading in readings:
        for point in metric.points():
            yield Measurement(
                of.check, metric.name, reading.values.get(point, math.nan), metric.unit, metric.better, time=time,
                params=params_of(of.params), dims=dict(point), judged=metric.is_judged(point), failed=failed,
                trial=trial, node=of.node,
            )  # fmt: skip


def utc(text: str) -> datetime | None:
    """Return in UTC a time that a program wrote, in the time zone of this machine unless it says another one."""
    for form in _DATES:
        with suppress(ValueError):
            return datetime.strptime(text, form).astimezone(timezone.utc).replace(tzinfo=None)
    return None
