# SPDX-License-Identifier: BSD-3-Clause
"""The results store as tidy pandas DataFrames, the public interface for notebooks and scripts; as OpenMetrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.identity import ID_COLUMNS, from_text
from plumbline.paths import results_directory
from postprocess.results.store import Session, Store, quoted
from postprocess.text import not_a_formula

if TYPE_CHECKING:
    import pandas

_OF_METRICS = (
    'unit', 'better', 'n', 'mean', 'std', 'min', 'max', 'status', 'judged', 'invalid', 'missing', 'usual_spread',
    'floor',
)  # fmt: skip
FAMILY = 'plumbline_measured'
_LABELS = ('site', 'partition', 'environ', 'check', 'params', 'metric', 'unit', 'better', 'nodes')
_HEAD = f"""\
# TYPE {FAMILY} gauge
# HELP {FAMILY} Mean of the samples of a series in one session, in the unit of its label.
"""


class Results:
    """The sessions below one results directory. See docs/results-api.md for the columns.

    Every method reads the store anew. Filters: `site`: name of one site. `days`: counted back from the newest session
    of each site. `check`: name of a check or a pattern such as ``Osu*``. All methods raise InputError if the store
    cannot be read.
    """

    def __init__(self, folder: str | Path | None = None):
        self.store = Store(results_directory() if folder is None else Path(folder))

    def sessions(self, site: str | None = None, days: float | None = None) -> pandas.DataFrame:
        """Return one row for each session, in the order in which they started."""
        return self._query('SELECT * EXCLUDE (schema, month, night) FROM sessions ORDER BY night', site, days)

    def cases(self, site: str | None = None, days: float | None = None, check: str = '*') -> pandas.DataFrame:
        """Return one row for each test case of each session, without fixtures."""
        sql = f"""
            SELECT cases.site, cases.session, started, cases.* EXCLUDE (schema, session, site, month, night, fixture)
            FROM cases JOIN sessions USING (night)
            WHERE NOT fixture AND "check" GLOB {quoted(check)} ORDER BY cases.night, case_id
        """
        return self._query(sql, site, days)

    def metrics(
        self, site: str | None = None, days: float | None = None, check: str = '*', dims: bool = False
    ) -> pandas.DataFrame:
        """Return one row for each series of each case: its identity, and the statistics of its samples.

        A value counts as measured if `status` is ``measured``. `dims`: give each dim a column of its own.
        """
        own = ', '.join(f'metrics."{name}"' for name in _OF_METRICS)
        return self._of_series('metrics', f"{own}, array_to_string(nodes, ',') AS nodes", site, days, check, dims)

    def samples(
        self, site: str | None = None, days: float | None = None, check: str = '*', dims: bool = False
    ) -> pandas.DataFrame:
        """Return one row for each sample: the identity of its series, trial, node and value.

        `dims`: give each dim a column of its own.
        """
        return self._of_series('samples', 'trial, node, value', site, days, check, dims)

    def _of_series(
        self, table: str, columns: str, site: str | None, days: float | None, check: str, dims: bool
    ) -> pandas.DataFrame:
        """Return one row for each row of `metrics` or `samples`, with the identity of its series and the `columns`."""
        names = ', '.join(f'{table if name in ("metric", "dims") else "cases"}."{name}"' for name in ID_COLUMNS)
        order = ', '.join(f'{table}.{name}' for name in ('case_id', 'metric', 'dims'))
        sql = f"""
            SELECT cases.site, cases.session, started, {table}.case_id, {names}, {columns}
            FROM {table} JOIN cases USING (night, case_id) JOIN sessions USING (night)
            WHERE cases."check" GLOB {quoted(check)} ORDER BY night, {order}{', trial, node' * (table == 'samples')}
        """
        frame = self._query(sql, site, days)
        return with_dims(frame) if dims else frame

    def _query(self, sql: str, site: str | None, days: float | None) -> pandas.DataFrame:
        """Return the result of a query over the sessions of one site or of all sites."""
        import pandas

        sites = [site] if site else self.store.sites()
        # one site at a time: two sites may have sessions with the same uuid
        tables = [self.store.query(sql, _recent(self.store.sessions(name), days)) for name in sites or ['*']]
        filled = [table for table in tables if table.num_rows] or tables[:1]
        return pandas.concat([table.to_pandas() for table in filled], ignore_index=True)


def with_dims(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return `frame` with one column for each dim in place of `dims`; a column of whole numbers has numbers.

    A dim that a series does not have is missing (NA). Raises ValueError if a dim has the name of a column.
    """
    import pandas

    texts = frame['dims'].unique()
    values = pandas.DataFrame([dict(from_text(text)) for text in texts], index=pandas.Index(texts, name='dims'))
    if clash := sorted(set(values.columns) & set(frame.columns)):
        raise ValueError(f'dims {", ".join(clash)} have the names of columns: use the column dims')
    for name in values:
        known = values[name].dropna()
        if known.str.fullmatch(r'\d+').all():
            values[name] = pandas.to_numeric(values[name]).astype('Int64')
    names = [*frame.columns]
    place = names.index('dims')
    return frame.join(values, on='dims')[[*names[:place], *values.columns, *names[place + 1 :]]]


