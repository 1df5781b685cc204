# SPDX-License-Identifier: BSD-3-Clause
"""Files of other tools on the command line: what is wrong is named, and what has no direction is told."""

import json

import pytest
from saved_files import assert_is_refused, ingest, numbers

from postprocess.extras.formats import superbench
from postprocess.readers.measurements import read_measurements
from postprocess.readers.rules import Rules


@pytest.mark.parametrize(('name', 'text', 'said'), [
    ('hyperfine', '{"result": []}', "not of the format hyperfine: it has no 'results'"),
    ('google-benchmark',
     '{"context": {"date": "2026-01-02"}, "benchmarks": [{"name": "alone", "repetitions": 3, "real_time": 1.5}]}',
     'alone: expected 3 repetitions, found 1'),
    ('jube', 'number,seconds\n1,2.5\n', 'expected a column with a unit'),
    ('jube', 'number,seconds[s]\n1,2.5\n1', 'the last line has no end'),
    ('jube', 'SQLite format 3\0 and more', 'not a database'),
    ('xdmod', 'title\n"App Kernels Success Rates"\n', 'expected a line ---------'),
    ('conbench', '{"tags": {"name": "a"}, "timestamp": "2026-11-01T00:00:00"}', 'expected stats.data or error'),
    ('bencher', '{"a": {"latency": {"value": 1}, "latency": {"value": 2}}}', 'is there twice'),
    ('bencher', '{"a": {"latency": {"value": Infinity}}}', 'expected a finite number'),
])  # fmt: skip
def test_a_file_that_is_wrong_or_incomplete_is_named_and_nothing_is_stored(work, tmp_path, name, text, said):
    assert_is_refused(work, tmp_path / 'a.csv', name, text, said)


def test_a_number_without_a_direction_is_told_and_a_rule_decides_it(work, tmp_path):
    path = tmp_path / 'run.json'
    path.write_text(json.dumps([
        {'name': 'server', 'value': 50, 'unit': 'Megabytes'}, {'name': 'start', 'value': 2, 'unit': 'seconds'},
        {'name': 'copy', 'value': 3, 'unit': 'B/op'}, {'name': 'sent', 'value': 4, 'unit': 'ops/s'},
    ]))  # fmt: skip
    told = ' '.join(ingest(work, path, 'github-action-benchmark').split())
    assert 'higher is assumed: server value in Megabytes; a rule such as `- {metric: value, better: lower}`' in told
    directions = {key[0]: value[2] for key, value in numbers(work)[0].items()}
    assert directions == {'server': 'higher', 'start': 'lower', 'copy': 'lower', 'sent': 'higher'}

    def stored(rule):
        (report,) = read_measurements(path, 'github-action-benchmark', 'box', Rules((rule,)))
        server, start, *_ = [
            (row.quantity.better, row.judged, row.quantity.unit, row.summary.mean) for row in report.metrics
        ]
        return server, start, [value for row in report.metrics for *_, value in row.samples], len(report.undecided)

    start, samples = ('lower', True, 's', 2), [50, 2, 3, 4]
    lower = stored({'check': 'server', 'better': 'lower'})
    assert lower == (('lower', True, 'Megabytes', 50), start, samples, 0)
    shown = stored({'check': 'server', 'judged': False})
    assert shown == (('higher', False, 'Megabytes', 50), start, samples, 0)
    converted = stored({'unit': 's', 'convert_to': 'ms'})
    assert converted == (('higher', True, 'Megabytes', 50), ('lower', True, 'ms', 2000), [50, 2000, 3, 4], 1)


@pytest.mark.parametrize(
    ('metric', 'better'),
    [
        ('gpcnet-network-test/rr_two-sided_lat_avg', 'lower'), ('kernel-launch/event_overhead:0', 'lower'),
        ('disk-benchmark/nvme0n1_rand_read_write_read_lat_ns_99.9', 'lower'), ('kernel-launch/wall_time', 'lower'),
        ('pytorch-sharding-matmul/allreduce:1', 'lower'), ('nccl-bw/allreduce_8_busbw:0', 'higher'),
        ('pytorch-lstm/fp16_train_throughput', 'higher'), ('gemm-flops/fp64_flops:0', 'higher'),
    ],
)  # fmt: skip
def test_directions_of_superbench_are_those_of_the_units_in_its_manual(tmp_path, metric, better):
    path = tmp_path / 'results-summary.jsonl'
    path.write_text(json.dumps({'node': 'n1', metric: 2.5}))
    (found,) = superbench.read(path)
    assert (found.value, found.better) == (2.5, better)
