# SPDX-License-Identifier: BSD-3-Clause
import pytest
from run_reports import Workplace, all_nights_over
from simulated_site import Site

from postprocess.results.store import _instance


@pytest.fixture(autouse=True, scope='session')
def one_thread_for_queries():
    """Several processes of tests share the cores: on small stores, a second thread costs 10 % more CPU time."""
    _instance().execute('SET threads = 1')


@pytest.fixture
def work(tmp_path) -> Workplace:
    """Results, sites and the command line on them, of one test alone."""
    return Workplace(tmp_path)


@pytest.fixture(autouse=True)
def later():
    with all_nights_over():
        yield


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
