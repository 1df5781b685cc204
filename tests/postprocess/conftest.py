import pytest
from run_reports import Workplace


@pytest.fixture
def work(tmp_path) -> Workplace:
    """Results, sites and the command line on them, of one test alone."""
    return Workplace(tmp_path)
