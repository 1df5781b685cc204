"""One self-contained HTML page about a session; opens from a file, prints, and needs no network."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy
from markupsafe import Markup, escape

from plumbline.errors import SiteError
from plumbline.identity import to_text
from plumbline.paths import SITES
from plumbline.sites import load_site
from plumbline.units import UNITS
from postprocess.history.digest import Night
from postprocess.history.fleet import FEWEST_NODES
from postprocess.history.series import Metric
from postprocess.history.trend import Change
from postprocess.report.charts import Group, Key, Plot, Table, Usual, all_drawable, charts_of, history, strip
from postprocess.results.store import Session, Store
from postprocess.text import count, number, percent, quantity
from postprocess.verdicts import coverage
from postprocess.verdicts.measured import failure
from postprocess.verdicts.verdict import BAD, Comparison, Verdict

_TEMPLATES = Path(__file__).resolve().parent / 'templates'
_FIRST = 8  # of the worst on the first screen, and of the changes that are drawn
_DETAILS = 3000  # metrics with details of their own, the worst first: a page of more would be too large to open
_JOBS = 20  # whose samples are shown of a metric that many nodes measured, the worst first
_FEWEST_NIGHTS = 3
# What the number in the names of metrics counts, by the beginning of the check's name
_COUNTED = {'Osu': 'bytes of a message', 'BabelStreamSizes': 'numbers in an array', 'BabelStreamThreads': 'threads'}
_CLASSES = {'ok': 'o', 'improved': 'i', 'no_reference': 'u', 'informational': 'u', 'warning': 'w'}


def to_html(comparison: Comparison, store: Store, night: Night, root: Path = SITES) -> str:
    """The page. Raises InputError where the store cannot be read."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {'number': number, 'percent': percent, 'digits': _digits, 'broken': _broken}
    environment.filters |= {'parsed': json.loads, 'pairs': to_text}
    environment.globals |= {'quantity': quantity, 'count': count, 'classes': _CLASSES, 'bad': BAD}
    session = comparison.session
    groups = groups_of(comparison)
    judged = [group for group in groups if group.worst.verdict != 'informational']
    cases = {case['case_id']: case for case in store.rows('cases', session)}
    shown = {row.case_id for group in groups for row in group.rows[:_JOBS]}
    samples = _samples(store, session, shown)
    ids = {_metric(group): group.id for group in judged}
    return environment.get_template('report.html.j2').render(
        comparison=comparison,
        session=session,
        headline=comparison.headline,
        guard=coverage.guard(comparison),
        coverage=coverage.counts(comparison),
        how_to_record=Markup(re.sub('`(.+?)`', r'<code>\1</code>', coverage.HOW_TO_RECORD)),
        fell_short=_fell_short(comparison),
        worst=_worst(judged),
        first=_FIRST,
        judged=judged,
        detailed=min(len(judged), _DETAILS),
        jobs=_JOBS,
        strips={group.id: _strip(group, samples) for group in judged},
        ids=ids,
        samples=samples,
        checks=_checks(groups, _usual(store, night.sessions, groups), _link_classes(session.site, root)),
        night=night,
        past=_past(night, judged, ids),
        cases={id: case for id, case in cases.items() if id in shown},
        others=_by_case(groups[min(len(judged), _DETAILS) :]),
        provenance=_provenance(cases.values()),
        not_run=_not_run(comparison, cases.values()),
        nodes=sorted({node for case in cases.values() for node in case['nodes']}),
    )


def groups_of(comparison: Comparison) -> list[Group]:
    """The verdicts of each metric together, in their order."""
    found: dict[Key, list] = {}
    for row in comparison.verdicts:
        found.setdefault(_key(row), []).append(row)
    return [Group(id, rows) for id, rows in enumerate(found.values())]


def _fell_short(comparison: Comparison) -> str:
    """``2 regressed, 1 problem of the session``."""
    said = [f'{n} {verdict}' for verdict, n in comparison.counts.items() if verdict in BAD]
    problems = [f'{count(len(comparison.problems), "problem")} of the session'] if comparison.problems else []
    return ', '.join(said + problems)


