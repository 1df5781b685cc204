# SPDX-License-Identifier: BSD-3-Clause
import shutil
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from run_reports import BEGAN, DAY, Workplace, all_nights_over, case, metric, report
from scratch import ROOT
from simulated_site import Site

import postprocess
from postprocess.history import findings, verdicts
from postprocess.incidents import rows as incident_rows
from postprocess.results import frames  # noqa: F401 (before a test replaces the Store that it imports)
from postprocess.results import judged as judged_rows
from postprocess.results.database import instance
from postprocess.results.tables import JUDGED
from postprocess.verdicts import rows
from postprocess.verdicts.verdict import Verdict


@pytest.fixture(autouse=True, scope='session')
def one_thread_for_queries():
    """Several processes of tests share the cores: on small stores, a second thread costs 10 % more CPU time."""
    instance().execute('SET threads = 1')


@pytest.fixture
def work(tmp_path) -> Workplace:
    """Results, sites and the command line on them, of one test alone."""
    return Workplace(tmp_path)


@pytest.fixture
def results(work):
    """Three sessions of a released version, and one of another site with the uuid of the first, as DataFrames."""
    shutil.copytree(ROOT / 'tests/data/releases/1.0/store', work.results / 'store')
    work.ingest(
        report(case(metrics={'triad': metric([7.0, 9.0])}, site='other'), uuid='00000000', began=BEGAN - 9 * DAY)
    )
    return postprocess.open_results(work.results)


@pytest.fixture(autouse=True)
def later():
    with all_nights_over():
        yield


@pytest.fixture(autouse=True)
def what_is_stored_is_what_was_judged(monkeypatch):
    """Whatever a test lets be judged: its rows say the same, field by field, NaN equal to NaN."""
    judge, write = verdicts.judge_session, findings._write

    def judged(store, session, *given):
        comparison = judge(store, session, *given)
        table = pa.Table.from_pylist([*map(judged_rows.to_row, comparison.verdicts)], JUDGED['verdicts'])
        verdicts = [judged_rows.from_row(Verdict, row) for row in table.to_pylist()]
        again = rows.comparison_of(session, verdicts, rows.facts_of(comparison))
        assert again.busy_jobs == comparison.busy_jobs
        assert repr(replace(again, busy_jobs=frozenset())) == repr(replace(comparison, busy_jobs=frozenset()))
        return comparison

    def written(store, found, *more):
        write(store, found, *more)
        stored = judged_rows.read(
            store, 'findings', found.session, more[0], partial(incident_rows.from_row, found.session)
        )
        if stored is None:  # a test lets nothing be written
            return
        facts, incidents = stored
        assert incident_rows.facts_from_json(facts) == found.facts
        for read, incident in zip(incidents, found.incidents, strict=True):
            assert {of: repr(value) for of, value in read.values.items()} == {
                of: repr(value) for of, value in incident.values.items()
            }
            assert repr(replace(read, values={})) == repr(replace(incident, values={}))

    monkeypatch.setattr(verdicts, 'judge_session', judged)
    monkeypatch.setattr(findings, '_write', written)


@pytest.fixture
def judgings(monkeypatch):
    """The sessions that were judged, one after the other."""
    done, judge = [], verdicts.judge_session
    monkeypatch.setattr(
        verdicts,
        'judge_session',
        lambda store, session, *more: done.append(session.session) or judge(store, session, *more),
    )
    return done


@pytest.fixture(scope='module')
def ordinary(tmp_path_factory):
    """A site of five healthy nights."""
    site = Site(Workplace(tmp_path_factory.mktemp('ordinary')))
    with all_nights_over():
        site.healthy()
    return site


@pytest.fixture
def young(work):
    """A site without a night."""
    return Site(work)


@pytest.fixture
def site(young, ordinary):
    """A site after five healthy nights."""
    young.take(ordinary)
    return young


@pytest.fixture
def browser(chromium):
    """A browser that must end without an error and must have asked for nothing but the page."""
    chromium.emulate()
    yield chromium
    assert chromium.errors == []
    assert len(chromium.asked) == 1, 'the page is the only thing that is asked for'
