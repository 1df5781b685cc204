# SPDX-License-Identifier: BSD-3-Clause
"""`suite.yaml`: what decides how the numbers of other suites are judged."""

import json

import pytest
from suite_reports import report, rows, rules

from postprocess.results.store import Store


@pytest.fixture(autouse=True)
def sites(work, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))


def test_a_direction_that_nothing_tells_is_said_and_a_rule_decides_it(work):
    said = work.run('ingest', work.write(report([('errors', 3, 'count'), ('rate', 9.0, 'GB/s')])))
    assert 'higher is assumed: Sizes errors in count; a rule such as' in said.output.replace('\n', ' ')
    assert '`plumbline init --suite REPORT` lists' in said.output.replace('\n', ' ')
    rules(work, 'rules:\n  - {metric: err*, better: higher}\n  - {check: Siz*, metric: errors, better: lower}\n')
    said = work.run('ingest', work.write(report([('errors', 3, 'count')], number=1)))
    assert [row.quantity.better for row in rows(work)][-1] == 'lower' and 'assumed' not in said.output


def test_dims_come_out_of_names_and_parameters(work):
    rules(work, r"""
rules:
  - {name: '(?P<metric>\w+) at (?P<message_bytes>\d+) B', floor: 0.04, usual_spread: 0.015}
  - {check: Sizes, dims: [size]}
  - {metric: setup, judged: false}
""")  # fmt: skip
    work.ingest(report([('rate at 64 B', 7.5, 'GB/s'), ('setup', 1.0, 's')]))
    found = {row.id.metric: row for row in rows(work)}
    rate = found['rate']
    assert dict(rate.id.dims) == {'message_bytes': '64', 'size': '8'} and dict(rate.id.params) == {'threads': '2'}
    assert rate.stated == {'floor': 0.04, 'usual_spread': 0.015} and rate.judged and not found['setup'].judged


def test_units_of_one_kind_are_one_series(work):
    work.ingest(report([('rate', 7.5, 'GB/s'), ('delay', 2.0, 'us')]))
    said = work.run('ingest', work.write(report([('rate', 7600.0, 'MBytes/sec'), ('delay', 2.5e-6, 'Seconds')], 1)))
    assert 'Sizes rate is in MB/s, converted to GB/s as before' in said.output
    delay, again, rate, more = sorted(rows(work), key=lambda row: (row.id.metric, row.summary.mean))
    assert delay.id == again.id and again.quantity.unit == 'us' and again.summary.mean == pytest.approx(2.5)
    assert rate.id == more.id and more.quantity.unit == 'GB/s' and more.summary.mean == pytest.approx(7.6)
    rules(work, 'rules: [{metric: speed, convert_to: MB/s}]')
    work.ingest(report([('speed', 1.5, 'GB/s')], 2))
    assert [(row.quantity.unit, row.summary.mean) for row in rows(work) if row.id.metric == 'speed'] == [('MB/s', 1500)]
    said = work.run('ingest', work.write(report([('speed', 1.5, 's')], 3)))
    assert said.exit_code == 2 and 'convert_to of suite.yaml: s is not of the same kind as MB/s' in said.output


@pytest.mark.parametrize(('text', 'said'), [
    ('rules:\n  - {check: A}\n  - {beter: lower}\n', ':3: rules.1.beter: unknown key: did you mean better?'),
    ('rules:\n  - better: low\n', ":2: rules.0.better: expected one of higher, lower; found 'low'"),
    ('rules:\n  - floor: 5\n', ':2: rules.0.floor: '), ("rules:\n  - name: 'x_('\n", ':2: rules.0.name: '),
    ("rules:\n  - name: 'x_(?P<n>.)'\n", ':2: rules.0.name: expected a group of the name metric'),
    ('rules:\n  - {metric: x, dims: [n]}\n', ':2: rules.0.dims: are of whole tests; expected no metric beside it'),
    ('rules:\n  - {floor: 0.1, floor: 0.2}\n', ':2: rules.0.floor: is there twice, first in line 2'),
    ('{}\n', ':1: rules: is missing'), ('rules: [\n', ':2: not valid YAML'),
])  # fmt: skip
def test_mistakes_of_rules_are_named_and_nothing_is_stored(work, text, said):
    path = rules(work, text)
    result = work.run('ingest', work.write(report([('rate', 7.5, 'GB/s')])))
    assert result.exit_code == 2 and f'{path}{said}' in result.output, result.output
    assert not Store(work.results).sites()


def test_a_repaired_session_keeps_what_the_rules_say(work):
    rules(work, 'rules:\n  - {metric: errors, better: lower}\n')
    content = report([('errors', 3, 'count')])
    (work.results / 'reports').mkdir(parents=True)
    (work.results / 'reports/a.json').write_text(json.dumps(content))
    work.ingest(content)
    (path,) = work.results.glob('store/samples/*/*/*.parquet')
    path.write_bytes(b'no Parquet')
    said = work.run('store repair')
    assert said.exit_code == 0 and 'is ingested again: 1 sample' in said.stdout, said.output
    assert [row.quantity.better for row in rows(work)] == ['lower']
