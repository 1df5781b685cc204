# SPDX-License-Identifier: BSD-3-Clause
"""Comm|Scope's names and JSON: recorded, and broken in every way that a file of numbers can be."""

import json
import re
from dataclasses import replace

import pytest
from data import comm_scope_stand_in as stand_in
from described_nodes import TWO
from hypothesis import given
from hypothesis import strategies as st
from reading import value_of
from rows import each_row

from checks.core.reading.metrics import Metric, NotMeasured
from checks.gpu import comm_scope_output as scope
from checks.gpu.comm_scope import numa_ids

SMALL, LARGE = 2**8, 2**30
NAMES = {
    'cuda': [
        'Comm_cudart_kernel/0/1/0/real_time/threads:1',
        'Comm_cudaDeviceSynchronize/0/1/real_time/threads:1',
        'Comm_cudaMemcpyAsync_PinnedToGPU/0/1/log2(N):8/manual_time',
        'Comm_cudaMemcpyAsync_GPUToPinned/0/1/log2(N):30/manual_time',
        'Comm_cudaMemcpyAsync_GPUToGPU/0/0/1/log2(N):8/manual_time',
        'Comm_cudaMemcpyAsync_GPUToGPU/0/0/1/log2(N):30/manual_time',
        'Comm_cudaMemcpyAsync_GPUToGPUPeer/0/1/log2(N):8/manual_time',
        'Comm_cudaMemcpyAsync_GPUToGPUPeer/0/1/log2(N):30/manual_time',
    ],
    'hip': [
        'Comm_hip_kernel/0/1/0/real_time/threads:1',
        'Comm_hipDeviceSynchronize/0/1/real_time/threads:1',
        'Comm_hipMemcpyAsync_PinnedToGPU/0/1/log2(N):8/manual_time',
        'Comm_hipMemcpyAsync_GPUToPinned/0/1/log2(N):30/manual_time',
        'Comm_hipMemcpyAsync_GPUToGPU/0/1/log2(N):8/manual_time',
        'Comm_hipMemcpyAsync_GPUToGPU/0/1/log2(N):30/manual_time',
    ],
}
MODELS = list(NAMES)


def metrics_of(model: str) -> list[Metric]:
    """A metric for each of NAMES: a time, or a rate if it copies much."""
    kinds = {30: ('GB/s', 'higher')}
    return [
        scope.reading(Metric(name, *kinds.get(scope.bytes_of(name).bit_length() - 1, ('us', 'lower'))), name)
        for name in NAMES[model]
    ]


def outcome(output: str, model: str = 'cuda'):
    """The values of a case that passes; None where a fault or an unmeasured metric fails it."""
    try:
        measured = {metric.name: value_of(metric, output) for metric in metrics_of(model)}
    except NotMeasured:
        return None
    return None if scope.faults_of(output, NAMES[model]) else measured


@each_row('model', MODELS)
def test_the_names_are_those_that_version_0_12_0_registers(recorded, model):
    """Recorded on two devices and one NUMA domain of two cores."""
    listed = set(recorded(f'comm_scope-0.12.0-{model}-list.txt').splitlines())
    asked = [
        ('launch', 0, 1), ('wait', 0, 1), ('h2d', 0, 1, SMALL), ('d2h', 0, 1, LARGE), ('d2d', 0, 0, SMALL, 1),
        ('d2d', 0, 0, LARGE, 1),
    ]  # fmt: skip
    assert [scope.name_of(model, *words) for words in asked] == NAMES[model][:6]
    assert set(NAMES[model]) <= listed


@each_row('model', MODELS)
def test_the_filter_chooses_what_was_asked_and_nothing_else(recorded, model):
    listed = recorded(f'comm_scope-0.12.0-{model}-list.txt').splitlines()
    for names in (NAMES[model], NAMES[model][:1], NAMES[model][-2:]):
        wanted = scope.options_of(names, 0.05)[0].removeprefix('--benchmark_filter=')
        assert sorted(name for name in listed if re.search(wanted, name)) == sorted(names)
        assert not any(re.search(wanted, longer) for name in names for longer in (f'{name}6', f'x{name}'))


@each_row('model', MODELS)
def test_recorded_times_and_rates(recorded, model):
    output = recorded(f'comm_scope-0.12.0-{model}.txt')
    found = outcome(output, model)
    entries = {entry['name']: entry for entry in json.loads(output)['benchmarks']}
    for metric, value in zip(metrics_of(model), found.values(), strict=True):
        entry = entries[metric.name]
        assert entry['time_unit'] == 'ns'
        if metric.unit == 'us':
            assert value == pytest.approx(entry['real_time'] / 1e3)
        else:
            assert value == pytest.approx(entry['bytes_per_second'] / 1e9) == pytest.approx(2**30 / entry['real_time'])


