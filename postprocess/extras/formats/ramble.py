# SPDX-License-Identifier: BSD-3-Clause
"""The ``results.*.json`` of ``ramble workspace analyze -f json``, which Benchpark also has."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import better_by_name, local
from postprocess.readers import fields

_SIZES = ('workload_name', 'n_nodes', 'n_ranks', 'n_threads', 'processes_per_node')
_Key = tuple[str, str, str, str]  # (context, origin if that is a modifier, name, unit)


def read(path: Path) -> Iterator[Measurement]:
    """Yield the figures of merit of each experiment; repeats are trials, and each of them must have all figures."""
    stamp = re.fullmatch(r'results\.(\d{4}-\d\d-\d\d)_(\d\d)\.(\d\d)\.(\d\d)\.json', path.name)
    at = local('{}T{}:{}:{}'.format(*stamp.groups())) if stamp else None
    experiments: dict[str, dict[int, Any]] = defaultdict(dict)
    for run in fields.json_of(path.read_bytes())['experiments']:
        repeat = int(run['RAMBLE_VARIABLES'].get('repeat_index') or 0)
        name = run['name'].removesuffix(f'.{repeat}') if repeat else run['name']
        if repeat in experiments[name]:
            raise ValueError(f'{name}: repeat {repeat} is there twice')
        experiments[name][repeat] = run
    for name, repeats in experiments.items():
        asked = int(repeats[0]['N_REPEATS']) if 0 in repeats else 0
        if len(repeats) > 1 and set(repeats) != {*range(asked + 1)}:
            raise ValueError(f'{name}: expected repeats 1 to {asked}, found {", ".join(map(str, sorted(repeats)))}')
        if len(repeats) > 1:
            del repeats[0]  # repeat 0 is a summary of the others
        figures_of = {repeat: _figures(run, summary=not repeat and asked > 0) for repeat, run in repeats.items()}
        keys = dict.fromkeys(key for figures in figures_of.values() for key in figures) or {
            ('', '', 'status', ''): None
        }
        for repeat, run in repeats.items():
            short = run['experiment_name'].removesuffix(f'.{repeat}')
            common: dict[str, Any] = {
                'check': run['application_name'], 'time': at, 'trial': max(repeat, 1),
                'params': {'experiment': short} | {key.removesuffix('_name'): run[key] for key in _SIZES if key in run},
            }  # fmt: skip
            status = '' if run['RAMBLE_STATUS'] == 'SUCCESS' else f'Ramble says {run["RAMBLE_STATUS"]} of {run["name"]}'
            for key in keys:
                context, origin, metric, unit = key
                dims = {'context': context} if context else {}
                value = figures_of[repeat].get(key, math.nan)
                lost = f'{run["name"]} has no number of "{metric}"' if math.isnan(value) else ''
                yield Measurement(
                    metric=metric, unit=unit, value=value, dims=dims | ({'origin': origin} if origin else {}),
                    better='' if unit else better_by_name(metric), failed=status or lost, **common
                )  # fmt: skip


def _figures(experiment: Mapping[str, Any], summary: bool) -> dict[_Key, float]:
    """Return the figures of merit that are numbers; of a summary of repeats, only the means."""
    numbers: dict[_Key, float] = {}
    for context in experiment['CONTEXTS']:
        for figure in context['foms']:
            kind, unit, name = figure['origin_type'], figure['units'], figure['name']
            if summary != kind.startswith('summary::') or (summary and kind != 'summary::mean'):
                continue
            try:
                value = fields.number(figure['value'])
            except ValueError:
                if not unit:
                    continue  # it is a text such as a name or a version
                value = math.nan
            in_context = '' if context['name'] == 'null' else context['name']
            key = in_context, figure['origin'] if kind == 'modifier' else '', name, unit
            if key in numbers:
                raise ValueError(f'{experiment["name"]}: {name} is there twice')
            numbers[key] = value
    return numbers
