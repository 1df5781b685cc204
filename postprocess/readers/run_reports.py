# SPDX-License-Identifier: BSD-3-Clause
"""Read ReFrame's JSON run report, from its file or from ReFrame's results database, into rows of the store."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Container, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from plumbline import clock
from plumbline.causes import Cause
from plumbline.errors import InputError, RecordError
from plumbline.identity import Pairs, pairs
from plumbline.problems import Problem
from plumbline.record import Record, from_dict
from postprocess.readers import values
from postprocess.readers.cmdline import read_cmdline
from postprocess.readers.report_form import Entry, Report, Run, report_of
from postprocess.readers.rules import NO_RULES, Rules
from postprocess.results.rows import CaseRow, MetricRow, Session, SessionRows
from postprocess.text import count, names_in, one_line

_NO_RECORD: tuple[Any, ...] = (None, {}, '<undefined>')  # values in place of the record if a case ended too early
LARGEST = 2**30  # bytes of a run report: a night of 400 cases has 3 MB
_REPETITION = re.compile(r' %[.$]repeat_no=(\d+)')  # number that ``--repeat`` adds to the display name
# A case that the end of ``--duration`` cut off, and one that Ctrl-C did, have the same data in ReFrame's report: the
# result ``abort`` and an AbortTaskError. Only its sentence names what ended the session.
_END_OF_DURATION = 'RunSessionTimeout'
NAME = re.compile(r'\w[\w.-]*')  # names of files and folders of the store
_NO_NIGHT = re.compile(r'/reports/parts/[^/]*$|/changes/[^/]*/reports/[^/]*$')


class DryRunError(InputError):
    """A run report is of a dry run, which measured nothing."""


def read_report(path: Path, site: str | None = None, rules: Rules = NO_RULES) -> SessionRows:
    """Return the run report at `path`.

    `site` is used only if no case ran: cases name their site. Raises InputError; DryRunError for a dry run.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f'{path}: expected a run report of at most {LARGEST // 2**20} MiB')
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    return _parse(content, str(path), path, 'report', site, rules)


def is_database(path: Path) -> bool:
    """Return True if the file is an SQLite database."""
    try:
        with path.open('rb') as stream:
            return stream.read(16) == b'SQLite format 3\0'
    except OSError:
        return False


def sessions_in(
    path: Path, known: Container[str], site: str | None = None, rules: Rules = NO_RULES
) -> Iterator[SessionRows | InputError]:
    """Yield the sessions of ReFrame's results database that are not in `known`, or an error for an unusable one.

    Reruns, parts of a node sweep and comparisons of a change are left out, because they are no sessions of their own.
    They are recognized by the folders in which `ci` keeps their reports. Only one session at a time is in memory: a
    year takes 450 MB. Raises InputError if the file is not such a database.
    """
    try:
        with closing(sqlite3.connect(f'{path.absolute().as_uri()}?mode=ro', uri=True)) as database:
            query = 'SELECT uuid, report_file FROM sessions ORDER BY session_start_unix'
            for uuid, report in database.execute(query).fetchall():
                if uuid in known or _NO_NIGHT.search(report or ''):
                    continue
                blob = 'SELECT CAST(json_blob AS BLOB) FROM sessions WHERE uuid = ?'
                ((content,),) = database.execute(blob, (uuid,)).fetchall()
                try:
                    yield _parse(content, f'{path}: session {uuid}', path, 'database', site, rules)
                except InputError as error:
                    yield error
    except sqlite3.Error as error:
        raise InputError(f"{path}: not a usable results database of ReFrame's: {error}") from None


def _parse(content: bytes, name: str, path: Path, source: str, site: str | None, rules: Rules) -> SessionRows:
    """Return the report in `content`; error messages call it `name`."""
    origin = {'report': str(path.absolute()), 'report_sha256': hashlib.sha256(content).hexdigest(), 'source': source}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        of_others = '' if content.lstrip().startswith(b'{') else '; name the format of another tool with --format'
        raise InputError(f'{name}: not valid JSON, perhaps cut short: {error}{of_others}') from None
    try:
        return _read(report_of(found, origin['report_sha256']), site, origin, rules)
    except InputError as error:
        raise type(error)(f'{name}: {error}') from None
    except ValueError as error:
        raise InputError(f'{name}: not a usable ReFrame run report: {error}') from None


def check_and_params(display_name: str) -> tuple[str, Pairs]:
    """Return check and params of ReFrame's display name, such as ``HPCC %size=quick %stack.x=1``.

    Parameters with a dot belong to fixtures or come from ``--distribute``; they are not parameters of the check.
    """
    check, *parameters = display_name.split(' %')
    own = (parameter.partition('=') for parameter in parameters)
    return check, pairs({key: value for key, _, value in own if '.' not in key})


def _nodes(value: Any, where: str) -> list[str]:
    """Return the nodes of a case; after ``--performance-report`` ReFrame leaves their names in its short form."""
    try:
        return names_in(value) if isinstance(value, str) else msgspec.convert(value, list[str])
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(f'{where}: nodes: {error}') from None


