# SPDX-License-Identifier: BSD-3-Clause
"""A factory of ReFrame run reports, and a store and a site to judge them by."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from commands import run_command

from plumbline.errors import InputError
from plumbline.identity import Quantity
from plumbline.limits import Limits
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference, read_references
from postprocess import demo
from postprocess.demo import BEGAN, DAY, SITE, SITE_YAML, as_csv, case, metric, metrics_of, reference  # noqa: F401
from postprocess.readers.ingest import ingest
from postprocess.results.files import read_table
from postprocess.results.store import Store
from postprocess.verdicts.verdict import Verdict


def report(*cases, **session):
    """A whole run report, as `demo.report` makes it, that a test may change."""
    return json.loads(json.dumps(demo.report(*cases, **session)))


def on_nodes(values, check='STREAM', **fields):
    """Cases of the metric triad, each of one job alone on a node, by whose name its value is given."""
    return [
        case(check, metrics={'triad': metric([value] * 3, node=node)}, nodes=(node,), unique_name=f'{check}_{node}',
             **fields)
        for node, value in values.items()
    ]  # fmt: skip


def verdict_of(id, value=None, verdict='ok', unit='GB/s', better='higher', limit=None, expected=None):
    """A verdict of one sample, with a reference only where `limit` or `expected` is given."""
    of = bound = None
    if limit is not None or expected is not None:
        of = Reference(id, Quantity(unit, better), expected, std=None, n=None, kind='baseline', source='x')
        bound = Limits(limit, limit, 0.0, '')
    measured = NOTHING if value is None else Summary(1, value, None, value, value)
    return Verdict(verdict, id, Quantity(unit, better), measured, of, bound)


def rows_of(store, table, session):
    """The rows of a session as they are in its file, missing values as None."""
    return [vars(session)] if table == 'sessions' else read_table(store.path(table, session)).to_pylist()


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
        (self.sites / SITE / 'site.yaml').write_text(SITE_YAML)

    def write(self, content, name: str | None = None) -> Path:
        path = self.reports / (name or f'{content["session_info"]["uuid"]}.json')
        path.write_text(json.dumps(content))
        return path

    def reference(self, *rows, file='baseline.csv') -> None:
        (self.sites / SITE / file).write_text(as_csv(rows))

    @property
    def baseline(self) -> Path:
        return self.sites / SITE / 'baseline.csv'

    def run(self, command: str, *arguments, results: Path | None = None):
        """`plumbline COMMAND ARGUMENTS` with this results directory and, where it takes them, these references."""
        options = ['--results', results or self.results] if command != 'sites' else []
        if command.split()[0] not in ('ingest', 'store', 'incidents'):
            options += ['--references', self.sites]
        words = [*command.split(), *arguments, *options]
        environment = {'PLUMBLINE_SITE': None, 'PLUMBLINE_RESULTS': None}
        return run_command(words, env=environment)

    def ingest(self, *contents, **options):
        """Ingest reports that must be good."""
        words = [word for key, value in options.items() for word in (f'--{key}', value)]
        result = self.run('ingest', *(self.write(content) for content in contents), *words)
        assert result.exit_code == 0, result.output
        return result

    def store(self, content, *problems):
        """Store a report with problems outside its cases, as `ci` does."""
        messages = [*ingest(Store(self.results), [self.write(content)], problems=problems)]
        assert not any(isinstance(message, InputError) for message in messages), messages

    def compare(self, *arguments):
        """Exit code and document of ``plumbline compare --format json``."""
        result = self.run('compare', '--format', 'json', *arguments)
        assert result.exit_code in (0, 1), result.output
        document = json.loads(result.stdout)
        assert document['exit_code'] == result.exit_code
        return document

    def judged(self):
        """The content of the files from which the ledger follows."""
        files = [*self.results.glob('store/findings/*/*/*.parquet'), *self.results.glob('incidents/*.jsonl')]
        return {path.name: path.read_bytes() for path in files}

    def shown(self, id):
        """The document of ``plumbline incidents show ID``."""
        return json.loads(self.run('incidents show', id, '--format', 'json').stdout)

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


def record(work, *words):
    """Propose a baseline from these sessions, which must be possible, and accept it; its rows by metric."""
    for command in (['record propose', *words], ['record accept']):
        result = work.run(*command)
        assert result.exit_code == 0, result.output
    return baseline(work)


def nights(work, values, first=0, **fields):
    """Ingest a session a night, one for each of `values`, which is by metric or of the metric triad alone."""
    reports = []
    for night, value in enumerate(values, first):
        metrics = value if isinstance(value, dict) else {'triad': value}
        metrics = {name: metric([0.99 * mean, 1.01 * mean]) for name, mean in metrics.items()}
        entry, began = case(metrics=metrics, **fields), BEGAN + night * 86400
        reports.append(report(entry, uuid=f'night{night:02}', mode='quick', began=began))
    work.ingest(*reports)
