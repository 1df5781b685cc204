"""Read what schema 1 wrote: metric names that held dims, old columns and words."""

import re
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from plumbline.errors import RecordError
from plumbline.identity import Dim, Pairs, from_text, pairs

#: The dims that old names held, for charts. Others are names, as dims without a declaration are.
DIMS = {
    'kernel': Dim('name'), 'message_bytes': Dim('size', 'B'), 'elements': Dim('size', '1'), 'threads': Dim('count'),
    'pair': Dim('pair'),
}  # fmt: skip
_DECLARED = {name: asdict(dim) for name, dim in DIMS.items()}


@lru_cache(2**16)
def metric_and_dims(check: str, name: str) -> tuple[str, Pairs]:
    """Return the metric and dims of a metric that schema 1 called `name`: ``latency_8_0_1``; else the name."""
    for wanted, old, metric in _RENAMED:
        if fnmatchcase(check, wanted) and (found := re.fullmatch(old, name)):
            dims = {key: value for key, value in found.groupdict().items() if value and key not in ('name', 'a', 'b')}
            if found.groupdict().get('a'):
                dims['pair'] = f'{found["a"]}-{found["b"]}'
            return found.expand(metric), pairs(dims)
    return name, ()


_KERNEL = '(?P<kernel>copy|mul|add|triad|dot)'
_LIKWID = '(?P<kernel>load|store|copy|stream|triad)'
_FLOPS = '(?P<isa>[a-z0-9]+)_(?P<precision>dp|sp)'
_MDTEST = '(?P<place>(?:easy|hard|directories)_(?:unique|shared))_(?P<operation>[a-z]+)'
# Check, name in schema 1, metric. The named groups are the dims; a and b are a pair
_RENAMED = (
    ('Osu*', r'(?P<name>[a-z_]+)_(?P<message_bytes>\d+)(?:_(?P<a>\d+)_(?P<b>\d+))?', r'\g<name>'),
    ('BabelStream[HMD]*', _KERNEL, 'bandwidth'),  # Host, Memory, Device
    ('BabelStreamThreads', rf'{_KERNEL}_(?P<proc_bind>[a-z]+)_(?P<threads>\d+)', 'bandwidth'),
    ('BabelStreamSizes', rf'{_KERNEL}_(?P<elements>\d+)', 'bandwidth'),
    ('BabelStreamAllDevices', rf'{_KERNEL}_(?P<device>\d+)', 'bandwidth'),
    ('CommScope*', r'(?P<name>(?:peer_)?(?:latency|bandwidth))_(?P<a>\d+)_(?P<b>\d+)', r'\g<name>'),
    ('CommScope*', r'(?P<direction>h2d|d2h)_(?P<name>latency|bandwidth)(?:_numa(?P<domain>\d+))?', r'\g<name>'),
    ('CommScope*', r'(?P<name>launch|wait)_numa(?P<domain>\d+)', r'\g<name>'),
    ('Numa[BL]*', r'(?P<name>bandwidth|latency)_(?P<a>\d+)_(?P<b>\d+)', r'\g<name>'),
    ('Numa[BL]*', r'(?P<name>bandwidth|latency)_(?P<distance>\w+)', r'\g<name>'),
    ('NumaStream', r'triad_(?P<domain>\d+)', 'triad'),
    ('LikwidPeakFlops', _FLOPS, 'flops'),
    ('LikwidPeakFlops', rf'{_FLOPS}_per_nominal_cycle', 'flop_per_cycle'),
    ('LikwidPeakFlops', rf'{_FLOPS}_peak_fraction', 'peak_fraction'),
    ('LikwidBandwidth', _LIKWID, 'bandwidth'),
    ('LikwidBandwidth', rf'{_LIKWID}_per_nominal_cycle', 'bytes_per_cycle'),
    ('IOR*', r'(?P<pattern>random_\w+?)(?:_(?P<io>direct))?_(?P<access>write|read)', 'operations'),
    ('IOR*', r'(?P<pattern>(?:easy|shared|hard)_\w+?)(?:_(?P<io>direct))?_(?P<access>write|read)', 'bandwidth'),
    ('Mdtest*', rf'{_MDTEST}_per_process', 'operations_per_process'),
    ('Mdtest*', _MDTEST, 'operations'),
)  # fmt: skip


_TIMES = ('s', 'ms', 'us', 'ns')
# What schema 1 left to the reader: check, units (none: any) and floor; the first that fits holds
_FLOORS = (
    ('IOR*', (), 0.15), ('Mdtest*', (), 0.20), ('HPL', (), 0.03), ('HPCG', (), 0.03), ('*', _TIMES, 0.05),
)  # fmt: skip


@cache
def floor_of_schema_1(check: str, unit: str) -> float | None:
    """Return the floor of a metric whose record states none; None: the default of the suite."""
    for wanted, units, floor in _FLOORS:
        if fnmatchcase(check, wanted) and (not units or unit in units):
            return floor
    return None


def record_of_schema_1(data: dict[str, Any]) -> dict[str, Any]:
    """Return a record of schema 1 as one of schema 2, not yet checked. Raises RecordError."""
    check, case = data.get('check'), data.get('case')
    try:
        params = dict(from_text(case))
    except (AttributeError, TypeError, ValueError):
        raise RecordError(f'record: case: expected name=value pairs joined by commas, found {case!r:.80}') from None
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
        facts['floor'] = floor_of_schema_1(str(check), str(facts.get('unit')))
        if name in metrics and any(metrics[name].get(key) != value for key, value in facts.items()):
            name, series['dims'] = old_name, {}  # not the same quantity: it keeps its name, and no number is lost
        metrics.setdefault(name, facts | {'series': []})['series'].append(series)
    return {
        **{key: data[key] for key in _UNCHANGED if key in data},
        'schema': 2,
        'params': params,
        'dims': _DECLARED,
        'metrics': metrics if 'metrics' in data else None,
        'placement': {new: binding[key] for key, new in _PLACEMENT.items() if key in binding},
    }


_UNCHANGED = ('check', 'tags', 'trials', 'trial_seconds', 'job', 'provenance')
_SERIES = {'samples': 'samples', 'judged': 'judged', 'void': 'invalid'}
_PLACEMENT = {'asked': 'requested', 'got': 'actual'}


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = {} if data.get(key) is None else data[key]
    if not isinstance(found, dict):
        raise RecordError(f'record: {key}: expected dict, found {found!r:.80}')
    return found
