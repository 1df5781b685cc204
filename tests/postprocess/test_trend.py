# SPDX-License-Identifier: BSD-3-Clause
"""Steps and drift in the history of a metric: found where they are, and nowhere else."""

import json
import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each_row
from run_reports import BEGAN, DAY, SITE, case, metric, report

from postprocess.history.series import by_session
from postprocess.results.store import Store
from postprocess.statistics.changepoints import SHORTEST, Found, changes, levels, noise


def noisy(seed, n, cv=0.01):
    return cv * numpy.random.default_rng(seed).standard_normal(n)


def by_pelt(values, penalty):
    """Return the ends of the segments that ruptures finds; the last one is left out."""
    ruptures = pytest.importorskip('ruptures', reason='ruptures does not install on Python 3.14')
    return ruptures.Pelt(model='l1', min_size=SHORTEST, jump=1).fit(values).predict(pen=penalty)[:-1]


def cost(values, ends, penalty):
    return sum(abs(part - numpy.median(part)).sum() for part in numpy.split(values, ends)) + penalty * len(ends)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(10, 90), st.lists(st.tuples(st.integers(0, 90), st.integers(-6, 6)), max_size=3)
)
def test_the_levels_are_those_of_pelt_with_an_l1_cost(seed, n, moves):
    values = noisy(seed, n, cv=1.0)
    for place, by in moves:
        values[place:] += by
    penalty = 2 * math.log(n)
    theirs = by_pelt(values, penalty)
    (ours,) = levels(values[None], penalty)
    assert all(b - a >= SHORTEST for a, b in zip([0, *ours], [*ours, n], strict=True))
    # theirs is not always the best: its pruning does not know that segments have a shortest length
    assert cost(values, ours, penalty) <= cost(values, theirs, penalty) + 1e-3


def steps(series, floors):
    """The steps of each series of a site."""
    return [found.steps for found in changes(series, floors)[0]]


def alone(values):
    """What changed in a series that is the only one of its site, with the floor of 2 %."""
    ((found,), _) = changes([values], [0.02])
    return found


def test_series_of_all_lengths_are_told_apart():
    flat, step = noisy(1, 40), noisy(2, 60)
    step[30:] -= 0.05
    lower = noisy(12, 60)
    lower[10:] += 0.06
    found = steps([flat, step, flat[:3], lower, numpy.zeros(12)], [0.02] * 5)
    assert found == [[], [30], [], [10], []]


def site(seed, metrics, nights, like=0.0):
    """Metrics of a site whose CVs are spread about 1 %; each night is like the one before by `like`."""
    rng = numpy.random.default_rng(seed)
    rows = rng.standard_normal((metrics, nights))
    for night in range(1, nights):
        rows[:, night] = like * rows[:, night - 1] + math.sqrt(1 - like**2) * rows[:, night]
    return 0.01 * 2 ** rng.standard_normal((metrics, 1)) * rows


@each_row(('nights', 'like'), [(20, 0.0), (60, 0.5)])
def test_a_healthy_site_has_no_step_and_no_drift(nights, like):
    for seed in range(6):
        found, control = changes(list(site(seed, 100, nights, like)), [0.02] * 100)
        assert all(of == Found([]) for of in found)
        assert control.likeness == pytest.approx(like, abs=0.15)


def test_three_slow_nights_of_five_are_no_new_level_where_slow_nights_are_usual():
    rng = numpy.random.default_rng(3)
    rows = 0.01 * (rng.standard_normal((50, 60)) - 8 * (rng.random((50, 60)) < 0.05))
    rows[0, 50:] = 0.01 * rng.standard_normal(10)
    rows[0, [50, 52, 54]] -= 0.08
    assert not any(steps(list(rows), [0.02] * 50))


def test_series_that_are_judged_again_alone_are_judged_as_with_all_others():
    rows = list(site(4, 100, 40))
    rows[0][30:] -= 0.03
    found, control = changes(rows, [0.02] * 100)
    assert changes(rows[:1], [0.02], control) == (found[:1], control)


@each_row('n', [10, 14, 183])
def test_noise_of_a_history_of_any_length(n):
    rows = numpy.stack([noisy(i, n) for i in range(60)])
    assert noise(rows).mean() == pytest.approx(0.01, rel=0.15)


@each_row('seed', range(3))
def test_a_step_is_no_drift_and_a_drift_no_stairs(seed):
    step, slope = noisy(seed, 180), noisy(seed, 180) + numpy.linspace(0, -0.15, 180)
    step[100:] -= 0.06
    (of_step, of_slope), _ = changes([step, slope], [0.02] * 2)
    assert (len(of_step.steps), of_step.drift, of_slope.steps) == (1, None, [])
    assert of_slope.drift.became - of_slope.drift.was == pytest.approx(-0.15, abs=0.02)


def test_a_drift_after_a_step_is_that_since_the_step():
    values = noisy(2, 180)
    values[60:] += 0.2 + numpy.linspace(0, -0.03, 120)
    found = alone(values)
    assert found.steps == [60]
    assert found.drift.became - found.drift.was == pytest.approx(-0.03, abs=0.01)
    assert alone(noisy(6, 180)).drift is None
    assert alone((noisy(5, 180) + numpy.linspace(0, -0.06, 180))[:50]).drift is None, 'too short to tell'


# The command


