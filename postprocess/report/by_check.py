# SPDX-License-Identifier: BSD-3-Clause
"""What the page shows of each check: its series in the overview, labelled by how they differ, and its charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import msgspec

from plumbline.errors import SiteError
from plumbline.identity import Dim
from plumbline.paths import site_folder
from plumbline.site.sites import load_site
from plumbline.units import UNITS
from postprocess.report.charts import METRIC, NODES, Facts, Grid, Style, Usual, charts_of, counted, varying
from postprocess.report.plots import Plot
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.views.series import SeriesRow

_FEWEST_SESSIONS = 3  # fewest sessions of a usual range


def _by_check(series: Iterable[SeriesRow]) -> dict[tuple[str, str], list[SeriesRow]]:
    """Return (check, partition/environ) -> its series, in an order that does not change from session to session."""
    groups: dict[tuple[str, str], list[SeriesRow]] = {}
    for one in series:
        groups.setdefault((one.series.check, f'{one.series.partition}/{one.series.environ}'), []).append(one)
    return dict(sorted(groups.items()))


class OverviewRow(NamedTuple):
    """The series of a check on a partition with an environ, each with its label within the check."""

    check: str
    place: str
    boxes: list[tuple[SeriesRow, str]]


def overview(series: Iterable[SeriesRow], most: int) -> tuple[list[OverviewRow], list[OverviewRow]]:
    """Return a row for each check and place: those with the first `most` series, and the others."""
    groups = _by_check(sorted(series, key=lambda one: one.series.sort_key))
    rows = [OverviewRow(*key, list(zip(own, _labels(own), strict=True))) for key, own in groups.items()]
    before = accumulate((len(row.boxes) for row in rows), initial=0)
    first = sum(n < most for n, _ in zip(before, rows, strict=False))
    return rows[:first], rows[first:]


def _labels(own: Sequence[SeriesRow]) -> list[str]:
    """Return the label of each series of a check: the facts in which they differ."""
    facts = [{METRIC: one.series.metric, **dict(one.series.params), **dict(one.series.dims)} for one in own]
    names = varying(facts) or [METRIC]
    return [' '.join(_fact(name, fact) for name in names if name in fact) for fact in facts]


def _fact(name: str, facts: Facts) -> str:
    """Return a fact in as few words as possible: ``triad``, ``2 nodes``, ``message_bytes=8``."""
    value = facts[name]
    if name == METRIC:
        return 'the case' if value == '*' else value
    if name == NODES and value.isdigit():
        return count(int(value), 'node')
    if name.endswith('bytes') and value.isdigit():
        value = counted(int(value))
    return value if value[:1].isalpha() else f'{name}={value}'


class Check(NamedTuple):
    """The charts of a check on a partition with an environ."""

    name: str
    place: str
    counts: str
    charts: list[Plot | Grid]


def checks_of(
    series: Sequence[SeriesRow], cases: Mapping[int, CaseRow], store: Store, sessions: Sequence[Session],
    root: Path | None = None,
) -> list[Check]:  # fmt: skip
    """Return the checks with charts of the last of `sessions`; earlier sessions give the usual range of curves."""
    groups = _by_check(series)
    styles = {key: _style(own, cases) for key, own in groups.items()}
    curves = {(key[0], one.series.metric) for key, own in groups.items() for one in own if styles[key].x_of(one.series)}
    usual = _usual(store, sessions[:-1], curves)
    link_classes = _link_classes(sessions[-1].site, root)
    checks = []
    for key, own in groups.items():
        classes = {name: descr for (of, name), descr in link_classes.items() if of == own[0].series.partition}
        charts = charts_of(own, styles[key], usual, classes)
        verdicts = Counter(one.worst.verdict for one in own)
        counts = ', '.join(f'{n} {verdict.replace("_", " ")}' for verdict, n in verdicts.items())
        if charts:
            checks.append(Check(*key, counts, charts))
    return checks


def _style(series: Iterable[SeriesRow], cases: Mapping[int, CaseRow]) -> Style:
    """Return what the records of some series declare about their dims and how to draw them."""
    own = [cases[job.case_id] for one in series for job in one.jobs if job.case_id is not None]
    dims = {name: dim for case in own for name, dim in case.dims.items()}
    draw = {metric: of for case in own for metric, of in case.draw.items()}
    return Style(msgspec.convert(dims, dict[str, Dim]), draw)


def _usual(store: Store, before: Sequence[Session], curves: Iterable[tuple[str, str]]) -> Usual:
    """Return series -> 5th and 95th percentile over earlier sessions; `curves`: (check, metric) of these series."""
    wanted = sorted(curves)
    if len(before) < _FEWEST_SESSIONS or not wanted:
        return {}
    rows = store.select(
        f"""
        SELECT "partition", environ, "check", params, metric, dims,
            quantile_cont(mean, 0.05) AS low, quantile_cont(mean, 0.95) AS high
        FROM measured JOIN wanted USING ("check", metric)
        GROUP BY ALL HAVING count(DISTINCT night) >= {_FEWEST_SESSIONS}
        """,
        before,
        wanted={'check': [check for check, _ in wanted], 'metric': [metric for _, metric in wanted]},
    )
    return {row['id']: (row['low'], row['high']) for row in rows}


def _link_classes(site: str, root: Path | None) -> dict[tuple[str, str], str]:
    """Return (partition, link class) -> its description."""
    descriptions = {}
    with suppress(SiteError):  # the site may have no site.yaml
        for partition in load_site(site, site_folder(site, root).parent).partitions.values():
            for name, link in partition.link_classes.items():
                peak = f', peak {link.peak / UNITS["GB/s"]:.4g} GB/s' if link.peak else ''
                descriptions[partition.name, name] = f'{link.descr}{peak}'
    return descriptions
