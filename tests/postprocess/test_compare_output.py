# SPDX-License-Identifier: BSD-3-Clause
"""What `plumbline compare` prints and writes: tables, CSV, Markdown, JSON and JUnit."""

import csv
import io
import json
from dataclasses import fields

import pytest
from jsonschema import Draft202012Validator
from lxml import etree
from run_reports import BEGAN, case, metric, reference, report
from scratch import ROOT

from plumbline.references import COLUMNS, RECORDED
from postprocess.verdicts.verdict import VERDICTS, Comparison
from postprocess.views.verdicts import COMPARED


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


def test_what_is_not_there_is_an_input_error(mixed):
    for words in (['ffff'], ['latest', 'ffff'], ['--site', 'nowhere'], ['--format', 'yaml']):
        assert mixed.run('compare', *words).exit_code == 2


def test_a_broken_reference_file_is_an_input_error(mixed):
    mixed.baseline.write_text('partition,check\n')
    result = mixed.run('compare')
    assert result.exit_code == 2
    columns = f'{",".join(COLUMNS)}, and perhaps {",".join(RECORDED)}'
    assert result.stderr == f'plumbline: {mixed.baseline}:1: expected the columns {columns}\n'


def test_every_row_is_printed_the_worst_first_in_columns(mixed):
    document = mixed.compare()
    assert list(document['counts']) == ['regressed', 'missing', 'failed', 'invalid', 'improved', 'ok', 'no_reference']
    assert [row['verdict'] for row in document['verdicts']] == list(document['counts'])
    result = mixed.run('compare', '--format', 'csv')
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row['metric'] for row in rows] == ['slow', 'lost', '*', 'wrong', 'fast', 'good', 'new']
    assert rows[0]['value'] == '50.5' and '3 cases expected, 2 ran' in result.stderr
    lines = [line for line in mixed.run('compare', '--format', 'markdown').stdout.splitlines() if line[:1] == '|']
    assert len(lines) == 2 + 7 and {line.replace('\\|', '').count('|') for line in lines} == {15}


def test_sizes_are_listed_by_their_value(work):
    curve = {f'latency message_bytes={size}': metric([1.0], 'us', 'lower') for size in (1024, 16384, 64)}
    work.ingest(report(case('OsuLatency', 'pair=same', curve, dims={'message_bytes': ('size', 'B')})))
    assert [row['dims'].partition('=')[2] for row in work.compare()['verdicts']] == ['64', '1024', '16384']


def test_the_summary_fits_80_columns_and_says_everything_that_is_wrong(mixed):
    result = mixed.run('compare', '--summary')
    # a path stays whole, so that it can be copied
    assert [line for line in result.stdout.splitlines() if len(line) > 80 and str(mixed.results) not in line] == []
    text = ' '.join(result.stdout.split())
    wrong = ('3 cases expected, 2 ran', '49.5 % less', 'above <peak> & "more" | [bold]', '<script>alert(1)</script>')
    summary = 'FAILED: 5 incidents open, 5 new; 1 regressed, 1 missing, 1 failed, 1 invalid, 1 improved'
    assert [words for words in (summary, *wrong) if words not in text] == []


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


def test_junit_is_well_formed_and_complete(mixed, tmp_path):
    path = tmp_path / 'junit.xml'
    assert mixed.run('compare', '--junit', path).exit_code == 1
    suites = {suite.get('name'): suite for suite in etree.parse(path).getroot()}
    assert list(suites) == ['cluster:incidents', 'cluster:cpu']
    suite = suites['cluster:cpu']
    assert (suite.get('tests'), suite.get('failures'), suite.get('skipped')) == ('5', '4', '0')
    testcases = {t.get('name').removeprefix('cpu/system '): t for t in suite}
    wrong = testcases['STREAM size=big wrong'].find('failure')
    assert (wrong.get('type'), wrong.get('message')) == (
        'invalid', 'wrong on n1: invalid: above <peak> & "more" | [bold]',
    )  # fmt: skip
    assert testcases['STREAM'].findtext('system-out') == '1 improved, 1 ok, 1 no reference'
    assert '<script>alert(1)</script>' in testcases['HPCC size=big *'].find('failure').get('message')
    incidents = {t.find('failure').get('message') for t in suites['cluster:incidents']}
    assert '3 cases expected, 2 ran' in incidents and len(incidents) == 5


