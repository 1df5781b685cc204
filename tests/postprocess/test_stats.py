"""Statistics against numpy, and the limits that follow from them."""

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postprocess.stats import Summary, pool, summarize
from site_configs.gate import Tolerance, limits

values = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30)


@given(st.lists(values, min_size=1, max_size=5))
def test_pooled_groups_equal_numpy_on_all_samples(groups):
    pooled = pool(summarize(group) for group in groups)
    together = numpy.concatenate(groups)
    assert pooled.n == len(together)
    assert (pooled.min, pooled.max) == (together.min(), together.max())
    assert math.isclose(pooled.mean, together.mean(), rel_tol=1e-9)
    if pooled.n == 1:
        assert pooled.std is None
    else:
        assert math.isclose(pooled.std, together.std(ddof=1), rel_tol=1e-6, abs_tol=1e-6 * together.max())


def test_nothing_pools_to_nothing():
    assert pool([summarize([]), summarize([])]) == Summary(0, None, None, None, None)


def test_groups_without_samples_change_nothing():
    assert pool([summarize([]), summarize([1.0, 3.0])]) == Summary(2, 2.0, pytest.approx(math.sqrt(2)), 1.0, 3.0)


def test_a_sample_that_is_not_finite_shows_in_the_mean():
    assert math.isnan(summarize([1.0, math.nan]).mean)
    assert math.isinf(summarize([1.0, math.inf]).mean)


@given(
    mean=st.floats(1e-3, 1e6),
    relative=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)).map(sorted),
    n=st.integers(2, 100),
    better=st.sampled_from(['higher', 'lower']),
)
def test_limits_widen_with_the_spread_and_stay_between_floor_and_cap(mean, relative, n, better):
    tolerance = Tolerance(0.02, 0.15)
    narrow, wide = (limits(mean, spread * mean, n, better, tolerance) for spread in relative)
    assert 0.02 <= narrow.loss <= wide.loss <= 0.15
    assert (narrow.bad < mean < narrow.good) if better == 'higher' else (narrow.good < mean < narrow.bad)
