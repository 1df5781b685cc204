"""Read what schema 1 wrote: metric names that held dims, old columns and words."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from plumbline.identity import Pairs, from_text
from plumbline.record import RecordError


def metric_and_dims(check: str, name: str) -> tuple[str, Pairs]:
    """Return the metric and dims of a metric that schema 1 called `name`, such as ``latency_8_0_1``."""
    return name, ()


_TIMES = ('s', 'ms', 'us', 'ns')
# What schema 1 left to the reader: check, units (none: any), floor and cap; the first that fits holds
_TOLERANCES = (
    ('IOR*', (), 0.15, 0.40), ('Mdtest*', (), 0.20, 0.50), ('HPL', (), 0.03, 0.15), ('HPCG', (), 0.03, 0.15),
    ('*', _TIMES, 0.05, 0.25),
)  # fmt: skip


def tolerance_of_schema_1(check: str, unit: str) -> tuple[float | None, float | None]:
    """Return floor and cap of a metric whose record states none; None: the defaults of the suite."""
    for wanted, units, floor, cap in _TOLERANCES:
        if fnmatchcase(check, wanted) and (not units or unit in units):
            return floor, cap
    return None, None


def record_of_schema_1(data: dict[str, Any]) -> dict[str, Any]:
    """Return a record of schema 1 as one of schema 2, not yet checked."""
    check = data.get('check')
    declared, missing, binding = (_mapping(data, key) for key in ('metrics', 'missing', 'binding'))
    metrics: dict[str, dict[str, Any]] = {}
    for old_name, old in declared.items():
        name, dims = metric_and_dims(str(check), old_name)
        series = {
            'dims': dict(dims),
            **{new: old[key] for key, new in _SERIES.items() if isinstance(old, dict) and key in old},
            'missing': missing.get(old_name),
        }
        facts = {key: old[key] for key in ('unit', 'better') if isinstance(old, dict) and key in old}
        facts |= dict(zip(('floor', 'cap'), tolerance_of_schema_1(str(check), str(facts.get('unit'))), strict=True))
        if name in metrics and any(metrics[name].get(key) != value for key, value in facts.items()):
            name, series['dims'] = old_name, {}  # not the same quantity: it keeps its name, and no number is lost
        metrics.setdefault(name, facts | {'series': []})['series'].append(series)
    return {
        **{key: data[key] for key in _KEPT if key in data},
        'schema': 2,
        'params': _params(data),
        'metrics': metrics if isinstance(data.get('metrics'), dict) else data.get('metrics'),
        'placement': {new: binding[key] for key, new in _PLACEMENT.items() if key in binding},
    }


_KEPT = ('check', 'tags', 'trials', 'trial_seconds', 'job', 'provenance')
_SERIES = {'samples': 'samples', 'judged': 'judged', 'void': 'invalid'}
_PLACEMENT = {'asked': 'requested', 'got': 'actual'}


def _params(data: dict[str, Any]) -> Any:
    text = data.get('case')
    if not isinstance(text, str):
        raise RecordError(f'record: case: expected str, found {text!r:.80}')
    return dict(from_text(text))


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key) or {}
    if not isinstance(found, dict):
        raise RecordError(f'record: {key}: expected dict, found {found!r:.80}')
    return found
