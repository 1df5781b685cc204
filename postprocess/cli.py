"""The command line ``plumbline``. Each command imports what it needs: help and errors come at once."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from postprocess.errors import InputError


class _Group(TyperGroup):
    """Turns what is wrong with the input into one sentence on standard error and exit code 2."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except ValueError as error:
            from site_configs import SiteError

            if not isinstance(error, (InputError, SiteError)):
                raise
            typer.echo(f'plumbline: {error}', err=True)
            raise typer.Exit(2) from None


# rich_markup_mode=None: help in plain text starts twice as fast
app = typer.Typer(
    cls=_Group, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    context_settings={'help_option_names': ['-h', '--help']},
    help='Does this machine still deliver what it delivered when it was accepted? '
    'Exit codes: 0 all ok, 1 something regressed, is missing or failed, 2 the input cannot be used.',
)  # fmt: skip
record_app = typer.Typer(
    cls=_Group, rich_markup_mode=None, no_args_is_help=True,
    help='Turn accepted sessions into the baseline of their site, in two steps with a review between them.',
)  # fmt: skip
app.add_typer(record_app, name='record')


def _results(given: Path | None) -> Path:
    """The results directory: the one given, else the one that ReFrame writes to."""
    from site_configs.places import results_directory

    return given or results_directory()


class Format(str, enum.Enum):
    table = 'table'
    markdown = 'markdown'
    json = 'json'
    csv = 'csv'


Results = Annotated[
    Path | None,
    typer.Option(
        '--results',
        callback=_results,
        help='Where runs leave their results and the store is. [default: $PLUMBLINE_RESULTS, else that of ReFrame]',
    ),
]
References = Annotated[
    Path | None,
    typer.Option(
        '--references', help='Folder of site folders, in place of site_configs/.', exists=True, file_okay=False
    ),
]
SiteName = Annotated[str | None, typer.Option('--site', envvar='PLUMBLINE_SITE', help='Only this site.')]
SessionName = Annotated[str, typer.Argument(metavar='[SESSION]', help='Beginning of its uuid, or "latest".')]
OutputFormat = Annotated[Format, typer.Option('--format', help='How to print it.')]


def _judged(session: str, site: str | None, against: str | None, results: Path, references: Path | None):
    """The store, and the comparison of a session with its site's references or with the session `against`."""
    from postprocess.compare import compare as judge_session
    from postprocess.store import Store
    from site_configs.loader import SITES

    store = Store(results)
    chosen = store.find(session, site)
    other = store.find(against, chosen.site) if against else None
    return store, judge_session(store, chosen, other, references or SITES)


def main() -> None:
    """Entry point of the console script."""
    app(prog_name='plumbline')


@app.command()
def sites(
    site: Annotated[str | None, typer.Argument(help='Show the details of this site.')] = None,
    check: Annotated[
        bool, typer.Option('--check', help='Validate every file, and that each reference has a case.')
    ] = False,
    format: OutputFormat = Format.table,
    references: References = None,
) -> None:
    """List the sites, show one, or validate their files."""
    from postprocess import sites as module
    from site_configs.loader import SITES

    root = references or SITES
    if check:
        faults = module.check(site, root)
        for fault in faults:
            typer.echo(fault, err=True)
        raise typer.Exit(2 if any(fault.is_error for fault in faults) else 0)
    if site is None:
        module.print_list(root, format.value)
    else:
        module.print_details(site, root, format.value)


@app.command()
def ingest(
    reports: Annotated[list[Path], typer.Argument(metavar='REPORT...', help="ReFrame's JSON run reports.")],
    expected: Annotated[int | None, typer.Option(min=0, help='How many cases the session was to run.')] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option(help='A sentence on what went wrong outside the cases; may be given again.'),
    ] = None,
    site: SiteName = None,
    results: Results = None,
) -> None:
    """Put run reports into the results store. The same report twice changes nothing."""
    from postprocess.runreport import read_report
    from postprocess.store import Store
    from postprocess.text import count

    store, failed = Store(results), False
    for path in reports:
        try:
            report = read_report(path, site, expected, tuple(problem or ()))
            added = store.add(report)
        except InputError as error:
            typer.echo(f'plumbline: {error}', err=True)
            failed = True
            continue
        uuid = report.session['session']
        if added:
            ran, samples = count(report.session['ran'], 'case'), count(len(report.samples), 'sample')
            typer.echo(f'{path}: session {uuid} of {report.site}: {ran}, {samples}')
        else:
            ignored = '; --expected and --problem are as they were' if expected is not None or problem else ''
            typer.echo(f'{path}: session {uuid} of {report.site} is in the store already: nothing changed{ignored}')
    if failed:
        raise typer.Exit(2)


