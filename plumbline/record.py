# SPDX-License-Identifier: BSD-3-Clause
"""The record: what a case leaves in ReFrame's run report, and all that post-processing reads from it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from plumbline.causes import Cause
from plumbline.errors import RecordError
from plumbline.identity import Dim, Pairs, Quantity, pairs

SCHEMA = 1
Better = Literal['higher', 'lower']
Sample = tuple[int, str, float]  # trial, nodes joined by commas, value
#: Why a job ran: it is the first of its case or confirms a number, or one of the three below.
Purpose = Literal['', 'node', 'look', 'rest']
#: Why a further job ran: its node is in doubt. The reason is unrelated to the series that it measured.
OF_NODE: Purpose = 'node'
#: Why a further job ran although no number asked for it: it shows how much a metric varies from job to job, before
#: sessions can be compared.
LOOK: Purpose = 'look'
#: Why a job ran after the first ones: it is what these left, as they failed before they measured, had no time for all
#: trials, or were cut off in a node sweep that was resumed.
REST: Purpose = 'rest'
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
    better: Better
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


def from_dict(data: Any) -> Record:
    """Return the record that :meth:`Record.to_dict` wrote. Raises RecordError."""
    import msgspec  # here, because a check writes its record with ReFrame's packages alone

    schema = data.get('schema') if isinstance(data, dict) else None
    if schema != SCHEMA:
        update = ': update Plumbline' if type(schema) is int and schema > SCHEMA else ''
        raise RecordError(f'record: schema: expected {SCHEMA}, found {schema!r:.80}{update}')
    if lacking := [key for key in ('check', 'params', 'trials', 'metrics') if data.get(key) is None]:
        raise RecordError(f'record has no {lacking[0]!r}')
    try:
        record = msgspec.convert(_with_pairs(data), Record)
    except (msgspec.ValidationError, OverflowError) as error:
        raise RecordError(f'record: {error}') from None
    for name, metric in record.metrics.items():
        if len({series.dims for series in metric.series}) < len(metric.series):
            raise RecordError(
                f'record.metrics.{name}: series: expected different dims in each, found the same dims twice'
            )
    return record


def _with_pairs(data: dict[str, Any]) -> dict[str, Any]:
    """Return a record as JSON types, with its params and dims as sorted pairs. Raises RecordError."""
    metrics = data['metrics']
    for name, metric in metrics.items() if isinstance(metrics, dict) else ():
        if isinstance(metric, dict) and isinstance(metric.get('series'), list):
            of = [
                {**one, 'dims': _pairs(one['dims'], f'record.metrics.{name}')}
                if isinstance(one, dict) and 'dims' in one
                else one
                for one in metric['series']
            ]
            metrics = {**metrics, name: {**metric, 'series': of}}
    causes = data.get('causes', [])
    if isinstance(causes, list):  # sentences, in a record from before causes had codes
        causes = [{'code': 'said', 'what': cause} if isinstance(cause, str) else cause for cause in causes]
    return {**data, 'params': _pairs(data['params'], 'record: params'), 'metrics': metrics, 'causes': causes}


def _pairs(found: Any, where: str) -> Pairs:
    """Return an object of JSON as pairs. Raises RecordError."""
    if not isinstance(found, dict):
        raise RecordError(f'{where}: expected an object, found {found!r:.80}')
    for name, value in found.items():
        if not name or set(',=') & set(name) or ',' in str(value):
            raise RecordError(f'{where}: expected names and values without "," and "=", found {name}={value!s:.80}')
    return pairs(found)