def test_recorded_times_in_another_unit(recorded):
    output = recorded('comm_scope-0.12.0-cuda-milliseconds.txt')
    (entry,) = json.loads(output)['benchmarks']
    assert entry['time_unit'] == 'ms'
    assert scope.seconds_of(output, entry['name']) == pytest.approx(entry['real_time'] / 1e3)


@each_row(
    ('name', 'benchmark', 'why'),
    [
        ('error', NAMES['cuda'][5], 'did not run: Comm_cudaMemcpyAsync_GPUToGPU failed to perform cudaMalloc'),
        ('repetitions', NAMES['cuda'][4], 'is there 7 times, expected 1'),  # 3, mean, median, stddev, cv
        ('killed', NAMES['cuda'][4], 'no complete JSON of Google Benchmark'),
    ],
)
def test_a_recorded_run_that_failed_says_why_there_is_no_number(recorded, name, benchmark, why):
    output = recorded(f'comm_scope-0.12.0-cuda-{name}.txt')
    assert '"real_time"' in output
    with pytest.raises(NotMeasured, match=re.escape(why)):
        scope.seconds_of(output, benchmark)


WHOLE = stand_in.document(NAMES['cuda'])


@each_row(('fault', 'words'), [
    ('del entries[0]', 'Comm_cudart_kernel/0/1/0/real_time/threads:1 is there 0 times, expected 1'),
    ('entries[4]["run_type"] = "aggregate"', "is of type 'aggregate', expected iteration"),
    ('entries[4].update(skipped=True, skip_message="not here")', 'did not run: not here'),
    ('entries[4]["time_unit"] = "GB"', "has time_unit 'GB', expected one of ns, us, ms, s"),
    ('entries[4]["real_time"] = 0', 'has real_time 0.0, expected a finite number above zero'),
    ('entries[4]["real_time"] = "10100"', "has real_time '10100', expected"),
    ('entries[5]["bytes"] = 1e9', 'copied 1000000000 bytes, expected 1073741824'),
    ('del entries[4]["bytes"]', 'has bytes None, expected'),
])  # fmt: skip
def test_an_entry_that_is_no_measurement_says_why(fault, words):
    assert outcome(WHOLE)
    output = stand_in.document(NAMES['cuda'], fault)
    with pytest.raises(NotMeasured, match=re.escape(words)):
        [value_of(metric, output) for metric in metrics_of('cuda')]


@each_row(('output', 'words'), [
    ('', 'has none of the requested benchmarks'),  # of a filter that matches nothing; the program exits with 0
    (stand_in.document([*NAMES['cuda'], 'Comm_cudart_kernel/0/1/1/real_time/threads:1']),
     'not requested: Comm_cudart_kernel/0/1/1/real_time/threads:1'),
    (stand_in.document(NAMES['cuda'], 'entries.append(3)'), 'ValueError: no benchmarks in it'),
    ('{}', "KeyError: 'benchmarks'"),
    ('null', 'no complete JSON of Google Benchmark: TypeError'),
])  # fmt: skip
def test_a_file_that_is_not_that_of_the_benchmarks_asked_for_is_a_fault(output, words):
    (found,) = scope.faults_of(output, NAMES['cuda'])
    assert words in found and outcome(output) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, st.sampled_from(['file', 'benchmarks', 'entry', 'real_time', 'time_unit', 'bytes', 'run_type']))
def test_any_json_in_place_of_a_part_is_read_or_refused_in_a_sentence(value, part):
    whole = json.loads(WHOLE)
    if part == 'file':
        whole = value
    elif part == 'benchmarks':
        whole['benchmarks'] = value
    elif part == 'entry':
        whole['benchmarks'][4] = value
    else:
        whole['benchmarks'][4][part] = value
    found = outcome(json.dumps(whole))
    assert found is None or part in ('real_time', 'time_unit') or found == outcome(WHOLE)


def test_the_process_is_on_one_numa_domain_of_each_socket_first_on_that_near_the_device():
    def found(near: tuple[int, ...], ids: tuple[int, ...] = (0, 1)) -> list[int]:
        return numa_ids(replace(TWO, numa_ids=ids, gpu_numa_ids=near), 0)

    assert (found(()), found((), (0, 8)), found((1,))) == ([0, 1], [0, 8], [1, 0])
    one_socket = replace(TWO, sockets=(frozenset(range(16)),), gpu_numa_ids=(1,))
    assert numa_ids(one_socket, 0) == [1]  # as on MI250X: the near one of a socket is not its first
