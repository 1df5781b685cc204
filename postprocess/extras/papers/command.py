# SPDX-License-Identifier: BSD-3-Clause
"""The command tables."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from plumbline.errors import InputError, expected_one_of
from postprocess.cli.app import DEFAULT, References, Results, app


@app.command()
def tables(
    style: Annotated[str, typer.Argument(metavar='STYLE', help='Which paper: doe, mn5, numa or prace; or efficiency.')],
    sites: Annotated[
        list[str] | None, typer.Argument(metavar='SITE', help='Only these sites, also ones that are not in the paper.')
    ] = None,
    session: Annotated[str, typer.Option(help='Beginning of its uuid, or "latest" of each site.')] = 'latest',
    published: Annotated[bool, typer.Option('--published', help='Leave out what sessions measured.')] = False,
    format: Annotated[
        Literal['table', 'markdown', 'latex', 'json', 'csv'], typer.Option(help='How to print it.')
    ] = 'table',
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Print the tables of a paper, and under each of its rows what a session of that site measured.

    Style efficiency: speed-up, parallel efficiency, share of the roofline and balance that follow from a session.
    """
    from plumbline.paths import site_folder
    from plumbline.site.sites import must_exist
    from postprocess.extras.papers import efficiency
    from postprocess.extras.papers import tables as published_tables
    from postprocess.extras.papers.printed import formatted_tables
    from postprocess.results.store import Store

    if style not in (styles := (*published_tables.STYLES, efficiency.STYLE)):
        raise InputError(f'tables {style}: {expected_one_of(style, styles)}')
    for name in sites or ():
        must_exist(name, site_folder(name, references).parent)
    store = None if published else Store(results)
    if style == efficiency.STYLE:
        result = efficiency.efficiency(sites or [], store or Store(results), session)
    else:
        result = published_tables.paper_tables(style, sites or [], store, session, references)
    typer.echo(formatted_tables(result, format), nl=False)