def _name(text: str, what: str) -> str:
    """Return `text` if it can be the name of a file or folder of the store. Raises ValueError."""
    if not NAME.fullmatch(text):
        raise ValueError(f'{what}: expected letters, digits, "-", "_" and ".", found {text!r}')
    return text


def _utc(seconds: float) -> datetime:
    """Return the time of `seconds` since 1970 in UTC. Raises ValueError."""
    try:
        if seconds < 0:
            raise ValueError
        return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f'{seconds!r:.80} is no time: expected seconds since 1970') from None


def clock_problems(started: datetime, ended: datetime) -> list[Problem]:
    """Return a problem for each thing that was wrong with the clock of a session's host."""
    problems = []
    if clock.is_ahead(started):
        problems.append(f'the clock was wrong: the session began on {started:%Y-%m-%d}, which was in the future')
    if ended < started:
        gone_back = (started - ended).total_seconds()
        problems.append(f'the clock went back during the session: it ended {gone_back:.0f} s before it began')
    return [*map(Problem, problems)]


def _read(report: Report, site: str | None, origin: dict[str, str], rules: Rules) -> SessionRows:
    """Return the content of a report as rows of the store."""
    entries, identities = _entries(report.runs)
    session = _session(report, [entry for _, entry in entries], len(identities), site, origin)
    rows = SessionRows(session, [*_restored(report)])
    for number, (run, entry) in enumerate(pair for pair in entries if not pair[1].is_left_out):
        where = f'case {entry.display_name!r}'
        record = _record(entry, where)
        case = _case(number, run, entry, record, where)
        series = _series(record) if record else []
        is_read = not entry.is_ours or entry.fail_phase == 'performance'
        found = [*_values(entry, where, case, rules)] if is_read else []
        if not entry.is_ours:
            params, _ = rules.split(case.check, case.params)
            case, series = case._replace(params=params), [row for row, _ in found]
        beyond = [cause for _, cause in found if cause]
        rows.add(case._replace(causes=_causes(entry, record, beyond)), series)
    return rows


def _series(record: Record) -> list[MetricRow]:
    """Return the series of a record."""
    return [
        MetricRow(
            metric, series.dims, facts.quantity, series.judged, one_line(series.invalid), one_line(series.missing),
            facts.usual_spread, facts.floor, samples=series.samples,
        )
        for metric, facts, series in record.series()
    ]  # fmt: skip


def _session(report: Report, entries: Sequence[Entry], ran: int, site: str | None, origin: dict[str, str]) -> Session:
    """Return the session of a report; `ran`: how many cases ran to their end."""
    info = report.session_info
    selection = read_cmdline(info.cmdline, info.plumbline_mode)
    if selection.is_dry_run:
        raise DryRunError('a dry run: nothing was measured')
    named = site or selection.site or ''
    sites = {entry.system for entry in entries} or {named}
    if not entries and not named:
        raise ValueError('expected one site, no case ran, so no site is named: give --site')
    if len(sites) > 1:
        raise ValueError(f'expected one site, found {", ".join(sorted(sites))}')
    started, ended = _utc(info.time_start_unix), _utc(info.time_end_unix)
    narrowed_by = _chosen(info.plumbline_narrowed_by)
    problems, source = clock_problems(started, ended), origin['source']
    if info.plumbline_mode is None:  # else ci counts the cases, and puts those that ran again in place of others
        problems += map(Problem, _lost_cases(report.runs))
    tests = [entry for entry in entries if entry.perfvalues or not entry.fixture]
    if tests and not any(entry.is_ours for entry in entries):
        source = f'other {source}'
    if any(entry.is_of_own_configuration for entry in entries):
        source = f'own {source}'
    return Session(
        _name(sites.pop(), 'site'), _name(info.uuid, 'session_info: uuid'), started, ended, hostname=info.hostname,
        user=info.user, reframe=info.version, mode=selection.mode, cmdline=info.cmdline,
        selection=_chosen(info.plumbline_selection) or list(selection.selection),
        narrowed_by=list(selection.narrowed_by) if narrowed_by is None else narrowed_by, runs=len(report.runs),
        ran=ran, problems=problems, report=origin['report'], report_sha256=origin['report_sha256'], source=source,
    )  # fmt: skip


def _entries(runs: Sequence[Run]) -> tuple[list[tuple[int, Entry]], set[tuple[str, ...]]]:
    """Return all cases, each with the number of its round, and the identities of those that ran to their end.

    A case may occur again in a later run, and with ``--repeat`` in the same run under another name.
    """
    entries: list[tuple[int, int, Entry]] = []
    identities = set()
    repetitions = 1
    for number, run in enumerate(runs):
        for entry in run.testcases:
            repetition = 0
            if repeated := _REPETITION.search(entry.display_name):
                repetition = int(repeated[1])
                entry.unique_name = entry.display_name = _REPETITION.sub('', entry.display_name)
                repetitions = max(repetitions, repetition + 1)
            is_aborted = entry.result == 'abort'
            if entry.identity in identities and is_aborted and _END_OF_DURATION in entry.reason:
                continue  # an earlier round has measured the case, and nothing failed
            if (not entry.fixture or entry.perfvalues) and not is_aborted and not entry.is_left_out:
                identities.add(entry.identity)
            entries.append((number, repetition, entry))
    return [(number * repetitions + repetition, entry) for number, repetition, entry in entries], identities


