# SPDX-License-Identifier: BSD-3-Clause
"""The command node-check: checks one node, for prolog, epilog, boot and the health check of a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from plumbline.errors import InputError, expected_one_of
from postprocess.cli.app import DEFAULT, NewResults, app


@app.command('node-check')
def node_check(
    only_settings: Annotated[
        bool, typer.Option('--settings-only', help='No benchmark: also beside jobs, every few minutes.')
    ] = False,
    epilog: Annotated[
        bool, typer.Option('--epilog', help='Run although the job whose environment this is has not left the node.')
    ] = False,
    reason: Annotated[
        bool, typer.Option('--drain-reason', help='Print only the reason to drain in one line; nothing without one.')
    ] = False,
    details: Annotated[bool, typer.Option('--details', help='Also print each rate with its limit.')] = False,
    partition: Annotated[
        str | None, typer.Option(metavar='NAME', help='Partition of this node, whose `expects` it is compared with.')
    ] = None,
    site: Annotated[str | None, typer.Option(envvar='PLUMBLINE_SITE', help='Site of this node.')] = None,
    results: NewResults = DEFAULT,
) -> None:
    """Check this node in seconds: settings, devices, counters, and short benchmarks against earlier checks.

    Exit code 0: nothing found, 1: drain it, 2: the input cannot be used, 3: not known, for example because a job runs.
    """
    from postprocess import node_check as module

    expects, name = _expects(site, partition)
    outcome = module.check(results, expects, name, only_settings, epilog)
    if reason:
        typer.echo(outcome.reason, nl=bool(outcome.reason))
    else:
        typer.echo('\n'.join([outcome.line, *(f'  {line}' for line in (outcome.measured if details else ()))]))
    raise typer.Exit(outcome.exit_code)


def _expects(site: str | None, partition: str | None) -> tuple[Sequence[tuple[str, str]] | str, str]:
    """Return the settings that the site states for this node, or why they are not known.

    And the partition of the node.
    """
    from plumbline.machine.node import this_node
    from plumbline.site.sites import UNDESCRIBED, load_site, must_exist, name_of_this_site

    if site:
        must_exist(site, None)
    name = site or name_of_this_site()
    if name == UNDESCRIBED:
        if partition:
            raise InputError(f'--partition {partition}: no site describes this node; expected one without a partition')
        return 'no site describes this node', 'default'
    known = load_site(name).partitions
    chosen = partition or this_node().partition or (next(iter(known)) if len(known) == 1 else '')
    if partition and partition not in known:
        raise InputError(f'--partition {partition}: {expected_one_of(partition, known)}')
    if chosen not in known:
        return f'{name} has several partitions: choose with --partition', 'default'
    return known[chosen].expects or f'{name}:{chosen} states no expects', chosen
