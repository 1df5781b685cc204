"""Commands on the history of a site: trend, fleet, ledger and backtest."""

from __future__ import annotations

from typing import Annotated

import typer

from postprocess.cli.app import (
    DEFAULT,
    Format,
    OutputFormat,
    References,
    Results,
    SessionName,
    SiteName,
    app,
    days_before,
    show,
)


@app.command()
def trend(
    session: SessionName = 'latest',
    days: Annotated[int, days_before('How many days up to the session to look at.')] = 180,
    recent: Annotated[int, days_before('Exit code 1 for a change for the worse in the last so many days.')] = 14,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Find steps and slow drift in the history of every series, and what else changed at that time."""
    from postprocess.history import trend as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    found = module.trend(store, store.history(store.find(session, site), days), references)
    show(views.trend(found, recent), format)
    raise typer.Exit(int(bool(found.recent(recent))))


@app.command()
def fleet(
    session: SessionName = 'latest',
    days: Annotated[int, days_before('How many days up to the session to compare its nodes over.')] = 30,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Find nodes that stand out in a session; tell whether node, fabric, software or the whole system is the cause.

    Writes them to the ledger. Proposes to drain nodes that stand out again, as commands for a person to run.
    """
    from postprocess.history import fleet as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    found = module.fleet(store, store.find(session, site), days, results, references)
    show(views.fleet(found, module.write_drain(found, results)), format)
    raise typer.Exit(int(bool(found.events)))


@app.command()
def ledger(
    nodes: Annotated[list[str] | None, typer.Argument(metavar='NODE', help='Only these nodes.')] = None,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = DEFAULT,
) -> None:
    """Show which nodes stood out in which session."""
    from postprocess.history import ledger as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    found = module.read(results, Store(results).find('latest', site).site)
    show(views.ledger([entry for entry in found if not nodes or entry.node in nodes]), format)


@app.command()
def backtest(
    session: SessionName = 'latest',
    days: Annotated[int, days_before('How many days up to the session to judge again.')] = 90,
    site: SiteName = None,
    format: OutputFormat = Format.table,
    results: Results = DEFAULT,
    references: References = DEFAULT,
) -> None:
    """Count the alarms that each setting of gate, trend and fleet would have raised on the history of a site."""
    from postprocess.history import backtest as module
    from postprocess.results.store import Store
    from postprocess.views import history as views

    store = Store(results)
    sessions = store.history(store.find(session, site), days)
    found = module.backtest(store, sessions, references)
    show(views.backtest(found, sessions, module.BASELINE), format)