def _lost_cases(runs: Sequence[Run]) -> list[str]:
    """Return a sentence for each run that holds fewer cases than ReFrame counted in it."""
    return [
        f'its run report counts {count(run.num_cases, "case")} and has {len(run.testcases)}'
        for run in runs
        if run.num_cases and run.num_cases > len(run.testcases)
    ]


def _restored(report: Report) -> Iterator[str]:
    """Yield a sentence on each session from which ``--restore-session`` took cases."""
    sessions = [case.session_uuid or '' for case in report.restored_cases or ()]
    for session in dict.fromkeys(sessions):
        where = f'session {session}' if session else 'an earlier session'
        yield f'{count(sessions.count(session), "case")} restored from {where}, whose own report has them'


def _causes(entry: Entry, record: Record | None, beyond: list[Cause]) -> list[Cause]:
    """Return what is wrong with a case; `beyond`: the metrics beyond the bounds that ReFrame was given."""
    if entry.plumbline_not_run:
        return [Cause('not-run', entry.plumbline_not_run)]
    if record and record.causes:
        return record.causes
    if entry.result == 'abort':
        return [Cause('not-run', 'the session was aborted')]
    if entry.fail_phase == 'performance' and beyond:
        return beyond
    return [Cause('said', entry.reason)] if entry.reason else []


def _values(entry: Entry, where: str, case: CaseRow, rules: Rules) -> Iterator[tuple[MetricRow, Cause | None]]:
    """Yield each performance value of a case, as one of another suite, and that it is beyond its bounds."""
    for name, measured in (entry.perfvalues or {}).items():
        of = f'{where}: perfvalues: {name}'
        if len(measured) < 5:
            raise ValueError(f'{of}: expected value, reference, two bounds and unit, found {measured!r:.80}')
        value, *bounds = map(values.number, measured[:4])
        is_within = measured[5] != 'fail' if measured[5:] and measured[5] else None  # before 4.10: no result
        prefix = f'{entry.system}:{entry.partition}:'
        name = name.removeprefix(prefix) if name.startswith(prefix) else name.rpartition(':')[2]
        row, cause = rules.value(case, name, str(measured[4] or ''), value, bounds, is_within)
        yield (row._replace(missing=f'its value is {measured[0]!r:.40}') if value is None else row), cause


def _chosen(text: str | None) -> list[str] | None:
    """Return a list that the session's driver wrote; None if it wrote none, as a plain ``reframe`` command."""
    try:
        return None if text is None else msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        raise ValueError(f'session_info: expected a JSON list of texts from the driver, found {text!r:.80}') from None


def _record(entry: Entry, where: str) -> Record | None:
    """Return what a case recorded; None for fixtures, other tests, and cases that ended too early."""
    if not entry.is_ours or entry.record in _NO_RECORD:
        return None
    try:
        return from_dict(entry.record)
    except RecordError as error:
        raise ValueError(f'{where}: {error}') from None


def _case(number: int, run: int, entry: Entry, record: Record | None, where: str) -> CaseRow:
    """Return the row of one test case. A fixture of another suite that measures something counts as a case."""
    has_values, is_check = bool(entry.perfvalues), entry.record is not msgspec.UNSET
    check, params = check_and_params(entry.display_name)
    if record is None:
        record = Record(check, ())
    else:
        check, params = record.check, record.params
    job, completed = record.job, entry.job_completion_time_unix
    return CaseRow(
        case_id=number, round=run, purpose=entry.plumbline_purpose, partition=entry.partition, environ=entry.environ,
        check=check, params=params, name=entry.display_name, fixture=entry.fixture and not has_values,
        benchmark=has_values or (is_check and not entry.fixture), result=entry.result, fail_phase=entry.fail_phase,
        tags=sorted(record.tags or entry.tags or []), trials=record.trials or None,
        job_id=job.get('id') or (None if entry.jobid is None else str(entry.jobid)), job_state=job.get('state'),
        job_exitcode=job.get('exitcode', entry.job_exitcode),
        nodes=_nodes(job.get('nodes') or entry.job_nodelist or [], where),
        completed=_utc(completed) if completed else None, trial_seconds=record.trial_seconds,
        dims={name: vars(dim) for name, dim in record.dims.items()}, draw=record.draw, figures=record.figures,
        placement=record.placement, provenance=record.provenance, health=record.health, evidence=record.evidence,
        scheduler=entry.scheduler, time_setup=entry.time_setup, time_compile=entry.time_compile,
        time_run=entry.time_run, time_sanity=entry.time_sanity, time_performance=entry.time_performance,
        time_total=entry.time_total,
    )  # fmt: skip
