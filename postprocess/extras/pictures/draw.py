# SPDX-License-Identifier: BSD-3-Clause
"""Draw the charts of the report as pictures, each with a caption that describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.checkout import version
from plumbline.errors import InputError
from postprocess.history.digest import Digest, add_history
from postprocess.history.verdicts import verdicts_of
from postprocess.report import plots
from postprocess.report.by_check import checks_of
from postprocess.report.charts import FEW
from postprocess.report.details import unfolded
from postprocess.report.html import day_of, template
from postprocess.report.plots import BOTTOM, LEFT, RIGHT, TOP, Axis, Line, Plot, Ticks
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.text import count, wrapped
from postprocess.verdicts.selection import selected
from postprocess.views.series import SeriesRow, series_rows

_FOLDER = Path(__file__).resolve().parent
_WIDTH, _HEIGHT = 640, 240  # pixels of a history
_CHARACTER, _BOLD, _LINE = 6, 7, 15  # pixels: width of a character, width of one in a title, and height of a line
_TICK_WIDTH = 90  # pixels between the days below a history


@dataclass(frozen=True)
class Picture:
    """Charts below each other, each with its caption, as SVG; a notebook shows it."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


class Chart(NamedTuple):
    """A plot with its captions, of which the first is a title. `since`: changes, each with its place in pixels."""

    plot: Plot
    captions: Sequence[str]
    since: Ticks = []


def draw_history(store: Store, what: str, site: str | None = None, days: int = 90, root: Path | None = None) -> Picture:
    """Draw the history over the last `days` of each series that the shell pattern `what` matches.

    The pattern is for the check, for check and metric, or for the whole name, as for `plumbline record retire`. Raises
    InputError if nothing or too much matches, or the store cannot be read, and SiteError for a wrong file of a site.
    """
    session = store.find('latest', site)
    digest = Digest(verdicts_of(store, session, root))
    series = [row for row in series_rows(digest.comparison) if selected([what], row.series)]
    add_history(digest, store, root, days)
    if digest.faults:
        raise InputError('; '.join(digest.faults))
    details = unfolded(series, _cases(store, session), (), store, digest, {}, str)
    times, charts = details['sessions'], []
    for one in series:
        metric = details['metrics'][one.id]
        if 'history' in metric:
            first, last = (times[metric['at'][place]] for place in (0, -1))
            span = f'n = {count(len(metric["at"]), "session")}, {day_of(first)} to {day_of(last)}'
            about = _of_history(one, 'low' in metric, span)
            if metric.get('limit') and metric.get('expected'):
                about += '; dotted: expected; grey: within the limits; a cross: beyond them'
            about += '; shaded: 9 of 10 nodes.' if 'low' in metric else '.'
            title = f'{metric["name"]} on {metric["where"]}'
            charts.append(_past(metric, times, [title, about, _source(digest.sessions)]))
    return _picture(charts, f'{what}: no series of session {session.session} with three sessions in {days} days')


def draw_curves(
    store: Store, what: str, site: str | None = None, name: str = 'latest', root: Path | None = None
) -> Picture:
    """Draw the curves over sizes or counts of the session whose uuid begins with `name`.

    `what`: a pattern as for :func:`draw_history`. Raises InputError and SiteError as that does.
    """
    sessions = store.history(session := store.find(name, site))
    series = [row for row in series_rows(verdicts_of(store, session, root)) if selected([what], row.series)]
    charts = []
    for check in checks_of(series, _cases(store, session), store, sessions, root):
        for plot in check.charts:
            if isinstance(plot, Plot):
                title = ', '.join(filter(None, (plot.title, plot.unit)))
                title = f'{check.name} on {check.place}: {title}, over {plot.x}'
                charts.append(Chart(plot, [title, _of_curves(plot), _source([session])]))
    return _picture(charts, f'{what}: no curve of session {session.session}')


def _of_history(one: SeriesRow, of_nodes: bool, span: str) -> str:
    """Return a description of a history over the sessions that `span` names; `of_nodes`: nodes are drawn as a band."""
    of = 'nodes, and where 9 of 10 of them are' if of_nodes else 'jobs'
    last = f'; n = {one.worst.measured.n} samples a job in the last one' if one.worst.measured.n else ''
    what = f'{one.quantity.unit}, {one.quantity.better} is better; median of the {of}'
    return f'{what} in each session; {span}{last}'


