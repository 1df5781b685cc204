# SPDX-License-Identifier: BSD-3-Clause
"""Reading a number from an output, or saying why there is none."""

import json
import math
import re
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import HooksOf, plan_of, value_of
from rows import each_row

from checks.core.placement import Placement
from checks.core.reading.metrics import Metric, NotMeasured, Of, by_trial, series_of
from checks.core.reading.trials import read_trials
from plumbline.record import Dim, from_dict

RATE = Metric('rate', 'GB/s', 'higher', r'^rate=(\S+)$')


@given(st.floats(min_value=1e-300, max_value=1e300), st.lists(st.text(alphabet='abc =\t'), max_size=5))
def test_any_positive_number_among_other_lines_is_read_back(number, lines):
    assert value_of(RATE, '\n'.join([*lines, f'rate={number!r}', *lines, ''])) == number


@each_row(
    ('output', 'why'),
    [
        ('', 'not in the output'),
        ('rate=1\nrate=2', 'there 2 times'),
        ('rate=fast', "'fast' is not a number"),
        ('rate=inf', 'finite number above zero'),
        ('rate=1\r', 'not in the output'),
        ('rate=\uff11', 'is not a number'),
    ],
)
def test_what_is_no_measurement_is_refused_with_its_cause(output, why):
    with pytest.raises(NotMeasured, match=re.escape(why)):
        value_of(RATE, f'{output}\n')


def test_a_number_in_a_line_that_was_cut_is_refused():
    with pytest.raises(NotMeasured, match='the output ends here'):
        value_of(RATE, 'other\nrate=12')
    with pytest.raises(NotMeasured, match='the output ends here'):
        value_of(Metric('x', 'Flop/cycle', 'higher', r'^flops: (\S+)', per=(r'^cycles: (\S+)',)), 'flops: 1\ncycles: 5')


def test_a_value_is_scaled_and_divided_and_a_divisor_of_zero_measures_nothing():
    per_core = Metric('x', 'Flop/cycle', 'higher', r'^flops: (\S+)', per=(r'^cycles: (\S+)', r'^(\d+) cores'), scale=2)
    assert value_of(per_core, 'flops: 100\ncycles: 5\n4 cores\n') == 10
    for without_cycles in ('flops: 100\ncycles: 0\n4 cores\n', 'flops: 100\n4 cores\n'):
        with pytest.raises(NotMeasured):
            value_of(per_core, without_cycles)


@given(st.text())
def test_garbage_never_becomes_a_number_in_silence(text):
    try:
        value = value_of(RATE, text)
    except NotMeasured:
        return
    assert math.isfinite(value) and value > 0


CURVE = Metric(
    'latency', 'us', 'lower', r'^(?P<message_bytes>\d+) +(?P<value>\S+)$', expected={'message_bytes': (1, 2, 4)},
    judged=lambda dims: dims['message_bytes'] == '1',
)  # fmt: skip
ROWS = ['1 0.5', '2 0.6', '4 0.7', '']


@each_row(
    ('rows', 'missing', 'faults'),
    [
        (ROWS, {}, []),
        ([*ROWS[:2], ''], {'4': 'not in the output'}, []),
        (['2 0.6', *ROWS], {'2': '2 times'}, []),
        (['1 fast', *ROWS[1:]], {'1': "'fast' is not a number"}, []),
        (['8 0.9', *ROWS], {}, ['unexpected row: message_bytes=8']),
    ],
)
def test_a_table_is_one_metric_with_a_series_for_each_row(rows, missing, faults):
    reading = CURVE.reading_of('\n'.join(rows))
    read = {dict(point)['message_bytes']: value for point, value in reading.values.items()}
    assert read == {size: value for size, value in {'1': 0.5, '2': 0.6, '4': 0.7}.items() if size not in missing}
    assert all(missing[dict(point)['message_bytes']] in why for point, why in reading.missing.items())
    assert (len(reading.missing), reading.faults) == (len(missing), faults)
    assert [CURVE.is_judged(point) for point in CURVE.points()] == [True, False, False]


def plan(**more):
    facts = {'dims': {'message_bytes': Dim('size', 'B')}, 'metrics': [CURVE], 'placement': Placement(1, ((0,),))}
    return plan_of('Demo', (('size', 'small'),), **facts | more)


