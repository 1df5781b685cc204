# SPDX-License-Identifier: BSD-3-Clause
"""The command ``plumbline status``: where each site stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, References, Results, SiteName, app, complain

if TYPE_CHECKING:
    from postprocess.history.kept import Standing


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