def history(work, values, better='higher', name='triad', provenance=None, days=1):
    unit = 'GB/s' if better == 'higher' else 'us'
    work.ingest(*(
        report(
            case(
                metrics={name: metric([float(value)] * 2, unit, better)}, nodes=(f'n{night % 2}',),
                provenance=(provenance or (lambda night: {}))(night),
            ),
            uuid=f'{night:04}', began=BEGAN + days * night * DAY,
        )
        for night, value in enumerate(values)
    ))  # fmt: skip


def changes_in(work, *options, code):
    result = work.run('trend', '--format', 'json', *options)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)['changes']


def test_a_step_is_dated_comes_with_what_changed_at_it_and_is_news_for_14_sessions(work):
    """Of a site that runs weekly: sessions count, and not days."""
    values = 100 * numpy.exp(noisy(7, 40))
    values[20:] *= 0.93

    def provenance(night):
        kernel = '6.1.0' if night < 20 else '6.5.0'
        return {'kernel': kernel, 'load_average': str(night), 'governor': 'performance'}

    history(work, values, provenance=provenance, days=7)
    (change,) = changes_in(work, '0033', code=1)
    assert (change['kind'], change['session'], change['before'], change['since'], change['sessions']) == (
        'step', '0020', '2027-04-03', '2027-04-10', 14,
    )  # fmt: skip
    assert change['change'] == pytest.approx(-7, abs=1.5)
    assert (change['was'], change['became']) == (pytest.approx(100, rel=0.01), pytest.approx(93, rel=0.01))
    assert (change['metric'], change['with_it']) == ('triad', ['kernel: 6.1.0 -> 6.5.0'])
    assert '1 change for the worse in the last 14 sessions, 1 in all' in work.run('trend', '0033').stdout
    assert len(changes_in(work, '0034', code=0)) == 1


def test_what_became_better_or_happened_long_ago_is_shown_and_is_no_failure(work):
    values = 100 * numpy.exp(noisy(9, 60))
    values[20:] *= 0.9
    values[50:] *= 1.2
    history(work, values)
    assert [round(change['change'] / 10) for change in changes_in(work, code=0)] == [-1, 2]
    assert len(changes_in(work, '--recent', '60', code=1)) == 2
    assert len(changes_in(work, '--days', '25', code=0)) == 1


def test_a_slow_drift_is_a_failure_as_long_as_it_lasts(work):
    history(work, 100 * numpy.exp(noisy(10, 120) + numpy.linspace(0, -0.045, 120)))
    (change,) = changes_in(work, code=1)
    assert change['kind'] == 'drift' and change['since'] < '2026-12-10'
    assert change['change'] == pytest.approx(-4.5, abs=2)


def test_failed_and_invalid_sessions_and_unjudged_metrics_do_not_count(work):
    nights = []
    for night in range(30):
        note = metric([100.0 if night < 15 else 50.0]) | {'judged': False}
        fields = {'metrics': {'triad': metric([100.0 + night % 3]), 'note': note}}
        if night > 20:  # half as fast, and not to be believed
            is_failed = night % 2 == 0
            fields = {'metrics': {'triad': metric([50.0], invalid=None if is_failed else 'above the peak')}}
            fields |= {'result': 'fail', 'fail_phase': 'sanity'} if is_failed else {}
        nights.append(report(case(**fields), uuid=f'{night:04}', began=BEGAN + night * DAY))
    work.ingest(*nights)
    assert changes_in(work, code=0) == []
    assert '1 metric over 30 sessions' in work.run('trend').stdout


def test_a_unit_that_changed_is_said_and_the_new_one_counts(work):
    for first, unit, value in ((0, 'MB/s', 100_000), (12, 'GB/s', 100)):
        for n in range(first, first + 12):
            entry = case(metrics={'triad': metric([value + n % 3], unit)})
            work.ingest(report(entry, uuid=f'{n:04}', began=BEGAN + n * DAY))
    result = work.run('trend')
    assert result.exit_code == 0 and '1 metric over 24 sessions, 2026-11-21 to 2026-12-14\n' in result.stdout
    assert 'not examined: cpu/system STREAM size=big triad: 12 sessions in MB/s' in result.stdout


def test_histories_read_in_portions_are_those_read_at_once(work, monkeypatch):
    """Two nodes a night, a unit that changes, and a floor that only the first nights state."""
    for night in range(7):
        unit = 'MB/s' if night > 4 else 'GB/s'
        stated = {} if night > 2 else {'floor': 0.2}
        metrics = [{'triad': metric([90.0 + night + node], unit) | stated} for node in (0, 4)]
        cases = [case(metrics=of_node, nodes=(f'n{place}',)) for place, of_node in enumerate(metrics)]
        work.ingest(report(*cases, uuid=f'{night:04}', began=BEGAN + night * DAY))
    (work.sites / SITE / 'site.yaml').unlink()  # which states a floor for all
    store = Store(work.results)
    sessions = store.sessions(SITE)

    def found():
        return [
            (of.series, of.quantity, of.tolerance.floor, of.sessions.tolist(), of.values.tolist())
            for of in by_session(store, sessions, work.sites)
        ]

    whole = found()
    assert sum(len(nights) for *_, nights, _ in whole) == 7 and whole[0][2] == 0.2
    monkeypatch.setattr('postprocess.results.store._CASES_AT_ONCE', 3)
    assert found() == whole
