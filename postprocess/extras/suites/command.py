# SPDX-License-Identifier: BSD-3-Clause
"""The options ``ingest --perflog`` and ``init --suite``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from plumbline.errors import InputError
from postprocess.cli.app import carries_out, complain

if TYPE_CHECKING:
    from postprocess.readers.rules import Rules
    from postprocess.results.rows import SessionRows
    from postprocess.results.store import Store


@carries_out('ingest --perflog')
def read_logs(
    store: Store, paths: Sequence[Path], site: str | None, rules: Rules
) -> Iterator[SessionRows | InputError]:
    """Yield the sessions in performance logs; `site`: not used, the lines of a log name their system."""
    from postprocess.extras.suites.performance_logs import read_perflogs

    return read_perflogs(store, paths, rules)


@carries_out('init --suite')
def write_rules(path: Path) -> None:
    """Write the rules for another suite, from what ReFrame wrote at `path`. Raises InputError."""
    import tempfile

    from plumbline.files import write_text
    from postprocess.extras.suites.proposed_rules import proposed, read_all
    from postprocess.readers.rules import place
    from postprocess.results.rows import SessionRows
    from postprocess.results.store import Store

    with tempfile.TemporaryDirectory(prefix='plumbline-suite-') as nothing:
        reports = read_all(path, Store(Path(nothing)))  # of an empty store: no line of a log is known
    for unusable in reports:
        if isinstance(unusable, InputError):
            raise unusable
    try:
        text, known, asked = proposed(report for report in reports if isinstance(report, SessionRows))
    except InputError as error:
        raise InputError(f'{path}: {error}') from None
    rules = place()
    if rules.exists():
        complain(f'{rules}: is there already and stays')
        rules = rules.with_name(f'{rules.name}.new')
    write_text(rules, text)
    typer.echo(f'{rules}: written; the direction of {known} metrics is known, of {asked} it is to be decided there')
