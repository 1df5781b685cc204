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

from plumbline import clock
from plumbline.causes import Cause
from plumbline.errors import InputError, RecordError
from plumbline.identity import Pairs, pairs
from plumbline.problems import Problem
from plumbline.record import OWN_CONFIGURATION, Record, from_dict
from postprocess.readers import values
from postprocess.readers.cmdline import read_cmdline
from postprocess.readers.old_reports import as_version_4
from postprocess.readers.rules import NO_RULES, Rules
from postprocess.results.rows import CaseRow, MetricRow, RunReport, Session
from postprocess.text import count, names_in, one_line

_NO_RECORD: tuple[Any, ...] = (None, {}, '<undefined>')  # values in place of the record if a case ended too early
_IDENTITY = ('unique_name', 'display_name', 'system', 'partition', 'environ')  # keys that identify a case in a report
_NUMBER = (int, float)
LARGEST = 2**30  # bytes of a run report: a night of 400 cases has 3 MB
_REPETITION = re.compile(r' %[.$]repeat_no=(\d+)')  # number that ``--repeat`` adds to the display name
# A case that the end of ``--duration`` cut off, and one that Ctrl-C did, have the same data in ReFrame's report: the
# result ``abort`` and an AbortTaskError. Only its sentence names what ended the session.
_END_OF_DURATION = 'RunSessionTimeout'
NAME = re.compile(r'\w[\w.-]*')  # names of files and folders of the store
_NO_NIGHT = re.compile(r'/reports/parts/[^/]*$|/changes/[^/]*/reports/[^/]*$')


class ReportError(InputError):
    """A file is not a usable run report of ReFrame; the message names the file and says why."""


class DryRunError(ReportError):
    """A run report is of a dry run, which measured nothing."""


def read_report(path: Path, site: str | None = None, rules: Rules = NO_RULES) -> RunReport:
    """Return the run report at `path`.

    `site` is used only if no case ran: cases name their site. Raises ReportError; DryRunError for a dry run.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise ReportError(f'{path}: expected a run report of at most {LARGEST // 2**20} MiB')
        content = path.read_bytes()
    except OSError as error:
        raise ReportError(f'{path}: cannot be read: {error.strerror}') from None
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
) -> Iterator[RunReport | ReportError]:
    """Yield the sessions of ReFrame's results database that are not in `known`, or an error for an unusable one.

    Reruns, parts of a node sweep and comparisons of a change are left out, because they are no sessions of their own.
    They are recognized by the folders in which `ci` keeps their reports. Only one session at a time is in memory: a
    year takes 450 MB. Raises ReportError if the file is not such a database.
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
                except ReportError as error:
                    yield error
    except sqlite3.Error as error:
        raise ReportError(f"{path}: not a usable results database of ReFrame's: {error}") from None


def _parse(content: bytes, name: str, path: Path, source: str, site: str | None, rules: Rules) -> RunReport:
    """Return the report in `content`; error messages call it `name`."""
    origin = {'report': str(path.absolute()), 'report_sha256': hashlib.sha256(content).hexdigest(), 'source': source}
    try:
        return _read(json.loads(content), site, origin, rules)
    except DryRunError as error:
        raise DryRunError(f'{name}: {error}') from None
    except _Unexpected as error:
        raise ReportError(f'{name}: not a usable ReFrame run report: {error}') from None
    except InputError as error:
        raise ReportError(f'{name}: {error}') from None
    except (ValueError, RecursionError) as error:
        raise ReportError(f'{name}: not valid JSON, perhaps cut short: {error}') from None


def check_and_params(display_name: str) -> tuple[str, Pairs]:
    """Return check and params of ReFrame's display name, such as ``HPCC %size=quick %stack.x=1``.

    Parameters with a dot belong to fixtures or come from ``--distribute``; they are not parameters of the check.
    """
    check, *parameters = display_name.split(' %')
    own = (parameter.partition('=') for parameter in parameters)
    return check, pairs({key: value for key, _, value in own if '.' not in key})


class _Unexpected(ValueError):
    """Something in the report is not as expected."""


