# SPDX-License-Identifier: BSD-3-Clause
"""Readers of what others write: a table, and the JSON of several benchmark tools. Each is a function of a path."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

_COLUMNS = (
    'session', 'time', 'partition', 'environ', 'check', 'params', 'metric', 'dims', 'unit', 'better', 'value', 'node',
    'trial',
)  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """One number of one series, with what the table of docs/keep-your-suite.md says of its columns.

    `time`: UTC; None: that of the file. `session`: of all with the same name; empty: of the file. `better`: ``higher``
    or ``lower``; empty: as the unit says. `judged`: whether a verdict is wanted. `failed`: why its case failed.
    """

    check: str
    metric: str
    value: float
    unit: str = ''
    better: str = ''
    time: datetime | None = None
    session: str = ''
    partition: str = 'default'
    environ: str = 'default'
    params: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    node: str = ''
    trial: int = 1
    judged: bool = True
    failed: str = ''

    def __post_init__(self) -> None:
        for name in ('check', 'metric', 'unit', 'better', 'session', 'partition', 'environ', 'node', 'failed'):
            if not isinstance(text := getattr(self, name), str) or not (text or name not in ('check', 'metric')):
                raise ValueError(f'{name}: expected a text, found {text!r:.40}')
        if self.better not in ('', 'higher', 'lower'):
            raise ValueError(f'better: expected higher or lower, found {self.better!r:.40}')


def table(path: Path) -> Iterator[Measurement]:
    """Yield the rows of a table with named columns: CSV, JSON lines or Parquet, by the end of its name."""
    import duckdb

    reading = {'.csv': 'read_csv', '.jsonl': 'read_json', '.ndjson': 'read_json', '.parquet': 'read_parquet'}
    if path.suffix not in reading:
        raise ValueError(f'expected a name that ends with {", ".join(reading)}, found {path.name}')
    options = ', all_varchar = true' if path.suffix == '.csv' else ''
    try:
        with duckdb.connect(config={}) as database:
            found = database.execute(f'FROM {reading[path.suffix]}(?{options})', [str(path)])
            names, rows = [name for name, *_ in found.description or ()], found.fetchall()
    except duckdb.Error as error:
        raise ValueError(str(error).partition('\n')[0]) from None
    if unknown := set(names) - {*_COLUMNS}:
        raise ValueError(f'expected columns of {", ".join(_COLUMNS)}, found {", ".join(sorted(unknown))}')
    if lacking := {'check', 'metric', 'value'} - set(names):
        raise ValueError(f'expected the columns check, metric and value, found no {", ".join(sorted(lacking))}')
    for number, row in enumerate(rows, 1):
        found_in_row = zip(names, row, strict=True)
        given: dict[str, Any] = {name: value for name, value in found_in_row if value not in (None, '')}
        try:
            given |= {name: _names(given[name]) for name in ('params', 'dims') if name in given}
            given |= {'time': _time(given['time'])} if 'time' in given else {}
            given |= {'value': _number(given.get('value', math.nan)), 'trial': int(given.get('trial', 1))}
            yield Measurement(**given)
        except (ValueError, TypeError) as error:
            raise ValueError(f'row {number}: {error}') from None


def google_benchmark(path: Path) -> Iterator[Measurement]:
    """Yield the real time of each iteration run of Google Benchmark's JSON, and its counters of bytes and items."""
    document = json.loads(path.read_bytes())
    context, at = document['context'], _time(document['context']['date'])
    trials: dict[str, int] = {}
    for entry in document['benchmarks']:
        if entry.get('run_type', 'iteration') != 'iteration':
            continue
        name = entry['name']
        trials[name] = trials.get(name, 0) + 1
        check, *params = name.split('/')
        common = {
            'check': check, 'params': {f'arg{place}': word for place, word in enumerate(params, 1)}, 'time': at,
            'node': context.get('host_name', ''), 'trial': trials[name],
            'failed': str(entry.get('error_message', 'it failed')) if entry.get('error_occurred') else '',
        }  # fmt: skip
        seconds = _number(entry.get('real_time', math.nan))
        yield Measurement(metric='real_time', value=seconds, unit=entry.get('time_unit', 'ns'), **common)
        for key, metric, unit in (('bytes_per_second', 'bandwidth', 'B/s'), ('items_per_second', 'rate', '1/s')):
            if key in entry:
                yield Measurement(metric=metric, value=_number(entry[key]), unit=unit, **common)


