"""The command line ``plumbline``. Each command imports what it needs: help and errors come at once."""

from __future__ import annotations

import enum
import gc
import io
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from plumbline.errors import InputError, SiteError

if TYPE_CHECKING:
    from postprocess.views.table import View


class _Group(TyperGroup):
    """Report an input or file system error as one sentence on standard error, with exit code 2.

    `debug`: with its traceback before it.
    """

    debug = False

    def main(self, *args, **kwargs):
        try:
            return super().main(*args, **kwargs)
        except (OSError, InputError, SiteError) as error:
            if self.debug:
                traceback.print_exception(error)
            named = isinstance(error, OSError) and error.filename
            _complain(f'{error.filename}: {error.strerror}' if named else error)
        sys.exit(2)


class _Output(io.FileIO):
    """Standard output. A reader that goes away, such as `| head`, changes neither the work nor the exit code."""

    def write(self, data) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # discard what follows, too
            if isinstance(error, BrokenPipeError):
                return len(data)
            raise OSError(error.errno, error.strerror, 'standard output') from None


def _complain(fault: object) -> None:
    """Print one line on standard error, whatever `fault` quotes."""
    typer.echo(f'plumbline: {" ".join(str(fault).split())}', err=True)


def _show(view: View, format: str) -> None:
    """Print a view; its notes where a person reads them, its faults on standard error."""
    typer.echo(view.render(format), nl=False)
    for note in view.notes:
        typer.echo(note, err=format != 'table')
    for fault in view.faults:
        _complain(fault)


# rich_markup_mode=None: help in plain text starts twice as fast
app = typer.Typer(
    cls=_Group, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    context_settings={'help_option_names': ['-h', '--help']},
    help='Does this machine still deliver what it delivered when it was accepted? '
    'Exit codes: 0 all ok, 1 something regressed, is missing or failed, 2 the input cannot be used.',
)  # fmt: skip
record_app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True,
    help='Turn accepted sessions into the baseline of their site, in two steps with a review between them.',
)  # fmt: skip
app.add_typer(record_app, name='record')


def _print_version(wanted: bool) -> None:
    if wanted:
        from plumbline import __version__

        typer.echo(f'plumbline {__version__}')
        raise typer.Exit


@app.callback()
def _settings(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option('--version', callback=_print_version, is_eager=True, help='Print the version and exit.')
    ] = False,
    debug: Annotated[bool, typer.Option('--debug', help='Print the traceback of an input error, too.')] = False,
) -> None:
    context.command.debug = debug  # type: ignore[attr-defined]


def _results(given: Path | None) -> Path:
    """The results directory: the one given, else the one that ReFrame writes to."""
    from plumbline.paths import results_directory

    results = given or results_directory()
    if str(results).encode(errors='ignore').decode() != str(results):  # Arrow and DuckDB know no other names
        raise InputError(f'{results}: expected a results directory whose name is UTF-8')
    return results


def _days(help: str):
    return typer.Option(min=1, max=36525, help=help)  # a century: a date has to come out


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
        help='Directory of what the runs leave and of the store. '
        '[default: $PLUMBLINE_RESULTS, else results/ of this clone]',
    ),
]
References = Annotated[
    Path | None,
    typer.Option(
        '--references', help='Folder of site folders, in place of site_configs/.', exists=True, file_okay=False
    ),
]
SiteName = Annotated[str | None, typer.Option('--site', envvar='PLUMBLINE_SITE', help='Only this site.')]
SessionName = Annotated[
    str, typer.Argument(metavar='SESSION', help='Beginning of its uuid, or "latest", the last that started.')
]
Reruns = Annotated[
    list[Path] | None,
    typer.Option(
        metavar='REPORT',
        help='Run report of a rerun, on the same nodes or on others; may be given again. A metric beyond its limit '
        'fails only if the median of all its values is.',
    ),
]
OutputFormat = Annotated[Format, typer.Option('--format', help='How to print it.')]


def main() -> None:
    """Entry point of the console script."""
    gc.disable()  # what a command makes it needs to its end; looking for garbage takes a tenth of the time
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)
    app(prog_name='plumbline')


