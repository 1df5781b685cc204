# SPDX-License-Identifier: BSD-3-Clause
"""The commands on the history of a site survive what a store may hold."""

import json

import pytest
from run_reports import BEGAN, case, metric, report

from plumbline.identity import CaseId
from postprocess.incidents.provenance import ALL, Provenance, difference

DAY = 86400
COMMANDS = ('compare', 'trend', 'fleet', 'report')
FORMATS = ('table', 'markdown', 'json', 'csv')


def night(number, *cases, **fields):
    return report(*cases, uuid=f'{number:04}', began=BEGAN + number * DAY, **fields)


def triad(value=100.0, unit='GB/s', **fields):
    return case(metrics={'triad': metric([value], unit)}, **fields)


@pytest.mark.parametrize('command', COMMANDS)
def test_an_empty_store_is_said(work, command):
    result = work.run(command)
    assert result.exit_code == 2
    assert 'holds no session: run ci/nightly, or `plumbline ingest REPORT`' in result.stderr


@pytest.mark.parametrize('command', COMMANDS)
def test_a_site_that_the_store_does_not_hold_is_said(work, command):
    work.ingest(night(0, triad()))
    result = work.run(command, '--site', 'nowhere')
    assert result.exit_code == 2
    assert 'holds no session of site nowhere' in result.stderr


@pytest.mark.parametrize('format', FORMATS)
def test_one_session_of_a_site_that_nobody_described(work, format):
    work.ingest(night(0, triad(site='elsewhere')))
    result = work.run('trend', '--format', format)
    assert result.exit_code == 0, result.output
    if format == 'json':
        json.loads(result.stdout)


@pytest.mark.parametrize('command', ['trend', 'fleet'])
def test_sessions_without_a_number(work, command):
    empty = triad()
    empty['record']['metrics']['triad']['series'][0]['samples'] = []
    work.ingest(night(0), *(night(n, empty) for n in range(1, 4)), site='cluster')
    assert work.run(command).exit_code == 0


def test_a_unit_that_changed_is_said_and_the_new_one_counts(work):
    nights = [night(n, triad(100_000 + n % 3, 'MB/s')) for n in range(12)]
    work.ingest(*nights, *(night(n, triad(100 + n % 3, 'GB/s')) for n in range(12, 24)))
    result = work.run('trend')
    assert result.exit_code == 0
    assert '1 metric over 24 sessions' in result.stdout
    assert 'not examined: cpu/system STREAM size=big triad: 12 sessions in MB/s' in result.stdout
    assert work.run('fleet').exit_code == 0


@pytest.mark.parametrize('command', COMMANDS)
def test_text_that_is_no_text_is_printed_all_the_same(work, command):
    """Provenance from a file that is not UTF-8, and control characters."""
    nights = [
        night(n, triad(100.0 - 20 * (n > 9), provenance={'governor': 'a\udcff\x1b[31m' if n > 9 else 'b'}))
        for n in range(20)
    ]
    work.ingest(*nights)
    result = work.run(command)
    assert result.exit_code in (0, 1)
    result.output.encode()


def test_a_node_name_that_is_no_text_is_refused(work):
    result = work.run('ingest', work.write(night(0, triad(nodes=('n\udcff',)))))
    assert result.exit_code == 2
    assert 'a value does not fit the table' in result.stderr


def test_numbers_that_have_no_logarithm_are_left_out(work):
    values = {'triad': metric([100.0]), 'zero': metric([0.0]), 'below': metric([-1.0]), 'most': metric([float('inf')])}
    work.ingest(*(night(n, case(metrics=values)) for n in range(12)))
    assert '1 metric over 12 sessions' in work.run('trend').stdout
    assert work.run('fleet').exit_code == 0


def test_only_what_is_the_same_in_all_sessions_of_a_side_changed_between_them():
    before = [{'kernel': ('6.1',), 'load': ('1',)}, {'kernel': ('6.1',), 'load': ('2',), 'gone': ('x',)}]
    after = [{'kernel': ('6.5',), 'load': ('3',)}, {'kernel': ('6.5',), 'load': ('4',), 'new': ('y',)}]
    assert list(map(str, difference(before, after))) == ['kernel: 6.1 -> 6.5']
    said = list(map(str, difference(before[:1], [{'kernel': ('6.1', '6.5')}])))
    assert said == ['kernel: 6.1 -> 6.1 and 6.5', 'load: 1 -> nothing']
    assert difference([], after) == difference(before, []) == []


def test_what_is_unlike_at_a_node_is_what_all_others_share():
    stream = CaseId('cpu', 'system', 'STREAM', ())
    facts = {name: {'governor': ('performance',), 'load': (name,)} for name in ('n1', 'n2', 'n3')}
    facts['n3'] = {'governor': ('powersave',), 'load': ('n3',)}
    found = Provenance({(stream, 5): facts | {ALL: {}}})
    assert list(map(str, found.unlike(stream, 5, 'n3'))) == ['governor: powersave, elsewhere performance']
    assert found.unlike(stream, 5, 'n1') == []
