# SPDX-License-Identifier: BSD-3-Clause
"""Read the performance logs of other suites, as ReFrame writes them by default.

A file for each check: a header, then a line for each case: ``result|job_completion_time|...|bw_value|bw_unit|...``.
Logs have no sessions, so the lines of a system are divided into runs of ReFrame, one session each. A repeated case
marks a new run. Lines that the store already has are left out, so a log that has grown adds only new ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from plumbline.identity import NONE
from plumbline.record import summarize
from postprocess.readers import values
from postprocess.readers.run_reports import NAME, ReportError, check_and_params, clock_problems
from postprocess.results.store import Store
from postprocess.results.tables import RunReport, metric_row

_NOTHING = ('', 'null', 'None')
_FACTS = ('version', 'modules', 'env_vars', 'extra_resources')


@dataclass(frozen=True)
class LogLine:
    """One case: the fields of its line by name, without empty ones."""

    fields: dict[str, str]
    completed: datetime

    @property
    def name(self) -> str:
        return self.fields.get('display_name') or self.fields['name']

    @property
    def case(self) -> tuple[Any, ...]:
        return (self.name, *map(self.fields.get, ('partition', 'environ')))

    @property
    def identity(self) -> tuple[Any, ...]:
        return (self.completed, *self.case, self.fields.get('jobid'))


def read_perflogs(paths: Iterable[Path], store: Store) -> Iterator[RunReport | ReportError]:
    """Yield a report for each run of a system with lines that the store lacks, and an error for each unusable file.

    A file with some unusable lines gives both.
    """
    lines: dict[str, dict[tuple[Any, ...], LogLine]] = defaultdict(dict)
    for path in paths:
        unusable = 0
        try:
            for line in _lines(path):
                if line is None:
                    unusable += 1
                else:
                    lines[line.fields['system']][line.identity] = line
        except ReportError as error:
            yield error
        if unusable:
            yield ReportError(
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
            yield _report(system, run)


def runs_of(lines: Sequence[LogLine]) -> Iterator[list[LogLine]]:
    """Yield the lines of each run of ReFrame, of `lines` in the order of their times.

    A repeated case belongs to a later run, unless ReFrame retried it after a failure. The later run begins after the
    longest pause between both.
    """
    begins = 0
    last: dict[tuple[Any, ...], int] = {}  # index of each case
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


def _lines(path: Path) -> Iterator[LogLine | None]:
    """Yield the lines of a file; None for a line that cannot be used."""
    try:
        header, *lines = path.read_text(encoding='utf-8', errors='replace').splitlines() or ['']
    except OSError as error:
        raise ReportError(f'{path}: cannot be read: {error.strerror}') from None
    delimiter = next(iter(re.findall(r'[^\w%]', header)), '|')
    names = header.split(delimiter)
    if not {'system', 'partition', 'environ'} <= set(names) or {'name', 'display_name'}.isdisjoint(names):
        raise ReportError(
            f'{path}: not a performance log as ReFrame writes it by default: its first line must name the columns '
            f'job_completion_time, name, system, partition and environ, found {header[:80]!r}'
        )
    for line in lines:
        values = line.split(delimiter)
        fields = {name: value for name, value in zip(names, values, strict=False) if value not in _NOTHING}
        completed = _completed(fields)
        named = NAME.fullmatch(fields.get('system', '')) and {'partition', 'environ'} <= fields.keys()
        usable = len(values) == len(names) and named and not {'name', 'display_name'}.isdisjoint(fields)
        yield LogLine(fields, completed) if usable and completed else None


def _completed(fields: dict[str, str]) -> datetime | None:
    """Return the time of completion in UTC; a time without a zone is one of this host."""
    try:
        if 'job_completion_time_unix' in fields:
            time = datetime.fromtimestamp(float(fields['job_completion_time_unix']), timezone.utc)
        else:
            time = datetime.fromisoformat(fields['job_completion_time']).astimezone(timezone.utc)
    except (KeyError, ValueError, OverflowError, OSError):
        return None
    return time.replace(tzinfo=None) if time.year >= 1970 else None


def _report(system: str, lines: list[LogLine]) -> RunReport:
    """Return the lines of a run as a session; what a log does not say is missing in the rows."""
    digest = hashlib.sha256(repr([sorted(line.fields.items()) for line in lines]).encode()).hexdigest()
    began, ended = min(line.completed for line in lines), max(line.completed for line in lines)
    day = f'{began:%Y-%m-%d}'
    session = {  # its name begins with what tells it from others, as only the beginning is shown
        'session': f'{digest[:12]}-perflog-{day}', 'started': began, 'ended': ended, 'hostname': '', 'cmdline': '',
        'reframe': lines[0].fields.get('version', ''), 'selection': [], 'narrowed_by': [], 'runs': 1,
        'ran': len(lines), 'problems': clock_problems(began, ended), 'report': f'performance logs of {day}',
        'report_sha256': digest, 'source': 'perflog',
    }  # fmt: skip
    cases, metrics, samples = [], [], []
    for number, line in enumerate(lines):
        found = list(_metrics(line.fields))
        cases.append(_case(number, line, all(within for _, _, within in found)))
        nodes = ','.join(cases[-1]['nodes'])
        for row, value, _ in found:
            metrics.append(metric_row(cases[-1], vars(summarize([value])) | row))
            key = {'case_id': number, 'metric': row['metric'], 'dims': NONE}
            samples.append(key | {'trial': 1, 'node': nodes, 'value': value})
    return RunReport(system, session, cases, metrics, samples)


def _case(number: int, line: LogLine, within: bool) -> dict[str, Any]:
    """Return the row of a case. `within`: all metrics are within their references; else that is why it failed."""
    fields = line.fields
    check, params = check_and_params(line.name)
    result = fields.get('result', 'pass')
    exitcode = fields.get('job_exitcode', '')
    return {
        'case_id': number, 'round': 0, 'purpose': '', 'partition': fields['partition'],
        'environ': fields['environ'], 'check': check,
        'params': params, 'name': line.name, 'fixture': False, 'benchmark': True, 'result': result,
        'fail_phase': 'performance' if result == 'fail' and not within else None, 'tags': [], 'trials': 1,
        'job_id': fields.get('jobid'), 'job_exitcode': int(exitcode) if re.fullmatch(r'-?\d{1,9}', exitcode) else None,
        # a list that ReFrame abbreviated, such as ``n[1-4]``, stays as it is
        'nodes': re.findall(r'(?:[^,\[]|\[[^\]]*\])+', fields.get('job_nodelist', '')), 'completed': line.completed,
        'trial_seconds': [], 'evidence': '',
        **dict.fromkeys(('dims', 'draw', 'figures', 'placement', 'health'), '{}'),
        'provenance': json.dumps({key: fields[key] for key in _FACTS if key in fields}, sort_keys=True),
    }  # fmt: skip


def _metrics(fields: dict[str, str]) -> Iterator[tuple[dict[str, Any], float, bool]]:
    """Yield each metric of a line, its value, and whether that is within its reference."""
    for column in fields:
        name, value = column.removesuffix('_value'), values.number(fields[column])
        if name == column or value is None:
            continue
        keys = ('ref', 'lower_thres', 'upper_thres')
        reference, lower, upper = (values.number(fields.get(f'{name}_{key}')) for key in keys)
        row = values.metric(name, fields.get(f'{name}_unit', ''), lower, upper)
        yield row, value, values.is_within(value, reference, lower, upper)