def _stream(number: int, given: io.TextIOWrapper | None) -> io.TextIOWrapper:
    """In the encoding of `given`; text that it cannot hold is escaped. Nowhere where it was closed."""
    if given is None:
        return open(os.devnull, 'w', encoding='utf-8')
    raw = io.BufferedWriter(_Output(number, 'w', closefd=False))
    return io.TextIOWrapper(raw, given.encoding, 'backslashreplace', line_buffering=number == 2)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar='DIR', help='A new folder, or one that this command wrote.')],
) -> None:
    """Write what a site needs to work in: checks, ReFrame's settings, an example site, Spack environments, ci.

    With DIR of an earlier version: renew its files, except those that were edited.
    """
    from plumbline import checkout

    for path in checkout.write(folder):
        typer.echo(f'plumbline: {path}: was edited and stays; the new text is in {path.name}.new', err=True)
    typer.echo(f'{folder}: written; next: cd {folder}; plumbline probe --name SITE; plumbline sites SITE --check')


@app.command()
def sites(
    site: Annotated[str | None, typer.Argument(metavar='SITE', help='Show the details of this site.')] = None,
    check: Annotated[
        bool, typer.Option('--check', help='Validate every file, and that each reference has a case.')
    ] = False,
    cases: Annotated[
        bool, typer.Option('--cases', help='List how many cases each site has, too; asks ReFrame, which takes a while.')
    ] = False,
    format: OutputFormat = Format.table,
    references: References = None,
) -> None:
    """List the sites, show one, or validate their files."""
    from plumbline.paths import SITES
    from postprocess import sites as module
    from postprocess.views import sites as views

    root = references or SITES
    if check:
        faults = module.check(site, root)
        for fault in faults:
            _complain(fault.message)
        raise typer.Exit(2 if any(fault.is_error for fault in faults) else 0)
    view = views.overview(module.overview(root, cases)) if site is None else views.details(module.details(site, root))
    _show(view, format)


@app.command()
def probe(
    name: Annotated[str | None, typer.Option(help='Write it as the site.yaml of this site.')] = None,
    output: Annotated[Path | None, typer.Option(help='Write it to this file.', dir_okay=False)] = None,
    force: Annotated[bool, typer.Option('--force', help='Replace a file that is there.')] = False,
) -> None:
    """Print a site.yaml for this machine or, where Slurm answers, this cluster."""
    from plumbline.files import write_text
    from plumbline.machine import probe as module

    path = module.destination(name, output, force)
    text = module.site_yaml()
    if path is None:
        typer.echo(text, nl=False)
    else:
        write_text(path, text)
        typer.echo(f'{path}: written; complete it as its comments say, then: plumbline sites {name or "SITE"} --check')


@app.command()
def ingest(
    reports: Annotated[
        list[Path], typer.Argument(metavar='REPORT', help="ReFrame's JSON run reports, or its results database.")
    ],
    expected: Annotated[
        int | None, typer.Option(min=0, help='How many cases the session was to run; another number is a problem.')
    ] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option(
            metavar='SENTENCE', help='What went wrong outside the cases, for the verdict to fail; may be given again.'
        ),
    ] = None,
    perflog: Annotated[
        bool, typer.Option('--perflog', help='The files are performance logs of another suite, a session a day.')
    ] = False,
    site: Annotated[
        str | None,
        typer.Option(
            '--site', envvar='PLUMBLINE_SITE', help='Site of a report in which no case ran; cases name theirs.'
        ),
    ] = None,
    results: Results = None,
) -> None:
    """Put run reports into the results store. The same report twice changes nothing."""
    from postprocess.results import ingest as module
    from postprocess.results.store import Store

    failed = False
    for said in module.ingest(Store(results), reports, site, expected, tuple(problem or ()), perflog):
        if isinstance(said, InputError):
            _complain(said)
            failed = True
        else:
            typer.echo(said)
    if failed:
        raise typer.Exit(2)


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
        str | None,
        typer.Argument(metavar='AFTER', help='How each metric changed from SESSION to this, or to all of FROM..TO.'),
    ] = None,
    site: SiteName = None,
    against: Annotated[str | None, typer.Option(help='Judge by this session in place of the references.')] = None,
    rerun: Reruns = None,
    coverage: Annotated[
        bool,
        typer.Option(
            '--coverage',
            help='Which metrics can fail, and the loss that each would notice, in place of the verdicts. Exit code 1 '
            'if one that has a reference is not measured any more, or if there is no metric at all.',
        ),
    ] = False,
    format: OutputFormat = Format.table,
    summary: Annotated[
        bool, typer.Option('--summary', help='Print only counts, the worst and the failures, in 80 columns.')
    ] = False,
    junit: Annotated[Path | None, typer.Option(help='Write the verdicts as JUnit XML, too.', dir_okay=False)] = None,
    results: Results = None,
    references: References = None,
) -> None:
    """Give the verdict of every metric of a session: against the references of its site, or against another session.

    With AFTER: how each metric changed between the two, paired where the same nodes ran on both sides.
    """
    from plumbline.paths import SITES
    from postprocess.results.store import Store
    from postprocess.verdicts.compare import judge_session
    from postprocess.views import verdicts as views

    if after is None and '..' in session:
        raise InputError(f'{session}: days are compared with other days or with a session: give AFTER, too')
    store, root = Store(results), references or SITES
    if after is None:
        chosen = store.find(session, site)
        other = store.find(against, chosen.site) if against else None
        comparison = judge_session(store, chosen, other, root, rerun or ())
    elif against or rerun:
        raise InputError('SESSION and AFTER are judged by each other: give neither --against nor --rerun')
    else:
        from postprocess.verdicts.windows import compare_windows, sessions_named

        sides = [sessions_named(store, name, site) for name in (session, after)]
        comparison = compare_windows(store, *sides, root)
    if coverage:
        from postprocess.verdicts import coverage as module

        _show(views.guarded(comparison), format)
        counts = module.counts(comparison)
        raise typer.Exit(int('vanished' in counts or not counts))
    if junit is not None:
        from plumbline.files import write_whole
        from postprocess.report.junit import to_junit

        write_whole({junit: lambda stream: stream.write(to_junit(comparison))})
    if summary:
        typer.echo(views.summary(comparison), nl=False)
    else:
        _show(views.comparison(comparison), format)
        for problem in comparison.problems if format is Format.csv else ():
            _complain(problem)
    raise typer.Exit(comparison.exit_code)


