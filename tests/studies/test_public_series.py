# SPDX-License-Identifier: BSD-3-Clause
"""The study of public histories reads their formats, scores as its sources define, and reports what is there."""

import json
import math
import subprocess
import sys

import numpy
import pytest
from rows import each_row
from scratch import ROOT

from studies import public_histories as histories
from studies import public_series as study

RIPPLE = numpy.log(100 + numpy.arange(80) % 3)  # 100, 101, 102 in turn: a standard deviation of 0.8 %


def lost(places, share):
    """Return the ripple with a loss of `share` at `places`."""
    logs = RIPPLE.copy()
    logs[places] += math.log1p(-share)
    return logs


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


# Expected values by hand, after the definitions of arXiv:2003.06222


def test_precision_is_of_all_people_and_recall_the_mean_of_each():
    # with the first value: told 0, 12, 80, of which 0 and 12 (for 10) are marked by someone; the first person marked 0,
    # 10 and 50, the second 0 and 10
    precision, recall = histories.precision_recall([{10, 50}, {10}], {12, 80})
    assert (precision, recall) == pytest.approx((2 / 3, (2 / 3 + 1) / 2))


@each_row(('told', 'marked', 'matched'), [({10, 12}, {11}, [1]), ({10}, {15}, [5]), ({10}, {16}, [])])
def test_one_change_told_matches_one_mark_within_five_values(told, marked, matched):
    assert histories.matched(told, marked) == matched


def test_the_interval_of_a_share_is_wilsons():
    assert study.wilson(5, 10, 0) == '50 [24-76]'


# Readers


def test_tcpd_keeps_positive_series_of_one_dimension(tmp_path):
    for name, rows in {'rate': [[1, 2]], 'both': [[1, 2], [3, 4]], 'sign': [[-1, 2]], 'hole': [[1, None]]}.items():
        told = {'name': name, 'n_dim': len(rows), 'series': [{'raw': row} for row in rows]}
        write(tmp_path / 'datasets' / name / f'{name}.json', told)
    marks = {key: {'6': [1], '7': []} for key in ('rate', 'both', 'sign', 'hole')}
    write(tmp_path / 'annotations.json', marks)
    found = histories.tcpd(tmp_path)
    assert list(found.series) == ['rate'] and found.labels == {'rate': [{1}, set()]}
    assert found.series['rate'].tolist() == pytest.approx([0, math.log(2)])


@pytest.mark.parametrize('version', [1, 2])
def test_asv_is_read_by_date_in_the_environment_with_most_results(tmp_path, version):
    for day in range(100):
        time = 2 + day % 2
        result = {1: {'result': [None, time]}, 2: [[None, time], [['1', '2']]]}[version]
        results = {'bench.A.time_it': result, 'bench.A.track_size': [[1.0]] if version == 2 else 1.0}
        told = {'version': version, 'date': 1_600_000_000_000 + day, 'results': results}
        write(tmp_path / f'results/host/{99 - day:08x}-py3.json', told)
    write(tmp_path / 'results/host/ffffffff-py2.json', {'version': 2, 'date': 1, 'results': {'a.time_b': [[9.0]]}})
    write(tmp_path / 'results/host/machine.json', {})
    found = histories.asv(tmp_path)
    assert list(found.series) == ['bench.A.time_it 1']
    assert numpy.exp(-found.series['bench.A.time_it 1'])[:3].tolist() == pytest.approx([2, 3, 2])


def test_run_times_become_performance_and_short_series_are_left_out(tmp_path):
    lance = []
    for day in range(100):
        date = f'2020-01-01T00:{day // 60:02}:{day % 60:02}'
        of = {'benchmark': 'circuit', 'host': 'n1', 'branch': 'master', 'argv': ['-l', '10'], 'date': date}
        told = {'metadata': of, 'measurements': {'time_seconds': str(4 + day % 2)}}
        write(tmp_path / f'measurements/circuit/{day}.json', told)
        lance.append({'name': 'L2', 'os': 'Linux', 'arch': 'x86_64', 'datetime': date, 'mean_duration_ns': 4 + day % 2})
    write(tmp_path / 'rust/results.json', [*lance, {**lance[0], 'name': 'once'}])
    for found in (histories.legion(tmp_path), histories.lance(tmp_path)):
        (logs,) = found.series.values()
        assert len(logs) == 100 and numpy.exp(-logs)[:2].tolist() == pytest.approx([4, 5])


# Detectors


@pytest.mark.parametrize('name', study.ARRIVING)
def test_a_detector_reports_a_large_loss_and_nothing_before_it(name):
    healthy, fallen = study.ARRIVING[name]([RIPPLE, lost(slice(40, None), 0.3)])
    assert healthy == [], 'a loss that is not there'
    assert 40 <= fallen[0] < 50


@pytest.mark.parametrize('name', study.RULES)
def test_a_rule_reports_a_lasting_change_of_a_whole_history_once_and_a_gain_is_no_alarm(name):
    fallen = lost(slice(40, None), 0.3)
    assert study.WHOLE[name]([fallen]) == study.WHOLE[name]([-fallen]) == [[40]]
    assert study.ARRIVING[name]([-fallen]) == [[]]


def test_the_simple_rules_are_theirs():
    base = numpy.log([[9.0, 11.0] * 10])  # of the logarithms the mean is that of 9.950, the standard deviation 0.10295
    for value, side in ((7.30, 1), (7.31, 0), (13.54, 0), (13.56, -1)):
        assert study.deviations(3.0, base, numpy.log([[value]])).tolist() == [side]
    for value, side in ((9.45, 1), (9.46, 0), (10.44, 0), (10.45, -1)):
        assert study.five_percent(base, numpy.log([[value]])).tolist() == [side]


def test_further_values_clear_a_single_slow_one():
    once = [lost([50], 0.3)]
    assert study.ARRIVING['Plumbline, compare, with reruns'](once) == [[]]
    assert study.ARRIVING['mean ± 3 s'](once) == [[50]], 'a rule without further values keeps it'


def test_the_study_tells_what_is_absent(tmp_path):
    raw = numpy.exp(lost(slice(40, None), 0.3)).tolist()
    for name in ('rate', 'other'):
        told = {'name': name, 'n_dim': 1, 'series': [{'raw': raw}]}
        write(tmp_path / f'TCPD/datasets/{name}/{name}.json', told)
    write(tmp_path / 'TCPD/annotations.json', {'rate': {'6': [40]}, 'other': {'6': [40]}})
    script = ROOT / 'studies/public_series.py'
    program = (
        "import runpy, sys; sys.modules['otava'] = None; "
        f"sys.argv = ['public_series.py', {str(tmp_path)!r}]; runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    answer = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert 'pip install apache-otava' in answer.stdout
    assert 'git clone https://github.com/pv/numpy-bench' in answer.stdout
    assert '| Plumbline, trend | 1.00 [1.00-1.00] | 1.00 [1.00-1.00] | 1.00 [1.00-1.00] |' in answer.stdout
    assert '| nothing is reported | 1.00 [1.00-1.00] | 0.50 [0.50-0.50] |' in answer.stdout
