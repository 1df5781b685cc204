# SPDX-License-Identifier: BSD-3-Clause
"""The command ``plumbline ingest``: reports and files of other tools into the store."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, NewResults, app, by_extra, complain

if TYPE_CHECKING:
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