def hyperfine(path: Path) -> Iterator[Measurement]:
    """Yield the time of each run of each command of hyperfine's JSON."""
    for result in json.loads(path.read_bytes())['results']:
        params, codes = result.get('parameters') or {}, result.get('exit_codes') or []
        if codes and len(codes) != len(result.get('times') or codes):
            raise ValueError(f'{result["command"]!r:.40}: has {len(result["times"])} times and {len(codes)} exit codes')
        failed = next((f'exit code {code}' for code in codes if code), '')
        for trial, seconds in enumerate(result.get('times') or [result['mean']], 1):
            yield Measurement(
                check=result['command'], params=params, metric='time', value=_number(seconds), unit='s', trial=trial,
                failed=failed,
            )  # fmt: skip


def github_action_benchmark(path: Path) -> Iterator[Measurement]:
    """Yield the benchmarks of each commit in the data file of github-action-benchmark, or of one run's JSON."""
    text = path.read_text(encoding='utf-8')
    document = json.loads(re.sub(r'^\s*window\.\w+\s*=\s*', '', text).rstrip().rstrip(';'))
    if isinstance(document, list):
        document = {'entries': {'benchmark': [{'benches': document}]}}
    for suite, runs in document['entries'].items():
        for run in runs:
            tool, date = run.get('tool', ''), run.get('date')
            common: dict[str, Any] = {'session': str(run.get('commit', {}).get('id', '')), 'environ': _word(suite)}
            if date is not None:
                common['time'] = _time(date)
            better = {'customBiggerIsBetter': 'higher', 'customSmallerIsBetter': 'lower'}.get(tool, '')
            for one in run['benches']:
                unit = str(one.get('unit', ''))
                way = better or ('lower' if re.match(r'[nmu]?s\b', unit) else 'higher')
                yield Measurement(
                    check=one['name'], metric='value', value=_number(one['value']), unit=unit, better=way, **common
                )


#: Names of SuperBench's metrics that are better lower, of 0.12 and, without ``time`` in them, of releases before 0.5.
_LOWER = re.compile(
    r'time|latency|lat(_|$)|error|overhead|cost|failed|mem_allocated|^(allgather|allreduce|nosharding)$'
)


def superbench(path: Path) -> Iterator[Measurement]:
    """Yield the metrics of each node of SuperBench's ``results-summary.jsonl``; its monitor's are for information.

    A name is ``benchmark[:annotation]/metric[:rank]``. It has no units: `_LOWER` says what is better lower.
    """
    for line in path.read_text(encoding='utf-8').splitlines():
        found = json.loads(line)
        node = found.pop('node')
        for name, value in found.items():
            check, _, metric = name.rpartition('/')
            metric, _, rank = metric.partition(':')
            if metric == 'return_code' and not value:
                continue
            lower = _LOWER.search(metric)
            yield Measurement(
                check=check, metric=metric, value=_number(value), better='lower' if lower else 'higher', node=node,
                dims={'rank': rank} if rank else {}, judged=not check.startswith('monitor'),
                failed=f'return code {value}' if metric == 'return_code' else '',
            )  # fmt: skip


def _number(value: Any) -> float:
    """Return a number. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f'expected a number, found {value!r:.40}')
    return float(value)


def _names(text: Any) -> dict[str, str]:
    """Return ``size=8,kernel=copy`` or a mapping as names and values. Raises ValueError."""
    if isinstance(text, dict):
        return {str(name): str(value) for name, value in text.items() if value is not None}
    parts = [part.partition('=') for part in str(text).split(',')]
    if not all(name and sign for name, sign, _ in parts):
        raise ValueError(f'expected name=value,name=value, found {text!r:.60}')
    return {name.strip(): value.strip() for name, _, value in parts}


def _time(value: Any) -> datetime:
    """Return a time in UTC: of ISO 8601, of seconds since 1970, or of milliseconds. Raises ValueError."""
    if isinstance(value, datetime):
        time = value
    elif isinstance(value, (int, float)) or re.fullmatch(r'\d{9,13}(\.\d+)?', str(value)):
        seconds = float(value)
        time = datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, timezone.utc)
    else:
        time = datetime.fromisoformat(str(value).replace('Z', '+00:00'))
    return time.astimezone(timezone.utc).replace(tzinfo=None) if time.tzinfo else time


def _word(text: str) -> str:
    """Return a text as a name without blanks."""
    return re.sub(r'\s+', '_', text.strip()) or 'default'


READERS: dict[str, Callable[[Path], Iterator[Measurement]]] = {
    'table': table, 'google-benchmark': google_benchmark, 'hyperfine': hyperfine,
    'github-action-benchmark': github_action_benchmark, 'superbench': superbench,
}  # fmt: skip
