# SPDX-License-Identifier: BSD-3-Clause
"""Small files of each format, and every number that is read of them with all that is said of it."""

import dataclasses
import json
import math
import re
import time
from datetime import datetime, timedelta

import pytest
from rows import each_row

from plumbline.measurement import Measurement
from postprocess.extras.formats import common
from postprocess.readers.measurements import readers


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a text as a file of a format: each measurement as what it says beside the defaults; no number is None."""
    monkeypatch.setenv('TZ', 'UTC')
    time.tzset()
    defaults = {one.name: one.default for one in dataclasses.fields(Measurement)} | {'params': {}, 'dims': {}}

    def measurements(name, content, file='a.json'):
        (tmp_path / file).write_text(content if isinstance(content, str) else json.dumps(content))
        return [
            {
                key: None if isinstance(value, float) and math.isnan(value) else value
                for key, value in vars(one).items()
                if value != defaults[key]
            }
            for one in readers()[name].load()(tmp_path / file)
        ]

    yield measurements
    monkeypatch.undo()
    time.tzset()


def dd(name, repeat, figures, status='SUCCESS', repeats=2):
    """An experiment of Ramble: its figures are (origin type, name, unit, value)."""
    foms = [
        {'origin_type': kind, 'origin': 'perf' if kind == 'modifier' else 'dd', 'name': of, 'units': unit,
         'value': value}
        for kind, of, unit, value in figures
    ]  # fmt: skip
    suffix = f'.{repeat}' if repeat else ''
    return {
        'name': f'dd.memory.{name}{suffix}', 'experiment_name': f'{name}{suffix}', 'application_name': 'dd',
        'N_REPEATS': 0 if repeat else repeats, 'RAMBLE_VARIABLES': {'repeat_index': str(repeat)} if repeat else {},
        'RAMBLE_STATUS': status, 'workload_name': 'memory', 'n_nodes': '1',
        'CONTEXTS': [{'name': 'null', 'foms': foms}],
    }  # fmt: skip


SUMMARY = [
    ('summary::n_total_repeats', 'Experiment Summary', 'repeats', 2), ('summary::min', 'rate', 'GB/s', 2.0),
    ('summary::mean', 'rate', 'GB/s', 2.5), ('summary::max', 'rate', 'GB/s', 3.0),
]  # fmt: skip
RATE = ('application', 'rate', 'GB/s', '2.25')
PARAMS_OF_RAMBLE = {'experiment': 'a', 'workload': 'memory', 'n_nodes': '1'}
OF_RAMBLE = {'check': 'dd', 'params': PARAMS_OF_RAMBLE, 'metric': 'rate', 'unit': 'GB/s'}


@each_row(('experiments', 'found'), [
    # of repeats only the summary was kept: its mean counts, and nothing beside it
    ([dd('a', 0, SUMMARY)], [{'value': 2.5}]),
    # the summary of repeats that are there does not count
    ([dd('a', 0, SUMMARY), dd('a', 1, [RATE]), dd('a', 2, [('application', 'rate', 'GB/s', '2.75')])],
     [{'value': 2.25}, {'value': 2.75, 'trial': 2}]),
    # without repeats, what is no summary; a version is no number, and a number that should be one is missing
    ([dd('a', 0, [RATE, ('summary::mean', 'rate', 'GB/s', 9.0), ('application', 'version', '', '1.2a')], repeats=0)],
     [{'value': 2.25}]),
    ([dd('a', 0, [('application', 'rate', 'GB/s', 'none')], repeats=0)],
     [{'value': None, 'failed': 'dd.memory.a has no number of "rate"'}]),
    ([dd('a', 0, [('modifier', 'rate', 'GB/s', 1)], 'FAILED', repeats=0)],
     [{'value': 1.0, 'dims': {'origin': 'perf'}, 'failed': 'Ramble says FAILED of dd.memory.a'}]),
])  # fmt: skip
def test_of_ramble_the_repeats_count_or_their_mean(read, experiments, found):
    assert read('ramble', {'experiments': experiments}) == [OF_RAMBLE | one for one in found]


def test_what_ramble_lists_twice_or_not_is_refused(read):
    with pytest.raises(ValueError, match='expected repeats 1 to 2, found 0, 1'):
        read('ramble', {'experiments': [dd('a', 0, SUMMARY), dd('a', 1, [RATE])]})
    with pytest.raises(ValueError, match=r'dd\.memory\.a: repeat 1 is there twice'):
        read('ramble', {'experiments': [dd('a', 1, [RATE]), dd('a', 1, [RATE])]})
    with pytest.raises(ValueError, match=r'dd\.memory\.a: rate is there twice'):
        read('ramble', {'experiments': [dd('a', 0, [RATE, RATE], repeats=0)]})


NOON = datetime(2026, 11, 2, 12)
PYPERF = {
    'metadata': {'name': 'sum', 'unit': 'byte', 'hostname': 'n1'},
    'benchmarks': [{'runs': [{}, {'values': [1.5, 2]}, {'values': [3], 'metadata': {'date': '2026-11-02 12:00:00'}}]}],
}
GOOGLE = {
    'context': {'date': '2026-11-02T12:00:00Z', 'host_name': 'n1'},
    'benchmarks': [
        {'name': 'Copy/8/fast', 'real_time': 4.0, 'time_unit': 'us', 'items_per_second': 2.0,
         'bytes_per_second': 16.0},
        {'name': 'Copy/8/fast_mean', 'run_type': 'aggregate', 'real_time': 4.0},
        {'name': 'Bad', 'error_occurred': True, 'error_message': 'no GPU'},
    ],
}  # fmt: skip
ASV = {
    'version': 2, 'commit_hash': 'abc', 'params': {'machine': 'n1'},
    'result_columns': ['result', 'params', 'started_at', 'x'],
    'results': {
        'b.Sum.mem_sum': [[64, None], [['8', '16']], 1793620800000],
        'b.track_size': [None, [], 1793620800000],
    },
}  # fmt: skip
CONBENCH = [
    {'tags': {'name': 'size', 'n': 8}, 'stats': {'data': [4096, None], 'unit': 'B'},
     'timestamp': '2026-11-02T12:00:00Z', 'run_id': 'r1', 'machine_info': {'name': 'n1'}},
    {'tags': {'name': 'copy'}, 'error': {'type': 'E', 'stack': 'lost'}, 'timestamp': '2026-11-02T12:00:00Z'},
]  # fmt: skip
GITHUB = 'window.DATA = ' + json.dumps({'entries': {'my suite': [
    {'tool': 'customBiggerIsBetter', 'date': 1793620800000, 'commit': {'id': 'abc'},
     'benches': [{'name': 'a', 'value': 2, 'unit': 'ms'}]},
    {'tool': 'cargo', 'benches': [{'name': 'a', 'value': 2, 'unit': 'ms'}, {'name': 'b', 'value': 3}]},
    {'tool': 'go', 'benches': [
        {'name': 'd', 'value': 4, 'unit': 'ns/op\t127 B/op\t5 allocs/op'}, {'name': 'e', 'value': 5, 'unit': 'B/op'},
    ]},
    {'tool': 'jmh', 'benches': [{'name': 'f', 'value': 6, 'unit': 'ops/us'}]},
]}})  # fmt: skip
BYTES = {'check': 'sum', 'metric': 'value', 'unit': 'B', 'better': 'lower', 'node': 'n1'}
OF_GOOGLE = {'check': 'Copy', 'params': {'arg1': '8', 'arg2': 'fast'}, 'time': NOON, 'node': 'n1'}
OF_ASV = {'metric': 'value', 'better': 'lower', 'session': 'abc', 'time': NOON, 'node': 'n1'}
SIZE = {'check': 'size', 'params': {'n': 8}, 'metric': 'value', 'unit': 'B', 'better': 'lower', 'session': 'r1',
        'time': NOON, 'node': 'n1'}  # fmt: skip
OF_SUITE = {'check': 'a', 'metric': 'value', 'value': 2.0, 'unit': 'ms', 'environ': 'my_suite'}
FILES = [
    ('pyperf', PYPERF, [
        BYTES | {'value': 1.5}, BYTES | {'value': 2.0, 'trial': 2}, BYTES | {'value': 3.0, 'trial': 3, 'time': NOON},
    ]),
    ('google-benchmark', GOOGLE, [
        OF_GOOGLE | {'metric': 'real_time', 'value': 4.0, 'unit': 'us'},
        OF_GOOGLE | {'metric': 'bandwidth', 'value': 16.0, 'unit': 'B/s'},
        OF_GOOGLE | {'metric': 'rate', 'value': 2.0, 'unit': '1/s'},
        {'check': 'Bad', 'metric': 'real_time', 'value': None, 'unit': 'ns', 'time': NOON, 'node': 'n1',
         'failed': 'no GPU'},
    ]),
    # 1793620800 s since 1970 are 2026-11-02 12:00 in UTC
    ('asv', ASV, [
        OF_ASV | {'check': 'b.Sum.mem_sum', 'params': {'arg1': '8'}, 'value': 64.0, 'unit': 'B'},
        OF_ASV | {'check': 'b.Sum.mem_sum', 'params': {'arg1': '16'}, 'value': None, 'unit': 'B',
         'failed': 'it failed'},
        OF_ASV | {'check': 'b.track_size', 'value': None, 'failed': 'it failed'},
    ]),
    ('conbench', CONBENCH, [
        SIZE | {'value': 4096.0}, SIZE | {'value': None, 'trial': 2},
        {'check': 'copy', 'metric': 'value', 'value': None, 'time': NOON, 'failed': 'E; lost'},
    ]),
    ('github-action-benchmark', GITHUB, [
        OF_SUITE | {'better': 'higher', 'session': 'abc', 'time': NOON}, OF_SUITE | {'better': 'lower'},
        {'check': 'b', 'metric': 'value', 'value': 3.0, 'better': 'lower', 'environ': 'my_suite'},
        {'check': 'd', 'metric': 'value', 'value': 4.0, 'unit': 'ns/op', 'better': 'lower', 'environ': 'my_suite'},
        {'check': 'e', 'metric': 'value', 'value': 5.0, 'unit': 'B/op', 'better': 'lower', 'environ': 'my_suite'},
        {'check': 'f', 'metric': 'value', 'value': 6.0, 'unit': 'ops/us', 'environ': 'my_suite'},
    ]),
    ('github-action-benchmark', [{'name': 'a', 'value': 2, 'unit': 'ns/iter'}], [
        {'check': 'a', 'metric': 'value', 'value': 2.0, 'unit': 'ns/iter', 'environ': 'benchmark'},
    ]),
    ('bencher', {'a': {'latency': {'value': 2}, 'throughput': {'value': 3}, 'heap': {'value': 4}}}, [
        {'check': 'a', 'metric': 'latency', 'value': 2.0, 'unit': 'ns', 'better': 'lower'},
        {'check': 'a', 'metric': 'throughput', 'value': 3.0, 'unit': '1/s', 'better': 'higher'},
        {'check': 'a', 'metric': 'heap', 'value': 4.0},
    ]),
    ('bencher', {'a': {'Total bytes': {'value': 2}, 'L1 Hit Rate': {'value': 4}, 'I1 Miss Rate': {'value': 5}}}, [
        {'check': 'a', 'metric': 'Total bytes', 'value': 2.0, 'unit': 'B', 'better': 'lower'},
        {'check': 'a', 'metric': 'L1 Hit Rate', 'value': 4.0, 'better': 'higher'},
        {'check': 'a', 'metric': 'I1 Miss Rate', 'value': 5.0, 'better': 'lower'},
    ]),
    ('hyperfine', {'results': [
        {'command': 'a', 'mean': 2, 'times': [1, 3], 'exit_codes': [0, 0], 'parameters': {'n': '1'}},
        {'command': 'b', 'mean': 2, 'exit_codes': [0, 3, 4]},
    ]}, [
        {'check': 'a', 'params': {'n': '1'}, 'metric': 'time', 'value': 1.0, 'unit': 's'},
        {'check': 'a', 'params': {'n': '1'}, 'metric': 'time', 'value': 3.0, 'unit': 's', 'trial': 2},
        {'check': 'b', 'metric': 'time', 'value': 2.0, 'unit': 's', 'failed': 'exit code 3'},
    ]),
    ('pytest-benchmark', {'datetime': '2026-11-02T12:00:00+00:00', 'machine_info': {'node': 'n1'}, 'benchmarks': [
        {'fullname': 't.py::a[8]', 'params': {'n': 8}, 'stats': {'rounds': 2, 'mean': 2, 'data': [1, 3]}},
        {'fullname': 't.py::b', 'params': None, 'stats': {'rounds': 9, 'mean': 2}},
    ]}, [
        {'check': 't.py::a', 'params': {'n': 8}, 'metric': 'time', 'value': 1.0, 'unit': 's', 'time': NOON,
         'node': 'n1'},
        {'check': 't.py::a', 'params': {'n': 8}, 'metric': 'time', 'value': 3.0, 'unit': 's', 'time': NOON,
         'node': 'n1', 'trial': 2},
        {'check': 't.py::b', 'metric': 'time', 'value': 2.0, 'unit': 's', 'time': NOON, 'node': 'n1'},
    ]),
    ('superbench', json.dumps({
        'node': 'n1', 'nccl:ib/bw:3': 2, 'nccl:ib/return_code:0': 0, 'gpu/return_code': 3, 'monitor/gpu_power:0': 5,
        'gemm/lat_ns': 4, 'nccl/allreduce': 1,
    }), [
        {'check': 'nccl:ib', 'metric': 'bw', 'value': 2.0, 'better': 'higher', 'node': 'n1', 'dims': {'rank': '3'}},
        {'check': 'gpu', 'metric': 'return_code', 'value': 3.0, 'better': 'higher', 'node': 'n1',
         'failed': 'return code 3'},
        {'check': 'monitor', 'metric': 'gpu_power', 'value': 5.0, 'better': 'higher', 'node': 'n1',
         'dims': {'rank': '0'}, 'judged': False},
        {'check': 'gemm', 'metric': 'lat_ns', 'value': 4.0, 'better': 'lower', 'node': 'n1'},
        {'check': 'nccl', 'metric': 'allreduce', 'value': 1.0, 'better': 'lower', 'node': 'n1'},
    ]),
    ('jube', 'jube_benchmark_name;jube_benchmark_id;jube_benchmark_start;jube_wp_cycle;n;time[s];rate_std[GB/s]\n'
             'mem;7;2026-11-02 12:00:00;0;8;2.5;0.1\nmem;7;2026-11-02 12:00:00;0;8;;0.2\n', [
        {'check': 'mem', 'params': {'n': '8'}, 'metric': 'time', 'value': 2.5, 'unit': 's', 'time': NOON,
         'session': 'mem 7'},
        {'check': 'mem', 'params': {'n': '8'}, 'metric': 'rate_std', 'value': 0.1, 'unit': 'GB/s', 'time': NOON,
         'session': 'mem 7', 'judged': False},
        {'check': 'mem', 'params': {'n': '8'}, 'metric': 'time', 'value': None, 'unit': 's', 'time': NOON,
         'session': 'mem 7', 'trial': 2},
        {'check': 'mem', 'params': {'n': '8'}, 'metric': 'rate_std', 'value': 0.2, 'unit': 'GB/s', 'time': NOON,
         'session': 'mem 7', 'judged': False, 'trial': 2},
    ]),
]  # fmt: skip


@each_row(('name', 'content', 'found'), FILES)
def test_each_number_of_a_file_is_read_with_all_that_is_said_of_it(read, name, content, found):
    assert read(name, content) == found


#: A block of XDMoD of one run; its lines are numbered from 0.
XDMOD = """\
title
App Kernel Data
parameters
App Kernel = IOR,Resource = my site,Metric = Wall Clock Time,Processing Units = 2 nodes
start,end
2026-11-02,2026-11-03
---------
Date,Value,Control,Changed
2026-11-02 12:00:00,2.5,,
2026-11-03 12:00:00,,,
---------
"""


def test_two_blocks_of_xdmod_are_read_and_what_differs_is_refused(read):
    one = {'check': 'IOR', 'partition': 'my_site', 'metric': 'Wall Clock Time', 'better': 'lower',
           'params': {'processing_units': '2 nodes'}}  # fmt: skip
    first = one | {'value': 2.5, 'time': NOON, 'session': 'my site 2026-11-02'}
    second = one | {'value': None, 'time': NOON + timedelta(days=1), 'session': 'my site 2026-11-03'}
    gpu = XDMOD.replace('IOR', 'HPL')
    assert read('xdmod', XDMOD + gpu) == [first, second, first | {'check': 'HPL'}, second | {'check': 'HPL'}]
    for old, new, said in (
        ('Metric =', 'metric =', 'expected App Kernel, Resource, Metric, Processing Units, Date'),
        ('Value,Control', 'Control,Value', 'expected App Kernel, Resource, Metric, Processing Units, Date'),
        ('title\n', 'titles\n', 'expected a block of "App Kernel Data", found titles,App Kernel Data'),
        ('title\n', 'title\nmore\n', 'expected a block of "App Kernel Data"'),
        ('02,2026-11-03', '02,2026-11-04', 'expected runs from 2026-11-02 to 2026-11-04, found 2 others'),
        ('2.5,,', '2.5,', 'expected 4 fields, found 2026-11-02 12:00:00,2.5,'),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            read('xdmod', XDMOD.replace(old, new, 1))


def test_values_must_have_the_mean_that_is_stated():
    assert common.mean_of([1.0, 3.0], 2, 'a') is None
    with pytest.raises(ValueError, match=r'a: states a mean of 2.1, and its 2 values have 2.0'):
        common.mean_of([1.0, 3.0], 2.1, 'a')


@each_row(('metric', 'better'), [
    ('Wall Clock Time', 'lower'), ('rw_lat', 'lower'), ('file size', 'lower'), ('jitter', 'lower'),
    ('rate', 'higher'), ('Average STREAM Bandwidth', 'higher'), ('resized', ''), ('lateral', ''),
    ('timesteps_per_second', ''), ('Real-time throughput', ''),
])  # fmt: skip
def test_the_direction_follows_from_the_name(metric, better):
    assert common.better_by_name(metric) == better
