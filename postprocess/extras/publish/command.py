# SPDX-License-Identifier: BSD-3-Clause
"""The command publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from postprocess.cli.app import DEFAULT, References, Results, SiteName, a_folder, app


@app.command()
def publish(
    folder: Annotated[Path, typer.Argument(metavar='DIR', parser=a_folder, help='Where the site is, or is to be.')],
    pages: Annotated[
        int, typer.Option(min=0, help='How many of the newest sessions that are new there get a page of their own.')
    ] = 30,
    site: SiteName = None,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Add all sessions that DIR lacks to a static site, for a web server or a browser: DIR/index.html.

    Several sites, from several machines, can be published into one DIR.
    """
    from postprocess.extras.publish import site as module
    from postprocess.results.store import Store

    store = Store(results)
    for name in [site] if site else store.sites() or ['']:
        for sentence in module.publish(store, name, folder, references, pages):
            typer.echo(sentence)
    typer.echo(folder / 'index.html')
