# SPDX-License-Identifier: BSD-3-Clause
"""What `plumbline compare` prints and writes: tables, CSV, Markdown, JSON and JUnit."""

import csv
import io
import json

import pytest
from lxml import etree
from run_reports import case, metric, reference, report

from plumbline.references import load_references
from postprocess.text import decimals


@pytest.fixture
def mixed(work):
    """A session with every verdict and a failure whose text would break markup."""
    rows = [reference(metric=name) for name in ('slow', 'good', 'fast', 'lost')]
    metrics = {
        'slow': metric([50.0, 51.0]), 'good': metric([100.0, 101.0]), 'fast': metric([150.0]), 'lost': metric(),
        'new': metric([1.0]), 'wrong': metric([9.0], invalid='above <peak> & "more" | [bold]'),
    }  # fmt: skip
    broken = case(check='HPCC', result='fail', fail_phase='setup', fail_reason='\x1b[31m<script>alert(1)</script>\x00')
    work.reference(*rows)
    work.ingest(report(case(metrics=metrics), broken), expected='3')
    return work


def test_exit_codes_of_compare(work, mixed):
    assert mixed.run('compare').exit_code == 1
    assert mixed.run('compare', 'ffff').exit_code == 2
    assert mixed.run('compare', 'latest', 'ffff').exit_code == 2
    assert mixed.run('compare', '--site', 'nowhere').exit_code == 2
    assert mixed.run('compare', '--format', 'yaml').exit_code == 2


def test_a_broken_reference_file_is_an_input_error(mixed):
    mixed.baseline.write_text('partition,check\n')
    result = mixed.run('compare')
    assert result.exit_code == 2
    assert result.stderr == f'plumbline: {mixed.baseline}:1: expected the columns {_columns()}\n'


def _columns():
    from plumbline.references import COLUMNS, RECORDED

    return f'{",".join(COLUMNS)}, and perhaps {",".join(RECORDED)}'


def test_the_worst_comes_first(mixed):
    document = mixed.compare()
    assert list(document['counts']) == ['regressed', 'missing', 'failed', 'invalid', 'improved', 'ok', 'no_reference']
    assert [row['verdict'] for row in document['verdicts']] == list(document['counts'])


def test_sizes_are_listed_by_their_value(work):
    curve = {f'latency message_bytes={size}': metric([1.0], 'us', 'lower') for size in (1024, 16384, 64)}
    work.ingest(report(case('OsuLatency', 'pair=same', curve, dims={'message_bytes': ('size', 'B')})))
    assert [row['dims'] for row in work.compare()['verdicts']] == [
        'message_bytes=64', 'message_bytes=1024', 'message_bytes=16384',
    ]  # fmt: skip


def test_csv_has_every_row_and_problems_on_standard_error(mixed):
    result = mixed.run('compare', '--format', 'csv')
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {row['metric'] for row in rows} == {'slow', 'good', 'fast', 'lost', 'new', 'wrong', '*'}
    assert rows[0]['value'] == '50.5'
    assert '3 cases expected, 2 ran' in result.stderr


def test_markdown_keeps_its_columns(mixed):
    lines = [line for line in mixed.run('compare', '--format', 'markdown').stdout.splitlines() if line[:1] == '|']
    assert len(lines) == 2 + 7
    assert {line.replace('\\|', '').count('|') for line in lines} == {15}


def test_the_summary_fits_80_columns_and_says_everything_that_is_wrong(mixed):
    result = mixed.run('compare', '--summary')
    # a path stays whole, so that it can be copied
    assert [line for line in result.stdout.splitlines() if len(line) > 80 and str(mixed.results) not in line] == []
    text = ' '.join(result.stdout.split())
    assert 'FAILED: 5 incidents open, 5 new; 1 regressed, 1 missing, 1 failed, 1 invalid, 1 improved' in text
    for part in (
        '3 cases expected, 2 ran',
        '49.5 % less',
        'above <peak> & "more" | [bold]',
        '<script>alert(1)</script>',
    ):
        assert part in text


def test_the_summary_of_many_incidents_has_25_lines_the_verdict_last(work):
    problems = [word for i in range(40) for word in ('--problem', f'problem {"x" * (i + 1)}')]
    assert work.run('ingest', work.write(report(case(metrics={'triad': metric([1.0])}))), *problems).exit_code == 0
    *lines, last = work.run('compare', '--summary').stdout.splitlines()
    assert last.startswith('FAILED: 40 incidents open, 40 new') and len(lines) < 25
    assert any('and ' in line and 'other incidents: plumbline incidents' in line for line in lines)