@record_app.command()
def propose(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar='SESSION',
            help='Sessions that count together, or all of the days FROM..TO; the latest without any.',
        ),
    ] = None,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = None,
    references: References = None,
) -> None:
    """Work out new baseline rows and show how they differ from those in force. Changes no reference.

    Void, failed and missing metrics are refused, and so are metrics with a single sample. A baseline gates from five
    sessions on and only warns before.
    """
    from plumbline.paths import SITES
    from postprocess.results.store import Store
    from postprocess.verdicts import baseline as record
    from postprocess.verdicts.windows import sessions_named
    from postprocess.views import verdicts as views

    store = Store(results)
    chosen = [session for name in sessions or ['latest'] for session in sessions_named(store, name, site)]
    proposal = record.propose(store, chosen, references or SITES)
    path = record.save(proposal, results)
    _show(views.proposal(proposal, path), format)
    raise typer.Exit(1 if proposal.unusable else 0)


@record_app.command()
def accept(
    site: SiteName = None,
    epoch: Annotated[
        str,
        typer.Option(
            help='Name of a planned change of the machine, such as "OFED 24.10": move the means, keep the spreads of '
            'before, so that the gate works after one session.'
        ),
    ] = '',
    results: Results = None,
    references: References = None,
) -> None:
    """Merge the proposal into the baseline.csv of its site. Rows that are not in the proposal stay."""
    from plumbline.paths import SITES
    from postprocess.verdicts import baseline as record
    from postprocess.views import verdicts as views

    accepted = record.accept(results, site, references or SITES, ' '.join(epoch.split()))
    if epoch:
        _show(views.changes(accepted.changes), 'table')
    typer.echo(
        f'{accepted.path}: {accepted.added} added, {accepted.changed} changed, {accepted.kept} as before; '
        'review the difference and commit it'
    )


class TableFormat(str, enum.Enum):
    table = 'table'
    markdown = 'markdown'
    latex = 'latex'
    json = 'json'
    csv = 'csv'


@app.command()
def tables(
    style: Annotated[str, typer.Argument(metavar='STYLE', help='Which paper: doe, mn5, numa or prace.')],
    sites: Annotated[
        list[str] | None, typer.Argument(metavar='SITE', help='Only these sites; they need not be in the paper.')
    ] = None,
    session: Annotated[str, typer.Option(help='Beginning of its uuid, or "latest" of each site.')] = 'latest',
    published: Annotated[bool, typer.Option('--published', help='Leave out what sessions measured.')] = False,
    format: Annotated[TableFormat, typer.Option('--format', help='How to print it.')] = TableFormat.table,
    results: Results = None,
    references: References = None,
) -> None:
    """Print the tables of a paper, and under each of its rows what a session of that site measured."""
    from plumbline.paths import SITES
    from postprocess.papers import tables as published_tables
    from postprocess.results.store import Store
    from postprocess.views import papers as views

    if style not in published_tables.STYLES:
        raise InputError(f'tables {style}: expected one of {", ".join(published_tables.STYLES)}')
    store = None if published else Store(results)
    found = published_tables.tables(style, sites or [], store, session, references or SITES)
    typer.echo(views.tables(found, format), nl=False)


