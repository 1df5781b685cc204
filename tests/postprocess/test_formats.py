# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that no ReFrame made: each reader on a real file, cut short, and with a loss that must be found."""

import json
import os
import random

import duckdb
import pytest
from run_reports import BEGAN
from scratch import OUTPUTS, ROOT

from plumbline.errors import InputError
from postprocess.readers.formats import READERS
from postprocess.readers.measurements import read_measurements
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in

FILES = ROOT / 'tests/data/formats'
DAY = 86400
GOOGLE = OUTPUTS / 'comm_scope-0.12.0-cuda.txt'
REAL = {
    'google-benchmark': GOOGLE, 'hyperfine': FILES / 'hyperfine-1.15.0.json', 'superbench': FILES / 'superbench.jsonl',
    'github-action-benchmark': FILES / 'github-action-benchmark.js',
}  # fmt: skip
TABLE = """\
session,time,partition,environ,check,params,metric,dims,unit,better,value,node,trial
a,2026-11-01T02:00:00+01:00,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,,95.125,n1,1
a,2026-11-01T02:00:00+01:00,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,,95.5,n1,2
a,2026-11-01T02:00:00+01:00,cpu,gnu,Solve,,time,,s,,12.25,n2,
b,1793498400,cpu,gnu,Stream,"size=8,threads=2",rate,kernel=triad,GB/s,higher,94.75,n1,1
"""


def ingest(work, path, name, code=0):
    answer = work.run('ingest', '--format', name, '--site', 'box', path)
    assert answer.exit_code == code, answer.output
    return answer.output


def numbers(work):
    """Each stored series: check, params, dims, metric -> mean, unit, better, n; of the sessions in their order."""

    def named(of):
        return ','.join(f'{name}={value}' for name, value in of)

    store = Store(work.results)
    sessions = sorted(store.sessions('box'), key=lambda one: one.started)
    return [
        {
            (row.id.check, named(row.id.params), named(row.id.dims), row.id.metric): (
                row.summary.mean, row.quantity.unit, row.quantity.better, row.summary.n,
            )
            for row in measured_in(store, session)
            if row.summary.n
        }
        for session in sessions
    ]  # fmt: skip


EXPECTED_OF_TABLE = [
    {
        ('Stream', 'size=8,threads=2', 'kernel=triad', 'rate'): (95.3125, 'GB/s', 'higher', 2),
        ('Solve', '', '', 'time'): (12.25, 's', 'lower', 1),
    },
    {('Stream', 'size=8,threads=2', 'kernel=triad', 'rate'): (94.75, 'GB/s', 'higher', 1)},
]


@pytest.mark.parametrize('kind', ['csv', 'jsonl', 'parquet'])
def test_a_table(work, tmp_path, kind):
    (tmp_path / 'a.csv').write_text(TABLE)
    path = tmp_path / f'a.{kind}'
    if kind != 'csv':
        options = {'jsonl': '', 'parquet': '(FORMAT parquet)'}[kind] or '(FORMAT json)'
        duckdb.sql(f"COPY (FROM read_csv('{tmp_path}/a.csv', all_varchar = true)) TO '{path}' {options}")
    assert ingest(work, path, 'table').count(' of box: ') == 2
    assert numbers(work) == EXPECTED_OF_TABLE
    first, second = sorted(Store(work.results).sessions('box'), key=lambda one: one.started)
    assert {case.check: case.trials for case in Store(work.results).cases(first)} == {'Stream': 2, 'Solve': 1}
    assert f'{first.started:%Y-%m-%d %H:%M}' == '2026-11-01 01:00' and first.session[:8] != second.session[:8]
    assert 'nothing changed' in ingest(work, path, 'table')


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('check,metric\nA,b\n', 'found no value'),
        ('check,metric,value,colour\nA,b,1,red\n', 'found colour'),
        ('check,metric,value,better\nA,b,1,up\n', 'expected higher or lower'),
        ('check,metric,value\nA,b,fast\n', 'row 1'),
        ('check,metric,value,params\nA,b,1,size\n', 'expected name=value'),
        ('check,metric,value,time\nA,b,1,yesterday\n', 'yesterday'),
        ('check,metric,value,time\nA,b,1,99999999999999\n', 'a.csv'),
        ('check,metric,value\n', 'has no number'),
    ],
)  # fmt: skip
def test_a_wrong_table_is_named(work, tmp_path, text, said):
    (tmp_path / 'a.csv').write_text(text)
    answer = ingest(work, tmp_path / 'a.csv', 'table', code=2)
    assert said in answer and 'a.csv' in answer and not Store(work.results).sites()


