# SPDX-License-Identifier: BSD-3-Clause
"""The record: what a case leaves in ReFrame's run report, and all that post-processing reads from it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from plumbline.causes import CODES, Cause, Code
from plumbline.errors import RecordError
from plumbline.identity import DIM_KINDS, Dim, Pairs, Quantity, pairs

SCHEMA = 1
Sample = tuple[int, str, float]  # trial, nodes joined by commas, value
#: Why a job ran: it is the first of its case or confirms a number, or one of the two below.
Purpose = Literal['', 'node', 'look']
#: Why a further job ran: its node is in doubt. The reason is unrelated to the series that it measured.
OF_NODE: Purpose = 'node'
#: Why a further job ran although no number asked for it: it shows how much a metric varies from job to job, before
#: sessions can be compared.
LOOK: Purpose = 'look'
#: The tag of a case whose kind had never run on real hardware when it was released.
EXPERIMENTAL = 'experimental'
#: Value of `configuration` in the provenance of a case that ran with a ReFrame configuration of the site's own.
OWN_CONFIGURATION = 'own'


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
    """Return the statistics of `values`, std by n - 1; a value that is not finite makes the mean not finite."""
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

    `invalid` and `missing` are sentences. A series that is not `judged` is stored and drawn, but judged only if a
    reference names it.
    """

    dims: Pairs = ()
    samples: list[Sample] = field(default_factory=list)
    judged: bool = True
    invalid: str | None = None
    missing: str | None = None


@dataclass
class MetricRecord:
    """A metric of a case and all its series, with the tolerance that its check states.

    `usual_spread`: typical coefficient of variation from night to night. `floor`: loss of performance that the limit
    allows at least; None: the default of the suite.
    """

    unit: str
    better: str
    series: list[Series] = field(default_factory=list)
    usual_spread: float | None = None
    floor: float | None = None

    @property
    def quantity(self) -> Quantity:
        """Unit and direction of the metric."""
        return Quantity(self.unit, self.better)


#: What `figures` of a record say of a metric; `postprocess.verdicts.derived` computes the figures.
FIGURES = {
    'scaling': 'how its work grows with num_nodes: weak or strong',
    'one_node': 'of strong scaling: the params of the case that solves the same problem on one node',
    'solver': 'whether it is the rate of a dense or a sparse solver',
    'peak': 'what the hardware of all its nodes can reach at most, in its unit',
    'roof': 'flops or bandwidth: its best rate bounds what programs of the node reach',
    'intensity': 'Flop per byte of its bytes; of its Flop: the metric of their bytes, or high',
    'balance': 'its series are equal work of parts of a node, such as domain',
    'capped': 'work per energy under the power cap of this param',
    'dims': 'all this holds of its series with these dims alone',
}


@dataclass
class Record:
    """All that a case leaves: identity, metrics, placement, times, job and provenance.

    `dims` declares the dims of its metrics, and the params that are a size or a count. `draw` says how to draw a metric
    where the kinds of its dims do not: metric -> {``x``: dim or param, ``title``: text, ``ideal``: ``proportional`` or
    ``none``}. `figures` names the derived figures of a metric, with the keys of `FIGURES`. `placement`: ``requested``
    and ``actual``. `health`: the counters of each node but the first, whose counters are in `provenance`. `causes`:
    what is wrong, the worst first. `evidence`: the archive of what the benchmark itself wrote, relative to the results
    directory.
    """

    check: str
    params: Pairs
    tags: list[str] = field(default_factory=list)
    trials: int = 0
    dims: dict[str, Dim] = field(default_factory=dict)
    metrics: dict[str, MetricRecord] = field(default_factory=dict)
    draw: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    trial_seconds: list[float] = field(default_factory=list)
    placement: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    health: dict[str, dict[str, str]] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)
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


#: The keys without which a part of a record is refused; the others may be absent or None.
_REQUIRED: dict[type, tuple[str, ...]] = {
    Record: ('check', 'params', 'trials', 'metrics'),
    MetricRecord: ('unit', 'better', 'series'),
    Series: ('dims', 'samples'),
    Dim: ('kind',),
    Cause: ('code', 'what'),
}


_types_of = cache(get_type_hints)


def from_dict(data: Any) -> Record:
    """Return the record that :meth:`Record.to_dict` wrote. Raises RecordError."""
    schema = _expect(dict, data, 'record').get('schema')
    if schema != SCHEMA:
        update = ': update Plumbline' if type(schema) is int and schema > SCHEMA else ''
        raise RecordError(f'record: schema: expected {SCHEMA}, found {schema!r:.80}{update}')
    record: Record = _decode(Record, data, 'record')
    for name, dim in record.dims.items():
        if dim.kind not in DIM_KINDS:
            raise RecordError(f'record.dims.{name}: kind: expected one of {", ".join(DIM_KINDS)}, found {dim.kind!r}')
    for name, metric in record.metrics.items():
        where = f'record.metrics.{name}'
        if metric.better not in ('higher', 'lower'):
            raise RecordError(f'{where}: better: expected higher or lower, found {metric.better!r}')
        if len({series.dims for series in metric.series}) < len(metric.series):
            raise RecordError(f'{where}: series: expected different dims in each, found the same dims twice')
    return record


def _decode(kind: Any, value: Any, where: str) -> Any:
    """Convert `value` from JSON types to the type `kind` of a field; return it. Raises RecordError."""
    if kind is Cause and isinstance(value, str):
        return Cause('said', value)  # of a record from before causes had codes
    if kind in _REQUIRED:
        _expect(dict, value, where)
        for key in _REQUIRED[kind]:
            if value.get(key) is None:
                raise RecordError(f'{where} has no {key!r}')
        present = [(name, of) for name, of in _types_of(kind).items() if value.get(name) is not None]
        return kind(**{name: _decode(of, value[name], f'{where}: {name}') for name, of in present})
    if kind == Pairs:
        return _pairs(_expect(dict, value, where), where)
    if kind == list[Sample]:
        return [_sample(sample, where) for sample in _expect(list, value, where)]
    of, parts = get_origin(kind), get_args(kind)
    if of in (list, tuple):
        return of(_decode(parts[0], item, where) for item in _expect(list, value, where))
    if kind == Code:
        if value not in CODES:
            raise RecordError(f'{where}: expected one of {", ".join(CODES)}, found {value!r:.80}')
        return value
    if of is dict:
        return {name: _decode(parts[1], item, f'{where}.{name}') for name, item in _expect(dict, value, where).items()}
    return value if kind is Any else _expect(parts[0] if parts else kind, value, where)  # `float | None`: a float


def _expect(kind: type, value: Any, where: str) -> Any:
    """Return `value`, which must be of `kind`; a float may be given as an integer. Raises RecordError."""
    try:
        if kind is float and type(value) is int:
            return float(value)
    except OverflowError:
        pass
    if type(value) is not kind:
        raise RecordError(f'{where}: expected {kind.__name__}, found {value!r:.80}')
    return value


def _sample(sample: Any, where: str) -> Sample:
    try:
        trial, node, value = sample
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        return int(trial), str(node), float(value)
    except (TypeError, ValueError, OverflowError):
        raise RecordError(f'{where}: expected [trial, node, number], found {sample!r:.80}') from None


def _pairs(found: dict[str, Any], where: str) -> Pairs:
    for name, value in found.items():
        if not name or set(',=') & set(name) or ',' in str(value):
            raise RecordError(f'{where}: expected names and values without "," and "=", found {name}={value!s:.80}')
    return pairs(found)
