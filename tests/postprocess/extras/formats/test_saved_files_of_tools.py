# SPDX-License-Identifier: BSD-3-Clause
"""Saved files of other tools, recorded in tests/data/formats, become the numbers that they hold."""

import json
import random
import re
from fnmatch import fnmatch

import pytest
from saved_files import cut_anywhere, found_in, saved

from plumbline.errors import InputError
from postprocess.readers.measurements import read_measurements, readers

GBS, S = ('GB/s', 'higher'), ('s', 'lower')
#: Format -> file, the one series of this pattern, its mean as it is printed or worked out by hand, unit and direction.
RECORDED = {
    'jube': [
        ('jube-2.7.1.csv', 'memory mbytes=8 seconds -', (0.879872 + 0.782941) / 2, *S),
        ('jube-2.7.1.csv', 'memory mbytes=16 rate -', 1.75, *GBS),
        ('jube-2.7.1.db', 'results mbytes=16 seconds -', (3.50316 + 3.44659) / 2, '', 'lower'),
        ('jube-2.7.1.db', 'results mbytes=8 rate -', 3.0, '', 'higher'),
    ],
    'xdmod': [
        ('xdmod-appkernels.csv', 'IOR processing_units=2 nodes Wall Clock Time -', 211.25, '', 'lower'),
    ],
    'conbench': [
        ('conbench-2024.3.20.json', 'copy mbytes=16,suite=memory value -', 0.825493897, *GBS),
    ],
    'ramble': [
        ('ramble-0.5.0.json', 'dd experiment=dd_8,* Copy time -', (1.47842 + 1.4731) / 2, *S),
        ('ramble-0.5.0.json', 'dd experiment=dd_16,* Copy rate -', 1.2, *GBS),
    ],
    'bencher': [
        ('bencher.json', 'copy of 16 MiB - latency -', 1195814.5, 'ns', 'lower'),
        ('bencher.json', 'program - file-size -', 1048576.0, 'B', 'lower'),
    ],
    'pyperf': [('pyperf-2.10.0.json', 'sum_1000 - value -', 0.000166637364583, *S)],
    'pytest-benchmark': [('pytest-benchmark-5.3.1.json', 'test_b.py::test_sum n=1000 time -', 1.53081e-05, *S)],
    'asv': [
        ('asv-0.6.6.json', 'b.Sum.time_sum arg1=10000 value -', 0.00017083, *S),
        ('asv-0.6.6.json', 'b.track_size - value -', 42.0, '', 'lower'),
    ],
    'hyperfine': [('hyperfine-1.15.0.json', 'sleep 0.01 n=1 time -', 0.0216139579, *S)],  # its own mean
    'github-action-benchmark': [
        ('github-action-benchmark.js', 'str10_copy - value -', 3633483.9, 'ns/iter', 'lower'),
    ],
    'google-benchmark': [
        ('comm_scope-0.12.0-cuda.txt',
         'Comm_cudaMemcpyAsync_GPUToGPU *log2(N):8,* real_time -', 83.006545, 'ns', 'lower'),
        ('user-counter.json', '* FOM: GB/s -', 40.0, *GBS),
    ],
    'superbench': [
        ('superbench.jsonl', 'nccl-bw:ib - allreduce_1073741824_busbw -', 23.67, '', 'higher'),
        ('superbench.jsonl', 'nccl-bw:ib - allreduce_134217728_time -', 11554.0, '', 'lower'),
    ],
}  # fmt: skip
#: Formats whose files hold a case that failed, too.
WITH_FAULTS = {'ramble', 'conbench'}


@pytest.mark.parametrize('name', RECORDED)
def test_the_numbers_of_a_file(name):
    for file, pattern, mean, unit, better in RECORDED[name]:
        found = found_in(name, saved(file))
        ((value, *more),) = (value for key, value in found.numbers.items() if fnmatch(key, pattern))
        assert (value, *more[:2]) == (pytest.approx(mean, rel=1e-5), unit, better), (file, pattern)
        assert bool(found.failed) is (name in WITH_FAULTS), found.failed


def test_each_format_of_a_tool_has_a_recorded_file():
    assert {name for name, reader in readers().items() if '.extras.formats.' in reader.value} == {*RECORDED}


def test_what_a_tool_lost_or_calls_failed_fails_its_case():
    lost = found_in('ramble', saved('ramble-0.5.0.json')).failed
    assert lost == ['dd.memory.dd_16.2 has no number of "Copy rate"']  # whose RAMBLE_STATUS is SUCCESS
    assert found_in('conbench', saved('conbench-2024.3.20.json')).failed == ['MemoryError']


#: Formats that do not say how many lines or blocks they hold.
OPEN_ENDED = ('jube', 'superbench', 'xdmod')


@pytest.mark.parametrize('name', RECORDED)
def test_a_file_of_a_tool_that_was_cut_short_is_named_or_read_as_far_as_it_goes(tmp_path, name):
    cut_anywhere(tmp_path / 'cut', name, saved(RECORDED[name][0][0]).read_bytes(), name in OPEN_ENDED)


SCALARS = [None, '', 7, 'x', [], {}, True, '9' * 400]


@pytest.mark.parametrize('name', ['google-benchmark', 'hyperfine', 'superbench'])
def test_another_value_somewhere_is_read_or_named(tmp_path, name):
    def places(node, path=()):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(value, (*path, key)) if isinstance(value, (dict, list)) else [(*path, key)]

    text = saved(RECORDED[name][0][0]).read_text()
    lines = text.splitlines() if name == 'superbench' else [text]
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


XDMOD = """title
"App Kernel Data"
parameters
"App Kernel = K","Resource = R","Metric = Wall Clock Time","Processing Units = 1 node"
start,end
2026-11-02,2026-11-02
---------
Date,Value,Control,Changed
"2026-11-02 04:12:33",0,1,no
---------
"""


@pytest.mark.parametrize('value', [0, -1])
@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('google-benchmark', '{"context": {"date": "2026-01-02"}, "benchmarks": [{"name": "k", "real_time": 0}]}'),
        ('hyperfine', '{"results": [{"command": "k", "mean": 0, "times": [0]}]}'),
        ('bencher', '{"k": {"latency": {"value": 0}}}'),
        ('github-action-benchmark', '[{"name": "k", "value": 0, "unit": "s"}]'),
        ('superbench', '{"node": "n1", "k/step_time": 0}'),
        ('xdmod', XDMOD),
    ],
)  # fmt: skip
def test_a_time_of_zero_or_below_fails_in_each_format(tmp_path, name, text, value):
    (path := tmp_path / 'a.json').write_text(re.sub(r'(?<=[ \[,])0(?=[]},])', str(value), text, count=2))
    (why,) = found_in(name, path).failed
    assert f'{value} ' in why and 'is no measurement' in why