@app.command()
def trend(
    session: SessionName = 'latest',
    days: Annotated[int, _days('Days before the session whose sessions are looked at.')] = 180,
    recent: Annotated[int, _days('Exit code 1 for a change for the worse in so many days before the session.')] = 14,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = None,
    references: References = None,
) -> None:
    """Find steps and slow drift in the history of every metric, and what changed in the provenance with them."""
    from plumbline.paths import SITES
    from postprocess.history import trend as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    found = module.trend(store, store.history(store.find(session, site), days), references or SITES)
    _show(views.trend(found, recent), format)
    raise typer.Exit(bool(found.recent(recent)))


@app.command()
def fleet(
    session: SessionName = 'latest',
    days: Annotated[int, _days('Days before the session that tell how its nodes were.')] = 30,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = None,
    references: References = None,
) -> None:
    """Find nodes that stand out in a session, and say whether it is they, the fabric, their software or the system.

    Keeps them in the ledger. Proposes to drain those that stand out again, as commands for a person to run.
    """
    from plumbline.paths import SITES
    from postprocess.history import fleet as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    found = module.fleet(store, store.find(session, site), days, results, references or SITES)
    _show(views.fleet(found, module.write_drain(found, results)), format)
    raise typer.Exit(bool(found.events))


@app.command()
def ledger(
    nodes: Annotated[list[str] | None, typer.Argument(metavar='NODE', help='Only these nodes.')] = None,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = None,
) -> None:
    """Show which nodes stood out when."""
    from postprocess.history import ledger as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    site = Store(results).find('latest', site).site
    found = module.read(results, site)
    _show(views.ledger([entry for entry in found if not nodes or entry.node in nodes]), format)


@app.command()
def backtest(
    session: SessionName = 'latest',
    days: Annotated[int, _days('Days before the session whose sessions are judged again.')] = 90,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = None,
    references: References = None,
) -> None:
    """Print how many alarms each setting of gate, trend and fleet would have raised on the history of a site."""
    from plumbline.paths import SITES
    from postprocess.history import backtest as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    sessions = store.history(store.find(session, site), days)
    found = module.backtest(store, sessions, references or SITES)
    _show(views.backtest(found, sessions, module.BASELINE), format)


@app.command()
def report(
    session: SessionName = 'latest',
    site: SiteName = None,
    against: Annotated[str | None, typer.Option(help='Judge by this session in place of the references.')] = None,
    rerun: Reruns = None,
    days: Annotated[int, _days('Days before the session whose history is shown.')] = 90,
    output: Annotated[
        Path | None, typer.Option(help='The file to write. [default: report.html of the results]', dir_okay=False)
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            '--keep',
            help='Keep the nodes that stand out in the ledger, as fleet does, and say in a few lines which they are '
            'and what is new in the history. Exit code 1 if a node stands out again or a change is new.',
        ),
    ] = False,
    results: Results = None,
    references: References = None,
) -> None:
    """Write one HTML file with everything about a session; it needs no network and no other file."""
    from plumbline.files import write_text
    from plumbline.paths import SITES
    from postprocess.history.digest import look
    from postprocess.report.page import to_html
    from postprocess.results.store import Store
    from postprocess.verdicts.compare import judge_session

    store, root = Store(results), references or SITES
    chosen = store.find(session, site)
    other = store.find(against, chosen.site) if against else None
    comparison = judge_session(store, chosen, other, root, rerun or ())
    night = look(store, chosen, days, root, keep)
    path = output or results / 'report.html'
    write_text(path, to_html(comparison, store, night, root))
    for line in night.lines() if keep else ():
        typer.echo(line)
    typer.echo(f'{path}')
    for fault in night.faults:
        typer.echo(f'plumbline: {fault}', err=True)
    raise typer.Exit(2 if night.faults else int(keep and night.to_be_told))


if __name__ == '__main__':
    sys.exit(main())