@pytest.mark.parametrize(('name', 'colours'), [('FORCE_COLOR', True), ('NO_COLOR', False), ('', False)])
def test_colours_are_those_that_the_environment_asks_for(mixed, monkeypatch, name, colours):
    for other in ('FORCE_COLOR', 'NO_COLOR'):
        monkeypatch.delenv(other, raising=False)
    if name:
        monkeypatch.setenv(name, '1')
    text = mixed.run('compare', '--summary').stdout
    verdict = text.split('\n\n')[-1]
    assert verdict.startswith('\033[1;31mFAILED:\033[0m' if colours else 'FAILED:') and ('\033' in text) is colours


def test_metrics_that_fail_together_share_a_line(work):
    entry = case(
        metrics={f'm{i}': metric([1.0]) for i in range(20)}, result='fail', fail_phase='sanity', fail_reason='timeout'
    )
    work.ingest(report(entry))
    assert work.run('compare', '--summary').stdout.count('timeout') == 1


def test_junit_is_well_formed_and_complete(mixed, tmp_path):
    path = tmp_path / 'junit.xml'
    assert mixed.run('compare', '--junit', path).exit_code == 1
    root = etree.parse(path).getroot()
    suites = {suite.get('name'): suite for suite in root}
    assert list(suites) == ['cluster:incidents', 'cluster:cpu']
    suite = suites['cluster:cpu']
    assert (suite.get('tests'), suite.get('failures'), suite.get('skipped')) == ('5', '4', '0')
    testcases = {t.get('name').removeprefix('cpu/system '): t for t in suite}
    wrong = testcases['STREAM size=big wrong'].find('failure')
    assert wrong.get('type') == 'invalid'
    assert wrong.get('message') == 'wrong on n1: invalid: above <peak> & "more" | [bold]'
    assert testcases['STREAM'].findtext('system-out') == '1 improved, 1 ok, 1 no reference'
    assert '<script>alert(1)</script>' in testcases['HPCC size=big *'].find('failure').get('message')
    incidents = {t.find('failure').get('message') for t in suites['cluster:incidents']}
    assert '3 cases expected, 2 ran' in incidents and len(incidents) == 5


def test_no_two_test_cases_of_junit_have_the_same_name_and_what_passed_is_one_a_check(work, tmp_path):
    entries = [
        case(metrics={'triad': metric([1.0], node=node)}, nodes=(node,), unique_name=f'STREAM_{number}')
        for number, node in enumerate(('n1', 'n2', 'n2'))
    ]
    fine = [case(metrics={f'm{i}': metric([1.0]) for i in range(100)}, partition='gpu'),
            case(metrics={'triad': metric([1.0])}, stack='other')]  # fmt: skip
    work.reference(reference())
    work.ingest(report(*entries, *fine))
    work.run('compare', '--junit', tmp_path / 'junit.xml')
    cases = etree.parse(tmp_path / 'junit.xml').findall('.//testcase')
    names = [element.get('name') for element in cases if not element.get('classname').startswith('incident')]
    assert len(names) == len(set(names)) == 5
    assert {'cpu/system STREAM size=big triad on n1', 'gpu/system STREAM', 'cpu/other STREAM'} <= set(names)
    (gpu,) = (element for element in cases if element.get('name') == 'gpu/system STREAM')
    assert gpu.find('skipped').get('message') == '100 no reference: no reference to judge by'


def test_json_is_json_for_every_reader(work):
    work.ingest(report(case(metrics={'triad': metric([float('nan')])})))
    result = work.run('compare', '--format', 'json')
    json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f'{name} is no JSON'))


def test_references_come_from_the_folder_given(work):
    assert load_references('cluster', work.sites).rows == []


def test_junit_leaves_out_what_xml_cannot_hold(work, tmp_path):
    failed = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'x'}
    work.ingest(report(case(metrics={'tri\x01ad': metric([1.0])}, **failed)))
    work.run('compare', '--junit', tmp_path / 'junit.xml')
    cases = etree.parse(tmp_path / 'junit.xml').findall('.//testcase')
    assert 'cpu/system STREAM size=big triad' in [element.get('name') for element in cases]


@pytest.mark.parametrize(
    ('values', 'places'),
    [([1234.0, 0.01234], 5), ([1234.0, 5678.0], 0), ([12.34, None, 0.0], 2), ([1e-12], 0), ([3e-8], 9), ([], 0)],
)
def test_a_column_has_four_digits_of_its_smallest_number(values, places):
    assert decimals(values) == places
