# SPDX-License-Identifier: BSD-3-Clause
"""Put run reports, ReFrame's results database, or what another reader yields into the results store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from plumbline.errors import InputError
from plumbline.problems import Problem
from plumbline.record import summarize
from plumbline.units import factor
from postprocess.readers.rules import Rules, place, read_rules
from postprocess.readers.run_reports import DryRunError, clock_problems, is_database, read_report, sessions_in
from postprocess.results.rows import Session, SessionRows
from postprocess.results.store import ForgottenError, Store
from postprocess.text import count, one_line

Reader = Callable[[Store, Sequence[Path], str | None, Rules], Iterable[SessionRows | InputError]]
_SOME = 5  # most metrics that a sentence names
_SESSIONS = 20  # last sessions in which the unit of a series is looked up
_SQL = """
    SELECT "partition", environ, "check", params, metric, metrics.dims, arg_max(unit, night) AS unit
    FROM metrics JOIN cases USING (night, case_id) WHERE n > 0 GROUP BY ALL
"""
_NOT_PASSED = {'fail': 'failed', 'skip': 'skipped'}


def read_reports(
    store: Store, paths: Sequence[Path], site: str | None, rules: Rules
) -> Iterator[SessionRows | InputError]:
    """Yield the sessions of run reports and results databases, and errors for what cannot be used."""
    for path in paths:
        try:
            if is_database(path):
                yield from sessions_in(path, {session.session for session in store.sessions('*')}, site, rules)
            else:
                yield read_report(path, site, rules)
        except InputError as error:
            yield error


def ingest(
    store: Store, paths: Sequence[Path], site: str | None = None, expected: int | None = None,
    problems: Sequence[Problem] = (), read: Reader = read_reports,
) -> Iterator[str | InputError]:  # fmt: skip
    """Yield a sentence for each session, and an error for each file or session that cannot be used.

    `expected` and `problems`: for the sessions of run reports. `read`: yields the sessions in the files.
    """
    found_any = False
    undecided: set[tuple[str, str, str]] = set()
    for report in _read(store, paths, site, read):
        found_any = True
        converted: list[str] = []
        if isinstance(report, InputError):
            yield f'left out: {report}' if isinstance(report, DryRunError) else report
            continue
        session = report.session
        if session.source.endswith('report'):
            report = _with_problems(report, expected, problems)
        try:
            if session.is_of_another_suite:
                report, converted = _in_known_units(store, report)
            added = store.add(report)
        except ForgottenError as error:
            yield f'{session.report}: not stored: {error}'
            continue
        except InputError as error:
            yield error
            continue
        name = f'{session.report}: session {session.session} of {session.site}'
        if added:
            yield f'{name}: {_stored(report, expected)}'
            yield from (f'{name}: {note}' for note in (*report.notes, *converted))
            undecided |= report.undecided
        else:
            ignored = '; --expected and --problem are as they were' if expected is not None or problems else ''
            yield f'{name} is in the store already: nothing changed{ignored}'
    if not found_any:
        yield 'nothing new: the store has all of it already'
    if undecided:
        yield _assumed(undecided)


def _with_problems(report: SessionRows, expected: int | None, problems: Sequence[Problem]) -> SessionRows:
    """Return a report with what its driver knows: how many cases were expected, and what went wrong outside them."""
    told = [replace(problem, text=line) for problem in problems if (line := one_line(problem.text))]
    told += report.session.problems
    return replace(report, session=replace(report.session, expected=expected, problems=told))


def _stored(report: SessionRows, expected: int | None) -> str:
    """Return what was stored: ``16 cases of 20 (1 failed), 48 samples``, and what was wrong with the clock."""
    session = report.session
    of = f' of {expected}' if expected not in (None, session.ran) else ''
    several = {(case.partition, case.environ, case.name, case.result): case for case in report.cases}
    results = Counter(case.result for case in (report.cases if _is_of_file(session) else several.values()))
    others = [f'{results[result]} {word}' for result, word in _NOT_PASSED.items() if results[result]]
    ran = count(session.ran, 'case') + of + (f' ({", ".join(others)})' if others else '')
    samples = count(report.number_of_samples, 'sample')
    return '; '.join([f'{ran}, {samples}', *map(str, clock_problems(session.started, session.ended))])


def _is_of_file(session: Session) -> bool:
    """Return True if a session was read from a file of numbers, each of whose nodes measured a case of its own."""
    return session.source.endswith(' file')


def _assumed(undecided: Iterable[tuple[str, str, str]]) -> str:
    """Return for which metrics a direction was assumed, and how to state it."""
    names = [f'{check} {metric} in {unit or "no unit"}' for check, metric, unit in sorted(undecided)]
    some = ', '.join(names[:_SOME]) + (', ...' if names[_SOME:] else '')
    metric = min(metric for _, metric, _ in undecided)
    return (
        f'neither bounds nor unit say which direction is better, so higher is assumed: {some}; a rule such as '
        f'`- {{metric: {metric}, better: lower}}` decides it in {place()}; `plumbline init --suite REPORT` lists the '
        'metrics of ReFrame there'
    )


def _read(store: Store, paths: Sequence[Path], site: str | None, read: Reader) -> Iterator[SessionRows | InputError]:
    """Yield what `read` yields of the files, after errors for what no reader may open."""
    try:
        rules = read_rules(place())
    except InputError as error:
        yield error
        return
    for path in paths:
        if path.is_char_device() or path.is_block_device():  # such as /dev/zero, which has no end
            yield InputError(f'{path}: expected a file, found a device')
            return
    yield from read(store, paths, site, rules)


def _in_known_units(store: Store, report: SessionRows) -> tuple[SessionRows, list[str]]:
    """Return `report`, of another suite, in the units of its earlier sessions, and a sentence for each other unit."""
    of_site = store.sessions(report.session.site)
    earlier = [session for session in of_site if session.is_of_another_suite][-_SESSIONS:]
    if not earlier:
        return report, []
    units = {row['id']: row['unit'] for row in store.select(_SQL, earlier)}
    cases = {case.case_id: case for case in report.cases}
    sentences: dict[str, None] = {}
    metrics = []
    for row in report.metrics:
        case = cases[row.case_id]
        before = units.get(case.id.series(row.metric, row.dims))
        times = factor(row.quantity.unit, before) if before is not None and before != row.quantity.unit else None
        if before is not None and times is not None:
            sentences[f'{case.check} {row.metric} is in {row.quantity.unit}, converted to {before} as before'] = None
            samples = [(trial, node, value * times) for trial, node, value in row.samples]
            summary = summarize([value for *_, value in samples])
            row = row._replace(quantity=replace(row.quantity, unit=before), samples=samples, summary=summary)
        metrics.append(row)
    return replace(report, metrics=metrics), [*sentences]
