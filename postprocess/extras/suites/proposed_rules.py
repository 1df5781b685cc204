# SPDX-License-Identifier: BSD-3-Clause
"""Write a first ``suite.yaml`` from what ReFrame wrote: what is known, and as comments what a person must decide."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from plumbline.errors import InputError
from postprocess.extras.suites.performance_logs import read_perflogs
from postprocess.readers.run_reports import is_database, read_report, sessions_in
from postprocess.results.rows import SessionRows
from postprocess.results.store import Store

_ALIKE = 3  # if at least so many names differ only in a number, the number is proposed as a dim
_HEAD = """\
# How the numbers of tests that are not Plumbline's are judged. Written by `plumbline init --suite`, for review.
# `check`, `metric` and `unit` are shell patterns; of several rules that match, the last one that has a key counts.
#   better: higher or lower     floor: a smaller loss never counts     usual_spread: between sessions, 0.01 for 1 %
#   judged: false, for information alone     convert_to: a unit of the same kind
#   name: a regular expression of the whole name, with a group `metric` and one for each dim
#   dims: names of parameters of the tests that are dims of all their metrics
# Rules hold for what is ingested from then on.
"""


def read_all(path: Path, store: Store) -> list[SessionRows | InputError]:
    """Return all sessions in a run report, a database or a log, or in all such files below a folder."""
    if not path.is_dir():
        return [*_read(path, store)]
    named = [
        file
        for file in sorted(path.rglob('*'))
        if file.is_file() and re.search(r'\.(json|db|log(\.h\d+)?)$', file.name)
    ]
    files = [file for file in named if not file.is_symlink()]
    return [report for file in files for report in _read(file, store) if isinstance(report, SessionRows)]


def _read(path: Path, store: Store) -> Iterator[SessionRows | InputError]:
    """Yield the sessions of one file, or errors."""
    try:
        if is_database(path):
            yield from sessions_in(path, ())
        elif re.search(r'\.log(\.h\d+)?$', path.name):
            yield from read_perflogs(store, [path])
        else:
            yield read_report(path)
    except InputError as error:
        yield error


def proposed(reports: Iterable[SessionRows]) -> tuple[str, int, int]:
    """Return the text of a ``suite.yaml``, the number of metrics it decides, and the number it asks for.

    Raises InputError.
    """
    known: dict[tuple[str, str, str], str] = {}
    undecided: set[tuple[str, str, str]] = set()
    examples: dict[tuple[str, str, str], float] = {}
    for report in reports:
        checks = {case.case_id: case.check for case in report.cases}
        undecided |= report.undecided
        for row in report.metrics:
            key = (checks[row.case_id], row.metric, row.quantity.unit)
            known[key] = row.quantity.better
            if row.summary.mean is not None:
                examples[key] = row.summary.mean
    if not known:
        raise InputError('no test of another suite with a performance value was found')
    lines = ['# Known by reference bounds or unit, without a rule:']
    lines += [
        f'#   {check}  {metric}  {unit or "(no unit)"}  {known[check, metric, unit]}'
        for check, metric, unit in sorted(known.keys() - undecided)
    ] or ['#   none']
    lines += ['rules:']
    if undecided:
        lines += [
            '# Neither bounds nor unit say which direction is better; until a rule does, higher is assumed.',
            '# Remove the # and choose:',
        ]
    for key in sorted(undecided):
        check, metric, unit = key
        seen = f', {examples[key]:g} measured' if key in examples else ''
        rule = f'check: {_text(check)}, metric: {_text(_pattern(metric))}, better: higher'
        lines.append(f'#  - {{{rule}}}  # or lower: unit {unit or "none"}{seen}')
    if names := [*_names(known)]:
        lines += ['# Names that seem to hold dims:']
        lines += [f'#  - {{check: {_text(check)}, name: {_quoted(name)}}}' for check, name in names]
    return _HEAD + '\n'.join(lines) + '\n', len(known.keys() - undecided), len(undecided)


def _names(known: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (check, regular expression) of metric names that differ in a number."""
    alike: dict[tuple[str, str, str], set[tuple[str, str]]] = defaultdict(set)  # separator and number of each name
    for check, metric, _ in known:
        if match := re.fullmatch(r'(\D*[A-Za-z])([_ -]?)(\d+)(\D*)', metric):
            before, separator, number, after = match.groups()
            alike[check, before, after].add((separator, number))
    for (check, before, after), names in sorted(alike.items()):
        if len({number for _, number in names}) >= _ALIKE:
            between = '[_ -]?' * any(separator for separator, _ in names)
            yield check, f'(?P<metric>{re.escape(before)}){between}(?P<size>\\d+){re.escape(after)}'


def _pattern(text: str) -> str:
    """Return a shell pattern that matches exactly this text."""
    return re.sub(r'([*?\[])', r'[\1]', text)


def _text(text: str) -> str:
    """Return `text` as YAML within braces."""
    return text if re.fullmatch(r'[A-Za-z][\w-]*', text) else json.dumps(text)


def _quoted(expression: str) -> str:
    """Return a regular expression as a quoted text of YAML."""
    return "'" + expression.replace(r'\ ', ' ').replace("'", "''") + "'"
