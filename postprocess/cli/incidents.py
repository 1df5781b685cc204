# SPDX-License-Identifier: BSD-3-Clause
"""Commands on incidents: list those of the ledger, show one, acknowledge one, correct some."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, CommandGroup, Format, Results, SiteName, app, show

incidents = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode=None,
    help='List what is wrong at a site, by cause; show, acknowledge and correct them. Exit code 1 while one is open.',
)
app.add_typer(incidents, name='incidents')
Id = Annotated[str, typer.Argument(metavar='ID', help='Beginning of the id of an incident.')]
OnDay = Annotated[
    datetime | None,
    typer.Option(metavar='DAY', formats=['%Y-%m-%d'], help='As the ledger stood on that day, such as 2026-11-22.'),
]
Why = Annotated[str, typer.Option(metavar='TEXT', help='Why that is so.')]


@incidents.callback(invoke_without_command=True)
def list_all(
    context: typer.Context, site: SiteName = None, format: Format = 'table', results: Results = DEFAULT
) -> None:
    """List what is wrong at a site, by cause; show, acknowledge and correct them. Exit code 1 while one is open."""
    if not context.invoked_subcommand:
        list_them(site, None, format, results)


@incidents.command('list')
def list_them(site: SiteName = None, day: OnDay = None, format: Format = 'table', results: Results = DEFAULT) -> None:
    """List them, as without a command. Exit code 1 while one is open."""
    from postprocess.incidents import FAILING, ledger
    from postprocess.incidents.known import in_order, last_day
    from postprocess.results.store import Store
    from postprocess.views import incidents as views

    on = f'{day:%Y-%m-%d}' if day else ''
    known = [
        incident
        for name in ([site] if site else ledger.sites(results))
        for incident in ledger.read_ledger(results, name, on)
    ]
    if not known:
        Store(results).find('latest', site)  # raises InputError if folder or site is wrong
    day_of_state = on or last_day(known)
    show(views.listing(in_order(known, day_of_state), day_of_state, results), format)
    raise typer.Exit(int(any(incident.state(day_of_state) in FAILING for incident in known)))


@incidents.command('show')
def show_one(
    id: Id, site: SiteName = None, day: OnDay = None, format: Format = 'table', results: Results = DEFAULT
) -> None:
    """Show one incident: what, where, since when, what changed, evidence, what to do next, what the program printed."""
    from postprocess.incidents import ledger
    from postprocess.incidents.known import last_day
    from postprocess.report.printed import printed_of
    from postprocess.views import incidents as views

    on = f'{day:%Y-%m-%d}' if day else ''
    name, known = ledger.find(results, id, site, on)
    shown = printed_of(known, results) if format == 'table' else None
    day_of_state = on or last_day(ledger.read_ledger(results, name))
    show(views.details(known, day_of_state, results, shown), format)


@incidents.command()
def acknowledge(
    id: Id,
    why: Annotated[str, typer.Option(metavar='TEXT', help='Why it may stay as it is.')],
    until: Annotated[str, typer.Option(metavar='DAY', help='The last day of that, such as 2026-12-31.')],
    site: SiteName = None,
    results: Results = DEFAULT,
) -> None:
    """Note that an incident is known: it fails no session until it gets worse or the day is over."""
    from postprocess.incidents import corrections

    known = corrections.acknowledge(results, id, why, until, site)
    day = known.acknowledged.note.until if known.acknowledged else ''
    typer.echo(f'{known.id} acknowledged until {day}: {known.incident.title}')


@incidents.command()
def unacknowledge(id: Id, why: Why, site: SiteName = None, results: Results = DEFAULT) -> None:
    """Note that an incident may not stay any longer: it fails sessions again."""
    from postprocess.incidents import corrections

    known = corrections.end_acknowledgement(results, id, why, site)
    typer.echo(f'{known.id} not acknowledged any more: {known.incident.title}')


@incidents.command()
def close(id: Id, why: Why, site: SiteName = None, results: Results = DEFAULT) -> None:
    """Note that an incident is over; if a later session shows the same, that is a new incident."""
    from postprocess.incidents import corrections

    known = corrections.close(results, id, why, site)
    typer.echo(f'{known.id} closed: {known.incident.title}')


@incidents.command()
def recheck(id: Id, site: SiteName = None, results: Results = DEFAULT) -> None:
    """Run the checks of an incident again now, on its nodes where Slurm can be told; exit code of ci/nightly."""
    import shlex
    import subprocess

    from plumbline.paths import ROOT
    from plumbline.signals import ignored
    from postprocess.incidents import ledger
    from postprocess.incidents.words import with_options

    name, known = ledger.find(results, id, site)
    steps = [step for step in known.incident.next_steps if step.startswith('ci/nightly ')]
    if known.closed or not steps:
        why = f'was closed on {known.closed}' if known.closed else 'names no checks that ci/nightly could run again'
        raise InputError(f'incident {known.id} {why}; plumbline incidents show {known.id} tells more')
    code = 0
    for step in steps:  # several where incidents were merged
        command = with_options(step, results, name)
        typer.echo(f'plumbline: {command}')
        with ignored():
            ended = subprocess.run(shlex.split(command), cwd=ROOT, check=False).returncode
        code = max(code, ended if ended >= 0 else 128 - ended)  # by a signal, as in shells
        if code > 1:
            break
    raise typer.Exit(code)


@incidents.command()
def merge(
    ids: Annotated[
        list[str], typer.Argument(metavar='ID...', help='Beginnings of the ids of incidents; the first one holds all.')
    ],
    why: Why,
    site: SiteName = None,
    results: Results = DEFAULT,
) -> None:
    """Make several incidents one incident; later sessions keep this."""
    from postprocess.incidents import corrections

    known = corrections.merge(results, ids, why, site)
    typer.echo(f'{known.id} holds {", ".join(sorted(known.ids - {known.id}))}, too: {known.incident.title}')


@incidents.command()
def split(
    id: Id,
    why: Why,
    case: Annotated[
        str, typer.Option(metavar='PATTERN', help='Its cases: a check, "CHECK PARAMS", or a case as it is printed.')
    ] = '',
    metric: Annotated[
        str, typer.Option(metavar='PATTERN', help='Its metrics, with their dims or without: "latency*".')
    ] = '',
    node: Annotated[str, typer.Option(metavar='PATTERN', help='What these nodes show, such as "n1*".')] = '',
    site: SiteName = None,
    results: Results = DEFAULT,
) -> None:
    """Make a part of an incident an incident of its own; later sessions keep this.

    Shell patterns choose the part: by cases, by metrics or by both, or by nodes.
    """
    from postprocess.incidents import corrections
    from postprocess.incidents.notes import Selection

    part, rest = corrections.split(results, id, Selection(case, metric, node), why, site)
    for known in (part, rest):
        typer.echo(f'{known.id} {known.incident.title}')


@incidents.command('date')
def date_it(
    id: Id,
    day: Annotated[
        str, typer.Argument(metavar='DAY', help='Such as 2026-11-22, or the beginning of the uuid of a session.')
    ],
    why: Why,
    site: SiteName = None,
    results: Results = DEFAULT,
) -> None:
    """Note on which day an incident began, whatever later sessions show."""
    from postprocess.incidents import corrections
    from postprocess.text import count

    known = corrections.date_it(results, id, day, why, site)
    sessions = count(known.sessions, 'session')
    typer.echo(f'{known.id} in {sessions} since {known.incident.day}: {known.incident.title}')
