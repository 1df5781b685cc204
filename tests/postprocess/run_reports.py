# SPDX-License-Identifier: BSD-3-Clause
"""A factory of ReFrame run reports, and a store and a site to judge them by."""

from __future__ import annotations

import copy
import json
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from typer.main import get_command

from plumbline.identity import Quantity, from_text
from plumbline.limits import Limits
from plumbline.record import NOTHING, Summary
from plumbline.references import COLUMNS, RECORDED, Reference, read_references
from postprocess.cli import app
from postprocess.verdicts.verdict import Verdict

COMMANDS = get_command(app)  # built once: typer builds it anew at each call, in 60 ms
SITE = 'cluster'
UNITS = {'higher': 'GB/s', 'lower': 'us'}
BEGAN = 1_795_257_531.0  # 2026-11-21 10:38:51 UTC
_SITE_YAML = """\
descr: a site for tests
hostnames: ['login[0-9]+']
partitions:
  - {name: cpu, scheduler: local, launcher: local, environs: [system, other]}
  - {name: gpu, scheduler: local, launcher: local, environs: [system]}
environments:
  - {name: system, provider: system}
  - {name: other, provider: system}
tolerance: {floor: 0.02}
"""


def metric(values=(), unit='', better='higher', invalid=None, node='n1'):
    """A metric of one series with a trial for each value: a bandwidth, or a time where lower is better."""
    unit = unit or UNITS.get(better, 'GB/s')
    samples = [[trial, node, value] for trial, value in enumerate(values, 1)]
    return {'unit': unit, 'better': better, 'samples': samples, 'invalid': invalid}


