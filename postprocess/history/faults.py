# SPDX-License-Identifier: BSD-3-Clause
"""The classes of faults of ``faults.yaml``, and how much performance each of them takes from a series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from plumbline.identity import SeriesId
from postprocess.verdicts.selection import selected

FILE = Path(__file__).with_name('faults.yaml')


@dataclass(frozen=True)
class Fault:
    """A class of faults; `loss`: kind of metrics -> share of performance; `where`, `shown_by`: see ``faults.yaml``."""

    name: str
    where: str
    loss: Mapping[str, float]
    source: str
    shown_by: tuple[str, ...] = ()

    def of(self, series: SeriesId, between_nodes: bool) -> float:
        """Return the share of performance that a series loses by this fault; 0 if the fault does not affect it."""
        return max((self.loss.get(kind, 0.0) for kind in _kinds_of(series, between_nodes)), default=0.0)


@cache
def faults() -> tuple[Fault, ...]:
    """Return the classes of faults in the order of the file."""
    rows = _content()['faults']
    return tuple(
        Fault(name, row['where'], row['loss'], row['source'], tuple(row.get('shown_by', ())))
        for name, row in rows.items()
    )


@cache
def _content() -> dict[str, dict[str, Any]]:
    """Return the content of ``faults.yaml``."""
    return dict(yaml.safe_load(FILE.read_text(encoding='utf-8')))


@cache
def _kinds_of(series: SeriesId, between_nodes: bool) -> tuple[str, ...]:
    """Return the kinds of metrics to which a series belongs; `between_nodes`: it is measured between nodes."""
    return tuple(
        kind
        for kind, of in _content()['kinds'].items()
        if between_nodes >= of.get('between_nodes', False) and selected(of['series'], series)
    )
