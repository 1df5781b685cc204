# SPDX-License-Identifier: BSD-3-Clause
"""What a session shows as rows of the table ``findings`` and facts beside them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from plumbline.identity import SeriesId
from postprocess.incidents.fold import NightFacts
from postprocess.incidents.incident import PLACES, Incident, Value
from postprocess.results import judged
from postprocess.results.store import Session

TABLE = 'findings'


def facts_to_json(facts: NightFacts) -> bytes:
    """Return facts as JSON."""
    return msgspec.json.encode(facts)


def facts_from_json(text: bytes) -> NightFacts:
    """Return the facts that `facts_to_json` wrote. Raises ValueError."""
    return msgspec.json.decode(text, type=NightFacts)


def to_row(incident: Incident) -> dict[str, Any]:
    """Return the row of an incident."""
    where, values = incident.where, incident.values
    series = [of.to_row() | (judged.to_row(values[of]) if of in values else {}) for of in incident.series]
    scope = {name: getattr(where, name) for name in (*PLACES, 'same_nodes')} | {'scope_nodes': where.nodes}
    return judged.to_row(incident) | scope | {'series': series}


def from_row(session: Session, row: Mapping[str, Any]) -> Incident:
    """Return the incident in a row."""
    values = {SeriesId.from_row(of): judged.from_row(Value, of) for of in row['series'] if of['unit'] is not None}
    scope = {**row, 'site': session.site, 'nodes': row['scope_nodes']}
    return judged.from_row(Incident, {**row, 'where': scope, 'values': values})
