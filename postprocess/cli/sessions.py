# SPDX-License-Identifier: BSD-3-Clause
"""Commands on a session: compare, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import (
    DEFAULT,
    Format,
    Junit,
    References,
    Reruns,
    Results,
    SessionName,
    SiteName,
    app,
    complain,
    days_before,
    end_with,
    in_a_folder,
    say,
    sessions_named,
    show,
    write_junit,
)  # fmt: skip


@app.command()
def compare(
    session: Annotated[
        str,
        typer.Argument(
            metavar='SESSION',
            help='Beginning of its uuid, or "latest", the last that started; before AFTER also all sessions of the '
            'days FROM..TO, such as 2026-11-01..2026-11-30.',
        ),
    ] = 'latest',
    after: Annotated[
        str | None, typer.Argument(metavar='AFTER', help='Compare SESSION with this session, or with all of FROM..TO.')
    ] = None,
    same: Annotated[
        str | None,
        typer.Option(
            '--same',
            metavar='FROM..TO',
            help='How often a comparison of two sessions is wrong here: compare each session of these healthy days '
            'with the next one, though nothing changed, and print how many would have been red. Give no SESSION.',
        ),
    ] = None,
    site: SiteName = None,
    rerun: Reruns = None,
    coverage: Annotated[
        bool,
        typer.Option(
            '--coverage',
            help='Print which series can fail, and the loss that each would notice, in place of the verdicts. Exit '
            'code 1 if a series with a reference is not measured any more, or if there is no series at all.',
        ),
    ] = False,
    format: Format = 'table',
    summary: Annotated[
        bool, typer.Option('--summary', help='Print only counts, the worst and the failures, in 80 columns.')
    ] = False,
    strict: Annotated[
        bool, typer.Option('--strict', help='Exit code 1 also while an incident heals. Without AFTER only.')
    ] = False,
    junit: Junit = None,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Judge every series of a session by the references of its site.

    With AFTER: judge how each series changed between the two, paired where the same nodes ran on both sides.

    Exit code 1 while an incident is open, with AFTER if something became worse or was lost, and 3 if nothing did but
    some changes could not be decided.
    """
    from postprocess.results.store import Store
    from postprocess.views import verdicts as views

    if summary and format != 'table':
        raise InputError(f'--summary is text: give it without --format {format}')
    if after is None and '..' in session:
        raise InputError(f'{session}: days are compared with other days or with a session: give AFTER, too')
    store = Store(results)
    if same is not None:
        from postprocess.verdicts.same import compare_same
        from postprocess.views import same as pairs

        if session != 'latest' or after or rerun or coverage or summary or junit or strict:
            raise InputError('--same FROM..TO: give no SESSION and no other option but --site and --format')
        show(pairs.same(compare_same(store, sessions_named(store, same, site), references)), format)
        return
    digest = beside = None
    if after is None:
        from postprocess.history.digest import judge

        digest = judge(store, session, site, references, rerun or ())
        digest.strict = strict
        comparison = digest.comparison
    elif rerun or strict:
        raise InputError('SESSION and AFTER are judged by each other: give no --rerun and no --strict')
    else:
        from postprocess.verdicts.before_after import compare_windows

        before, later = (sessions_named(store, name, site) for name in (session, after))
        comparison = compare_windows(store, before, later, references)
        if not (coverage or summary):
            from postprocess.history.series import course

            beside = course(store, (before, later), references)
    if coverage:
        show(views.guarded(comparison), format)
        raise typer.Exit(int('vanished' in comparison.standings or not comparison.standings))
    write_junit(junit, comparison, digest)
    if summary:
        say(views.summary(comparison, digest, verdict_last=True))
    else:
        show(views.comparison(comparison, digest, beside), format)
        for problem in comparison.problems if format == 'csv' else ():
            complain(str(problem))
    end_with((digest or comparison).exit_code, digest.faults if digest else ())


@app.command()
def report(
    session: SessionName = 'latest',
    site: SiteName = None,
    rerun: Reruns = None,
    days: Annotated[int, days_before('Days before the session whose history is shown.')] = 90,
    output: Annotated[
        Path | None,
        typer.Option(
            help='The file to write. [default: report.html of the results]', dir_okay=False, callback=in_a_folder
        ),
    ] = None,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Write one HTML file with everything about a session; it needs no network and no other file.

    Exit code 1 while an incident is open.
    """
    from postprocess.history.digest import judge
    from postprocess.report.page import write_page
    from postprocess.results.store import Store
    from postprocess.views.verdicts import verdict_of

    store = Store(results)
    digest = judge(store, session, site, references, rerun or ())
    path = output or results / 'report.html'
    write_page(path, store, digest, references, days)
    for line in digest.lines():
        typer.echo(line)
    typer.echo(f'{path}')
    say(f'{verdict_of(digest)}\n')
    end_with(digest.exit_code, digest.faults)
