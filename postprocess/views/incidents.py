# SPDX-License-Identifier: BSD-3-Clause
"""Incidents as text and as tables, and one incident with all its details."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from postprocess.incidents import FAILING
from postprocess.incidents.words import commands, since, with_options
from postprocess.text import WIDTH, count, named, quantity, wrapped
from postprocess.views.series import SERIES, in_percent, interval
from postprocess.views.table import Column, TableRow, View, in_markdown

if TYPE_CHECKING:
    from pathlib import Path

    from postprocess.incidents.incident import Value
    from postprocess.incidents.known import Known
    from postprocess.results.excerpts import Excerpt

_COLUMNS = (
    Column('id', 'id'),
    Column('state', 'state'),
    Column('kind', 'kind'),
    Column('where', 'where'),
    Column('what', 'what'),
    *map(Column, ('nodes', 'site', 'partition', 'environ', 'device', 'link_class', 'place', 'same_nodes')),
    *map(Column, ('checks', 'metrics')),
    *map(Column, ('loss', 'loss_low', 'loss_high')),
    Column('since', 'since'),
    Column('sessions', 'sessions', number=True),
    *map(Column, ('healthy_for', 'session', 'changed', 'evidence', 'next_steps', 'cause')),
    *map(Column, ('acknowledged_why', 'acknowledged_until', 'acknowledged_by', 'worse', 'closed', 'before')),
    *map(Column, ('corrected', 'holds')),
)
_VALUES = (
    *SERIES,
    Column('value', 'measured', lambda value, unit: quantity(value, None, unit), number=True, beside=('unit',)),
    Column('unit'),
    Column('n', 'n', number=True),
    Column('expected', 'expected', lambda value, unit: quantity(value, None, unit), number=True, beside=('unit',)),
    Column('loss', 'lost', lambda loss: '' if loss is None else f'{loss:.1f} %', number=True),
    Column('loss_low', '95 % interval', interval, number=True, beside=('loss_high',)),
    Column('loss_high'),
)


def to_row(known: Known, when: str, results: Path) -> TableRow:
    """Return an incident of the ledger of `results` as values by the keys of `_COLUMNS`; losses are in %."""
    incident, noted = known.incident, known.acknowledged and known.acknowledged.note
    where, (low, high) = incident.where, incident.interval or (None, None)
    return {
        'id': known.id,
        'state': known.state(when),
        'kind': incident.kind,
        'where': str(where),
        'what': incident.what,
        'nodes': list(incident.nodes),
        **{name: getattr(where, name) for name in ('site', 'partition', 'environ', 'device', 'link_class', 'place')},
        'same_nodes': list(where.same_nodes),
        'checks': list(incident.checks),
        'metrics': sum(of.metric != '*' for of in incident.series),
        'loss': in_percent(incident.loss),
        'loss_low': in_percent(low),
        'loss_high': in_percent(high),
        'since': incident.day,
        'sessions': known.sessions,
        'healthy_for': known.healthy_for,
        'session': incident.since,
        'changed': list(incident.changed),
        'evidence': [*incident.evidence, *outputs(known, results)],
        'next_steps': commands(known, when, results),
        'cause': incident.cause,
        **{f'acknowledged_{name}': getattr(noted, name) if noted else '' for name in ('why', 'until', 'by')},
        'worse': known.worse(),
        'closed': known.closed,
        'before': list(known.before),
        'corrected': known.corrected,
        'holds': sorted(known.ids - {known.id}),
    }


def listing(known: Sequence[Known], when: str, results: Path) -> View:
    """Return all incidents of a ledger, the most urgent first."""
    rows = [to_row(incident, when, results) for incident in known]
    is_open = sum(row['state'] in FAILING for row in rows)
    return View(_COLUMNS, rows, after=f'{count(len(rows), "incident")}, {is_open} open')


def details(known: Known, when: str, results: Path, shown: Excerpt | None = None) -> View:
    """Return one incident in full: its metrics as rows, and what each session shows of it.

    `shown`: what its program printed.
    """
    sessions = []
    for uuid, seen in known.seen.items():
        size = f', {100 * seen.loss:.1f} % of the performance lost' if seen.loss is not None and seen.bad else ''
        states = [f'bad{_on(seen.bad)}{size}'] if seen.bad else []
        states += [f'healthy{_on(seen.healthy)}'] if seen.healthy else []
        sessions.append(f'{seen.day} session {uuid}: {"; ".join(states)}')
    return View(
        _VALUES,
        [of.to_row() | _numbers(known.incident.values.get(of)) for of in known.incident.series],
        before='\n'.join([*text(known, when, results), *(printed(shown) if shown else ())]),
        after='\n'.join(sessions),
        name='series',
        document={
            **to_row(known, when, results),
            'corrections': [asdict(note) | {'says': sentence} for note, sentence in known.corrections],
            'seen': {uuid: vars(seen) for uuid, seen in known.seen.items()},
        },
    )


def first_lines(known: Sequence[Known], when: str, most: int, results: Path) -> list[str]:
    """Return at most `most` lines that describe the incidents of a session; only commands may exceed 80 characters.

    Each in one line, with its whole title if all fit, and the first ones in full as far as they fit: since when, what
    changed, two pieces of evidence, the next command.
    """
    named = known if len(known) <= most else known[: most - 1]
    forms = []
    for incident in named:
        titled = _titled(incident, when)
        told = _indented([*_beginning(incident, when), *incident.incident.evidence[:2]])
        forms.append((_brief(incident, when), titled, [*titled, *told, *_next_steps(incident, when, results, 1)]))
    chosen = [form[0] for form in forms]
    room = most - len(chosen) - (len(known) > len(named))
    for form in (1, 2):
        for i, longer in enumerate(of[form] for of in forms):
            more = len(longer) - len(chosen[i])
            if more <= room and known[i].state(when) not in ('healing', 'closed'):
                chosen[i], room = longer, room - more
    lines = [line for own in chosen for line in own]
    if len(known) > len(named):
        rest = count(len(known) - len(named), 'other incident')
        lines.append(f'and {rest}: {with_options("plumbline incidents", results, known[0].incident.where.site)}')
    return lines


def _titled(known: Known, when: str) -> list[str]:
    """Return the lines with id, state and title of an incident."""
    state = known.state(when)
    return _wrap(f'{known.id} {"" if state in FAILING else f"{state}: "}{known.incident.title}')


def _brief(known: Known, when: str) -> list[str]:
    """Return an incident in one line; for a healing one, this line says everything."""
    first, *more = _titled(known, when)
    if known.state(when) == 'healing':
        return _wrap(f'{known.id} healing: {known.incident.title}; {since(known, when)}')
    return [textwrap.shorten(f'{first} {more[0].strip()}', WIDTH, placeholder=' ...') if more else first]


def _beginning(known: Known, when: str) -> list[str]:
    """Return the sentences on when an incident began, and on what changed then."""
    changed = known.incident.changed
    return [since(known, when), *([f'changed then: {"; ".join(changed)}'] if changed else [])]


def _next_steps(known: Known, when: str, results: Path, most: int | None = None) -> list[str]:
    """Return the commands that an incident asks for, each in one line, so that it can be copied."""
    return [f'  $ {command}' for command in commands(known, when, results)[:most]]


def _others(known: Known) -> list[str]:
    """Return which nodes show an incident that its place does not name."""
    nodes = [node for node in known.incident.nodes if node not in known.incident.where.nodes]
    return [f'on {named(nodes)}'] if nodes else []


def text(known: Known, when: str, results: Path) -> list[str]:
    """Return the lines on one incident: what, since when, what changed, evidence, and what to do next."""
    told = [*_others(known), *_beginning(known, when), *same_nodes(known), *known.corrected]
    told += [*known.incident.evidence, *outputs(known, results)]
    return [*_wrap(f'{known.id} {known.incident.title}'), *_indented(told), *_next_steps(known, when, results)]


def same_nodes(known: Known) -> list[str]:
    """Return a sentence if several places of an incident have the same nodes, else an empty list."""
    *first, last = known.incident.where.places
    return [f'{", ".join(first)} and {last} have the same nodes: no measurement tells which it is'] if first else []


def outputs(known: Known, results: Path) -> list[str]:
    """Return a line for each archive with the output of the benchmark."""
    return [f'output of the benchmark: {results / path}' for path in known.incident.archives]


def printed(shown: Excerpt) -> Iterator[str]:
    """Yield what a program printed; lines with the numbers begin with a >."""
    if shown.problem:
        yield from _wrap(shown.problem, '  ')
    for part in shown.parts:
        marked = {line for of in part.marks.values() for line in of}
        yield from _wrap(part.caption, '  ')
        yield from (f'  {">" if line in marked else " "}{line:5} {text}' for line, text in part.lines)


def markdown(known: Sequence[Known], when: str) -> Iterator[str]:
    """Yield the incidents of a session as lines of GitHub's Markdown."""
    for one in known:
        yield f'- **{one.state(when)}** `{one.id}` {in_markdown(f"{one.incident.title}; {since(one, when)}")}'
        if one.incident.changed:
            yield f'  - changed then: {in_markdown("; ".join(one.incident.changed))}'
        yield from (f'  - {in_markdown(sentence)}' for sentence in (*same_nodes(one), *one.corrected, *_others(one)))


def _on(names: Sequence[str]) -> str:
    """Return the nodes as `` on n1``, or an empty text without nodes."""
    return f' on {named([name for name in names if name])}' if any(names) else ''


def _numbers(of: Value | None) -> dict[str, Any]:
    """Return the numbers of a series by the keys of `_VALUES`; losses are in %."""
    loss, low, high = map(in_percent, (of.loss, *(of.interval or (None, None)))) if of else (None, None, None)
    known = {name: getattr(of, name, None) for name in ('value', 'unit', 'n', 'expected')}
    return known | {'loss': loss, 'loss_low': low, 'loss_high': high}


def _wrap(line: str, indent: str = '') -> list[str]:
    """Return a line wrapped to the width of a terminal; further lines are indented."""
    return wrapped(line, indent, indent + '  ').splitlines()


def _indented(sentences: Sequence[str]) -> list[str]:
    """Return sentences as indented lines."""
    return [line for sentence in sentences for line in _wrap(sentence, '  ')]
