# SPDX-License-Identifier: BSD-3-Clause
"""Make a store whose causes are known: run reports with made-up, seeded numbers, a site, its baseline."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.files import write_text
from plumbline.identity import from_text
from plumbline.references import COLUMNS, RECORDED
from postprocess.readers.run_reports import read_report
from postprocess.results.store import Store

SITE = 'cluster'
SITE_YAML = """\
descr: a made-up site
hostnames: ['login[0-9]+']
partitions:
  - {name: cpu, scheduler: local, launcher: local, environs: [system, other]}
  - {name: gpu, scheduler: local, launcher: local, environs: [system]}
environments:
  - {name: system, provider: system}
  - {name: other, provider: system}
tolerance: {floor: 0.02}
"""
BEGAN = 1_795_257_531.0  # 2026-11-21 10:38:51 UTC: the last night; one of the future would have a wrong clock
DAY = 86400
_UNITS = {'higher': 'GB/s', 'lower': 'us'}
_BYTES = {'message_bytes': ('size', 'B')}
_PEAKS = {'STREAM': 307.2, 'Dgemm': 3379.2}  # of a node, in the unit of the check
_DIMS = {'OsuLatency': _BYTES, 'OsuBandwidth': _BYTES, 'NumaBandwidth': {'pair': ('pair', '')}}
# Check, params, nodes, unit, and metric -> (mean, factor in that night)
Case = tuple[str, str, Sequence[str], str, Mapping[str, tuple[float, float]]]


class PlantedCause(NamedTuple):
    """A planted cause: `where` and `what` a card must name, the `change` in %, its first `day`, and what `changed`."""

    where: str
    what: str
    change: float
    day: str
    changed: str = ''


def metric(
    values: Iterable[float] = (), unit: str = '', better: str = 'higher', invalid: str | None = None, node: str = 'n1'
) -> dict[str, Any]:
    """Return a metric of one series with a trial for each value: a bandwidth, or a time where lower is better."""
    unit = unit or _UNITS.get(better, 'GB/s')
    samples = [[trial, node, value] for trial, value in enumerate(values, 1)]
    return {'unit': unit, 'better': better, 'samples': samples, 'invalid': invalid}


def case(
    check: str = 'STREAM', parameters: str = 'size=big', metrics: Mapping[str, Any] | None = None,
    partition: str = 'cpu', stack: str = 'system', result: str = 'pass', fail_phase: str | None = None,
    tags: Iterable[str] = ('quick', 'nightly'), nodes: Iterable[str] = ('n1',),
    missing: Mapping[str, str] | None = None, provenance: Mapping[str, str] | None = None, site: str = SITE,
    fixture: bool = False, dims: Mapping[str, tuple[str, str]] | None = None,
    figures: Mapping[str, Any] | None = None, health: Mapping[str, Any] | None = None, **fields: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return an entry of ``runs[].testcases[]``; `fields` add to it or replace what it has.

    No `metrics`: an empty record. A metric ``latency message_bytes=8`` is a series of `latency`. `dims`: kind and unit
    of each by name. `missing`: why series have no number, by metric. `figures`, `health`: of the record.
    """
    name = check + ''.join(f' %{pair}' for pair in parameters.split(',') if pair != '-')
    record = metrics and {
        'schema': 1, 'check': check, 'params': dict(from_text(parameters)), 'tags': list(tags), 'trials': 3,
        'dims': {dim: {'kind': kind, 'unit': unit} for dim, (kind, unit) in (dims or {}).items()},
        'metrics': metrics_of(metrics, missing or {}), 'figures': figures or {}, 'trial_seconds': [1.5, 1.6],
        'placement': {'requested': '0', 'actual': {}}, 'health': health or {}, 'provenance': provenance or {},
        'job': {'id': '7', 'state': 'COMPLETED', 'exitcode': 0, 'nodes': list(nodes)},
    }  # fmt: skip
    entry = {
        'system': site, 'partition': partition, 'environ': stack, 'name': name, 'display_name': name,
        'unique_name': name.replace(' ', '_'), 'fixture': fixture, 'result': result, 'fail_phase': fail_phase,
        'tags': list(tags), 'scheduler': 'local', 'jobid': '7', 'job_exitcode': 0,
        'job_nodelist': list(nodes), 'job_completion_time_unix': BEGAN + 5, 'time_total': 3.5,
    }  # fmt: skip
    if not fixture:
        entry['record'] = record or {}
    return entry | fields