@each_row(
    ('more', 'words'),
    [
        ({'dims': {}}, ['latency', 'message_bytes']),
        ({'metrics': []}, ['no metric']),
        ({'metrics': [CURVE, CURVE]}, ['latency', 'message_bytes=1', 'twice']),
        ({'metrics': [CURVE, Metric('latency', 'ms', 'lower', 'x')]}, ['latency', 'us', 'ms']),
        ({'metrics': [Metric('rate', 'GB/s', 'higher', 'x', run='other')]}, ['rate', "'other'"]),
        (
            {'metrics': [CURVE, Metric('least', 'us', 'lower', of=Of('latency', min, {'message_bytes': '9'}))]},
            ['least', '9'],
        ),
        ({'metrics': [CURVE, Metric('least', 'us', 'lower', of=Of('latencies', min))]}, ['least', 'latencies']),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(more, words):
    problems = plan(**more).problems()
    assert problems and all(word in problems[0] for word in words)
    assert plan().problems() == []


@each_row(
    ('stated', 'found'),
    [
        (0.02, {'rate': 0.02, 'put_latency': 0.02}),
        ({'*latency': 0.04, '*': 0.01}, {'rate': 0.01, 'put_latency': 0.04}),
        ({'*': 0.01, '*latency': 0.04}, {'rate': 0.01, 'put_latency': 0.01}),
    ],
)
def test_the_usual_spread_is_that_of_the_first_pattern_that_matches(stated, found):
    metrics = [Metric('rate', 'GB/s', 'higher', 'x'), Metric('put_latency', 'us', 'lower', 'y')]
    record = plan(metrics=metrics, usual_spread=stated).empty_record()
    assert {name: one.usual_spread for name, one in record.metrics.items()} == found


def folder_of(tmp_path, *outputs: str):
    """A job's folder with a trial for each output, bound to CPU 0."""
    for trial, output in enumerate(outputs, start=1):
        run = tmp_path / f'trial_{trial}' / 'run'
        run.mkdir(parents=True)
        (run / 'stdout').write_text(output)
        (run / 'stderr').write_text('')
        (run / 'exit_code').write_text('0\n')
        (run / 'binding.n1.0').write_text('0\n')
        (run.parent / 'started').write_text('100.0 10.0')
        (run.parent / 'ended').write_text('103.0 13.0')
    (tmp_path / 'provenance.txt').write_text('kernel=6.1\n')
    return tmp_path


def test_trials_become_a_record_without_reframe(tmp_path):
    mean_of_all = Metric('mean', 'us', 'lower')

    def derive(record):
        series_of(record, 'mean').samples = by_trial(record.metrics['latency'].series, fmean)

    asked = plan(metrics=[CURVE, mean_of_all], trials=2)
    folder = folder_of(tmp_path, '\n'.join(ROWS), '\n'.join([*ROWS[:2], '']))
    record = read_trials(folder, asked, 'n1', hooks=HooksOf(derive=derive))
    faults = [*map(str, record.causes)]
    assert len(faults) == 1
    assert faults[0].startswith('Demo in trial 2 of 2 on n1: metric latency message_bytes=4 not measured')
    assert series_of(record, 'latency', message_bytes=1).samples == [(1, 'n1', 0.5), (2, 'n1', 0.5)]
    partly = series_of(record, 'latency', message_bytes=4)
    assert 'trial 2' in partly.missing and [sample[:2] for sample in partly.samples] == [(1, 'n1')]
    assert series_of(record, 'mean').samples == [(1, 'n1', pytest.approx(0.6))]
    assert record.placement == {'requested': '0', 'actual': {'n1.0': '0'}, 'watched': {'n1.0': 'not looked at'}}
    assert (record.trial_seconds, record.provenance) == ([3.0, 3.0], {'kernel': '6.1'})
    assert from_dict(json.loads(json.dumps(record.to_dict()))) == record


def test_trials_for_which_the_queue_had_no_time_are_no_fault_and_are_told(tmp_path):
    folder = folder_of(tmp_path, '\n'.join(ROWS), '\n'.join(ROWS))
    with (folder / 'provenance.txt').open('a') as stream:
        stream.write('trials_run=2\ntrials_left_out=98 of 100 trials: too long\n')
    record = read_trials(folder, plan(trials=100), 'n1')
    faults = [*map(str, record.causes)]
    assert (faults, record.trials) == ([], 2)
    assert record.provenance == {'kernel': '6.1', 'trials_left_out': '98 of 100 trials: too long'}


def test_what_a_check_says_of_a_run_and_of_a_value_reaches_the_record(tmp_path):
    def told(run):
        run.invalid.append('a cache answered')
        return [f'{run.name} is wrong']

    record = read_trials(folder_of(tmp_path, '\n'.join(ROWS)), plan(), 'n1', hooks=HooksOf(sanity_faults=told))
    faults = [*map(str, record.causes)]
    assert faults == [*map(str, record.causes)] == ['Demo in trial 1 of 1 on n1: run is wrong']
    assert [one.invalid for one in record.metrics['latency'].series] == ['trial 1: a cache answered'] * 3


def test_a_device_that_a_program_names_is_compared_with_those_that_it_was_given(tmp_path):
    def told(run):
        run.devices.append('NVIDIA H100')
        return []

    folder = folder_of(tmp_path, '\n'.join(ROWS))
    (folder / 'trial_1/run/binding.n1.0').write_text('0\ngpu_is 0 0000:c1:00.0 3 NVIDIA A100\n')
    (cause,) = read_trials(folder, plan(), 'n1', hooks=HooksOf(sanity_faults=told)).causes
    assert cause.code == 'binding' and 'it ran on NVIDIA H100; it was given NVIDIA A100' in str(cause)


def test_a_computed_value_that_cannot_be_true_is_invalid_in_the_record(tmp_path):
    share = Metric('share', '1', 'higher', of=Of('latency', lambda values: 2 * max(values)))
    record = read_trials(folder_of(tmp_path, '\n'.join(ROWS)), plan(metrics=[CURVE, share]), 'n1')
    assert series_of(record, 'share').invalid == 'trial 1: 1.4 of the theoretical peak'


def test_a_trial_that_did_not_start_leaves_every_series_missing(tmp_path):
    total = Metric('total', 'us', 'lower')
    record = read_trials(tmp_path, plan(metrics=[CURVE, total]), 'n1')
    faults = [*map(str, record.causes)]
    assert faults[0] == 'Demo in trial 1 of 1 on n1: did not start' and 'total' in faults[1]
    assert all(one.missing and not one.samples for _, _, one in record.series())
