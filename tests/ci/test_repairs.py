"""What of `reframe_settings.slurm` needs no scheduler; the rest is in the tests of Slurm's faults."""

import inspect

import pytest
from reframe.core import variables
from reframe.core.warnings import suppress_deprecations

import reframe_settings.slurm  # noqa: F401


def test_a_warning_that_is_kept_back_costs_no_walk_through_the_stack(monkeypatch):
    def walk(*_):
        raise AssertionError('walked')

    monkeypatch.setattr(inspect, 'stack', walk)
    with suppress_deprecations():
        variables.user_deprecation_warning('old')
    with pytest.raises(AssertionError, match='walked'):
        variables.user_deprecation_warning('old')