def _of_curves(plot: Plot) -> str:
    """Return a description of the points of curves, for the caption of a picture."""
    shown = [one for line in plot.lines for one in line.points if one]
    sizes = sorted({one.worst.measured.n for one in shown if one.worst.measured.n})
    samples = [f'n = {" to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} samples a point'] if sizes else []
    return '; '.join([
        f'{shown[0].quantity.better} is better', 'one session', *samples,
        *(['shaded: the 5th to 95th percentile of earlier sessions'] if any(line.band for line in plot.lines) else []),
        *(['grey: within the limits'] if any(line.limits for line in plot.lines) else []),
    ]) + '.'  # fmt: skip


def _source(sessions: Sequence[Session]) -> str:
    """Return which sessions the numbers are from, for the caption of a picture."""
    first, last = sessions[0], sessions[-1]
    span = f'sessions {first.session} to {last.session}, the last one'
    span = span if len(sessions) > 1 else f'session {last.session} of {last.day},'
    report = f'{last.report.rpartition("/")[2]} (sha256 {last.report_sha256[:12]})'
    return f'Site {last.site}; {span} from {report}; Plumbline {version()}.'


def _cases(store: Store, session: Session) -> dict[int, CaseRow]:
    """Return number -> case of a session."""
    return {case.case_id: case for case in store.cases(session)}


def _past(detail: Mapping[str, Any], times: Sequence[int], captions: Sequence[str]) -> Chart:
    """Return the chart of a history; `detail`: its details on the page; `times`: of all sessions."""
    at, values, limit = [times[session] for session in detail['at']], detail['history'], detail.get('limit')
    around = [at, detail['low'], detail['high']] if 'low' in detail else []
    bands = [(time, low, high) for time, low, high in zip(*around, strict=True) if None not in (low, high)]
    level = detail.get('expected') if limit is not None else None
    ends = [] if level is None else [limit, 2 * level - limit]
    points = list(zip(at, values, strict=True))
    fell_short = {point for point in points if level is not None and (point[1] - limit) * (level - limit) < 0}
    fell_short |= {(at[-1], detail['bad'])} if detail.get('bad') is not None else set()
    levels = [*values, *ends, *(value for _, value in fell_short), *(end for _, *own in bands for end in own)]
    x, y = Axis(at, LEFT, _WIDTH - RIGHT, False), Axis(levels, _HEIGHT - BOTTOM, TOP)
    path = [(x(time), y(value)) for time, value in points]
    line = Line(
        'median of the nodes' if 'low' in detail else 'measured', plots.joined(path), dots=plots.dots(path),
        band=plots.around([(x(time), y(low), y(high)) for time, low, high in bands]),
        limits=plots.around([(edge, y(ends[0]), y(ends[1])) for edge in (x.start, x.end) if ends]),
        ideal=plots.joined([(edge, y(level)) for edge in (x.start, x.end) if level is not None]),
        bad=plots.crosses((x(time), y(value)) for time, value in sorted(fell_short)),
    )  # fmt: skip
    days = x.apart(at, _TICK_WIDTH, day_of)
    changes = [(x(times[session]), text) for session, text in detail['changes']]
    return Chart(Plot(detail['name'], detail['unit'], '', _WIDTH, _HEIGHT, days, y.ticks(), [line]), captions, changes)


def _picture(charts: Sequence[Chart], nothing: str) -> Picture:
    """Return charts below each other with the lines of their captions."""
    if not 0 < len(charts) <= FEW:
        raise InputError(nothing if not charts else f'{len(charts)} charts match, more than {FEW}: name fewer')
    parts: list[dict[str, Any]] = []
    height = 0
    for plot, captions, since in charts:
        title = wrapped(captions[0], width=plot.width // _BOLD).splitlines()
        rest = (line for text in captions[1:] for line in wrapped(text, width=plot.width // _CHARACTER).splitlines())
        caption = [*title, *rest]
        parts.append(
            {'plot': plot, 'since': since, 'title': captions[0], 'top': height, 'caption': caption, 'bold': len(title)}
        )
        height += plot.height + _LINE * (len(plot.lines) + len(caption) + 2)
    sheet = template('report.css').render()
    paper = dict(re.findall(r'--(\w+): (#\w+)', sheet.partition('@media')[0]))
    style = re.sub(r'var\(--(\w+)\)', lambda found: paper[found[1]], template('plot.css').render())
    most = max(len(chart.plot.lines) for chart in charts)
    colours = [paper[f'c{i}'] for i in range(FEW)]
    if most > FEW:
        colours = [f'hsl({265 - 245 * i / most:.0f}, 60%, 45%)' for i in range(most)]
    width = max(chart.plot.width for chart in charts)
    drawing = template('picture.svg.j2', _FOLDER)
    return Picture(drawing.render(charts=parts, width=width, height=height, style=style, colours=colours))