def metrics_of(metrics: Mapping[str, Any], missing: Mapping[str, str]) -> dict[str, Any]:
    """Return the metrics of a record, from those of :func:`case`."""
    found: dict[str, Any] = {}
    for name, of in metrics.items():
        of_metric, _, dims = name.partition(' ') if '=' in name else (name, '', '')
        series = {'dims': dict(from_text(dims)), 'missing': missing.get(name)}
        series |= {key: of[key] for key in ('samples', 'invalid', 'judged') if key in of}
        facts = {key: value for key, value in of.items() if key not in series}
        found.setdefault(of_metric, facts | {'series': []})['series'].append(series)
    return found


def report(
    *cases: dict[str, Any], uuid: str = 'aaaa1111', cmdline: str = 'reframe -r', mode: str | None = None,
    began: float = BEGAN, earlier_runs: Iterable[Iterable[dict[str, Any]]] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return a run report; `earlier_runs` are lists of cases that ran before `cases` in the same session."""
    info = {
        'data_version': '4.2', 'hostname': 'login1', 'uuid': uuid, 'time_start_unix': began,
        'time_end_unix': began + 60, 'cmdline': cmdline, 'user': 'admin', 'version': '4.10.4',
    }  # fmt: skip
    if mode:
        info['plumbline_mode'] = mode
    runs = [{'testcases': list(entries)} for entries in (*earlier_runs, cases)]
    return {'session_info': info, 'runs': runs, 'restored_cases': []}


def reference(**fields: object) -> dict[str, str]:
    """Return a reference row as text: a baseline of 100 ± 1 from 10 values of `metric`; `fields` override columns."""
    unit = _UNITS[str(fields.get('better', 'higher'))]
    row = {
        'partition': 'cpu', 'environ': 'system', 'check': 'STREAM', 'params': 'size=big', 'metric': 'triad',
        'dims': '-', 'unit': unit, 'better': 'higher', 'mean': '100', 'std': '1', 'n': '10', 'kind': 'baseline',
        'source': 'session x', 'recorded_at': '2026-01-01', 'mode': 'quick', 'note': '',
    }  # fmt: skip
    assert fields.keys() <= {*COLUMNS, *RECORDED}
    return row | {key: str(value) for key, value in fields.items()}


def as_csv(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the text of a file of references."""
    lines = [','.join(COLUMNS), *(','.join(f'"{row[column]}"' for column in COLUMNS) for row in rows)]
    return '\n'.join(lines) + '\n'


def day(ago: int) -> str:
    """Return the day of the session that was `ago` nights before the last one."""
    return f'{datetime.fromtimestamp(BEGAN - ago * DAY, timezone.utc):%Y-%m-%d}'


def plant(
    folder: Path, nights: int, night: Callable[[int], Iterable[Case]], kernel: int = 0, scheduler: str = 'local',
    hot: str = '', referenced: bool = True,
) -> None:  # fmt: skip
    """Make `results`, with a store, and `sites` in `folder`.

    `night` returns the cases of the session so many nights before the last one. `kernel`: how many nights have the new
    kernel. `hot`: a node that is throttled in the last three nights. `referenced`: whether every metric has a baseline
    with its planted mean.
    """
    rng, rows = random.Random(1), {}  # noqa: S311 # nosec B311: numbers of a demo
    (folder / 'results').mkdir(parents=True, exist_ok=True)
    (folder / 'sites' / SITE).mkdir(parents=True, exist_ok=True)
    write_text(folder / 'sites' / SITE / 'site.yaml', SITE_YAML)
    store, night_file = Store(folder / 'results'), folder / 'night.json'

    def metrics(of: Case) -> Iterator[tuple[str, dict[str, Any]]]:
        check, params, nodes, unit, means = of
        better = 'lower' if unit == 'us' else 'higher'
        for text, (mean, factor) in means.items():
            name, _, dims = text.partition(' ')
            row = dict(check=check, params=params, metric=name, dims=dims or '-', mean=mean, std=0.004 * mean)
            rows[check, params, text] = reference(**row, better=better, recorded_at='2025-11-01') | {'unit': unit}
            samples = [mean * factor * (1 + 0.004 * rng.gauss(0, 1)) for _ in range(3)]
            yield text, metric(samples, unit, better, node=nodes[0])

    for ago in range(nights - 1, -1, -1):
        facts = {'kernel': '6.1.0-37' if ago < kernel else '6.1.0-28', 'governor': 'performance'}
        cases = [
            case(row[0], row[1], dict(metrics(row)), nodes=row[2], dims=_DIMS.get(row[0]), scheduler=scheduler,
                 provenance=facts | ({'clock_throttled': '412'} if row[2] == [hot] and ago < 3 else {}),
                 unique_name=f'{row[0]} {row[1]} {row[2]}',
                 figures={text.partition(' ')[0]: {'peak': _PEAKS[row[0]]} for text in row[4] if row[0] in _PEAKS})
            for row in night(ago)
        ]  # fmt: skip
        content = report(*cases, uuid=f'{nights - ago:08x}', mode='nightly', began=BEGAN - ago * DAY)
        night_file.write_text(json.dumps(content))
        store.add(read_report(night_file))
    night_file.unlink()
    if referenced:
        write_text(folder / 'sites' / SITE / 'baseline.csv', as_csv(rows.values()))


def year(folder: Path, scale: float = 1) -> list[PlantedCause]:
    """Make a year of 16 nodes: a new kernel (-7 %), latency +8 %, a drift, a slow node; return its causes.

    `scale`: of the number of nights and metrics.
    """
    nights, nodes = max(40, round(365 * scale)), [f'nid{i:06d}' for i in range(1, 17)]
    kernel, network, slow, drift = min(42, nights // 3), min(20, nights // 4), 4, nights // 2
    apps, sizes = range(max(12, round(387 * scale))), [2**i for i in range(23)]

    def night(ago: int) -> Iterator[Case]:
        for node in nodes:
            own = 0.9 if node == 'nid000011' and ago < slow else 1
            memory = own * (0.93 if ago < kernel else 1)
            rates = {'copy': (240, memory), 'triad': (250, memory), 'add': (248, memory)}
            yield 'STREAM', 'size=big', [node], 'GB/s', rates
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, own)}
        latency = {f'latency message_bytes={s}': (1.5 + s / 2e4, 1.08 if ago < network else 1) for s in sizes}
        yield 'OsuLatency', 'pair=remote', nodes[:2], 'us', latency
        bandwidth = {f'bandwidth message_bytes={s}': (24 * s / (s + 9000), 1) for s in sizes}
        yield 'OsuBandwidth', 'pair=remote', nodes[2:4], 'GB/s', bandwidth
        pairs = {f'bandwidth pair={i}-{j}': (180 if i == j else 95, 1) for i in range(4) for j in range(4)}
        yield 'NumaBandwidth', '-', nodes[4:5], 'GB/s', pairs
        worn = 0.94 ** (max(0, drift - ago) / drift)
        yield 'IOR', 'fs=scratch', nodes[5:6], 'MiB/s', {'write': (5200, worn), 'read': (7100, worn)}
        for n in (2, 4, 8, 16):
            yield 'HPL', f'num_nodes={n}', nodes[:n], 'TFlop/s', {'rate': (2.9 * n, 1)}
        for k in apps:
            yield f'App{k // 9}', f'input={k % 9}', [nodes[k % 16]], 'GFlop/s', {'rate': (100 + 7 * k, 1)}

    plant(folder, nights, night, kernel)
    return [
        PlantedCause('16 of 16 nodes', 'STREAM', -7, day(kernel - 1), 'kernel: 6.1.0-28 -> 6.1.0-37'),
        PlantedCause('nid000001, nid000002', 'OsuLatency', -7.4, day(network - 1)),
        PlantedCause('nid000006', 'IOR', -6, day(drift - 1)),
        # its 10 % in four metrics, the kernel's 7 % in three
        PlantedCause('nid000011', 'STREAM', -14.7, day(slow - 1)),
    ]
