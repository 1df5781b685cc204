# SPDX-License-Identifier: BSD-3-Clause
"""One value from the record to the page, through the forms that docs/architecture.md names."""

import importlib
import json
import re

from run_reports import case, reference, report, rows_of
from scratch import ROOT

from plumbline.identity import SeriesId
from plumbline.record import MetricRecord, Record, Series, from_dict
from postprocess.history.digest import Digest, add_history
from postprocess.readers.run_reports import read_report
from postprocess.report.page import page_of, to_html
from postprocess.results.rows import MetricRow, SampleRow
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in
from postprocess.verdicts.stored import verdicts_of
from postprocess.views.series import series_rows
from postprocess.views.verdicts import to_row

DIMS = (('kernel', 'triad'),)
TRIAD = SeriesId('cpu', 'system', 'STREAM', (('size', 'big'),), 'bandwidth', DIMS)
VALUE = 45.64412261


def test_a_value_is_the_same_in_each_form(work):
    series = Series(DIMS, [(1, 'n1', VALUE)])
    record = Record(
        'STREAM', TRIAD.params, trials=1, metrics={'bandwidth': MetricRecord('GB/s', 'higher', [series])},
        job={'nodes': ['n1']},
    )  # fmt: skip
    written = json.loads(json.dumps(record.to_dict()))
    assert from_dict(written) == record
    work.reference(reference(metric='bandwidth', dims='kernel=triad', mean='50'))
    read = read_report(work.write(report(case() | {'record': written})))
    assert read.samples == [SampleRow(0, 'bandwidth', DIMS, 1, 'n1', VALUE)]
    (row,) = read.metrics
    assert isinstance(row, MetricRow) and (row.summary.mean, row.summary.n, row.status) == (VALUE, 1, 'measured')
    assert {case.id for case in read.cases} == {TRIAD.case}
    store = Store(work.results)
    assert store.add(read)
    session = store.find()
    assert session.started == read.session.started and store.metrics(session) == read.metrics
    assert [(row['dims'], row['value']) for row in rows_of(store, 'samples', session)] == [('kernel=triad', VALUE)]
    (measured,) = measured_in(store, session)
    assert (measured.id, measured.value) == (TRIAD, VALUE)
    comparison = verdicts_of(store, session, work.sites)
    (verdict,) = comparison.verdicts
    assert (verdict.id, verdict.value, verdict.expected) == (TRIAD, VALUE, 50.0)
    (stored,) = store.select('FROM verdicts', [session])
    assert (stored['id'], stored['mean']) == (TRIAD, VALUE)
    (of_series,) = series_rows(comparison)
    assert (of_series.series, of_series.value, to_row(verdict)['value']) == (TRIAD, VALUE, VALUE)
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
