# SPDX-License-Identifier: BSD-3-Clause
"""The commands on the history of a site survive what a store may hold."""

import pytest
from rows import each_row
from run_reports import BEGAN, case, metric, report

DAY = 86400
COMMANDS = ('compare', 'trend', 'fleet', 'report')


def night(number, *cases, **fields):
    return report(*cases, uuid=f'{number:04}', began=BEGAN + number * DAY, **fields)


def triad(value=100.0, unit='GB/s', **fields):
    return case(metrics={'triad': metric([value], unit)}, **fields)


@pytest.mark.parametrize('command', COMMANDS)
def test_an_empty_store_and_a_site_that_it_does_not_hold_are_said(work, command):
    result = work.run(command)
    assert result.exit_code == 2 and 'holds no session' in result.stderr
    work.ingest(night(0, triad()))
    result = work.run(command, '--site', 'nowhere')
    assert result.exit_code == 2 and 'holds no session of site nowhere' in result.stderr


@each_row('format', ['table', 'markdown', 'json', 'csv'])
def test_one_session_of_a_site_that_nobody_described(work, format):
    work.ingest(night(0, triad(site='elsewhere')))
    result = work.run('trend', '--format', format)
    assert result.exit_code == 0, result.output


def test_sessions_without_a_number(work):
    empty = triad()
    empty['record']['metrics']['triad']['series'][0]['samples'] = []
    work.ingest(night(0), *(night(n, empty) for n in range(1, 4)), site='cluster')
    assert [work.run(command).exit_code for command in ('trend', 'fleet')] == [0, 0]


def test_a_unit_that_changed_is_said_and_the_new_one_counts(work):
    nights = [night(n, triad(100_000 + n % 3, 'MB/s')) for n in range(12)]
    work.ingest(*nights, *(night(n, triad(100 + n % 3, 'GB/s')) for n in range(12, 24)))
    result = work.run('trend')
    assert result.exit_code == 0
    assert '1 metric over 24 sessions' in result.stdout
    assert 'not examined: cpu/system STREAM size=big triad: 12 sessions in MB/s' in result.stdout
    assert work.run('fleet').exit_code == 0


def test_text_that_is_no_text_is_printed_all_the_same(work):
    """Provenance from a file that is not UTF-8, and control characters."""
    nights = [
        night(n, triad(100.0 - 20 * (n > 9), provenance={'governor': 'a\udcff\x1b[31m' if n > 9 else 'b'}))
        for n in range(20)
    ]
    work.ingest(*nights)
    for command in COMMANDS:
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