def test_google_benchmark(work):
    assert ' 8 cases, 16 samples' in ingest(work, GOOGLE, 'google-benchmark')
    (found,) = numbers(work)
    document = json.loads(GOOGLE.read_text())
    times = [value[0] for key, value in found.items() if key[3] == 'real_time']
    assert sorted(times) == sorted(entry['real_time'] for entry in document['benchmarks'])


def test_hyperfine(work):
    ingest(work, REAL['hyperfine'], 'hyperfine')
    (found,) = numbers(work)
    assert found[('sleep 0.01', 'n=1', '', 'time')] == (pytest.approx(0.0216139579), 's', 'lower', 5)  # its own mean


def test_github_action_benchmark(work):
    ingest(work, REAL['github-action-benchmark'], 'github-action-benchmark')
    first, second = numbers(work)
    assert first[('u64_copy', '', '', 'value')] == (156582.0, 'ns/iter', 'lower', 1)
    assert second[('str10_copy', '', '', 'value')] == (3633483.9, 'ns/iter', 'lower', 1)


def test_superbench(work, tmp_path):
    ingest(work, REAL['superbench'], 'superbench')
    (found,) = numbers(work)
    assert found[('nccl-bw:ib', '', '', 'allreduce_1073741824_busbw')] == (23.67, '', 'higher', 1)
    assert found[('nccl-bw:ib', '', '', 'allreduce_134217728_time')] == (11554.0, '', 'lower', 1)
    bad = tmp_path / 'bad.jsonl'
    bad.write_text(
        REAL['superbench'].read_text().replace('"nccl-bw:ib/return_code:1": 0', '"nccl-bw:ib/return_code:1": 3', 1)
    )
    ingest(work, bad, 'superbench')
    red = work.run('compare', '--site', 'box')
    assert red.exit_code == 1 and 'return code 3' in ' '.join(red.stdout.split()), red.stdout


def nights(name, folder):
    """Files of ten nights of a real one whose numbers move by 0.3 %, and of one in which a rate is 7 % less."""
    choose = random.Random(5)
    for night in range(12):
        factor = 0.93 if night == 11 else 1 + choose.gauss(0, 0.003)
        began, path = BEGAN + night * DAY, folder / f'{name}-{night}.csv'
        if name == 'table':
            path.write_text(f'time,check,metric,unit,value,node\n{began},Stream,rate,GB/s,{95 * factor},n1\n')
        elif name == 'google-benchmark':
            document = json.loads(GOOGLE.read_text())
            document['context']['date'] = f'2026-11-{night + 1:02}T02:00:00+00:00'
            for entry in document['benchmarks']:
                entry['real_time'] /= factor
                entry['items_per_second'] = entry.get('items_per_second', 1.0) * factor
            path.write_text(json.dumps(document))
        elif name == 'hyperfine':
            document = json.loads(REAL[name].read_text())
            for result in document['results']:
                result['times'] = [0.5 / factor * (1 + choose.gauss(0, 0.003)) for _ in range(5)]
            path.write_text(json.dumps(document))
        elif name == 'superbench':
            rows = [json.loads(line) for line in REAL[name].read_text().splitlines()]
            for row in rows:
                row |= {key: value * factor for key, value in row.items() if 'busbw' in key}
            path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
        else:
            values = [{'name': 'u64_copy', 'value': 156582 / factor, 'unit': 'ns/iter'}]
            path.write_text(json.dumps(values))
        os.utime(path, (began, began))
        yield path


@pytest.mark.parametrize('name', ['table', *REAL])
def test_a_loss_of_7_percent_is_found_the_same_night(work, tmp_path, name):
    *before, last = nights(name, tmp_path)
    for path in before[:10]:
        ingest(work, path, name)
    for step in ('propose', 'accept'):
        answer = work.run('record', step, '--site', 'box')
        assert answer.exit_code == 0, answer.output
    ingest(work, before[10], name)
    healthy = work.run('compare', '--site', 'box')
    assert healthy.exit_code == 0, healthy.output
    ingest(work, last, name)
    red = work.run('compare', '--site', 'box')
    assert red.exit_code == 1 and '1 incident open' in red.stdout, red.output
    check = {'table': 'Stream', 'hyperfine': 'sleep', 'superbench': 'nccl-bw:ib', 'google-benchmark': 'Comm'}
    assert check.get(name, 'u64_copy') in red.stdout and 'ci/nightly' not in red.stdout


