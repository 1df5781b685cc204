# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream's parser and variants, on what the real program printed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from reading import run_of, values_of
from scratch import OUTPUTS

from checks.core.reading.trials import NotMeasured
from checks.core.topology import Cache, Topology

WHOLE = (OUTPUTS / 'babelstream-5.0-omp-100.txt').read_text()
RATES = {'copy': 43.393133, 'mul': 43.919899, 'add': 45.602291, 'triad': 45.644122, 'dot': 38.308549}
ELEMENTS = 2**25
MIB = 1_048_576


@pytest.fixture(scope='module')
def stream():
    """The three modules as one namespace."""
    from checks.memory import (
        babelstream,
        babelstream_base,
        babelstream_devices,
        babelstream_output,
    )  # after ReFrame's runtime is up

    return SimpleNamespace(
        **(vars(babelstream_output) | vars(babelstream_base) | vars(babelstream_devices) | vars(babelstream))
    )


def rates(stream, output: str) -> dict[str, float]:
    return values_of(stream.bandwidth(), output)


def node(threads_per_core: int = 1, gpus: tuple[str, ...] = ()) -> Topology:
    cores = tuple(tuple(core + 4 * thread for thread in range(threads_per_core)) for core in range(4))
    cpus = frozenset(cpu for core in cores for cpu in core)
    return Topology(cores, (cpus,), (cpus,), (), 'zen3', 2**34, gpus=gpus)


def test_the_rates_of_a_recorded_run(stream):
    assert rates(stream, WHOLE) == pytest.approx(RATES)
    assert stream.faults_of(WHOLE, ELEMENTS, 100) == []


def test_the_columns_of_the_coming_release(stream, recorded):
    output = recorded('babelstream-6.0rc-omp.txt')
    assert rates(stream, output)['triad'] == pytest.approx(36.439918)
    assert stream.faults_of(output, ELEMENTS, 100) == []


def test_the_table_of_the_program_that_the_stack_brings(stream, recorded):
    output = recorded('babelstream-5.0-omp.txt')
    assert stream.faults_of(output, ELEMENTS, 10) == []
    assert set(rates(stream, output)) == set(RATES)


def test_the_table_of_hip_on_a_processor(stream, recorded):
    output = recorded('babelstream-5.0-hip.txt')
    assert stream.faults_of(output, 2**22, 15) == []
    assert rates(stream, output)['dot'] == pytest.approx(0.217567)


@pytest.mark.parametrize(
    ('elements', 'repetitions', 'says'),
    [(2**26, 100, 'the arrays are not of 536.9 MB'), (ELEMENTS, 50, 'it did not say that it ran 50 times')],
)
def test_another_run_than_the_one_asked_for_is_a_fault(stream, elements, repetitions, says):
    assert stream.faults_of(WHOLE, elements, repetitions) == [says]


def test_single_precision_is_a_fault(stream, recorded):
    assert 'it did not run in double precision' in stream.faults_of(recorded('babelstream-5.0-float.txt'), 2**24, 100)


@pytest.mark.parametrize('name', ['babelstream-5.0-triad-only.txt', 'babelstream-5.0-csv.txt'])
def test_other_tables_are_no_measurement(stream, recorded, name):
    output = recorded(name)
    assert stream.faults_of(output, ELEMENTS, 100)
    with pytest.raises(NotMeasured):
        rates(stream, output)


def test_a_failed_validation_on_stderr_is_a_fault(stream, recorded):
    """The program exits with 0 all the same."""
    errors = recorded('babelstream-5.0-float-stderr.txt')
    check = SimpleNamespace(elements={'run': ELEMENTS}, repetitions=100)
    assert stream.BabelStream.sanity_faults(check, run_of(WHOLE, errors)) == [
        'the program says: Validation failed on sum. Error 0.115442'
    ]
    assert stream.BabelStream.sanity_faults(check, run_of(WHOLE, 'some library warns\n')) == []


@pytest.mark.parametrize(
    'line', [line for line in WHOLE.splitlines() if line.startswith(('Copy', 'Mul', 'Add', 'Tri', 'Dot'))]
)
def test_without_any_one_line_it_is_no_measurement(stream, line):
    with pytest.raises(NotMeasured):
        rates(stream, WHOLE.replace(line, ''))


def test_two_outputs_in_one_are_no_measurement(stream):
    with pytest.raises(NotMeasured, match='there 2 times'):
        rates(stream, WHOLE + WHOLE)


def test_table_1_has_eight_bindings_and_a_node_without_smt_six(stream):
    assert len(stream.BINDINGS) == 8
    assert [name for name in stream.BINDINGS if not stream.differs(name, node())] == ['threads', 'threads-true']
    assert all(stream.differs(name, node(threads_per_core=2)) for name in stream.BINDINGS)


@pytest.mark.parametrize(
    ('model', 'device', 'supported'),
    [('cuda', 0, True), ('cuda', 1, True), ('cuda', 2, False), ('hip', 0, False), ('ocl', 0, True), ('ocl', 1, False)],
)
def test_a_device_is_one_of_the_node_that_the_model_can_use(stream, model, device, supported):
    topology = replace(node(gpus=('sm_90', 'sm_90')), opencl_devices=1)
    case = SimpleNamespace(model=model, device=device)
    assert stream.BabelStreamDevice.supports(case, topology) is supported


def caches(mib: int, core: int) -> Topology:
    """Four cores with last-level caches of `mib` in all, of which `core` MiB are for the first one."""
    whole = node()
    parts = (Cache(3, core * MIB, frozenset({0})), Cache(3, (mib - core) * MIB, frozenset({1, 2, 3})))
    return replace(whole, caches=(*parts, Cache(2, MIB, frozenset({0}))))


def sized(stream, topology: Topology, *threads: int) -> tuple[list[int], list[tuple[float, float]]]:
    """The doubles of an array in each run, and what each asked the budget for: bytes wanted and needed."""
    asked = []

    def fit(wanted, needed, seconds_of, runs):
        asked.append((wanted, needed))
        return wanted

    case = SimpleNamespace(topology=topology, repetitions=100, rate=lambda count: 1e10, fit=fit)
    case.repeat_in_time = lambda once, runs: None
    return stream.BabelStreamOnHost.doubles(case, *threads), asked


def test_arrays_are_four_times_the_caches_and_at_least_the_default(stream):
    assert sized(stream, caches(32, 16), 4)[0] == [33_554_432]  # 256 MiB beside 4 x 32
    assert sized(stream, caches(96, 32), 4)[0] == [50_331_648]  # 4 x 96 MiB
    # 4 x 512 MiB are 268 435 456 doubles; three arrays of them 6 GiB
    assert sized(stream, caches(512, 128), 4) == ([268_435_456], [(6_442_450_944, 6_442_450_944)])
    # 4 x 513 MiB, in whole Mi; one thread fills the caches of its core alone, 12 x 129 MiB
    doubles, asked = sized(stream, caches(513, 129), 1, 4)
    assert doubles == [269_484_032] * 2
    assert [needed for _, needed in asked] == [1_623_195_648, 6_455_033_856]


@pytest.mark.parametrize(
    ('gpus', 'models'),
    [
        ((), []),
        (('sm_90',), ['cuda', 'omp-target', 'sycl', 'kokkos', 'std']),
        (('gfx90a',) * 8, ['hip', 'omp-target', 'sycl', 'kokkos']),
    ],
)
def test_a_node_has_the_models_of_its_devices(stream, gpus, models):
    assert stream.models_for(node(gpus=gpus), stream.MODELS) == models
