# SPDX-License-Identifier: BSD-3-Clause
"""The command ``plumbline gate``: run another suite's command, and judge what it wrote."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.errors import InputError
from plumbline.problems import Problem
from postprocess.cli.app import DEFAULT, Junit, NewResults, References, app, complain, end_with, say, write_junit

if TYPE_CHECKING:
    from postprocess.results.store import Session, Store

_FAILED = ('fail', 'abort', 'xpass')  # ReFrame's results for which it ends with an exit code other than 0


@app.command(context_settings={'ignore_unknown_options': True})
def gate(
    command: Annotated[
        list[str],
        typer.Argument(metavar='-- COMMAND...', help='What runs ReFrame: `reframe -c tests -r`, or a script.'),
    ],
    rerun: Annotated[
        int,
        typer.Option(
            min=0, max=15, metavar='N', help='Run the tests in doubt again, by ReFrame alone, at most so many times.'
        ),
    ] = 0,
    junit: Junit = None,
    results: NewResults = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Run a command that runs ReFrame, store its session, judge it, and write the page.

    Works for any suite and configuration; no site file is needed. The report is found by RFM_REPORT_FILE, so the
    command must not choose another file with --report-file. In a GitHub workflow, the verdicts go to the summary of the
    step. Exit code 1 while an incident is open, 2 without a report.
    """
    from plumbline.files import write_text
    from postprocess.history.digest import judge
    from postprocess.readers import reruns
    from postprocess.readers.run_reports import read_report
    from postprocess.report.page import write_page
    from postprocess.results.store import Store
    from postprocess.views import verdicts as views

    with tempfile.TemporaryDirectory(prefix='plumbline-gate-') as folder:
        report = Path(folder, 'report.json')
        code = reruns.run(command, report)
        read = read_report(report)
        name = read.session.session
        stored_report = results / 'reports' / f'{name}.json'
        write_text(stored_report, report.read_text(encoding='utf-8'))
    store = Store(results)
    problems: tuple[Problem, ...] = ()
    if code and not any(case.result in _FAILED for case in read.cases):
        problems = (Problem(f'the command ended with exit code {code}, and no case of its run report failed'),)
    session = _stored(store, stored_report, name, problems)
    for number in range(1, rerun + 1):
        if not _ran_again(store, session, stored_report, references, number):
            break
        session = _stored(store, stored_report, name, problems)
    digest = judge(store, name, None, references)
    write_page(results / 'report.html', store, digest, references)
    write_junit(junit, digest.comparison, digest)
    if summary := os.environ.get('GITHUB_STEP_SUMMARY'):
        with open(summary, 'a', encoding='utf-8') as stream:
            stream.write(views.published(digest.comparison, digest) + '\n')
    say(views.summary(digest.comparison, digest, verdict_last=True))
    end_with(digest.exit_code, digest.faults)


def _stored(store: Store, report: Path, name: str, problems: tuple[Problem, ...] = ()) -> Session:
    """Store the session of a report, with `problems` outside its cases, and return it. Raises InputError."""
    from postprocess.readers.ingest import ingest

    for message in ingest(store, [report], problems=problems):
        if isinstance(message, InputError):
            raise message
        if not message.startswith(f'{report}'):
            complain(message)
    return store.find(name)


def _ran_again(store: Store, session: Session, report: Path, references: Path | None, number: int) -> bool:
    """Run the tests in doubt once more; return True if there were any."""
    from postprocess.history.verdicts import verdicts_of
    from postprocess.incidents.background import name_of
    from postprocess.readers import reruns
    from postprocess.readers.cmdline import without_names
    from postprocess.text import count

    cases = {case.case_id: case for case in store.cases(session)}
    wanted = verdicts_of(store, session, references).again
    names = list(dict.fromkeys(name_of(cases[again.case_id]) for again in wanted))
    command = without_names(session.cmdline)
    if not names or not command:
        return False
    typer.echo(f'plumbline: rerun {number}: {count(len(names), "test")} in doubt')
    try:
        reruns.run_again(report, command, names)
    except InputError as error:
        complain(f'the rerun measured nothing, so what was measured before is judged: {error}')
        return False
    return True