def test_no_two_test_cases_of_junit_have_the_same_name_and_what_passed_is_one_a_check(work, tmp_path):
    entries = [
        case(metrics={'triad': metric([1.0], node=node)}, nodes=(node,), unique_name=f'STREAM_{number}')
        for number, node in enumerate(('n1', 'n2', 'n2'))
    ]
    entries += [case(metrics={f'm{i}': metric([1.0]) for i in range(100)}, partition='gpu')]
    entries += [case(metrics={'triad': metric([1.0])}, stack='other')]
    work.reference(reference())
    work.ingest(report(*entries))
    work.run('compare', '--junit', tmp_path / 'junit.xml')
    cases = etree.parse(tmp_path / 'junit.xml').findall('.//testcase')
    names = [element.get('name') for element in cases if not element.get('classname').startswith('incident')]
    assert len(names) == len(set(names)) == 5
    assert {'cpu/system STREAM size=big triad on n1', 'gpu/system STREAM', 'cpu/other STREAM'} <= set(names)
    (gpu,) = (element for element in cases if element.get('name') == 'gpu/system STREAM')
    assert gpu.find('skipped').get('message') == '100 no reference: no reference to judge by'


def test_what_xml_and_json_cannot_hold_is_left_out(work, tmp_path):
    failed = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'x'}
    work.ingest(report(case(metrics={'tri\x01ad': metric([float('nan')])}, **failed)))
    work.run('compare', '--junit', tmp_path / 'junit.xml')
    cases = etree.parse(tmp_path / 'junit.xml').findall('.//testcase')
    assert 'cpu/system STREAM size=big triad' in [element.get('name') for element in cases]
    printed = work.run('compare', '--format', 'json').stdout
    json.loads(printed, parse_constant=lambda name: pytest.fail(f'{name} is no JSON'))


# What `--format json` prints is what docs/compare.schema.json says

SCHEMA = json.loads((ROOT / 'docs/compare.schema.json').read_text(encoding='utf-8'))


def test_the_schema_is_one_and_knows_every_field():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA['$defs']['metric']['required'] == [column.key for column in COMPARED]
    assert SCHEMA['$defs']['metric']['properties']['verdict']['enum'] == list(VERDICTS)
    told = {field.name for field in fields(Comparison)} - {'busy_jobs'}  # as a number
    assert told - {'common_by_stand_in', 'fault'} <= set(SCHEMA['required'])  # as incidents; by `Digest.faults`


def test_documents_are_valid_and_one_with_a_field_more_or_less_is_not(work):
    """A session with every verdict that a single one can have, and the one before it."""
    work.reference(
        *(reference(metric=name) for name in ('ok', 'slow', 'fast', 'void', 'gone')), reference(params='size=lost')
    )
    work.reference(reference(metric='far', kind='elsewhere', mode=''), file='published.csv')
    values = {'ok': 100.0, 'slow': 50.0, 'fast': 150.0, 'far': 1.0, 'new': 1.0}
    metrics = {name: metric([value, value * 1.01]) for name, value in values.items()}
    metrics |= {'void': metric([1e9], invalid='above the peak'), 'gone': metric()}
    metrics |= {'shown': metric([1.0]) | {'judged': False}}
    entries = [case(metrics=metrics), case('HPCC', result='fail', fail_phase='run', fail_reason='killed')]
    for number, uuid in enumerate(('aaaa1111', 'bbbb2222')):
        work.ingest(report(*entries, uuid=uuid, mode='quick', began=BEGAN + number), problem='a <b>')
    schema = Draft202012Validator(SCHEMA)
    schema.validate(work.compare('aaaa', 'bbbb'))
    document = work.compare()
    schema.validate(document)
    assert set(document['counts']) == set(VERDICTS)
    assert not schema.is_valid(document | {'more': 1})
    del document['verdicts'][0]['limit']
    assert not schema.is_valid(document)
