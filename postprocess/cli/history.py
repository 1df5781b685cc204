# SPDX-License-Identifier: BSD-3-Clause
"""Commands on all sessions of a site: trend, fleet, plan and export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from plumbline.errors import InputError, expected_one_of
from postprocess.cli.app import (
    DEFAULT,
    Format,
    References,
    Results,
    SessionName,
    SiteName,
    app,
    days_before,
    end_with,
    in_a_folder,
    show,
)

_TABLES = ('csv', 'parquet')  # formats of a whole table


@app.command()
def trend(
    session: SessionName = 'latest',
    days: Annotated[int, days_before('How many days up to the session to look at.')] = 180,
    recent: Annotated[
        int, typer.Option(min=1, help='Exit code 1 for a change for the worse in the last so many sessions.')
    ] = 14,
    site: SiteName = None,
    format: Format = 'table',
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Find steps and slow drift in the history of every series, and what else changed at that time.

    Exit code 1 for a change for the worse in the last sessions.
    """
    from postprocess.history import trend as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    changes = module.trend(store, store.history(store.find(session, site), days), references)
    show(views.trend(changes, recent), format)
    raise typer.Exit(int(bool(changes.recent(recent))))


@app.command()
def fleet(
    session: SessionName = 'latest',
    days: Annotated[int, days_before('How many days up to the session to compare its nodes over.')] = 30,
    nodes: Annotated[
        bool,
        typer.Option('--nodes', help='List every node, as the page does.'),
    ] = False,
    site: SiteName = None,
    format: Format = 'table',
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """List the nodes of a session that have an incident, the worst first, beside those that measured the same.

    Proposes to drain nodes that are slow again, as commands for a person to run. Exit code 1 if any node has an
    incident.
    """
    from postprocess.history.digest import add_history, judge
    from postprocess.results.store import Store
    from postprocess.views.nodes import listing, node_rows
    from postprocess.views.series import series_rows

    store = Store(results)
    digest = judge(store, session, site, references, late=False)
    add_history(digest, store, references, days)
    found = digest.comparison
    cases = {case.case_id: case for case in store.cases(found.session)}
    rows = node_rows(series_rows(found), cases, digest, references)
    show(listing(rows if nodes else [row for row in rows if row['incidents']], len(rows), digest), format)
    end_with(int(any(row['incidents'] for row in rows)), digest.faults)


@app.command()
def plan(
    minutes: Annotated[float, typer.Option(min=0.1, max=10080, help='How long the cases may take, one after another.')],
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=10**6, help='On how many nodes at a time. [default: as many as the largest case has]'),
    ] = None,
    days: Annotated[int, days_before('Longest time between two looks at a case; what is due comes first.')] = 28,
    why: Annotated[bool, typer.Option('--why', help='Print why each case was chosen, and what it finds.')] = False,
    site: SiteName = None,
    format: Format = 'table',
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Choose the cases of tonight that find most classes of faults for their time, and say what they do not cover.

    `ci/nightly --minutes 20` runs the cases that are chosen for 20 minutes.
    """
    from postprocess.history import plan as module
    from postprocess.results.store import Store
    from postprocess.views import plan as views

    show(views.plan(module.plan(Store(results), site, minutes, nodes, days, root=references), why), format)


@app.command()
def export(
    to: Annotated[
        str,
        typer.Option(
            metavar='FORMAT',
            help='csv, parquet, which needs --output, or a format of another system such as openmetrics or influx, of '
            '--table metrics alone; a wrong name lists all.',
        ),
    ],
    table: Annotated[
        Literal['samples', 'metrics', 'cases', 'sessions', 'verdicts', 'findings'],
        typer.Option(help='Which table; docs/results-api.md explains the columns.'),
    ] = 'metrics',
    output: Annotated[
        Path | None, typer.Option('--output', '-o', callback=in_a_folder, help='File in place of standard output.')
    ] = None,
    site: SiteName = None,
    days: Annotated[float | None, days_before('Only so many days up to the newest session of each site.')] = None,
    check: Annotated[str, typer.Option(help='Only this check, or those of a pattern such as Osu*.')] = '*',
    dims: Annotated[bool, typer.Option('--dims', help='A column for each dim, in place of the column dims.')] = False,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Print the measured values, verdicts or findings of all sessions, as a table or for another system.

    For verdicts and findings, sessions that were not judged by the references of today are judged before.
    """
    from plumbline.files import write_whole
    from postprocess import open_results
    from postprocess.results import frames

    of_series = table in ('samples', 'metrics', 'verdicts')
    to_points = _writer_of_points(to)
    if to_points and (table != 'metrics' or dims):
        raise InputError(f'--to {to} writes the table metrics, and dims as labels: give neither --table nor --dims')
    if output is None and sys.__stdout__ is None:
        raise InputError('standard output is closed: name a file with --output')
    if to == 'parquet' and output is None:
        raise InputError('--to parquet writes a binary file: name it with --output')
    opened = open_results(results, references)
    opened.store.find(site=site or next(iter(opened.store.sites()), None))  # raises InputError if there is no session
    if check != '*' and table != 'sessions':
        names = opened.checks(site)
        if not any(fnmatchcase(name, check) for name in names):
            raise InputError(f'--check {check}: no session has such a check; {expected_one_of(check, names)}')
    rows = opened.tables(table, site, days, check, dims and of_series)
    if to == 'parquet' and output:
        write_whole({output: partial(frames.write_parquet, rows)})
        return
    parts = to_points(opened.points(site, days, check)) if to_points else frames.to_csv_parts(rows)
    if output:
        write_whole({output: lambda stream: stream.writelines(part.encode() for part in parts)})
    else:
        for part in parts:
            typer.echo(part, nl=False)


def _writer_of_points(format: str) -> Callable[[Iterator[Any]], Iterator[str]] | None:
    """Return what writes the points of series in the format of another system; None: a table. Raises InputError."""
    if format in _TABLES:
        return None
    from importlib.metadata import entry_points

    others = {entry.name: entry for entry in entry_points(group='plumbline.exports')}
    if format not in others:
        raise InputError(f'--to: {expected_one_of(format, [*_TABLES, *sorted(others)])}')
    return cast('Callable[[Iterator[Any]], Iterator[str]]', others[format].load())