@pytest.mark.parametrize('name', REAL)
def test_a_file_that_was_cut_short_is_named_or_read_as_far_as_it_goes(tmp_path, name):
    text = REAL[name].read_bytes()
    whole = len(next(iter(read_measurements(REAL[name], name, 'box'))).samples)
    path, choose = tmp_path / 'cut', random.Random(3)
    for length in [choose.randrange(len(text)) for _ in range(60)]:
        path.write_bytes(text[:length])
        try:
            for found in read_measurements(path, name, 'box'):
                assert name == 'superbench' and len(found.samples) <= whole  # whole lines of whole nodes
        except InputError as error:
            assert str(path) in str(error)


def test_a_package_registers_a_format(work, tmp_path, monkeypatch):
    (tmp_path / 'ours.py').write_text(
        'from plumbline.measurement import Measurement\n'
        'def read(path):\n    yield Measurement("Ours", "rate", float(path.read_text()), "GB/s")\n'
    )
    (tmp_path / 'ours-1.dist-info').mkdir()
    (tmp_path / 'ours-1.dist-info/METADATA').write_text('Metadata-Version: 2.1\nName: ours\nVersion: 1\n')
    (tmp_path / 'ours-1.dist-info/entry_points.txt').write_text('[plumbline.readers]\nours = ours:read\n')
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / 'a.txt').write_text('95.5')
    ingest(work, tmp_path / 'a.txt', 'ours')
    assert numbers(work) == [{('Ours', '', '', 'rate'): (95.5, 'GB/s', 'higher', 1)}]
    assert 'ours' in ingest(work, tmp_path / 'a.txt', 'nosuch', code=2)


def test_a_command_of_hyperfine_that_failed_is_an_incident(work, tmp_path):
    document = json.loads(REAL['hyperfine'].read_text())
    document['results'][1]['exit_codes'][2] = 4
    (tmp_path / 'a.json').write_text(json.dumps(document))
    ingest(work, tmp_path / 'a.json', 'hyperfine')
    red = work.run('compare', '--site', 'box')
    assert red.exit_code == 1 and 'exit code 4' in ' '.join(red.stdout.split()), red.stdout


SCALARS = [None, '', 7, 'x', [], {}, True, '9' * 400]


@pytest.mark.parametrize('name', ['google-benchmark', 'hyperfine', 'superbench'])
def test_another_value_somewhere_is_read_or_named(tmp_path, name):
    def places(node, path=()):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(value, (*path, key)) if isinstance(value, (dict, list)) else [(*path, key)]

    lines = REAL[name].read_text().splitlines() if name == 'superbench' else [REAL[name].read_text()]
    choose, file = random.Random(11), tmp_path / 'mutated'
    for _ in range(150):
        documents = [json.loads(line) for line in lines]
        *path, last = choose.choice(list(places(documents)))
        node = documents
        for key in path:
            node = node[key]
        node[last] = choose.choice(SCALARS)
        file.write_text('\n'.join(map(json.dumps, documents)))
        try:
            list(read_measurements(file, name, 'box'))
        except InputError as error:
            assert str(file) in str(error)


@pytest.mark.parametrize(
    ('metric', 'better'),
    [
        ('gpcnet-network-test/rr_two-sided_lat_avg', 'lower'), ('kernel-launch/event_overhead:0', 'lower'),
        ('disk-benchmark/nvme0n1_rand_read_write_read_lat_ns_99.9', 'lower'), ('kernel-launch/wall_time', 'lower'),
        ('cpu-memory-bw-latency/mem_bandwidth_matrix_numa_0_1_lat', 'lower'),
        ('pytorch-lstm/fp16_train_step_time', 'lower'),
        ('pytorch-sharding-matmul/allreduce:1', 'lower'), ('nccl-bw/allreduce_8_busbw:0', 'higher'),
        ('pytorch-lstm/fp16_train_throughput', 'higher'), ('gemm-flops/fp64_flops:0', 'higher'),
        ('cpu-memory-bw-latency/mem_max_bandwidth_all_reads_bw', 'higher'),
    ],
)  # fmt: skip
def test_directions_of_superbench_are_those_of_the_units_in_its_manual(tmp_path, metric, better):
    path = tmp_path / 'results-summary.jsonl'
    path.write_text(json.dumps({'node': 'n1', metric: 2.5}))
    (found,) = READERS['superbench'](path)
    assert (found.value, found.better) == (2.5, better)