def _worst(groups: Sequence[Group]) -> list[tuple[Group, int]]:
    """What fell short or warns; of the metrics of a case with the same cause the first, and how many they are."""
    found: dict[tuple, list[Group]] = {}
    for group in groups:
        row = group.worst
        if row.verdict in (*BAD, 'warning'):
            own = row.id.name if row.verdict in ('regressed', 'warning') else ''
            alike = (row.verdict, row.id.case, row.cause, own)
            found.setdefault(alike, []).append(group)
    return [(its[0], len(its)) for its in found.values()]


Samples = dict[tuple[int, str], dict[str, list[float]]]  # by case and metric, and by node


def _samples(store: Store, session: Session, cases: Iterable[int | None]) -> Samples:
    """Every sample of some cases, in the order of the trials."""
    rows = store.query(
        """
        SELECT
            case_id, if(dims = '-', metric, metric || ' ' || dims) AS metric, coalesce(node, '') AS node,
            list(value ORDER BY trial) AS "values"
        FROM samples JOIN wanted USING (case_id) GROUP BY case_id, metric, dims, node ORDER BY node
        """,
        [session],
        wanted={'case_id': [case for case in cases if case is not None]},
    )
    found: Samples = {}
    for case, metric, node, values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found.setdefault((case, metric), {})[node] = values
    return found


def _by_case(groups: Sequence[Group]) -> dict[int, list[Verdict]]:
    """The verdicts of each case: the details of the case have their samples."""
    found: dict[int, list[Verdict]] = {}
    for group in groups:
        for row in group.rows[:_JOBS]:
            if row.case_id is not None:
                found.setdefault(row.case_id, []).append(row)
    return found


def _strip(group: Group, samples: Samples) -> dict[str, str] | None:
    """Of the samples or, where many nodes measured the metric, of the nodes."""
    row = group.worst
    if len(group.rows) >= FEWEST_NODES:
        return strip(row, [row.value for row in group.rows if row.value is not None])
    values = samples.get((row.case_id, row.id.name), {})
    return strip(row, [value for of_node in values.values() for value in of_node])


@dataclass(frozen=True)
class Past:
    """The history of the judged metrics, by the number of their group, and the changes in it, with that number."""

    plots: dict[int, Plot]
    changes: list[tuple[Change, int | None]]

    @property
    def drawn(self) -> list[int]:
        """The groups of the worst changes."""
        return list(dict.fromkeys(id for _, id in self.changes if id in self.plots))[:_FIRST]


def _past(night: Night, groups: Sequence[Group], ids: dict[Metric, int]) -> Past:
    found = night.trend.changes if night.trend else []
    numbers: dict[Metric, list[tuple[Any, int]]] = {}
    for i, change in enumerate(found, 1):
        if change.kind == 'step':
            numbers.setdefault(change.metric, []).append((change.night.started, i))
    plots = {}
    started = numpy.array([session.started for session in night.sessions], 'datetime64[s]')
    for one in night.series:
        id = ids.get(one.of)
        if id is None or len(one.nights) < _FEWEST_NIGHTS or not all_drawable(one.values):
            continue
        row = groups[id].worst
        plots[id] = history(
            f'{one.of.check} {one.of.case} {one.of.metric}', one.of.unit, started[one.nights],
            one.values, numbers.get(one.of, ()), row.limit, row.expected,
        )  # fmt: skip
    return Past(plots, [(change, ids.get(change.metric)) for change in found])


def _metric(group: Group) -> Metric:
    row = group.worst
    return Metric(*_key(row), row.quantity.unit, row.quantity.better)


def _key(row: Verdict) -> Key:
    return row.id.partition, row.id.environ, row.id.check, to_text(row.id.params), row.id.name


