# SPDX-License-Identifier: BSD-3-Clause
"""Simulated sites whose truth is known, through the commands: what is healthy is not called anything else.

Losses, and what the commands say of them, are in the tests of each command.
"""

import json

import numpy
from rows import each_row
from run_reports import BEGAN, Workplace, case, metric, report

DAY = 86400
CHECKS, METRICS = 10, 8


def nights(work, x, first=0, spread=0.01):
    """Ingest a session for each column of `x`: a metric a row, in checks of 8, in standard deviations from its level.

    Those of a metric's sessions are log-normal, a factor of 2 about `spread`; five trials of a job differ less.
    """
    cv = spread * 2 ** numpy.random.default_rng(1).standard_normal(len(x))
    trials = numpy.random.default_rng(2)
    reports = []
    for night, column in enumerate(x.T, first):
        values = 100 * numpy.exp(cv * column)
        entries = []
        for number in range(0, len(x), METRICS):
            of_job = values[number : number + METRICS, None] * (1 + 1e-3 * trials.standard_normal((METRICS, 5)))
            metrics = {f'm{place}': metric(samples) for place, samples in enumerate(of_job.tolist())}
            entries.append(case(f'Check{number // METRICS}', '-', metrics))
        reports.append(report(*entries, uuid=f'{night:08x}', mode='nightly', began=BEGAN + night * DAY))
    work.ingest(*reports)


def normal(rng, shape):
    return rng.standard_normal(shape)


def gamma(rng, shape):
    """Skewed to the bad side."""
    return -(rng.standard_gamma(4, shape) - 4) / 2


def site_of(folder, noise):
    (folder / noise.__name__).mkdir()
    return Workplace(folder / noise.__name__)


@each_row('noise', [normal, gamma])
def test_nights_of_a_healthy_site_are_not_red(tmp_path, noise):
    """Ten nights become the baseline, and five more are compared with it without a rerun."""
    work, x = site_of(tmp_path, noise), noise(numpy.random.default_rng(3), (CHECKS * METRICS, 20))
    nights(work, x[:, :10])
    assert work.run('record propose', '2026-11-21..2026-11-30').exit_code == 0
    work.run('record accept')
    codes = []
    for night in range(10, 15):
        nights(work, x[:, night : night + 1], first=night)
        codes.append(work.run('compare', '--summary').exit_code)
    assert codes == [0] * 5


@each_row('noise', [normal, gamma])
def test_no_change_is_found_in_the_first_months_of_a_site(tmp_path, noise):
    work = site_of(tmp_path, noise)
    nights(work, noise(numpy.random.default_rng(4), (CHECKS * METRICS, 60)))
    for last in (19, 29, 39, 49, 59):
        result = work.run('trend', f'{last:08x}', '--format', 'json')
        assert (result.exit_code, json.loads(result.stdout)['changes']) == (0, [])


def test_nodes_that_differ_in_their_spread_are_no_slow_nodes(work):
    rng = numpy.random.default_rng(5)
    count, sessions = 64, 14
    spread = 0.01 * 2 ** rng.standard_normal((count, 1))
    levels = 0.03 * rng.standard_normal((count, 1)) + 0.01 * rng.standard_normal((1, sessions))
    values = 100 * numpy.exp(levels + spread * rng.standard_normal((count, sessions)))
    for night, column in enumerate(values.T):
        entries = [
            case(metrics={'triad': metric([value] * 2)}, nodes=(f'n{node}',), unique_name=f'STREAM_{node}')
            for node, value in enumerate(column.tolist())
        ]
        work.ingest(report(*entries, uuid=f'{night:04}', began=BEGAN + night * DAY))
    found = [
        incident
        for night in range(10, sessions)
        for incident in json.loads(work.run('compare', f'{night:04}', '--format', 'json').stdout)['incidents']
    ]
    assert len(found) <= 1  # 0.1 a session are allowed
