"""Commands that record a baseline: record propose, record accept."""

from __future__ import annotations

from typing import Annotated

import typer

from postprocess.cli.app import DEFAULT, Format, OutputFormat, References, Results, SiteName, record, show


@record.command()
def propose(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar='SESSION',
            help='Sessions to record together, or all of the days FROM..TO; the latest by default.',
        ),
    ] = None,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Compute new baseline rows and show how they differ from those in force. Changes no reference.

    Refuses series that are invalid, failed or missing, or have a single sample. A baseline of fewer than five sessions
    only warns.
    """
    from postprocess.results.store import Store
    from postprocess.verdicts import baseline as module
    from postprocess.verdicts.windows import sessions_named
    from postprocess.views import baseline as views

    store = Store(results)
    chosen = [session for name in sessions or ['latest'] for session in sessions_named(store, name, site)]
    proposal = module.propose(store, chosen, references)
    path = module.save(proposal, results)
    show(views.proposal(proposal, path), format)
    raise typer.Exit(1 if proposal.unusable else 0)


@record.command()
def accept(
    site: SiteName = None,
    epoch: Annotated[
        str,
        typer.Option(
            help='Name of a planned change of the machine, such as "OFED 24.10": move the means, keep the spreads of '
            'before, so that the gate works after one session.'
        ),
    ] = '',
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Merge the proposal into the baseline.csv of its site. Rows that are not in the proposal stay."""
    from postprocess.verdicts import baseline as module
    from postprocess.views import baseline as views

    accepted = module.accept(results, site, references, ' '.join(epoch.split()))
    if epoch:
        show(views.accepted(accepted.rows), 'table')
    typer.echo(
        f'{accepted.path}: {accepted.added} added, {accepted.changed} changed, {accepted.kept} as before; '
        'review the difference and commit it'
    )