def _usual(store: Store, sessions: Sequence[Session], groups: Sequence[Group]) -> Usual:
    """Where nine of ten of the nights before were, of the metrics that may be points of a curve."""
    before = list(sessions[:-1])
    if len(before) < _FEWEST_NIGHTS or not any(re.search(r'_\d+$', group.worst.id.name) for group in groups):
        return {}
    rows = store.query(
        f"""
        SELECT
            "partition", environ, "check", params,
            if(metrics.dims = '-', metric, metric || ' ' || metrics.dims),
            quantile_cont(mean, 0.05), quantile_cont(mean, 0.95)
        FROM metrics JOIN cases USING (night, case_id)
        WHERE status = 'measured' AND regexp_matches(metric, '_[0-9]+$')
        GROUP BY ALL HAVING count(DISTINCT night) >= {_FEWEST_NIGHTS}
        """,
        before,
    )
    columns = [column.to_pylist() for column in rows.columns]
    return {tuple(key): (low, high) for *key, low, high in zip(*columns, strict=True)}


@dataclass(frozen=True)
class _Check:
    """The charts of a check in one place."""

    name: str
    place: str
    counts: str
    charts: list[Plot | Table]


def _checks(groups: Sequence[Group], usual: Usual, link_classes: dict[tuple[str, str], str]) -> list[_Check]:
    found: dict[tuple[str, str, str], list[Group]] = {}
    for group in groups:
        row = group.worst
        found.setdefault((row.id.check, row.id.partition, row.id.environ), []).append(group)
    checks = []
    for (check, partition, stack), own in sorted(found.items()):
        counted = next((what for name, what in _COUNTED.items() if check.startswith(name)), '')
        classes = {name: descr for (of, name), descr in link_classes.items() if of == partition}
        charts = charts_of(own, usual, classes, counted)
        verdicts = Counter(group.worst.verdict for group in own)
        said = ', '.join(f'{n} {verdict.replace("_", " ")}' for verdict, n in verdicts.items())
        if charts:
            checks.append(_Check(check, f'{partition}/{stack}', said, charts))
    return checks


def _link_classes(site: str, root: Path) -> dict[tuple[str, str], str]:
    """What is known of each, by partition and name."""
    found = {}
    with suppress(SiteError):  # a site that is described elsewhere
        for partition in load_site(site, root if (root / site / 'site.yaml').exists() else SITES).partitions.values():
            for name, link in partition.link_classes.items():
                peak = f', peak {link.peak / UNITS["GB/s"]:.4g} GB/s' if link.peak else ''
                found[partition.name, name] = f'{link.descr}{peak}'
    return found


def _provenance(cases: Iterable[dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """By check: each fact of its cases with the values it took, the one of most cases first."""
    facts: dict[str, dict[str, Counter]] = {}
    for case in cases:
        place = f'{case["check"]} on {case["partition"]} with {case["environ"]}'
        for key, value in json.loads(case['provenance']).items():
            facts.setdefault(place, {}).setdefault(key, Counter())[str(value)] += 1
    return {
        place: {key: [value for value, _ in values.most_common()] for key, values in sorted(of_check.items())}
        for place, of_check in sorted(facts.items())
    }


def _not_run(comparison: Comparison, cases: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """What was not run or not measured, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if case['result'] in ('skip', 'fail_deps', 'abort'):
            found[f'{case["check"]} {case["params"]} on {case["partition"]}', failure(case)] = []
    for row in comparison.verdicts:
        if row.case_id is None:
            found.setdefault((f'{row.id.check} {to_text(row.id.params)} on {row.id.partition}', row.cause), []).append(
                row.id.name
            )
    session = comparison.session
    if session.hostname == platform.node():  # what a detected site lacks is known only where it is detected
        with suppress(SiteError):  # a site that is described elsewhere: nothing is known of what it lacks
            found |= {(f'benchmark {name}', why): [] for name, why in load_site(session.site).not_found.items()}

    def named(what: str, metrics: list[str]) -> str:
        return f'{what} {", ".join(metrics) if len(metrics) < 4 else count(len(metrics), "metric")}'.strip()

    return [(named(what, metrics) if metrics else what, why) for (what, why), metrics in found.items()]


def _broken(case: str) -> Markup:
    """A case that may be broken at its commas."""
    return Markup(',<wbr>'.join(map(str, map(escape, case.split(',')))))


def _digits(values: Iterable[float]) -> str:
    """Samples in a row, with six significant digits."""
    return ' '.join(f'{value:.6g}' for value in values)
