# SPDX-License-Identifier: BSD-3-Clause
"""The command share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, References, Results, SiteName, app, in_a_folder, say
from postprocess.text import count


@app.command()
def share(
    output: Annotated[
        Path | None, typer.Option(metavar='FILE', dir_okay=False, callback=in_a_folder, help='Write them to FILE.')
    ] = None,
    signed_off_by: Annotated[
        str,
        typer.Option(
            metavar='TEXT',
            help='Who has read the rows and states that the machine was healthy: a name, a team or an alias, which '
            'stands in the file.',
        ),
    ] = '',
    elsewhere: Annotated[
        Path | None,
        typer.Option(metavar='FILE', help='Compare the site with what others shared in FILE, too.'),
    ] = None,
    site: SiteName = None,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Print what the baseline of a site says of its hardware, for other sites: no name of the site or its nodes.

    Read it, then write it with --output and --signed-off-by. With --elsewhere, take in the file of another site:
    metrics without a reference of this machine are compared with it, which warns and never fails.
    """
    from plumbline.clock import now
    from postprocess.extras.sharing import levels
    from postprocess.results.store import Store

    store = Store(results)
    if elsewhere:
        if output or signed_off_by:
            raise InputError('share: give --elsewhere alone, or --output and --signed-off-by')
        path, new = levels.take(elsewhere, site or store.find('latest').site, references)
        typer.echo(
            f'{path}: {count(new, "new level")}; metrics without a reference of this machine are compared with it'
        )
        return
    by = ' '.join(signed_off_by.split())
    if bool(output) != bool(by):
        raise InputError('share: give --output and --signed-off-by together; without both, the rows are printed')
    source = f'shared {now():%Y-%m}, signed off by {by or "..."}'
    text = levels.to_text(levels.shared(store, store.find('latest', site), source, references))
    rows = count(text.count('\n') - 1, 'level')
    if output is None:
        say(text, for_people=False)
        typer.echo(f'{rows}, not written: read them, then give --output FILE --signed-off-by TEXT', err=True)
        return
    from plumbline.files import write_text

    write_text(output, text)
    typer.echo(f'{output}: {rows}; another site takes them in with `plumbline share --elsewhere FILE`')