def _get(mapping: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return ``mapping[key]``. Raises _Unexpected if it is missing or not of `kind`."""
    if not isinstance(mapping, dict) or key not in mapping:
        raise _Unexpected(f'{where} has no {key!r}')
    value = mapping[key]
    if not isinstance(value, kind):
        expected = ' or '.join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise _Unexpected(f'{where}: {key}: expected {expected}, found {value!r:.80}')
    return value


def _words(value: Any, where: str) -> list[str]:
    """Return a list of texts; empty for None."""
    words = value or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _Unexpected(f'{where}: expected a list of names, found {value!r:.80}')
    return words


def _nodes(value: Any, where: str) -> list[str]:
    """Return the nodes of a case; after ``--performance-report`` ReFrame leaves their names in its short form."""
    try:
        return names_in(value) if isinstance(value, str) else _words(value, where)
    except ValueError as error:
        raise _Unexpected(f'{where}: {error}') from None


def _name(text: str, what: str) -> str:
    """Return `text` if it can be the name of a file or folder of the store. Raises _Unexpected."""
    if not NAME.fullmatch(text):
        raise _Unexpected(f'{what}: expected letters, digits, "-", "_" and ".", found {text!r}')
    return text


def _utc(seconds: float) -> datetime:
    """Return the time of `seconds` since 1970 in UTC. Raises _Unexpected."""
    try:
        if seconds < 0:
            raise ValueError
        return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        raise _Unexpected(f'{seconds!r:.80} is no time: expected seconds since 1970') from None


def clock_problems(started: datetime, ended: datetime) -> list[Problem]:
    """Return a problem for each thing that was wrong with the clock of a session's host."""
    problems = []
    if clock.is_ahead(started):
        problems.append(f'the clock was wrong: the session began on {started:%Y-%m-%d}, which was in the future')
    if ended < started:
        gone_back = (started - ended).total_seconds()
        problems.append(f'the clock went back during the session: it ended {gone_back:.0f} s before it began')
    return [*map(Problem, problems)]


def _read(report: Any, site: str | None, origin: dict[str, str], rules: Rules) -> RunReport:
    """Return the content of a report as rows of the store."""
    info = _get(report, 'session_info', dict, 'the file')
    version = _get(info, 'data_version', str, 'session_info')
    if version.startswith('3.'):
        report = as_version_4(report, origin['report_sha256'])
        info = report['session_info']
    elif not version.startswith('4.'):
        raise _Unexpected(f'session_info: data_version: expected 3.x or 4.x, found {version}')
    runs = _get(report, 'runs', list, 'the file')
    entries, identities = _entries(runs)
    session = _session(info, runs, [entry for _, entry in entries], len(identities), site, origin)
    rows = RunReport(session, [*_restored(report)])
    for number, (run, entry) in enumerate(pair for pair in entries if not _is_left_out(pair[1])):
        where = f'case {entry["display_name"]!r}'
        record = _record(entry, where)
        case = _case(number, run, entry, record, where)
        series = _series(record) if record else []
        is_ours = _is_ours(entry)
        is_read = not is_ours or entry.get('fail_phase') == 'performance'
        found = [*_values(entry, where, case, rules)] if is_read else []
        if not is_ours:
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


def _session(
    info: dict[str, Any], runs: list[Any], entries: Sequence[dict[str, Any]], ran: int, site: str | None,
    origin: dict[str, str],
) -> Session:  # fmt: skip
    """Return the session of a report; `info`: what the report says of it; `ran`: how many cases ran to their end."""
    mode = _get({'plumbline_mode': None} | info, 'plumbline_mode', (str, type(None)), 'session_info')
    cmdline = _get(info, 'cmdline', str, 'session_info')
    selection = read_cmdline(cmdline, mode)
    if selection.is_dry_run:
        raise DryRunError('a dry run: nothing was measured')
    sites = {entry['system'] for entry in entries} or {site or selection.site}
    if None in sites:
        raise _Unexpected('expected one site, no case ran, so no site is named: give --site')
    if len(sites) > 1:
        raise _Unexpected(f'expected one site, found {", ".join(sorted(sites))}')
    started, ended = (_utc(_get(info, f'time_{key}_unix', _NUMBER, 'session_info')) for key in ('start', 'end'))
    narrowed_by = _chosen(info, 'narrowed_by')
    problems, source = clock_problems(started, ended), origin['source']
    if 'plumbline_mode' not in info:  # else ci counts the cases, and puts those that ran again in place of others
        problems += map(Problem, _lost_cases(runs))
    if not any(map(_is_ours, entries)) and any(entry.get('perfvalues') for entry in entries):
        source = f'other {source}'
    if any(map(_is_of_own_configuration, entries)):
        source = f'own {source}'
    return Session(
        _name(sites.pop(), 'site'), _name(_get(info, 'uuid', str, 'session_info'), 'session_info: uuid'), started,
        ended, hostname=_get(info, 'hostname', str, 'session_info'), user=info.get('user'),
        reframe=_get(info, 'version', str, 'session_info'), mode=selection.mode, cmdline=cmdline,
        selection=_chosen(info, 'selection') or list(selection.selection),
        narrowed_by=list(selection.narrowed_by) if narrowed_by is None else narrowed_by, runs=len(runs), ran=ran,
        problems=problems, report=origin['report'], report_sha256=origin['report_sha256'], source=source,
    )  # fmt: skip


def _entries(runs: list[Any]) -> tuple[list[tuple[int, dict[str, Any]]], set[tuple[str, ...]]]:
    """Return all cases, each with the number of its round, and the identities of those that ran to their end.

    A case may occur again in a later run, and with ``--repeat`` in the same run under another name.
    """
    entries: list[tuple[int, dict[str, Any]]] = []
    identities = set()
    repetitions = 1
    for number, run in enumerate(runs):
        for entry in _get(run, 'testcases', list, f'runs[{number}]'):
            where = f'a case of runs[{number}]'
            unique, display, *place = (_get(entry, key, str, where) for key in _IDENTITY)
            if repeated := _REPETITION.search(display):
                unique = display = _REPETITION.sub('', display)
                entry = entry | {'display_name': display}
                repetitions = max(repetitions, int(repeated[1]) + 1)
            identity, is_aborted = (unique, display, *place), entry.get('result') == 'abort'
            if identity in identities and is_aborted and _END_OF_DURATION in (reason_of(entry) or ''):
                continue  # an earlier round has measured the case, and nothing failed
            is_case = not _get(entry, 'fixture', bool, where) or bool(entry.get('perfvalues'))
            if is_case and not is_aborted and not _is_left_out(entry):
                identities.add(identity)
            entries.append((number, entry | {'repetition': int(repeated[1]) if repeated else 0}))
    return [(number * repetitions + entry['repetition'], entry) for number, entry in entries], identities


def _lost_cases(runs: list[Any]) -> list[str]:
    """Return a sentence for each run that holds fewer cases than ReFrame counted in it."""
    return [
        f'its run report counts {count(counted, "case")} and has {len(run["testcases"])}'
        for run in runs
        if isinstance(counted := run.get('num_cases'), int) and counted > len(run['testcases'])
    ]


def _is_ours(entry: dict[str, Any]) -> bool:
    """Return True if a case is one of our checks, which have a record.

    Other tests may have a variable `record`, too.
    """
    record = entry.get('record')
    return 'record' in entry and (not entry.get('perfvalues') or (isinstance(record, dict) and 'schema' in record))


def _restored(report: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence on each session from which ``--restore-session`` took cases."""
    restored = report.get('restored_cases') or []
    if not isinstance(restored, list):
        raise _Unexpected(f'the file: restored_cases: expected list, found {restored!r:.80}')
    sessions = [str(case.get('session_uuid') or '') if isinstance(case, dict) else '' for case in restored]
    for session in dict.fromkeys(sessions):
        where = f'session {session}' if session else 'an earlier session'
        yield f'{count(sessions.count(session), "case")} restored from {where}, whose own report has them'


def _is_of_own_configuration(entry: dict[str, Any]) -> bool:
    """Return True if a case is one of our checks that ran with a ReFrame configuration of the site's own."""
    record = entry.get('record')
    provenance = record.get('provenance') if isinstance(record, dict) else None
    return isinstance(provenance, dict) and provenance.get('configuration') == OWN_CONFIGURATION


def _is_left_out(entry: dict[str, Any]) -> bool:
    """Return True if a configuration that says too little made ReFrame skip a case of ours: nothing is wrong."""
    return entry.get('result') == 'skip' and _is_of_own_configuration(entry)


def _causes(entry: dict[str, Any], record: Record | None, beyond: list[Cause]) -> list[Cause]:
    """Return what is wrong with a case; `beyond`: the metrics beyond the bounds that ReFrame was given."""
    if why := entry.get('plumbline_not_run'):
        return [Cause('not-run', why)]
    if record and record.causes:
        return record.causes
    if entry['result'] == 'abort':
        return [Cause('not-run', 'the session was aborted')]
    if entry.get('fail_phase') == 'performance' and beyond:
        return beyond
    reason = reason_of(entry)
    return [Cause('said', reason)] if reason else []


def reason_of(entry: dict[str, Any]) -> str | None:
    """Return why a case failed, in ReFrame's words; only `_causes` says it as data."""
    return (one_line(entry.get('fail_reason')) or '').removeprefix('sanity error: ') or None


def _values(entry: dict[str, Any], where: str, case: CaseRow, rules: Rules) -> Iterator[tuple[MetricRow, Cause | None]]:
    """Yield each performance value of a case, as one of another suite, and that it is beyond its bounds."""
    performance = _get({'perfvalues': None} | entry, 'perfvalues', (dict, type(None)), where) or {}
    for name, measured in performance.items():
        of = f'{where}: perfvalues: {name}'
        if not isinstance(measured, list) or len(measured) < 5:
            raise _Unexpected(f'{of}: expected value, reference, two bounds and unit, found {measured!r:.80}')
        value, *bounds = map(values.number, measured[:4])
        is_within = measured[5] != 'fail' if measured[5:] and measured[5] else None  # before 4.10: no result
        prefix = f'{entry["system"]}:{entry["partition"]}:'
        name = name.removeprefix(prefix) if name.startswith(prefix) else name.rpartition(':')[2]
        row, cause = rules.value(case, name, str(measured[4] or ''), value, bounds, is_within)
        yield (row._replace(missing=f'its value is {measured[0]!r:.40}') if value is None else row), cause


def _chosen(info: dict[str, Any], name: str) -> list[str] | None:
    """Return a list that the session's driver wrote; None if it wrote none, as a plain ``reframe`` command."""
    key = f'plumbline_{name}'
    try:
        return None if key not in info else _words(json.loads(info[key]), key)
    except (TypeError, ValueError):
        raise _Unexpected(f'session_info: {key}: expected a JSON list of texts, found {info[key]!r:.80}') from None


def _record(entry: dict[str, Any], where: str) -> Record | None:
    """Return what a case recorded; None for fixtures, other tests, and cases that ended too early."""
    if not _is_ours(entry) or entry.get('record') in _NO_RECORD:
        return None
    try:
        return from_dict(entry['record'])
    except RecordError as error:
        raise _Unexpected(f'{where}: {error}') from None


def _case(number: int, run: int, entry: dict[str, Any], record: Record | None, where: str) -> CaseRow:
    """Return the row of one test case. A fixture of another suite that measures something counts as a case."""
    has_values = bool(entry.get('perfvalues'))
    check, params = check_and_params(entry['display_name'])
    if record is None:
        record = Record(check, ())
    else:
        check, params = record.check, record.params
    job = record.job
    completed = entry.get('job_completion_time_unix') and _get(entry, 'job_completion_time_unix', _NUMBER, where)
    nodes = _nodes(job.get('nodes') or entry.get('job_nodelist'), f'{where}: nodes')
    return CaseRow(
        case_id=number, round=run, purpose=entry.get('plumbline_purpose', ''), partition=entry['partition'],
        environ=entry['environ'], check=check, params=params, name=entry['display_name'],
        fixture=entry['fixture'] and not has_values,
        benchmark=has_values or ('record' in entry and not entry['fixture']),
        result=_get(entry, 'result', str, where), fail_phase=entry.get('fail_phase'),
        tags=sorted(_words(record.tags or entry.get('tags'), f'{where}: tags')), trials=record.trials or None,
        job_id=job.get('id') or (str(entry['jobid']) if entry.get('jobid') is not None else None),
        job_state=job.get('state'), job_exitcode=job.get('exitcode', entry.get('job_exitcode')), nodes=nodes,
        completed=_utc(completed) if completed else None, trial_seconds=record.trial_seconds,
        dims={name: vars(dim) for name, dim in record.dims.items()}, draw=record.draw, figures=record.figures,
        placement=record.placement, provenance=record.provenance, health=record.health, evidence=record.evidence,
        scheduler=entry.get('scheduler'), time_setup=entry.get('time_setup'), time_compile=entry.get('time_compile'),
        time_run=entry.get('time_run'), time_sanity=entry.get('time_sanity'),
        time_performance=entry.get('time_performance'), time_total=entry.get('time_total'),
    )  # fmt: skip
