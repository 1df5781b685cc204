# SPDX-License-Identifier: BSD-3-Clause
"""Comm|Scope's names and JSON: recorded, and broken in every way that a file of numbers can be."""

import json
import re
from types import SimpleNamespace

import pytest
from data import comm_scope_stand_in as stand_in
from hypothesis import given
from hypothesis import strategies as st
from reading import value_of
from rows import each_row

from checks.core.reading.trials import Metric, NotMeasured
from checks.core.topology import Topology
from checks.gpu import comm_scope_output as scope

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


# What the program really says


@each_row('model', MODELS)
def test_the_names_are_those_that_version_0_12_0_registers(recorded, model):
    """Recorded on two devices and one NUMA domain of two cores."""
    listed = set(recorded(f'comm_scope-0.12.0-{model}-list.txt').splitlines())
    assert [scope.launch(model, 0, 1), scope.wait(model, 0, 1), scope.host_to_device(model, 0, 1, SMALL),
            scope.device_to_host(model, 0, 1, LARGE), scope.device_to_device(model, 0, 0, 1, SMALL),
            scope.device_to_device(model, 0, 0, 1, LARGE)] == NAMES[model][:6]  # fmt: skip
    assert set(NAMES[model]) <= listed
    assert set(stand_in.registered(model, 2)) == {name for name in listed if name.startswith(f'Comm_{model}')}
    sizes = sorted({int(name.split(':')[1].split('/')[0]) for name in listed if 'MemcpyAsync' in name})
    assert sizes == list(range(8, 33 if model == 'cuda' else 31))  # 256 bytes are the smallest copy there is


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


def test_a_recorded_benchmark_that_failed_is_named_with_its_reason(recorded):
    output = recorded('comm_scope-0.12.0-cuda-error.txt')
    small, large = NAMES['cuda'][4:6]
    assert scope.seconds_of(output, small) > 0
    with pytest.raises(NotMeasured) as error:
        scope.seconds_of(output, large)
    assert str(error.value) == f'{large} did not run: Comm_cudaMemcpyAsync_GPUToGPU failed to perform cudaMalloc'


def test_recorded_repetitions_are_no_single_value(recorded):
    output = recorded('comm_scope-0.12.0-cuda-repetitions.txt')
    with pytest.raises(NotMeasured, match='is there 7 times, expected 1'):  # 3, mean, median, stddev, cv
        scope.seconds_of(output, NAMES['cuda'][4])
    entries = json.loads(output)['benchmarks']
    mean = next(entry for entry in entries if entry['name'].endswith('_mean'))
    with pytest.raises(NotMeasured, match="is of type 'aggregate', expected iteration"):
        scope.seconds_of(json.dumps({'benchmarks': [mean]}), NAMES['cuda'][4])


def test_a_recorded_run_that_was_killed_has_no_numbers(recorded):
    output = recorded('comm_scope-0.12.0-cuda-killed.txt')
    assert '"real_time"' in output
    (fault,) = scope.faults_of(output, NAMES['cuda'])
    assert fault.startswith('no complete JSON of Google Benchmark: JSONDecodeError')
    assert outcome(output) is None


def test_a_filter_that_matches_nothing_leaves_an_empty_file():
    """The program says so on standard error, and exits with 0."""
    (fault,) = scope.faults_of('', NAMES['cuda'])
    assert fault == 'Comm|Scope has none of the requested benchmarks, or ended before the first'
    assert outcome('') is None


# Broken files

WHOLE = stand_in.document(NAMES['cuda'])
FAULTS = [
    ('del entries[0]', 'Comm_cudart_kernel/0/1/0/real_time/threads:1 is there 0 times, expected 1'),
    ('entries.append(entries[4])', 'is there 2 times, expected 1'),
    ('entries.append(dict(entries[4], name=entries[4]["name"] + "_mean", run_type="aggregate"))', 'is there 2 times'),
    ('entries[4]["run_type"] = "aggregate"', "is of type 'aggregate', expected iteration"),
    ('entries[4].update(error_occurred=True, error_message="no peer")', 'did not run: no peer'),
    ('entries[4].update(error_occurred=True)', 'did not run: no reason given'),
    ('entries[4].update(skipped=True, skip_message="not here")', 'did not run: not here'),
    ('entries[4]["time_unit"] = "GB"', "has time_unit 'GB', expected one of ns, us, ms, s"),
    ('del entries[4]["time_unit"]', 'has time_unit None, expected one of'),
    ('entries[4]["real_time"] = 0', 'has real_time 0.0, expected a finite number above zero'),
    ('entries[4]["real_time"] = -1.0', 'has real_time -1.0, expected'),
    ('entries[4]["real_time"] = float("nan")', 'has real_time nan, expected'),
    ('entries[4]["real_time"] = float("inf")', 'has real_time inf, expected'),
    ('entries[4]["real_time"] = "10100"', "has real_time '10100', expected"),
    ('entries[4]["real_time"] = True', 'has real_time True, expected'),
    ('entries[4]["bytes"] = 128.0', 'copied 128 bytes, expected 256'),
    ('entries[5]["bytes"] = 1e9', 'copied 1000000000 bytes, expected 1073741824'),
    ('del entries[4]["bytes"]', 'has bytes None, expected'),
]  # fmt: skip


