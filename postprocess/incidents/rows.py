# SPDX-License-Identifier: BSD-3-Clause
"""What a session shows as rows of the table ``findings`` and facts beside them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from plumbline.identity import SeriesId
from postprocess.incidents.fold import NightFacts
from postprocess.incidents.incident import PLACES, Incident, Scope, Value
from postprocess.results.store import Session

TABLE = 'findings'
_PLAIN = ('kind', 'sort', 'cause', 'brief', 'code', 'loss', 'since', 'day', 'sessions', 'certain', 'named', 'cost')
_LISTS = ('nodes', 'changed', 'evidence', 'next_steps', 'archives')


def facts_to_json(facts: NightFacts) -> bytes:
    """Return facts as JSON."""
    return msgspec.json.encode(facts)


def facts_from_json(text: bytes) -> NightFacts:
    """Return the facts that `facts_to_json` wrote. Raises ValueError."""
    return msgspec.json.decode(text, type=NightFacts)


def to_row(incident: Incident) -> dict[str, Any]:
    """Return the row of an incident."""
    where = incident.where
    return {
        **{name: getattr(incident, name) for name in (*_PLAIN, *_LISTS, 'checks')}, **_interval(incident.interval),
        **{name: getattr(where, name) for name in PLACES}, 'scope_nodes': where.nodes, 'same_nodes': where.same_nodes,
        'series': [of.to_row() | _of_value(incident.values.get(of)) for of in incident.series],
    }  # fmt: skip


def _of_value(value: Value | None) -> dict[str, Any]:
    return vars(value) | _interval(value.interval) if value else {}


def _interval(ends: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = ends or (None, None)
    return {'loss_low': low, 'loss_high': high}


def _ends(row: Mapping[str, Any]) -> tuple[float, float] | None:
    return None if row['loss_low'] is None else (row['loss_low'], row['loss_high'])


def from_row(session: Session, row: Mapping[str, Any]) -> Incident:
    """Return the incident in a row."""
    where = Scope(
        session.site, **{name: row[name] for name in PLACES}, nodes=tuple(row['scope_nodes']),
        same_nodes=tuple(row['same_nodes']),
    )  # fmt: skip
    series = SeriesId.from_row
    values = {
        series(of): Value(of['unit'], of['better'], of['value'], of['n'], of['expected'], of['loss'], _ends(of))
        for of in row['series']
        if of['unit'] is not None  # else it was not judged
    }
    return Incident(
        where=where, series=tuple(map(series, row['series'])), values=values,
        checks=tuple(row['checks']), interval=_ends(row),
        **{name: frozen(row[name]) for name in (*_PLAIN, *_LISTS)},
    )  # fmt: skip


def frozen(value: Any) -> Any:
    """Convert a list of JSON or Arrow to a tuple."""
    return tuple(value) if isinstance(value, list) else value
