# SPDX-License-Identifier: BSD-3-Clause
"""Read the performance logs of other suites.

There is one file for each check: a header, then a line for each case,
``result|job_completion_time|...|bw_value|bw_unit|...``, or with ``perflog_compat`` a line for each performance
variable. Logs have no sessions, so the lines of a system are divided into runs of ReFrame, each of them a session. A
repeated case marks a new run. Lines that the store already has are left out, so a log that has grown adds only its new
lines.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from plumbline.causes import Cause
from plumbline.errors import InputError
from postprocess.extras.suites.log_formats import reader_of
from postprocess.readers import values
from postprocess.readers.rules import NO_RULES, Rules
from postprocess.readers.run_reports import NAME, check_and_params, clock_problems
from postprocess.results.rows import CaseRow, MetricRow, Session, SessionRows
from postprocess.results.store import Store
from postprocess.text import names_in

_NAMES = ('display_name', 'name', 'unique_name', 'short_name')
_TIMES = ('job_completion_time_unix', 'job_completion_time', 'asctime')
_FACTS = ('version', 'modules', 'env_vars', 'extra_resources')


@dataclass(frozen=True)
class LogLine:
    """One case: name -> value of the fields of its line, without empty ones."""

    fields: dict[str, str]
    completed: datetime

    @property
    def name(self) -> str:
        """The name of the case."""
        return next(self.fields[name] for name in _NAMES if name in self.fields)

    @property
    def case(self) -> tuple[Any, ...]:
        """What identifies the case on its system."""
        return (self.name, *map(self.fields.get, ('partition', 'environ')))

    @property
    def identity(self) -> tuple[Any, ...]:
        """What identifies the line in the log."""
        return (self.completed, *self.case, self.fields.get('jobid'))


def read_perflogs(store: Store, paths: Iterable[Path], rules: Rules = NO_RULES) -> Iterator[SessionRows | InputError]:
    """Yield a report for each run of a system with lines that the store lacks, and an error for each unusable file.

    For a file with some unusable lines it yields both.
    """
    lines: dict[str, dict[tuple[Any, ...], LogLine]] = defaultdict(dict)
    for path in paths:
        unusable = 0
        before: LogLine | None = None
        try:
            for line in _lines(path):
                if line is None:
                    unusable += 1
                    continue
                if before and (whole := _together(before, line)):
                    line = whole
                lines[line.fields['system']][line.identity] = before = line
        except InputError as error:
            yield error
        if unusable:
            yield InputError(
                f'{path}: left out {unusable} lines without a completion time, or with other fields than the header'
            )
    for system, of_system in sorted(lines.items()):
        stored = {
            (case.completed, case.name, case.partition, case.environ, case.job_id)
            for session in store.sessions(system)
            if session.source == 'perflog'
            for case in store.cases(session)
        }
        new = [line for identity, line in of_system.items() if identity not in stored]
        for run in runs_of(sorted(new, key=lambda line: (line.completed, str(line.identity)))):
            yield _report(system, run, rules)


def runs_of(lines: Sequence[LogLine]) -> Iterator[list[LogLine]]:
    """Yield the lines of each run of ReFrame; `lines`: in the order of their times.

    A repeated case belongs to a later run, unless ReFrame retried it after a failure. The later run begins after the
    longest pause between both lines.
    """
    begins = 0
    last: dict[tuple[Any, ...], int] = {}  # case -> index of its last line
    for index, line in enumerate(lines):
        before = last.get(line.case)
        last[line.case] = index
        if before is None or before < begins or lines[before].fields.get('result') == 'fail':
            continue
        pauses = [(lines[at].completed - lines[at - 1].completed, at) for at in range(before + 1, index + 1)]
        _, begin = max(pauses)
        yield list(lines[begins:begin])
        begins = begin
    if lines:
        yield list(lines[begins:])


def _together(before: LogLine, line: LogLine) -> LogLine | None:
    """Return the line `before` with the further variable of the same job in `line`; None if it is of another job."""
    added = line.fields.keys() - before.fields.keys()
    further = [name for name in added if name.endswith('_value')]
    same = {'jobid', *_NAMES} & line.fields.keys() & before.fields.keys()
    if 'jobid' not in same or not further or line.case != before.case:
        return None
    if any(line.fields[name] != before.fields[name] for name in same):
        return None
    return LogLine(before.fields | {name: line.fields[name] for name in added}, before.completed)


def _lines(path: Path) -> Iterator[LogLine | None]:
    """Yield the lines of a file; None for a line that cannot be used.

    If no column names system and partition, they are the names of the folders, as in ReFrame's default.
    """
    try:
        header, *lines = path.read_text(encoding='utf-8', errors='replace').splitlines() or ['']
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    read = reader_of(header)
    of_folders = dict(zip(('partition', 'system'), path.absolute().parts[-2:0:-1], strict=False))
    if lacking := _lacking(header, of_folders):
        raise InputError(
            f'{path}: not a performance log that can be read: its first line, as ReFrame writes it, must name the '
            f'columns job_completion_time, name, system, partition and environ, or info; it names no '
            f'{", ".join(lacking)}: {header[:80]!r}'
        )
    for line in lines:
        fields = read(line)
        if fields is None:
            yield None
            continue
        fields = {
            name: text for name, text in of_folders.items() if not re.search(rf'\b{name}\b|\binfo\b', header)
        } | fields
        completed = _completed(fields)
        named = NAME.fullmatch(fields.get('system', '')) and {'partition', 'environ'} <= fields.keys()
        usable = named and not fields.keys().isdisjoint(_NAMES)
        yield LogLine(fields, completed) if usable and completed else None


def _lacking(header: str, of_folders: Mapping[str, str]) -> list[str]:
    """Return the fields that are needed and that neither the header nor the folders give."""
    words = set(re.findall(r'\w+', header))
    if 'info' in words:
        return [] if words & {*_TIMES} else ['job_completion_time']
    lacking = [] if words & {*_TIMES} else ['job_completion_time']
    lacking += [] if words & {*_NAMES} else ['name']
    return lacking + [name for name in ('system', 'partition', 'environ') if name not in {*words, *of_folders}]


def _completed(fields: dict[str, str]) -> datetime | None:
    """Return the time of completion in UTC, or of the line; a time without a zone is in the zone of this host."""
    try:
        if 'job_completion_time_unix' in fields:
            time = datetime.fromtimestamp(float(fields['job_completion_time_unix']), timezone.utc)
        else:
            text = fields['job_completion_time' if 'job_completion_time' in fields else 'asctime']
            time = datetime.fromisoformat(text.replace(',', '.')).astimezone(timezone.utc)
    except (KeyError, ValueError, OverflowError, OSError):
        return None
    return time.replace(tzinfo=None) if time.year >= 1970 else None


def _report(system: str, lines: list[LogLine], rules: Rules) -> SessionRows:
    """Return the lines of a run as a session; facts that a log does not have are missing in the rows."""
    digest = hashlib.sha256(repr([sorted(line.fields.items()) for line in lines]).encode()).hexdigest()
    began, ended = min(line.completed for line in lines), max(line.completed for line in lines)
    day = f'{began:%Y-%m-%d}'
    session = Session(  # the name begins with the digest, because often only the beginning of a name is shown
        system, f'{digest[:12]}-perflog-{day}', began, ended, ran=len(lines),
        problems=clock_problems(began, ended), report=f'performance logs of {day}', report_sha256=digest,
        source='perflog', reframe=lines[0].fields.get('version', ''),
    )  # fmt: skip
    report = SessionRows(session)
    for number, line in enumerate(lines):
        report.add(*_case(number, line, rules))
    return report


def _case(number: int, line: LogLine, rules: Rules) -> tuple[CaseRow, list[MetricRow]]:
    """Return the case of a line with its series; a value beyond its bounds is why it failed."""
    fields = line.fields
    check, params = check_and_params(line.name)
    exitcode = fields.get('job_exitcode', '')
    case = CaseRow(
        number, fields['partition'], fields['environ'], check, params, line.name, result=fields.get('result', ''),
        trials=1, job_id=fields.get('jobid'),
        job_exitcode=int(exitcode) if re.fullmatch(r'-?\d{1,9}', exitcode) else None,
        nodes=_nodes(fields.get('job_nodelist', '')), completed=line.completed,
        provenance={key: fields[key] for key in _FACTS if key in fields},
    )  # fmt: skip
    found = [*_values(fields, case, rules)]
    beyond = [cause for _, cause in found if cause]
    result = case.result or ('fail' if beyond else 'pass')  # not every format of a log has the result
    if result == 'fail' and beyond:
        case = case._replace(fail_phase='performance', causes=beyond)
    return case._replace(params=rules.split(check, params)[0], result=result), [row for row, _ in found]


def _nodes(text: str) -> list[str]:
    """Return the names of nodes, or the text if it cannot be read."""
    try:
        return names_in(text)
    except ValueError:  # keep the text
        return [text]


def _values(fields: dict[str, str], case: CaseRow, rules: Rules) -> Iterator[tuple[MetricRow, Cause | None]]:
    """Yield each performance value of a line, and that it is beyond its bounds."""
    for column in fields:
        name, value = column.removesuffix('_value'), values.number(fields[column])
        if name == column or value is None:
            continue
        keys = ('ref', 'lower_thres', 'upper_thres')
        bounds = [values.number(fields.get(f'{name}_{key}')) for key in keys]
        yield rules.value(case, name, fields.get(f'{name}_unit', ''), value, bounds)