def case(
    check='STREAM', parameters='size=big', metrics=None, partition='cpu', stack='system', result='pass',
    fail_phase=None, fail_reason=None, tags=('quick', 'nightly'), nodes=('n1',), missing=None, provenance=None,
    site=SITE, fixture=False, dims=None, figures=None, health=None, **fields,
):  # fmt: skip
    """One entry of ``runs[].testcases[]``; `fields` add to it or replace what it has. No `metrics`: an empty record.

    A metric ``latency message_bytes=8`` is a series of `latency`. `dims`: kind and unit of each by name. `missing`: why
    series have no number, by metric. `figures`, `health`: of the record.
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
        'fail_reason': fail_reason, 'tags': list(tags), 'scheduler': 'local', 'jobid': '7', 'job_exitcode': 0,
        'job_nodelist': list(nodes), 'job_completion_time_unix': BEGAN + 5, 'time_total': 3.5,
    }  # fmt: skip
    if not fixture:
        entry['record'] = record or {}
    return entry | fields


def metrics_of(metrics, missing):
    """The metrics of a record, from those of `case`."""
    found = {}
    for name, of in metrics.items():
        of_metric, _, dims = name.partition(' ') if '=' in name else (name, '', '')
        series = {'dims': dict(from_text(dims)), 'missing': missing.get(name)}
        series |= {key: of[key] for key in ('samples', 'invalid', 'judged') if key in of}
        facts = {key: value for key, value in of.items() if key not in series}
        found.setdefault(of_metric, facts | {'series': []})['series'].append(series)
    return found


def report(*cases, uuid='aaaa1111', cmdline='reframe -r', mode=None, began=BEGAN, earlier_runs=()):
    """A whole run report; `earlier_runs` are lists of cases that ran before `cases` in the same session."""
    info = {
        'data_version': '4.2', 'hostname': 'login1', 'uuid': uuid, 'time_start_unix': began,
        'time_end_unix': began + 60, 'cmdline': cmdline, 'user': 'admin', 'version': '4.10.4',
    }  # fmt: skip
    if mode:
        info['plumbline_mode'] = mode
    runs = [{'testcases': copy.deepcopy(list(entries))} for entries in (*earlier_runs, cases)]
    return {'session_info': info, 'runs': runs, 'restored_cases': []}


def reference(**fields):
    """Return a reference row as text: a baseline of 100 ± 1 from 10 values of `metric`; `fields` override columns."""
    unit = UNITS[fields.get('better', 'higher')]
    row = {
        'partition': 'cpu', 'environ': 'system', 'check': 'STREAM', 'params': 'size=big', 'metric': 'triad',
        'dims': '-', 'unit': unit, 'better': 'higher', 'mean': '100', 'std': '1', 'n': '10', 'kind': 'baseline',
        'source': 'session x', 'recorded_at': '2026-01-01', 'mode': 'quick', 'note': '',
    }  # fmt: skip
    assert fields.keys() <= {*COLUMNS, *RECORDED}
    return row | {key: str(value) for key, value in fields.items()}


def verdict_of(id, value=None, verdict='ok', unit='GB/s', better='higher', limit=None, expected=None):
    """A verdict of one sample, with a reference only where `limit` or `expected` is given."""
    reference = bound = None
    if limit is not None or expected is not None:
        reference = Reference(id, Quantity(unit, better), expected, std=None, n=None, kind='baseline', source='x')
        bound = Limits(limit, limit, 0.0, '')
    measured = NOTHING if value is None else Summary(1, value, None, value, value)
    return Verdict(verdict, id, Quantity(unit, better), measured, reference, bound)


def only(document):
    """The one verdict of a document of ``plumbline compare --format json``."""
    (row,) = document['verdicts']
    return row


class Workplace:
    """A results directory and a folder of sites below a temporary one, and the command line on them."""

    def __init__(self, folder: Path):
        self.results = folder / 'results'
        self.sites = folder / 'sites'
        self.reports = folder / 'reports'
        for one in (self.reports, self.results):
            if not one.exists():
                one.mkdir()
        (self.sites / SITE).mkdir(parents=True, exist_ok=True)
        (self.sites / SITE / 'site.yaml').write_text(_SITE_YAML)

    def write(self, content, name: str | None = None) -> Path:
        path = self.reports / (name or f'{content["session_info"]["uuid"]}.json')
        path.write_text(json.dumps(content))
        return path

    def reference(self, *rows, file='baseline.csv') -> None:
        lines = [','.join(COLUMNS), *(','.join(f'"{row[column]}"' for column in COLUMNS) for row in rows)]
        (self.sites / SITE / file).write_text('\n'.join(lines) + '\n')

    @property
    def baseline(self) -> Path:
        return self.sites / SITE / 'baseline.csv'

    def run(self, command: str, *arguments, results: Path | None = None):
        """`plumbline COMMAND ARGUMENTS` with this results directory and, where it takes them, these references."""
        options = ['--results', results or self.results] if command != 'sites' else []
        if command.split()[0] not in ('ingest', 'store', 'export', 'incidents'):
            options += ['--references', self.sites]
        words = [*command.split(), *arguments, *options]
        environment = {'PLUMBLINE_SITE': None, 'PLUMBLINE_RESULTS': None}
        result = CliRunner().invoke(COMMANDS, [str(word) for word in words], env=environment)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def ingest(self, *contents, **options):
        """Ingest reports that must be good."""
        words = [word for key, value in options.items() for word in (f'--{key}', value)]
        result = self.run('ingest', *(self.write(content) for content in contents), *words)
        assert result.exit_code == 0, result.output
        return result

    def compare(self, *arguments):
        """Exit code and document of ``plumbline compare --format json``."""
        result = self.run('compare', '--format', 'json', *arguments)
        assert result.exit_code in (0, 1), result.output
        document = json.loads(result.stdout)
        assert document['exit_code'] == result.exit_code
        return document

    def verdicts(self, *arguments):
        """``(check, params, metric) -> verdict`` of the latest session."""
        rows = self.compare(*arguments)['verdicts']
        return {(row['check'], row['params'], row['metric']): row['verdict'] for row in rows}

    def judge(self, entry, *rows, **session):
        """The document of a session of one case, judged by the reference `rows`."""
        self.reference(*rows)
        self.ingest(report(entry, **session))
        return self.compare()


@contextmanager
def all_nights_over():
    """Set the clock behind all nights of the tests, whenever the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('plumbline.clock.now', lambda: datetime(2050, 1, 1))
        yield


def baseline(work):
    """Return the rows of the baseline in force by metric."""
    return {row.id.name: row for row in read_references(work.baseline, 'baseline')}


def nights(work, values, first=0, **fields):
    """Ingest a session a night, one for each of `values`, which is by metric or of the metric triad alone."""
    for night, value in enumerate(values, first):
        metrics = value if isinstance(value, dict) else {'triad': value}
        metrics = {name: metric([0.99 * mean, 1.01 * mean]) for name, mean in metrics.items()}
        work.ingest(
            report(case(metrics=metrics, **fields), uuid=f'night{night:02}', mode='quick', began=BEGAN + night * 86400)
        )
