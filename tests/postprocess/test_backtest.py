"""What settings would have raised on a history of which the truth is known."""

import json

import numpy
import pytest
from run_reports import BEGAN, case, metric, report

DAY = 86400


@pytest.fixture
def replayed(work):
    """Eight nodes, 40 nights with 1 % noise; from night 30 on the first is 12 % slower; the metric of another check is
    steady."""
    rng = numpy.random.default_rng(3)
    nights = []
    for night in range(40):
        entries = []
        for node in range(8):
            value = 100 * (1 + 0.01 * rng.standard_normal()) * (0.88 if node == 0 and night >= 30 else 1)
            entry = case(metrics={'triad': metric([value])}, nodes=(f'n{node}',))
            entries.append(entry | {'unique_name': f'STREAM_{node}'})
        alone = 100 * (1 + 0.01 * rng.standard_normal()) * (0.9 if night >= 35 else 1)
        entries.append(case(check='HPL', metrics={'rate': metric([alone])}))
        nights.append(report(*entries, uuid=f'{night:04}', began=BEGAN + night * DAY))
    work.ingest(*nights)

    def run(*options):
        result = work.run('backtest', '--format', 'json', *options)
        assert result.exit_code == 0, result.output
        return {(row['what'], row['setting']): row for row in json.loads(result.stdout)}

    return run


def test_each_setting_raises_what_it_would_have(replayed):
    found = replayed()
    site = 'the policy of the site'
    gate, fixed = found['gate', site], found['gate', 'ReFrame, -10 % of the mean']
    assert gate['chances'] == 2 * 30  # two metrics, the sessions after the first ten
    assert 5 <= gate['alarms'] <= 8
    assert 1 <= fixed['alarms'] <= 4  # a loss of the size of the limit is found every other night
    assert (found['trend', site]['alarms'], found['trend', site]['sessions']) == (1, 1)
    assert 10 <= found['fleet', site]['sessions'] <= found['fleet', site]['alarms'] <= 12  # of 40 nights two false ones
    assert found['fleet', 'floor 5 %']['alarms'] == 10


def test_a_wider_floor_raises_no_more(replayed):
    found = replayed()
    for what in ('gate', 'fleet'):
        alarms = [found[what, f'floor {floor} %']['alarms'] for floor in (1, 2, 3, 5)]
        assert alarms == sorted(alarms, reverse=True)


def test_only_the_days_asked_for_count(replayed):
    assert replayed('--days', '20')['gate', 'floor 2 %']['chances'] == 2 * 10


def test_the_table_says_what_it_is_of(work, replayed):
    shown = work.run('backtest').stdout
    assert shown.startswith('cluster: 40 sessions, 2026-11-21 to 2026-12-30\n')
    assert 'no rerun confirmed an alarm' in shown
