"""The record: what a case leaves in ReFrame's run report, and all that post-processing reads from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from plumbline.errors import RecordError
from plumbline.identity import KINDS, Dim, Pairs, Quantity, pairs
from plumbline.migration import record_of_schema_1

SCHEMA = 2
Sample = tuple[int, str, float]  # trial, nodes joined by commas, value


@dataclass(frozen=True)
class Summary:
    """Statistics of n samples, in their unit. All but n are None without samples; `std` needs two of them."""

    n: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


NOTHING = Summary(0, None, None, None, None)


def summarize(values: Sequence[float]) -> Summary:
    """Return the statistics of `values`: the sample standard deviation, n - 1 below the line.

    A value that is not finite makes the mean not finite.
    """
    n = len(values)
    if not n:
        return NOTHING
    try:
        mean = math.fsum(values) / n
    except (OverflowError, ValueError):  # infinities of both signs, or a sum beyond the largest number
        mean = math.nan
    try:
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)) if n > 1 else None
    except OverflowError:
        std = math.inf
    return Summary(n, mean, std, min(values), max(values))


@dataclass
class Series:
    """The samples of one metric at one point of its dims, or why there are none.

    `invalid` and `missing` are sentences. One that is not `judged` is stored and drawn, and judged only where a
    reference names it.
    """

    dims: Pairs = ()
    samples: list[Sample] = field(default_factory=list)
    judged: bool = True
    invalid: str | None = None
    missing: str | None = None


@dataclass
class MetricRecord:
    """A metric of a case and all its series, with what its check states of it.

    `usual_spread`: typical coefficient of variation from night to night. `floor`, `cap`: loss of performance that the
    limit allows at least and at most; None: the default of the suite.
    """

    unit: str
    better: str
    series: list[Series] = field(default_factory=list)
    usual_spread: float | None = None
    floor: float | None = None
    cap: float | None = None

    @property
    def quantity(self) -> Quantity:
        """Unit and direction."""
        return Quantity(self.unit, self.better)


@dataclass
class Record:
    """All that a case leaves: identity, metrics, placement, times, job and provenance.

    `dims` declares the dims of its metrics, and params that are a size or a count. `draw` says how a metric wants to be
    drawn, where the kinds of its dims do not: metric -> {``x``: dim or param, ``title``: text, ``ideal``:
    ``proportional`` or ``none``}. `placement`: ``requested`` and ``actual``. `evidence`: the
    folder of what the benchmark itself wrote, relative to the results directory.
    """

    check: str
    params: Pairs
    tags: list[str] = field(default_factory=list)
    trials: int = 0
    dims: dict[str, Dim] = field(default_factory=dict)
    metrics: dict[str, MetricRecord] = field(default_factory=dict)
    draw: dict[str, dict[str, Any]] = field(default_factory=dict)
    trial_seconds: list[float] = field(default_factory=list)
    placement: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    evidence: str = ''

    def series(self) -> Iterator[tuple[str, MetricRecord, Series]]:
        """Yield each series with the name and the facts of its metric."""
        for name, metric in self.metrics.items():
            for series in metric.series:
                yield name, metric, series

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON types, `SCHEMA` first."""
        data = asdict(self)
        data['params'] = dict(self.params)
        for metric in data['metrics'].values():
            for series in metric['series']:
                series['dims'] = dict(series['dims'])
        return {'schema': SCHEMA} | data


def from_dict(data: Any) -> Record:
    """Return the record that :meth:`Record.to_dict` wrote, of this schema or an earlier one. Raises RecordError."""
    schema = _get(data, 'schema', int, 'record')
    if schema == 1:
        data = record_of_schema_1(data)
    elif schema != SCHEMA:
        raise RecordError(f'record: schema: expected {SCHEMA}, found {schema}')
    metrics = _get(data, 'metrics', dict, 'record')
    mappings = {key: _get(data, key, dict, 'record', {}) for key in ('draw', 'placement', 'job', 'provenance')}
    return Record(
        check=_get(data, 'check', str, 'record'),
        params=_pairs(data, 'params', 'record'),
        tags=_list(data, 'tags', str),
        trials=_get(data, 'trials', int, 'record'),
        dims={name: _dim(dim, f'record.dims.{name}') for name, dim in _get(data, 'dims', dict, 'record', {}).items()},
        metrics={name: _metric(metric, f'record.metrics.{name}') for name, metric in metrics.items()},
        trial_seconds=[float(value) for value in _list(data, 'trial_seconds', _NUMBER)],
        evidence=_get(data, 'evidence', str, 'record', ''),
        **mappings,
    )


def _dim(data: Any, where: str) -> Dim:
    kind = _get(data, 'kind', str, where)
    if kind not in KINDS:
        raise RecordError(f'{where}: kind: expected one of {", ".join(KINDS)}, found {kind!r}')
    return Dim(kind, _get(data, 'unit', str, where, ''))


def _metric(data: Any, where: str) -> MetricRecord:
    better = _get(data, 'better', str, where)
    if better not in ('higher', 'lower'):
        raise RecordError(f'{where}: better: expected higher or lower, found {better!r}')
    series = [_series(series, where) for series in _get(data, 'series', list, where)]
    if len({one.dims for one in series}) < len(series):
        raise RecordError(f'{where}: series: expected different dims in each, found the same dims twice')
    facts = (_get(data, key, _NUMBER, where, None) for key in ('usual_spread', 'floor', 'cap'))
    return MetricRecord(_get(data, 'unit', str, where), better, series, *facts)


def _series(data: Any, where: str) -> Series:
    samples = [_sample(sample, where) for sample in _get(data, 'samples', list, where)]
    reasons = (_get(data, key, str, where, None) for key in ('invalid', 'missing'))
    return Series(_pairs(data, 'dims', where), samples, _get(data, 'judged', bool, where, True), *reasons)


def _sample(sample: Any, where: str) -> Sample:
    try:
        trial, node, value = sample
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        return int(trial), str(node), float(value)
    except (TypeError, ValueError, OverflowError):
        raise RecordError(f'{where}: samples: expected [trial, node, number], found {sample!r:.80}') from None


def _pairs(data: dict[str, Any], key: str, where: str) -> Pairs:
    found = _get(data, key, dict, where)
    for name, value in found.items():
        if not name or set(',=') & set(name) or ',' in str(value):
            raise RecordError(
                f'{where}: {key}: expected names and values without "," and "=", found {name}={value!s:.80}'
            )
    return pairs(found)


def _list(data: dict[str, Any], key: str, kind: Any) -> list[Any]:
    values = _get(data, key, list, 'record', [])
    for value in values:
        if not isinstance(value, kind):
            raise RecordError(f'record: {key}: expected a list of {_name(kind)}, found {values!r:.80}')
    return values


_NUMBER = (int, float)
_REQUIRED = object()


def _get(data: Any, key: str, kind: Any, where: str, default: Any = _REQUIRED) -> Any:
    """Return ``data[key]``, which must be of `kind`; `default` where it is absent or None. Raises RecordError."""
    if not isinstance(data, dict):
        raise RecordError(f'{where}: expected dict, found {data!r:.80}')
    value = data.get(key)
    if value is None and default is not _REQUIRED:
        return default
    if key not in data:
        raise RecordError(f'{where} has no {key!r}')
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecordError(f'{where}: {key}: expected {_name(kind)}, found {value!r:.80}')
    return value


def _name(kind: Any) -> str:
    return ' or '.join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
