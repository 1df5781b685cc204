# SPDX-License-Identifier: BSD-3-Clause
"""One value from the text of a program to the page, through the forms that docs/architecture.md names."""

import importlib
import json
import math
import re

import pytest
from reading import plan_of
from run_reports import case, reference, report, rows_of
from scratch import OUTPUTS, ROOT

from checks.core.reading.metrics import series_of
from checks.core.reading.trials import read_trials
from checks.memory.babelstream_output import bandwidth
from plumbline.identity import SeriesId
from plumbline.record import from_dict
from postprocess.history.digest import Digest, add_history
from postprocess.history.findings import findings_of
from postprocess.history.verdicts import verdicts_of
from postprocess.incidents.fold import Folded, fold
from postprocess.incidents.ledger import Ledger
from postprocess.readers.run_reports import read_report
from postprocess.report.page import page_of, to_html
from postprocess.results.rows import MetricRow
from postprocess.results.store import Store
from postprocess.statistics import night
from postprocess.verdicts import gather
from postprocess.verdicts.measured import measured_in
from postprocess.views.incidents import details
from postprocess.views.series import series_rows
from postprocess.views.verdicts import to_row

DIMS = (('kernel', 'triad'),)
TRIAD = SeriesId('cpu', 'system', 'STREAM', (('size', 'big'),), 'bandwidth', DIMS)
VALUE = 45.644122  # GB/s; the program prints 45644.122 MB/s
EXPECTED = 60.0
LOST = 1 - VALUE / EXPECTED


@pytest.fixture
def arrays(monkeypatch):
    """The arrays that a session is judged by, as function -> what it returned."""
    returned = {}

    def watch(module, name):
        function = getattr(module, name)

        def watched(*given):
            returned[name] = function(*given)
            return returned[name]

        monkeypatch.setattr(module, name, watched)

    watch(gather, 'with_tonight')
    watch(night, 'judge')
    return returned


def trial_of(folder, output):
    """The folder of a job of one trial, bound to CPU 0 of n1."""
    run = folder / 'trial_1/run'
    run.mkdir(parents=True)
    for name, text in {'stdout': output, 'stderr': '', 'exit_code': '0\n', 'binding.n1.0': '0\n'}.items():
        (run / name).write_text(text)
    for name, seconds in {'started': '100.0 10.0', 'ended': '103.0 13.0'}.items():
        (run.parent / name).write_text(seconds)
    return folder


def test_a_value_is_the_same_in_each_form(work, arrays, tmp_path):
    # a check: text of a program, reading, record
    output = (OUTPUTS / 'babelstream-5.0-omp-100.txt').read_text()
    assert re.search(r'^Triad +45644\.122 ', output, re.MULTILINE)
    reading = bandwidth().reading_of(output)
    (line,) = reading.lines[DIMS]
    assert reading.values[DIMS] == pytest.approx(VALUE) and output.splitlines()[line - 1].startswith('Triad')
    record = read_trials(trial_of(tmp_path / 'job', output), plan_of('STREAM', TRIAD.params, [bandwidth()]), 'n1')
    ((trial, node, value),) = series_of(record, 'bandwidth', kernel='triad').samples
    assert (trial, node, value) == (1, 'n1', reading.values[DIMS])
    # the store: JSON, rows, Parquet
    record.job = {'nodes': ['n1']}
    written = json.loads(json.dumps(record.to_dict()))
    assert from_dict(written) == record
    work.reference(reference(metric='bandwidth', dims='kernel=triad', mean=EXPECTED))
    read = read_report(work.write(report(case() | {'record': written})))
    (row,) = (row for row in read.metrics if row.dims == DIMS)
    assert row.samples == [(1, 'n1', value)]
    assert isinstance(row, MetricRow) and (row.summary.mean, row.summary.n, row.status) == (value, 1, 'measured')
    assert {case.id for case in read.cases} == {TRIAD.case}
    store = Store(work.results)
    assert store.add(read)
    session = store.find()
    assert session.started == read.session.started
    assert store.rows(session).metrics == [row._replace(samples=()) for row in read.metrics]
    assert ('kernel=triad', value) in {(row['dims'], row['value']) for row in rows_of(store, 'samples', session)}
    # the verdict: arrays, their answer, a row
    (measured,) = (each for each in measured_in(store, session) if each.id == TRIAD)
    assert measured.value == value
    comparison = verdicts_of(store, session, work.sites)
    jobs, answer = arrays['with_tonight'], arrays['judge']
    assert jobs.shape[:2] == (1, 1) and math.exp(jobs[0, 0, 0]) == pytest.approx(value)
    assert -math.expm1(-answer.loss[0]) == pytest.approx(LOST, rel=1e-3)
    (verdict,) = (each for each in comparison.verdicts if each.id == TRIAD)
    assert (verdict.value, verdict.expected, verdict.loss) == (value, EXPECTED, -math.expm1(-answer.loss[0]))
    (stored,) = (each for each in store.select('FROM verdicts', [session]) if each['id'] == TRIAD)
    assert (stored['mean'], stored['loss']) == (value, verdict.loss)
    # the ledger: findings of the session, folded
    found = findings_of(store, Ledger(store, session.site, session), comparison, work.sites)
    (incident,) = found.incidents
    assert incident.values[TRIAD].value == value and incident.values[TRIAD].loss == verdict.loss
    (known,) = fold([found], Folded()).known
    assert known.incident.values[TRIAD] == incident.values[TRIAD]
    # rows of views, and the page
    (of_incident,) = details(known, session.day, work.results).rows
    assert (of_incident['value'], of_incident['loss']) == (value, pytest.approx(100 * verdict.loss))
    (of_series,) = (each for each in series_rows(comparison) if each.series == TRIAD)
    assert (of_series.value, to_row(verdict)['value']) == (value, value)
    digest = Digest(comparison)
    add_history(digest, store, work.sites)
    assert '45.64 GB/s' in to_html(page_of(digest, store, work.sites))


def test_the_functions_that_make_the_forms_are_there():
    text = (ROOT / 'docs/architecture.md').read_text()
    named = re.findall(r'`([\w/]+)\.py`: `([\w.]+)`', text.partition('## The way of a number')[2])
    assert len(named) > 12
    for path, name in named:
        found = importlib.import_module(path.replace('/', '.'))
        for part in name.split('.'):
            found = getattr(found, part)