@app.command()
def compare(
    session: SessionName = 'latest',
    site: SiteName = None,
    against: Annotated[str | None, typer.Option(help='Judge by this session in place of the references.')] = None,
    format: OutputFormat = Format.table,
    summary: Annotated[
        bool, typer.Option('--summary', help='Counts, the worst and the failures in 80 columns.')
    ] = False,
    junit: Annotated[Path | None, typer.Option(help='Write the verdicts as JUnit XML, too.', dir_okay=False)] = None,
    results: Results = None,
    references: References = None,
) -> None:
    """Give the verdict of every metric of a session: against the references of its site, or against another session."""
    from dataclasses import asdict, fields

    from postprocess import show, text
    from postprocess.compare import MetricVerdict

    _, comparison = _judged(session, site, against, results, references)
    if junit is not None:
        from postprocess.files import write_whole
        from postprocess.junit import to_junit

        write_whole({junit: lambda stream: stream.write(to_junit(comparison))})
    if summary or format is Format.table:
        if not summary:
            typer.echo(show.table(comparison))
        typer.echo(show.summary(comparison), nl=False)
    elif format is Format.markdown:
        typer.echo(show.markdown(comparison), nl=False)
    elif format is Format.json:
        typer.echo(text.to_json(comparison.as_dict()), nl=False)
    else:
        rows = [asdict(row) for row in comparison.verdicts]
        typer.echo(text.to_csv(rows, [field.name for field in fields(MetricVerdict)]), nl=False)
        for problem in comparison.problems:
            typer.echo(f'plumbline: {problem}', err=True)
    raise typer.Exit(comparison.exit_code)


@record_app.command()
def propose(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar='[SESSION...]', help='Sessions whose samples count together; the latest without any.'),
    ] = None,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = None,
    references: References = None,
) -> None:
    """Work out new baseline rows and show how they differ from those in force. Changes no reference.

    Void, failed and missing metrics are refused, and so are metrics with a single sample.
    """
    from postprocess import record
    from postprocess.store import Store
    from site_configs.loader import SITES

    store = Store(results)
    chosen = [store.find(name, site) for name in sessions or ['latest']]
    proposal = record.propose(store, chosen, references or SITES)
    path = record.save(proposal, results)
    record.print_proposal(proposal, path, format.value)
    raise typer.Exit(1 if proposal.unusable else 0)


@record_app.command()
def accept(
    site: SiteName = None,
    results: Results = None,
    references: References = None,
) -> None:
    """Merge the proposal into the baseline.csv of its site. Rows that are not in the proposal stay."""
    from postprocess import record
    from site_configs.loader import SITES

    accepted = record.accept(results, site, references or SITES)
    typer.echo(
        f'{accepted.path}: {accepted.added} added, {accepted.changed} changed, {accepted.kept} as before; '
        'review the difference and commit it'
    )


@app.command()
def report(
    session: SessionName = 'latest',
    site: SiteName = None,
    against: Annotated[str | None, typer.Option(help='Judge by this session in place of the references.')] = None,
    output: Annotated[
        Path | None, typer.Option(help='The file to write. [default: report.html of the results]', dir_okay=False)
    ] = None,
    results: Results = None,
    references: References = None,
) -> None:
    """Write one HTML file with everything about a session; it needs no network and no other file."""
    from postprocess.files import write_text
    from postprocess.report import to_html

    store, comparison = _judged(session, site, against, results, references)
    path = output or results / 'report.html'
    write_text(path, to_html(comparison, store))
    typer.echo(f'{path}')


if __name__ == '__main__':
    sys.exit(main())
