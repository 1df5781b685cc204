from datetime import datetime

import pytest
from run_reports import Workplace


@pytest.fixture
def work(tmp_path) -> Workplace:
    """Results, sites and the command line on them, of one test alone."""
    return Workplace(tmp_path)


@pytest.fixture(autouse=True)
def later(monkeypatch):
    """All nights of the tests are over, whenever the tests run."""
    monkeypatch.setattr('postprocess.results.reports.now', lambda: datetime(2050, 1, 1))
