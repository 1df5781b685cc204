"""Read what schema 1 wrote: metric names that held dims, old columns and words."""

from __future__ import annotations

from typing import Any

from plumbline.identity import Pairs


def metric_and_dims(check: str, name: str) -> tuple[str, Pairs]:
    """Return the metric and dims of a metric that schema 1 called `name`, such as ``latency_8_0_1``."""
    return name, ()


def record_of_schema_1(data: dict[str, Any]) -> dict[str, Any]:
    """Return a record of schema 1 as one of schema 2, not yet checked."""
    raise NotImplementedError
