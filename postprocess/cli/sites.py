# SPDX-License-Identifier: BSD-3-Clause
"""Commands on the files of the sites: probe and sites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, Format, References, app, complain, in_a_folder, show
from postprocess.text import WIDTH


@app.command()
def sites(
    site: Annotated[str | None, typer.Argument(metavar='SITE', help='Show the details of this site.')] = None,
    check: Annotated[
        bool, typer.Option('--check', help='Validate every file, in a second; print what the nodes are.')
    ] = False,
    cases: Annotated[
        bool,
        typer.Option(
            '--cases', help='As --check, and list the cases in a dry run: each feature and reference must meet one.'
        ),
    ] = False,
    jobs: Annotated[
        bool,
        typer.Option(
            '--jobs',
            help='Write the job script of every case of SITE; on the site, ask sbatch about each.',
        ),
    ] = False,
    format: Format = 'table',
    references: References = DEFAULT,
) -> None:
    """List the sites, show one, or validate their files or their job scripts."""
    from plumbline.paths import results_directory
    from postprocess import site_check
    from postprocess.results.store import Store
    from postprocess.views import sites as views

    if jobs and site is None:
        raise InputError('--jobs: expected the name of a SITE')
    if check or cases or jobs:
        if format != 'table':
            raise InputError(f'--check, --cases and --jobs print text: give them without --format {format}')
        checked = site_check.check(site, references, files=check or cases, cases=cases, jobs=jobs)
        wrong = any(result.mistakes for result in checked)
        for line in (line for result in checked for line in result.nodes if site):
            typer.echo(line)
        for message in dict.fromkeys(message for result in checked for message in (*result.mistakes, *result.notes)):
            complain(message)
        following = ''
        if site and not wrong and not (cases or jobs):
            following = f'plumbline sites {site} --cases'
        elif site and not wrong and checked[0].cases != 0 and site not in Store(results_directory()).sites():
            following = f'ci/nightly --site {site}'
        typer.echo(views.outcome(checked) + (f'; next: {following}' if following else ''))
        raise typer.Exit(2 if wrong else 0)
    if site is None:
        show(views.overview(references), format, WIDTH)
    else:
        show(views.details(site, references), format)


@app.command()
def probe(
    name: Annotated[str | None, typer.Option(help='Write it as the site.yaml of the site with this name.')] = None,
    output: Annotated[
        Path | None, typer.Option(help='Write it to this file.', dir_okay=False, callback=in_a_folder)
    ] = None,
    force: Annotated[bool, typer.Option('--force', help='Replace a file that is there.')] = False,
    no_jobs: Annotated[
        bool, typer.Option('--no-jobs', help='With --name, on a login node: run no small job in each partition.')
    ] = False,
    node: Annotated[
        Path | None,
        typer.Option(metavar='FILE', help='Describe the node that node.sh printed, too.'),
    ] = None,
) -> None:
    """Print a site.yaml for this machine or, if Slurm answers, for its cluster.

    With --name it looks at a node of each partition, in a job of the account $SLURM_ACCOUNT.
    """
    import tempfile

    from plumbline.files import write_text
    from plumbline.site import locations
    from plumbline.site import probe as module

    path = module.destination(name, output, force)
    with tempfile.TemporaryDirectory() as folder:
        looked_at = module.of_file(node, Path(folder)) if node else None
        text = module.site_yaml(complain if name and not no_jobs else None, looked_at)
    if path is None:
        typer.echo(text, nl=False)
    else:
        write_text(path, text)
        if name and not looked_at and (said := locations.fill(path.parent)):
            typer.echo(said)
        typer.echo(f'{path}: written; complete it as its comments say; next: plumbline sites {name or "SITE"} --check')
