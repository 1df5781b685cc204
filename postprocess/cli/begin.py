# SPDX-License-Identifier: BSD-3-Clause
"""The commands init (a folder to work in, and the first steps of a site) and demo (a made-up site to look at)."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import a_folder, app, by_extra, complain, in_a_folder

_Step = tuple[str, str, Callable[[], bool]]  # (what the step does, its command, function that says if it is done)


@app.command()
def init(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar='DIR', parser=a_folder, help='A new folder, or one that this command wrote.'),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            '--site', metavar='NAME', help='Take the first steps of this site; those taken before are left out.'
        ),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(
            '--suite',
            metavar='REPORT|FOLDER',
            help='Write suite.yaml for tests that are not ours, from their run reports, database or logs.',
        ),
    ] = None,
    yes: Annotated[bool, typer.Option('--yes', help='With --site: ask nothing.')] = False,
) -> None:
    """Write what a site needs to work in: checks, ReFrame's settings, an example site, Spack environments, ci.

    With a DIR of an earlier version: renew its files, except those that were edited. A clone needs no DIR.

    With --suite, write the rules by which the numbers of other suites are judged, for review: what it knows, and as
    comments what it could not decide.

    With --site, ask for each first step of a site and take it: probe, check, dry run of all jobs, first session,
    baseline. Exit code: that of the step that failed, or 2 if the input cannot be used.
    """
    from plumbline import checkout
    from plumbline.paths import usable
    from plumbline.site.sites import named

    if site is not None:
        named('--site', site)
    if suite:
        if folder or site:
            raise InputError('init: --suite is given alone')
        by_extra('init --suite')(suite)
        return
    if folder is None and site is None:
        raise InputError('init: expected a folder DIR to write, in a clone --site NAME, or --suite REPORT')
    if folder:
        usable(folder.absolute())
        for path in checkout.write(folder):
            complain(f'{path}: was edited and stays; the new text is in {path.name}.new')
        following = (
            f'cd {shlex.quote(str(folder))}; for this machine: ci/nightly; for a cluster: plumbline init --site NAME'
        )
        typer.echo(f'{folder}: written; next: {following}')
    if site:
        again = [sys.executable, '-m', 'plumbline', 'init', '--site', site, *['--yes'] * yes]
        code = subprocess.run(again, cwd=folder, check=False).returncode if folder else _guide(site, yes)
        raise typer.Exit(code)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar='DIR', parser=a_folder, help='A new folder.')] = Path(
        'plumbline-demo'
    ),
) -> None:
    """Write a made-up cluster with four planted losses, and the page of its last night."""
    import tempfile

    from plumbline.paths import usable
    from postprocess import demo
    from postprocess.history.digest import judge
    from postprocess.report.page import write_page
    from postprocess.results.store import Store

    target = usable(folder.absolute())
    if in_a_folder(target) and target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f'{folder}: is there already; expected a new folder, or an empty one')
    with tempfile.TemporaryDirectory(prefix='plumbline-demo-', dir=target.parent) as unfinished:
        causes = demo.year(Path(unfinished) / 'made', 0.2)
        (Path(unfinished) / 'made').replace(target)
    store, sites = Store(target / 'results'), target / 'sites'
    write_page(target / 'results/report.html', store, judge(store, site=demo.SITE, root=sites), sites)
    for cause in causes:
        changed = f' ({cause.changed})' * bool(cause.changed)
        typer.echo(f'planted: {cause.what} {cause.change:g} % on {cause.where} since {cause.day}{changed}')
    words = shlex.join(['--results', str(folder / 'results'), '--references', str(folder / 'sites')])
    typer.echo(f'{folder}/results/report.html: its page, for a browser; on the terminal: plumbline status {words}')


def _guide(site: str, yes: bool) -> int:
    """Take the steps that are not done, each after a question unless `yes`; return the exit code of the last step."""
    from plumbline.paths import ROOT

    from_here = f'`plumbline init --site {site}` goes on from here'
    for number, (what, command, done) in enumerate(steps := list(_steps(site)), 1):
        place = f'{number} of {len(steps)}: {what}'
        if done():
            typer.echo(f'{place}: done before')
            continue
        typer.echo(f'{place}\n$ {command}')
        if not yes and not _agreed():
            typer.echo(from_here)
            return 0
        program, *words = command.split()
        start = [sys.executable, '-m', program.replace('/', '.')]
        if code := subprocess.run([*start, *words], cwd=ROOT, check=False).returncode:
            complain(f'`{command}` ended with exit code {code}, the lines above say why; {from_here}')
            return code
    typer.echo(
        f'the site is guarded; every night: ci/nightly --site {site}; where it stands: plumbline status --site {site}'
    )
    return 0


def _steps(site: str) -> Iterator[_Step]:
    """Yield the first steps of a site."""
    from plumbline.paths import results_directory, site_file
    from postprocess.results.store import Store
    from postprocess.verdicts.baseline_files import read_baseline

    def recorded() -> bool:
        """Return True if the site has a baseline."""
        return bool(read_baseline(site))

    yield (
        'describe it, on a cluster by a small job in each partition', f'plumbline probe --name {site}',
        site_file(site, 'site.yaml').exists,
    )  # fmt: skip
    yield 'check the description and the job script of each case', f'plumbline sites {site} --cases --jobs', bool
    yield (
        'measure for the first time', f'ci/nightly --site {site} --mode quick',
        lambda: site in Store(results_directory()).sites(),
    )  # fmt: skip
    yield 'propose what was measured as the baseline', f'plumbline record propose --site {site}', recorded
    yield 'accept it: from then on a night can fail', f'plumbline record accept --site {site}', recorded


def _agreed() -> bool:
    """Ask whether to run a step; return the answer."""
    try:
        return typer.confirm('run it?', default=True)
    except typer.Abort:  # standard input has ended
        typer.echo()
        return False
