# SPDX-License-Identifier: BSD-3-Clause
"""Measured values for OpenMetrics and InfluxDB, a night for Prometheus, and the dashboard that draws them."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from run_reports import BEGAN, SITE, case, metric, report
from scratch import ROOT

from postprocess.extras.exports import series, textfile
from postprocess.results.store import Store


def export(work, *words):
    return work.run('export', *words)


def test_export_as_openmetrics_is_read_by_prometheus(work, results):
    text = export(work, '--to', 'openmetrics').stdout
    (family,) = openmetrics.text_string_to_metric_families(text)
    measured = results.metrics().query("status == 'measured'")
    assert len(family.samples) == len(measured)
    wanted = {'check': 'OsuDeviceLatency', 'metric': 'latency', 'dim_pair': '0-1', 'dim_message_bytes': '8'}
    points = [point for point in family.samples if wanted.items() <= point.labels.items()]
    assert [point.value for point in points] == pytest.approx([2.55, 2.5755, 2.601])
    assert [point.timestamp for point in points] == sorted(point.timestamp for point in points)
    (other,) = (point for point in family.samples if point.labels['site'] == 'other')
    assert (other.value, float(other.timestamp)) == (8.0, 1_794_479_931), 'in s: BEGAN less nine days'
    assert points[0].labels['unit'] == 'us' and points[0].labels['site'] == SITE
    if promtool := shutil.which('promtool'):
        check = subprocess.run([promtool, 'check', 'metrics'], input=text, capture_output=True, text=True, check=False)
        assert check.returncode == 0 and not check.stderr, check.stderr


def test_export_as_lines_of_influxdb_has_the_same_points(work, results):
    work.ingest(report(case(parameters='size=1 GB,how=a=b', metrics={'rate': metric([5.0])}), uuid='eeee0000'))
    lines = export(work, '--to', 'influx').stdout.splitlines()
    assert len(lines) == len(results.metrics().query("status == 'measured'"))
    (line,) = (line for line in lines if ',metric=rate,' in line)
    head, fields, time = re.split(r'(?<!\\) ', line)
    name, *tags = re.split(r'(?<!\\),', head)
    pairs = {key: re.sub(r'\\(.)', r'\1', value) for key, value in (re.split(r'(?<!\\)=', tag) for tag in tags)}
    assert name == 'plumbline_measured' and pairs['params'] == 'how=a=b,size=1 GB' and pairs['nodes'] == 'n1'
    assert fields == 'mean=5,min=5,max=5,n=1i' and int(time) == int(BEGAN) * 10**9


def test_only_the_table_metrics_is_written(work, results):
    for words in (['--table', 'samples'], ['--dims']):
        found = export(work, '--to', 'openmetrics', *words)
        assert found.exit_code == 2 and '--table' in found.stderr
    assert 'csv, parquet, influx, openmetrics' in export(work, '--to', 'nosuch').stderr


def test_the_points_of_few_sessions_are_held_at_a_time(work, results, monkeypatch):
    whole, held, stream = export(work, '--to', 'influx').stdout, [], Store.stream
    monkeypatch.setattr('postprocess.results.store._ROWS_AT_ONCE', 5)

    def seen(*arguments):
        for table in stream(*arguments):
            held.append(table.num_rows)
            yield table

    monkeypatch.setattr(Store, 'stream', seen)
    assert export(work, '--to', 'influx').stdout == whole
    assert len(held) >= 4 and max(held) < whole.count('\n') / 2


def test_prometheus_reads_the_file_of_a_night():
    one = {'id': 'a1b2c3', 'state': 'open', 'kind': 'NODE', 'where': 'n5', 'what': 'exit code "3"', 'nodes': ['n5']}
    one |= {'since': '2026-11-22', 'sessions': 2, 'checks': ['STREAM', '"x"'], 'loss': None}
    others = [
        one | {'id': 'b', 'kind': 'SYSTEM', 'where': 'a\\b "c"\nd', 'loss': 25.0},
        one | {'id': 'c', 'state': 'acknowledged'},
    ]
    before, counts = time.time(), {'regressed': 2, 'ok': 40}
    text = textfile.to_prometheus('demo', 'nightly', counts, 1, [one, *others], 1)
    found = {family.name: family.samples for family in text_string_to_metric_families(text)}
    assert {sample.labels['verdict']: sample.value for sample in found['plumbline_verdicts']} == counts
    states = {sample.labels['state']: sample.value for sample in found['plumbline_incidents']}
    assert states == {'open': 2, 'intermittent': 0, 'acknowledged': 1, 'suspected': 0, 'healing': 0, 'closed': 0}
    first = found['plumbline_incident_sessions'][0]
    assert (first.labels['nodes'], first.labels['checks'], first.value) == ('n5', 'STREAM,"x"', 2)
    assert 'what' not in first.labels, 'it holds numbers, each of which would begin a series'
    (loss,) = found['plumbline_incident_loss']
    assert (loss.labels['where'], loss.value) == ('a\\b "c"\nd', 0.25), 'the label was not escaped'
    assert list(found)[:3] == ['plumbline_incidents', 'plumbline_incident_sessions', 'plumbline_incident_loss']
    assert found['plumbline_exit_code'][0].value == found['plumbline_problems'][0].value == 1
    assert before - 1 <= found['plumbline_last_run_seconds'][0].value <= time.time() + 1


def test_the_dashboard_asks_for_what_is_written(tmp_path):
    """Its expressions name our metrics and labels; promtool parses them where it is installed. No Grafana here."""
    board = json.loads((ROOT / 'ci/examples/grafana.json').read_text())
    panels = board['panels']
    declared = {variable['name'] for variable in board['templating']['list']}
    assert set(re.findall(r'\$\{?(\w+)', json.dumps(board))) <= declared
    asked = [target['expr'] for panel in panels for target in panel['targets']]
    asked += [variable['query']['query'] for variable in board['templating']['list'][1:]]
    written = Path(textfile.__file__).read_text() + series.FAMILY
    for name in re.findall(r'plumbline_\w+', ' '.join(asked)):
        assert name in written or name.replace('plumbline_incident_', "_incident('") in written, name
    if promtool := shutil.which('promtool'):
        rules = [
            {'record': f'r{i}', 'expr': re.sub(r'\$\w+', 'x', text)}
            for i, text in enumerate(asked)
            if 'label_values' not in text
        ]
        (path := tmp_path / 'rules.yml').write_text(yaml.safe_dump({'groups': [{'name': 'all', 'rules': rules}]}))
        subprocess.run([promtool, 'check', 'rules', path], check=True)
