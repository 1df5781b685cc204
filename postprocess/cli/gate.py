# SPDX-License-Identifier: BSD-3-Clause
"""The command ``plumbline gate``: run another suite's command, and judge what it wrote."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, NewResults, References, app, complain, say


@app.command(context_settings={'ignore_unknown_options': True})
def gate(
    command: Annotated[
        list[str],
        typer.Argument(metavar='-- COMMAND...', help='What runs ReFrame: `reframe -c tests -r`, or a script.'),
    ],
    results: NewResults = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Run a command that runs ReFrame, store its session, judge it, and write the page.

    Works for any suite and configuration; no site file is needed. The report is found by RFM_REPORT_FILE, so the
    command must not choose another with --report-file. Exit code 1 while an incident is open, 2 without a report.
    """
    from plumbline.files import write_text
    from postprocess.history.answer import answer
    from postprocess.readers.ingest import ingest
    from postprocess.readers.run_reports import read_report
    from postprocess.report.page import write_page
    from postprocess.results.store import Store
    from postprocess.views import verdicts as views

    with tempfile.TemporaryDirectory(prefix='plumbline-gate-') as folder:
        report = Path(folder, 'report.json')
        try:
            ran = subprocess.run(command, env=os.environ | {'RFM_REPORT_FILE': str(report)}, check=False)
        except OSError as error:
            raise InputError(f'{command[0]}: cannot be run: {error.strerror}') from None
        if not report.exists():
            raise InputError(
                f'the command ended with exit code {ran.returncode} and wrote no run report: expected one in the file '
                f'that RFM_REPORT_FILE names, which --report-file overrides'
            )
        session = read_report(report).session['session']
        kept = results / 'reports' / f'{session}.json'
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, report.read_text(encoding='utf-8'))
    store = Store(results)
    for stored in ingest(store, [kept]):
        if isinstance(stored, InputError):
            raise stored
    found = answer(store, session, None, references)
    write_page(results / 'report.html', store, found, references)
    for said in (*found.notes, *found.faults):
        complain(said)
    say(views.summary(found.comparison, found, verdict_last=True))
    raise typer.Exit(2 if found.faults else found.exit_code)
