"""The command that hands the store's tables to other programs."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from plumbline.errors import InputError
from postprocess.cli.app import DEFAULT, Results, SiteName, app, days_before


class _To(str, enum.Enum):
    csv = 'csv'
    parquet = 'parquet'
    openmetrics = 'openmetrics'


class _Table(str, enum.Enum):
    samples = 'samples'
    metrics = 'metrics'
    cases = 'cases'
    sessions = 'sessions'


@app.command()
def export(
    to: Annotated[_To, typer.Option('--to', help='Format. Parquet needs --output; OpenMetrics is of --table metrics.')],
    table: Annotated[_Table, typer.Option(help='Which table; docs/results-api.md explains the columns.')] = (
        _Table.metrics
    ),
    output: Annotated[Path | None, typer.Option('--output', '-o', help='File in place of standard output.')] = None,
    site: SiteName = None,
    days: Annotated[float | None, days_before('Only so many days up to the newest session of each site.')] = None,
    check: Annotated[str, typer.Option(help='Only this check, or those of a pattern such as Osu*.')] = '*',
    dims: Annotated[bool, typer.Option('--dims', help='A column for each dim, in place of the column dims.')] = False,
    results: Results = DEFAULT,
) -> None:
    """Print the measured values of all sessions as CSV, Parquet or OpenMetrics."""
    from plumbline.files import write_whole
    from postprocess.results.frames import Results as Opened

    if to is _To.openmetrics and (table is not _Table.metrics or dims):
        raise InputError(
            '--to openmetrics writes the table metrics, and dims as labels: give neither --table nor --dims'
        )
    if to is _To.parquet and output is None:
        raise InputError('--to parquet writes a binary file: name it with --output')
    opened = Opened(results)
    if not opened.store.sites():
        raise InputError(f'{opened.store.folder}: holds no session; `plumbline ingest REPORT` puts one there')
    if table is _Table.sessions:
        frame = opened.sessions(site, days)
    elif table is _Table.cases:
        frame = opened.cases(site, days, check)
    else:
        frame = getattr(opened, table.value)(site, days, check, dims)
    if to is _To.parquet:
        assert output is not None
        write_whole({output: lambda stream: frame.to_parquet(stream, index=False)})
        return
    if to is _To.openmetrics:
        from postprocess.results.openmetrics import to_openmetrics

        text = to_openmetrics(frame)
    else:
        text = frame.to_csv(index=False, lineterminator='\n')
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole({output: lambda stream: stream.write(text.encode(errors='backslashreplace'))})