def _recent(sessions: Sequence[Session], days: float | None) -> list[Session]:
    """Return the sessions of the last `days`, counted from the newest; None: all."""
    if days is None or not sessions:
        return list(sessions)
    since = max(session.started for session in sessions) - timedelta(days=days)
    return [session for session in sessions if session.started >= since]


def to_csv(frame: pandas.DataFrame) -> str:
    """Return a table as CSV in which no text is a formula of a spreadsheet."""
    from pandas.api.types import infer_dtype

    written = frame.rename(columns=not_a_formula)
    for name in written.columns:
        if infer_dtype(written[name]) == 'string':
            texts = {text: not_a_formula(text) for text in written[name].dropna().unique()}
            if any(text != safe for text, safe in texts.items()):
                written[name] = written[name].map(texts)
    return written.to_csv(index=False, lineterminator='\n')


def to_openmetrics(metrics: pandas.DataFrame) -> str:
    """Return the measured values of a frame of :meth:`Results.metrics` (without `dims`) as OpenMetrics text.

    There is a time series for each series and set of nodes, with a point for each session at the time when it started.
    A dim becomes a label ``dim_<name>``. Points with the same labels and time are written as their mean, because none
    may occur twice.
    """
    lines = []
    for labels, time, point in _points(metrics):
        text = ','.join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        lines.append(f'{FAMILY}{{{text}}} {point["mean"]:.10g} {time // 10**9}\n')
    return f'{_HEAD}{"".join(lines)}# EOF\n'


def to_influx(metrics: pandas.DataFrame) -> str:
    """Return the same in InfluxDB's line protocol: labels as tags, fields ``mean``, ``min``, ``max`` and ``n``."""
    lines = []
    for labels, time, point in _points(metrics):
        tags = ''.join(f',{name}={_tag(value)}' for name, value in labels.items() if value)
        fields = ','.join(f'{name}={point[name]:.10g}' for name in ('mean', 'min', 'max'))
        lines.append(f'{FAMILY}{tags} {fields},n={point["n"]:.0f}i {time}\n')
    return ''.join(lines)


def _points(metrics: pandas.DataFrame) -> Iterator[tuple[dict[str, str], int, dict[str, float]]]:
    """Yield (labels, time in ns since 1970, statistics) of each series on a set of nodes in a session."""
    measured = metrics[(metrics['status'] == 'measured') & metrics['mean'].notna()]
    measured = measured.assign(
        started=measured['started'].dt.floor('s')
    )  # whole seconds: `promtool check` reads no others
    groups = measured.groupby([*_LABELS, 'dims', 'started'], sort=True)
    points = groups.agg({'mean': 'mean', 'min': 'min', 'max': 'max', 'n': 'sum'})
    for (*labels, dims, started), *values in points.itertuples(name=None):
        pairs = dict(zip(_LABELS, map(str, labels), strict=True))
        pairs |= {re.sub(r'\W', '_', f'dim_{name}'): text for name, text in from_text(dims)}
        yield pairs, started.value, dict(zip(points.columns, values, strict=True))


def _escaped(text: str) -> str:
    """Return the value of a label in OpenMetrics."""
    return text.replace('\\', r'\\').replace('"', r'\"').replace('\n', r'\n')


def _tag(text: str) -> str:
    """Return the value of a tag in InfluxDB, which allows no line feed and no backslash at the end."""
    return re.sub(r'([,= ])', r'\\\1', text.replace('\n', ' ').rstrip('\\'))
