# SPDX-License-Identifier: BSD-3-Clause
"""Samples of an earlier session that come under a new one: copies are named, honest nights that look alike are not."""

import random

import pytest
from rows import each_row
from run_reports import BEGAN, case, metric, reference, report

from postprocess.results.repeated import telling_digits
from postprocess.results.store import Store

KERNELS = ('copy', 'mul', 'add', 'triad', 'dot')
DAY = 86400


def night(seed: int, kernels=KERNELS, trials=3, digits=6, spread=0.001, around=200.0) -> dict:
    """The metrics of a night: rates in so many decimals, which vary by `spread`."""
    random.seed(seed)
    rates = {
        kernel: [round(random.gauss(around, spread * around), digits) for _ in range(trials)] for kernel in kernels
    }
    return {f'bandwidth kernel={kernel}': metric(values) for kernel, values in rates.items()}


def entry(metrics, **more) -> dict:
    return case(metrics=metrics, dims={'kernel': ('name', '')}, **more)


def statuses(work, uuid) -> set[tuple[str, str]]:
    store = Store(work.results)
    return {(row.status, row.invalid or '') for row in store.metrics(store.find(uuid))}


@each_row(('value', 'digits'), [
    (22.365451, 4), (223.65451, 4), (12.33715, 3), (50.701, 1), (13.09, 0), (0.23, 0), (1200.0, 0), (0.002294, 0),
    (22365.451 * 1e-3, 4), (223.6545178, 4), (2236.545178123, 4), (2236.5451781234, 0.5),
    (1 / 3, 0.5), (2**30 / 5990.7e-6 / 1e9, 0.5),
])  # fmt: skip
def test_the_digits_that_two_honest_samples_share_only_by_chance(value, digits):
    assert telling_digits(value) == digits


def test_last_nights_output_under_a_new_session_is_named_and_invalid(work):
    work.ingest(report(entry(night(1))))
    again = entry(night(1), nodes=('n9',))
    said = work.ingest(report(again, uuid='bbbb2222', began=BEGAN + DAY)).stdout
    why = 'printed again: 15 samples of 3 trials are to the last digit those of session aaaa1111 of 2026-11-21 10:38'
    assert f'STREAM %size=big: {why}' in ' '.join(said.split())
    assert statuses(work, 'bbbb2222') == {('invalid', why)}
    assert statuses(work, 'aaaa1111') == {('measured', '')}
    work.reference(reference(metric='bandwidth', dims='kernel=triad', mean='200'))
    found = work.compare('bbbb2222')
    triad = next(row for row in found['verdicts'] if row['dims'] == 'kernel=triad')
    assert triad['verdict'] == 'invalid' and why in str(triad)


@pytest.mark.parametrize(('trials', 'digits'), [(10, 10), (3, 8)])
def test_outputs_of_many_digits_are_no_less_noticed(work, trials, digits):
    """Numbers of 13 and 11 digits of one metric, again in the next night."""
    of = night(1, kernels=('triad',), trials=trials, digits=digits)
    for number in (0, 1):
        work.ingest(report(entry(of), uuid=f'{number}aaa1111', began=BEGAN + number * DAY))
    ((status, why),) = statuses(work, '1aaa1111')
    assert status == 'invalid' and f'{trials} samples of {trials} trials are' in why


def test_one_trial_of_another_night_is_enough(work):
    work.ingest(report(entry(night(1))))
    metrics = night(2)
    for name, of in night(1).items():
        metrics[name]['samples'][2] = [3, 'n1', of['samples'][0][2]]  # its first trial is now the third
    work.ingest(report(entry(metrics), uuid='bbbb2222', began=BEGAN + DAY))
    ((status, why),) = statuses(work, 'bbbb2222')
    assert status == 'invalid' and '5 samples of 1 trial are' in why


def test_honest_nights_with_few_digits_are_not_accused(work):
    """Latencies of 0.23 us repeat; so do three trials of a rate of four digits, now and then."""
    for number in range(4):
        small = {f'latency kernel={size}': metric([0.23] * 10, better='lower') for size in (1, 2, 4, 8)}
        coarse = {f'rate kernel={kernel}': metric([13.09, 13.1, 13.09]) for kernel in KERNELS}
        content = report(
            entry(small), entry(coarse, check='Other'), uuid=f'{number}aaa1111', began=BEGAN + number * DAY
        )
        work.ingest(content)
    assert statuses(work, '3aaa1111') == {('measured', '')}


def test_a_night_whose_samples_are_of_two_others_repeats_neither(work):
    for number in (1, 2):
        work.ingest(report(entry(night(number)), uuid=f'{number}aaa1111', began=BEGAN + number * DAY))
    mixed = {name: night(1 + place % 2)[name] for place, name in enumerate(night(1))}
    work.ingest(report(entry(mixed), uuid='3aaa1111', began=BEGAN + 3 * DAY))
    assert statuses(work, '3aaa1111') == {('measured', '')}


def test_a_night_that_differs_in_one_sample_of_each_trial_is_another_one(work):
    work.ingest(report(entry(night(1))))
    metrics = night(1)
    for sample in metrics['bandwidth kernel=dot']['samples']:
        sample[2] += 1e-6
    work.ingest(report(entry(metrics), uuid='bbbb2222', began=BEGAN + DAY))
    assert statuses(work, 'bbbb2222') == {('measured', '')}


@pytest.mark.parametrize('change', [{'check': 'Other'}, {'parameters': 'size=small'}, {'partition': 'gpu'}])
def test_only_the_same_case_is_compared(work, change):
    work.ingest(report(entry(night(1))))
    work.ingest(report(entry(night(1), **change), uuid='bbbb2222', began=BEGAN + DAY))
    assert statuses(work, 'bbbb2222') == {('measured', '')}


def test_the_same_night_from_two_sources_is_not_accused(work):
    """As where sessions overlap; a report with further runs takes the place of the first."""
    work.ingest(report(entry(night(1))))
    work.ingest(report(entry(night(1)), uuid='bbbb2222', began=BEGAN + 30))
    assert statuses(work, 'bbbb2222') == {('measured', '')}


def test_a_failed_case_keeps_its_own_cause(work):
    work.ingest(report(entry(night(1))))
    failed = entry(night(1), result='fail', fail_phase='sanity', fail_reason='no licence')
    work.ingest(report(failed, uuid='bbbb2222', began=BEGAN + DAY))
    assert {status for status, _ in statuses(work, 'bbbb2222')} == {'failed'}
