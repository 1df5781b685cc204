# SPDX-License-Identifier: BSD-3-Clause
"""Commands that record a baseline: record propose, record accept, record retire."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from postprocess.cli.app import DEFAULT, CommandGroup, Format, References, Results, SiteName, app, sessions_named, show

record = typer.Typer(
    cls=CommandGroup,
    rich_markup_mode=None, no_args_is_help=True,
    help='Record sessions as the baseline of their site, in two steps with a review between them.',
)  # fmt: skip
app.add_typer(record, name='record')


@record.command()
def propose(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar='SESSION',
            help='Sessions to record together, or all of the days FROM..TO; of the newest 400, by default all that '
            'are good enough since the first one behind the baseline in force, or with --epoch the latest.',
        ),
    ] = None,
    although: Annotated[
        str,
        typer.Option(
            metavar='REASON',
            help='Also record what is refused: numbers of busy nodes and of nodes with incidents where a series has no '
            'others or the session is named, levels worse than those in force or published, series with two levels.',
        ),
    ] = '',
    epoch: Annotated[
        str,
        typer.Option(
            metavar='NAME',
            help='Name of a planned change of the machine just before the sessions, such as "OFED 24.10": move the '
            'means, keep the spreads of before.',
        ),
    ] = '',
    site: SiteName = None,
    format: Format = 'table',
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Compute new baseline rows and show how they differ from those in force. Changes no reference.

    Refuses series that are invalid, failed or missing and, without --although, doubtful numbers. Exit code 1 if
    something was refused that a reason would let in, or if nothing can be recorded.
    """
    from postprocess.incidents.ledger import accused
    from postprocess.results.store import Store
    from postprocess.verdicts import baseline as module
    from postprocess.verdicts.advice import in_doubt, more_sessions
    from postprocess.verdicts.proposals import save
    from postprocess.views import baseline as views

    store = Store(results)
    named = sessions or (['latest'] if epoch else [])
    if named:
        chosen = [session for name in named for session in sessions_named(store, name, site)]
    else:
        chosen = store.sessions(store.find('latest', site).site)[-module.NEWEST :]
    wanted = module.Wanted(bool(named), ' '.join(although.split()), ' '.join(epoch.split()))
    proposal = module.propose(store, chosen, references, wanted, accused(results, chosen, wanted.epoch))
    path = save(proposal, results)
    rows = [(row.new, row.tolerance) for row in proposal.rows if not row.withheld]
    command = partial(store.command, site=proposal.site, root=references)
    advice = [of(rows, command('record propose')) for of in (in_doubt, more_sessions)]
    show(views.proposal(proposal, path, advice, command), format)
    raise typer.Exit(0 if proposal.complete else 1)


@record.command()
def accept(site: SiteName = None, results: Results = DEFAULT, references: References = DEFAULT) -> None:
    """Merge the proposal into the baseline.csv of its site. Rows that are not in the proposal stay."""
    from plumbline.limits import tolerance_for
    from plumbline.site.sites import UNDESCRIBED
    from postprocess.results.store import Store
    from postprocess.verdicts import proposals
    from postprocess.verdicts.advice import in_doubt, more_sessions
    from postprocess.verdicts.policy import site_policy

    accepted = proposals.accept(results, site, references)
    of = accepted.path.parent.name
    then = (
        'it is of this machine alone: do not commit it' if of == UNDESCRIBED else 'review the difference and commit it'
    )
    policy = site_policy(Store(results).find(site=of), references)
    rows = [(row, tolerance_for(policy, row.id, **row.stated)) for row in accepted.rows]
    command = Store(results).command('record propose', of, references)
    for advice in filter(None, (in_doubt(rows, command), more_sessions(rows, command))):
        typer.echo(advice)
    typer.echo(
        f'{accepted.path}: {accepted.added} added, {accepted.changed} changed, {accepted.kept} as before; {then}'
    )


@record.command()
def retire(
    patterns: Annotated[
        list[str],
        typer.Argument(
            metavar='PATTERN...',
            help='Rows to take out: a check, "CHECK METRIC", or a series as it is printed; shell patterns such as '
            '"gpu/* Osu*".',
        ),
    ],
    why: Annotated[str, typer.Option(metavar='TEXT', help='Why they are no longer wanted.')],
    site: SiteName = None,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Move rows of a baseline.csv to retired.csv next to it, so that they are not missing when nothing measures them.

    A series that is still measured has no reference then, until a later session is recorded.
    """
    from plumbline.clock import now
    from plumbline.site.sites import name_of_this_site
    from postprocess.results.store import Store
    from postprocess.text import count
    from postprocess.verdicts import retire as module

    known = Store(results).sites()
    of = site or (known[0] if len(known) == 1 else name_of_this_site(references))
    done = module.retire(results, of, patterns, why, references, now())
    for row in done.rows:
        typer.echo(f'retired: {row.id}: {row.mean:.6g} {row.quantity.unit}, {row.source}')
    if done.proposed:
        typer.echo(f'the proposal that waits lost {count(done.proposed, "row")}, too')
    typer.echo(
        f'{done.path}: {count(len(done.rows), "row")} retired, {done.left} left; they are in retired.csv beside it, '
        'with the reason; review the difference and commit it'
    )
