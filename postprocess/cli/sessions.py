# SPDX-License-Identifier: BSD-3-Clause
"""Commands on a session: ingest, compare, report."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import (
    DEFAULT,
    Format,
    NewResults,
    References,
    Reruns,
    Results,
    SessionName,
    SiteName,
    app,
    by_extra,
    complain,
    days_before,
    end_with,
    in_a_folder,
    say,
    show,
)  # fmt: skip

if TYPE_CHECKING:
    from postprocess.history.kept import Standing
    from postprocess.readers.measurements import Stated


@app.command()
def ingest(
    reports: Annotated[
        list[Path], typer.Argument(metavar='REPORT', help="ReFrame's JSON run reports, or its results database.")
    ],
    expected: Annotated[
        int | None, typer.Option(min=0, help='How many cases the session should have run; another number is a problem.')
    ] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option(
            metavar='SENTENCE', help='What went wrong outside the cases; the session fails. May be given again.'
        ),
    ] = None,
    perflog: Annotated[
        bool,
        typer.Option('--perflog', help='The files are performance logs of another suite; each run becomes a session.'),
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(
            '--format',
            metavar='NAME',
            help='The files are of another tool, such as table, jube, ramble, superbench or hpl; a wrong name lists '
            'all. Needs --site.',
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar='NAME', help='Partition of the numbers, with --format.')
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar='NAME=VALUE',
            help='A param of the numbers that the files do not say, with --format. May be given again.',
        ),
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar='NODES', help='Nodes that measured, such as n1,n2 or n[1-4], with --format.')
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            envvar='PLUMBLINE_SITE', help='Site of a report without any case, or of --format; cases name their site.'
        ),
    ] = None,
    results: NewResults = DEFAULT,
) -> None:
    """Put run reports into the results store, also those of other suites. A known report changes nothing."""
    from plumbline.problems import Problem
    from postprocess.readers import ingest as module
    from postprocess.readers.measurements import read_files
    from postprocess.results.store import Store

    failed = False
    stated = _stated(partition, param or [], nodes)
    if stated and not format:
        raise InputError('--partition, --param, --nodes: expected --format with them: ReFrame names its own')
    problems = [*map(Problem, problem or ())]
    read: module.Reader = by_extra('ingest --perflog') if perflog else module.read_reports
    if format:
        read = partial(read_files, format=format, stated=stated)
    for message in module.ingest(Store(results), reports, site, expected, problems, read):
        if isinstance(message, InputError):
            complain(message)
            failed = True
        else:
            typer.echo(message)
    if failed:
        raise typer.Exit(2)


def _stated(partition: str | None, params: list[str], nodes: str | None) -> Stated | None:
    """Return what is stated of files that do not say it; None: nothing. Raises InputError."""
    from postprocess.readers.measurements import Stated
    from postprocess.text import names_in

    if wrong := [text for text in params if not re.fullmatch(r'[\w.-]+=[^,=]+', text)]:
        raise InputError(f'--param {wrong[0]}: expected NAME=VALUE')
    if partition is not None and not re.fullmatch(r'[\w.-]+', partition):
        raise InputError(f'--partition {partition}: expected letters, digits, "-", "_" and "."')
    try:
        names = ','.join(names_in(nodes or ''))
    except ValueError as error:
        raise InputError(f'--nodes {nodes}: {error}') from None
    stated = Stated(partition or '', dict(text.split('=', 1) for text in params), names)
    return stated if any(stated) else None


@app.command()
def status(site: SiteName = None, results: Results = DEFAULT, references: References = DEFAULT) -> None:
    """Show where each site stands: stacks, last session, baseline, incidents, coverage, and what to do next.

    Exit code 1 while an incident is open at one of them, or a session that was ended early waits to be resumed.
    """
    from plumbline.clock import now
    from plumbline.errors import SiteError
    from postprocess.history import kept
    from postprocess.history.unfinished import unfinished
    from postprocess.views import standing as views

    known, code = {each.site: each for each in kept.standings(results, site, references)}, 0
    for number, name in enumerate(known or _sites(results, site, references)):
        try:
            standing = known.get(name) or _standing(results, name, references)
            begun = unfinished(results, name)
            text = views.lines(standing, now(), str(begun or ''))
        except (InputError, SiteError) as error:  # a broken site must not hide the others
            complain(error)
            code = 2
            continue
        typer.echo(('\n' if number else '') + text)
        for fault in standing.unknown:
            complain(fault)
        code = max(code, 2 if standing.unknown else int(standing.red or bool(begun and not begun.runs)))
    raise typer.Exit(code)


def _sites(results: Path, site: str | None, references: Path | None) -> list[str]:
    """Return the names of the sites to show. Raises InputError, SiteError."""
    from plumbline.site.sites import must_exist, name_of_this_site
    from postprocess.results.store import Store

    measured = Store(results).sites()
    if site and site not in measured:
        must_exist(site, references)
    return [site] if site else measured or [name_of_this_site(references)]


def _standing(results: Path, site: str, references: Path | None) -> Standing:
    """Return where a site stands, computed anew; what is kept needs none of these libraries."""
    from postprocess.history.standing import standing
    from postprocess.results.store import Store

    return standing(Store(results), site, references)


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
    junit: Annotated[
        Path | None, typer.Option(help='Write the verdicts as JUnit XML, too.', dir_okay=False, callback=in_a_folder)
    ] = None,
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
        from postprocess.verdicts.before_after import sessions_named
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
        from postprocess.verdicts.before_after import compare_windows, sessions_named

        before, later = (sessions_named(store, name, site) for name in (session, after))
        comparison = compare_windows(store, before, later, references)
        if not (coverage or summary):
            from postprocess.history.series import course

            beside = course(store, (before, later), references)
    if coverage:
        show(views.guarded(comparison), format)
        raise typer.Exit(int('vanished' in comparison.standings or not comparison.standings))
    if junit is not None:
        from plumbline.files import write_whole
        from postprocess.report.junit import to_junit

        write_whole({junit: lambda stream: stream.write(to_junit(comparison, digest))})
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
    show_it: Annotated[bool, typer.Option('--open', help='Show it in the browser of this machine.')] = False,
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
    if show_it:
        import webbrowser

        if not webbrowser.open(path.absolute().as_uri()):
            complain(f'no browser was found to show {path}')
    end_with(digest.exit_code, digest.faults)
