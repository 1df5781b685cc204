# SPDX-License-Identifier: BSD-3-Clause
"""Baselines of the statistics with round numbers, for tests by hand."""

import math

import numpy

from postprocess.statistics.baseline import Baseline, Expected


def baseline(m=2, **fields):
    """Of m series at 0 with a standard deviation of 0.1 over 5 sessions."""
    known = {
        'mean': numpy.zeros(m), 'variance': numpy.full(m, 0.01), 'df': numpy.full(m, 4.0), 'n': numpy.full(m, 5.0),
        'prior': numpy.full(m, 0.04), 'assumed': numpy.zeros(m, bool), 'floor': numpy.full(m, 0.02),
        'cap': numpy.full(m, 1.0), 'weight': numpy.ones(m), 'sessions': numpy.full((m, 5), math.nan),
        'second': numpy.full((m, 5), math.nan),
    }  # fmt: skip
    return Baseline(**known | fields)


def expected(of=None, phi=0.0, rho=0.0, g=0.0, tail=()):
    of = of or baseline()
    return Expected(of, phi, rho, numpy.full(len(of.mean), g), numpy.array(tail))