@pytest.mark.parametrize(('fault', 'words'), FAULTS, ids=[words for _, words in FAULTS])
def test_an_entry_that_is_no_measurement_says_why(fault, words):
    assert outcome(WHOLE)
    output = stand_in.document(NAMES['cuda'], fault)
    with pytest.raises(NotMeasured, match=re.escape(words)):
        [value_of(metric, output) for metric in metrics_of('cuda')]


@each_row(('fault', 'words'), [
    ('entries.append(entry("Comm_cudart_kernel/0/1/1/real_time/threads:1", 9))',
     'a benchmark that was not requested: Comm_cudart_kernel/0/1/1/real_time/threads:1'),
    ('entries.append({})', 'a benchmark that was not requested: None'),
    ('entries.clear()', 'no complete JSON of Google Benchmark: ValueError: no benchmarks in it'),
    ('entries.append(3)', 'no complete JSON of Google Benchmark: ValueError: no benchmarks in it'),
    ('text = "{}"', "no complete JSON of Google Benchmark: KeyError: 'benchmarks'"),
    ('text = "[]"', 'no complete JSON of Google Benchmark: TypeError'),
    ('text = "null"', 'no complete JSON of Google Benchmark: TypeError'),
    ('text = json.dumps({"benchmarks": "none"})', 'no complete JSON of Google Benchmark: ValueError'),
    ('text = "Comm|Scope 0.12.0\\n" + json.dumps({"benchmarks": entries})', 'no complete JSON'),
])  # fmt: skip
def test_a_file_that_is_not_that_of_the_benchmarks_asked_for_is_a_fault(fault, words):
    (found,) = scope.faults_of(stand_in.document(NAMES['cuda'], f'import json\n{fault}'), NAMES['cuda'])
    assert found.startswith(words)


def test_two_entries_that_a_torn_file_made_one_are_no_entry():
    torn = WHOLE[: WHOLE.index('"iterations"')] + WHOLE[WHOLE.index('"name"', WHOLE.index('"iterations"')) :]
    assert len(json.loads(torn)['benchmarks']) == len(NAMES['cuda']) - 1
    assert 'a key is there twice' in scope.faults_of(torn, NAMES['cuda'])[0]


@each_row('model', MODELS)
def test_no_entry_can_be_lost_doubled_or_exchanged(recorded, model):
    whole = json.loads(recorded(f'comm_scope-0.12.0-{model}.txt'))
    entries = whole['benchmarks']
    assert len(entries) == len(NAMES[model])
    for i, entry in enumerate(entries):
        for changed in (entries[:i] + entries[i + 1 :], [*entries, entry]):
            assert outcome(json.dumps(whole | {'benchmarks': changed}), model) is None
        other = NAMES[model][NAMES[model].index(entry['name']) - 1]
        renamed = [*entries[:i], entry | {'name': other, 'run_name': other}, *entries[i + 1 :]]
        assert outcome(json.dumps(whole | {'benchmarks': renamed}), model) is None
    assert outcome(json.dumps(whole | {'benchmarks': entries[::-1]}), model) == outcome(json.dumps(whole), model)


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


# Where the process is


@pytest.fixture(scope='module')
def check():
    from checks.gpu import comm_scope  # after ReFrame's runtime is up

    return SimpleNamespace(**vars(comm_scope))


def node(sockets: int, domains: int, ids: tuple[int, ...], near: tuple[int, ...] = ()) -> Topology:
    def split(count: int) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(range(i * 8 // count, (i + 1) * 8 // count)) for i in range(count))

    cores = tuple((cpu,) for cpu in range(8))
    return Topology(cores, split(domains), split(sockets), (), 'zen3', 2**34, numa_ids=ids, gpu_numa_ids=near)


@pytest.mark.parametrize(('sockets', 'domains', 'ids', 'found'), [
    (1, 1, (0,), [0]),
    (1, 4, (0, 1, 2, 3), [0]),
    (2, 2, (0, 8), [0, 8]),  # POWER9
    (2, 8, tuple(range(8)), [0, 4]),
    (2, 1, (0,), [0]),
])  # fmt: skip
def test_one_numa_domain_of_each_socket(check, sockets, domains, ids, found):
    assert check.numa_ids(node(sockets, domains, ids), 0) == found


@pytest.mark.parametrize(('sockets', 'domains', 'ids', 'found'), [
    (1, 4, (0, 1, 2, 3), [[3], [1]]),  # MI250X: the near one of a socket is not its first
    (2, 2, (0, 1), [[1, 0], [1, 0]]),
    (2, 4, (0, 1, 8, 9), [[9, 0], [1, 8]]),
])  # fmt: skip
def test_the_near_numa_domain_comes_first(check, sockets, domains, ids, found):
    near = (ids[3], ids[1]) if domains == 4 else (ids[1], ids[1])
    assert [check.numa_ids(node(sockets, domains, ids, near), device) for device in (0, 1)] == found
