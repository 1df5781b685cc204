# SPDX-License-Identifier: BSD-3-Clause
"""Commands that look after the results store: check, repair, forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, CommandGroup, References, Results, SiteName, app

if TYPE_CHECKING:
    from postprocess.results.store import Store


store = typer.Typer(cls=CommandGroup, rich_markup_mode=None, no_args_is_help=True, help='Look after the results store.')
app.add_typer(store, name='store')


@store.command()
def check(results: Results = DEFAULT) -> None:
    """Read every file of the store, run reports, evidence and the ledger; name what is damaged, changed or missing.

    Removes the unfinished files of writers that were killed more than an hour ago. Exit code 1 if anything is wrong.
    """
    from postprocess.incidents import ledger
    from postprocess.readers import check as module
    from postprocess.results.store import Store
    from postprocess.text import count

    opened = Store(results)
    for path in module.sweep(opened):
        typer.echo(f'{path}: removed: its writer was killed')
    for forgotten in opened.forgotten():
        typer.echo(f'{forgotten}; kept aside')
    faults = list(module.faults(opened))
    others = [*module.evidence_faults(results), *ledger.faults(opened)]
    for fault in dict.fromkeys((*faults, *others)):
        typer.echo(fault)
    if faults:
        typer.echo(f'{opened.command("store repair", "")} sets damaged files aside and ingests their sessions again')
    elif not others:
        stored = sum(len(opened.sessions(name)) for name in opened.sites())
        typer.echo(f'{opened.folder}: {count(stored, "session")}, every file is as it was written')
    raise typer.Exit(int(bool(faults or others)))


@store.command()
def repair(results: Results = DEFAULT) -> None:
    """Move damaged files aside, and ingest their sessions again from their run reports.

    Nothing is deleted: damaged files are kept below store-damaged/ of the results. Exit code 1 if anything is still
    wrong, such as a session that must be judged again.
    """
    from postprocess.incidents import ledger
    from postprocess.readers.check import faults
    from postprocess.readers.check import repair as steps
    from postprocess.results.store import Store

    sentences = list(steps(Store(results)))
    for sentence in sentences or ['nothing to repair']:
        typer.echo(sentence)
    opened = Store(results)
    remaining = [*faults(opened), *ledger.faults(opened)]
    for fault in remaining:
        typer.echo(fault)
    raise typer.Exit(int(bool(remaining) or any(' is lost: ' in sentence for sentence in sentences)))


@store.command()
def forget(
    session: Annotated[str, typer.Argument(metavar='SESSION', help='Beginning of its uuid, or "latest".')],
    why: Annotated[str, typer.Option(metavar='REASON', help='Why it must not count.')] = '',
    back: Annotated[bool, typer.Option('--restore', help='Bring a forgotten session back.')] = False,
    site: SiteName = None,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Take a session out of the store: verdicts, incidents, history and pages are as if it had never been measured.

    Nothing is deleted: `store check` names it, and --restore brings it back. Ingesting its report again does not.
    """
    from plumbline.clock import now
    from postprocess.incidents import ledger
    from postprocess.incidents.notes import reason, user
    from postprocess.results.store import Store
    from postprocess.text import count
    from postprocess.verdicts.baseline_files import read_baseline

    opened = Store(results)
    if back:
        _restore(opened, session, site)
        return
    why = reason(why)
    found = opened.find(session, site)
    before = {incident.id for incident in ledger.read_ledger(results, found.site)}
    opened.forget(found, why, user(), f'{now():%Y-%m-%d}')
    command = opened.command(f'store forget {found.short_name} --restore', found.site)
    typer.echo(f'session {found.session} of {found.site}, {found.day}: forgotten, and kept aside: {command}')
    if gone := sorted(before - {incident.id for incident in ledger.read_ledger(results, found.site)}):
        typer.echo(f'{count(len(gone), "incident")} that no other session shows, gone with it: {", ".join(gone)}')
    if rows := sum(found.short_name in row.sessions for row in read_baseline(found.site, references)):
        propose = opened.command('record propose', found.site, references)
        typer.echo(f'{count(rows, "row")} of the baseline in force were recorded from it: {propose}')


def _restore(store: Store, session: str, site: str | None) -> None:
    """Bring a forgotten session back. Raises InputError unless exactly one matches."""
    from postprocess.text import count

    found = [gone for gone in store.forgotten(site or '*') if session and gone.session.startswith(session)]
    if len(found) != 1:
        which = f'{count(len(found), "forgotten session")} whose uuid begins with {session!r}'
        raise InputError(f'{store.folder}: holds {which}, expected one; `plumbline store check` lists them')
    (gone,) = found
    store.restore(gone)
    again = f'{store.command(f"compare {gone.session[:8]}", gone.site)} judges it again'
    if not any(known.session == gone.session for known in store.sessions(gone.site, name=gone.session)):
        again = 'its rows are lost, so ingest its report again'
    typer.echo(f'session {gone.session} of {gone.site}: restored; {again}')
