# SPDX-License-Identifier: BSD-3-Clause
"""The metrics that checks compute from measured ones, and what they take for impossible; worked out by hand."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace

import pytest
from described_nodes import GPUS, NODES, TWO
from reading import plan_of

from checks.core import budget
from checks.core.bounds import bounded
from checks.core.reading.metrics import Metric, compute, mark_impossible, series_of
from plumbline.identity import to_text

KERNELS = {'copy': (10, 20), 'mul': (30, 30), 'add': (1, 2), 'triad': (50, 4), 'dot': (2, 2)}
OF_BANDWIDTH = {f'bandwidth kernel={kernel}': values for kernel, values in KERNELS.items()}
TRIADS = {f'bandwidth device={device},kernel=triad': (2 * device + 1, 2 * device + 2) for device in range(4)}
VECTORS = {
    f'bandwidth vector=float{width}': values
    for width, values in {'': (1, 5), '2': (2, 4), '4': (3, 3), '8': (9, 2), '16': (5, 1)}.items()
}
SCOPE = {
    'launch domain=1': (4, 4), 'launch domain=0': (2, 3), 'wait domain=1': (6, 7), 'wait domain=0': (8, 9),
}  # fmt: skip
TO_DEVICE = {
    f'{name} direction={way},domain={domain}': values
    for way, domain, latency, bandwidth in (
        ('h2d', 0, (1, 2), (20, 20)), ('h2d', 1, (3, 4), (30, 30)), ('d2h', 0, (5, 6), (26, 26)),
        ('d2h', 1, (7, 8), (18, 20)),
    )
    for name, values in (('latency', latency), ('bandwidth', bandwidth))
}  # fmt: skip
PAIRS = {
    'latency pair=0-1': (1, 2), 'latency pair=2-3': (3, 6), 'bandwidth pair=0-1': (10, 20),
    'bandwidth pair=2-3': (30, 40),
}  # fmt: skip
NUMA = {'0-0': (10, 12), '0-1': (4, 6), '1-0': (8, 10), '1-1': (20, 22)}
UNKNOWN = replace(GPUS, gpu_numa_ids=())  # nobody says which NUMA domain is near a GPU
PLACE = 'choose_model choose_budget'
DOMAINS = f'{PLACE} choose_domains choose_benchmarks'
NUMA_RUNS = 'choose_modes look_at_the_domains choose_budget choose_runs'


@pytest.mark.parametrize(
    ('check', 'node', 'hooks', 'parameters', 'measured', 'computed', 'near'),
    [
        ('BabelStreamDevice', 'gpus', f'{PLACE} choose_device', {'model': 'cuda', 'device': 0}, OF_BANDWIDTH,
         {'best': (30, 30)}, ''),
        ('BabelStreamAllDevices', 'gpus', f'{PLACE} start_on_each', {'model': 'cuda'}, TRIADS,
         {'slowest': (1, 2), 'all': (1 + 3 + 5 + 7, 2 + 4 + 6 + 8)}, ''),
        ('BabelStreamAllDevices', 'gpus', f'{PLACE} start_on_each', {'model': 'cuda'},
         TRIADS | {'bandwidth device=2,kernel=triad': (5,)}, {}, ''),  # a device without a value in a trial
        ('ClPeak', 'gpus', 'choose_budget choose_tests', {'device': 0, 'tests': ['bandwidth']}, VECTORS,
         {'bandwidth': (9, 5)}, ''),
        # near domain 1 by the site; without it, that of the first socket
        ('CommScopeKernel', 'gpus', DOMAINS, {'model': 'cuda', 'device': 2}, SCOPE,
         {'launch': (4, 4), 'wait': (6, 7)}, '1'),
        ('CommScopeKernel', UNKNOWN, DOMAINS, {'model': 'cuda', 'device': 2}, SCOPE,
         {'launch': (2, 3), 'wait': (8, 9)}, 'not stated by the site'),
        ('CommScopeKernel', 'gpus', DOMAINS, {'model': 'cuda', 'device': 2},
         SCOPE | {'wait domain=1': (8,)}, {'launch': (4, 4)}, '1'),
        ('CommScopeHostDevice', 'gpus', DOMAINS, {'model': 'cuda', 'device': 0},
         TO_DEVICE, {'latency direction=h2d': (1, 2), 'latency direction=d2h': (5, 6), 'latency': (3, 4),
                     'bandwidth direction=h2d': (20, 20), 'bandwidth direction=d2h': (26, 26), 'bandwidth': (23, 23)},
         '0'),
        ('CommScopeHostDevice', 'gpus', DOMAINS, {'model': 'cuda', 'device': 0},
         TO_DEVICE | {'latency direction=h2d,domain=0': (1,)},
         {'latency direction=d2h': (5, 6), 'bandwidth direction=h2d': (20, 20), 'bandwidth direction=d2h': (26, 26),
          'bandwidth': (23, 23)}, '0'),
        ('CommScopeDevicePair', 'gpus', f'{PLACE} choose_benchmarks',
         {'model': 'cuda', 'link_class': 'near', 'pairs': 'all'}, PAIRS | {'latency pair=2-3': (3,)},
         {'bandwidth': (20, 30)}, ''),
        ('DeviceCopies', 'gpus', f'{PLACE} choose_copies', {'model': 'cuda'},
         {f'bandwidth path=bisection,transfer=g{a}-g{b}': rate
          for a, b, rate in ((0, 2, (4, 5)), (1, 3, (3, 6)), (2, 0, (2, 7)), (3, 1, (1, 8)))},
         {'slowest path=bisection': (1, 5), 'all path=bisection': (10, 26)}, ''),
        ('Gemm', 'gpus', 'choose_model choose_program choose_budget place',
         {'model': 'cuda', 'size': 'burn', 'precisions': ['double']},
         {f'flops device={device},precision=double': (device + 40, 50) for device in range(4)},
         {'slowest precision=double': (40, 50), 'all precision=double': (166, 200),
          'peak_fraction precision=double': (0.5, 0.625)}, ''),  # of 80 TFlop/s
        ('NumaBandwidth', 'two', NUMA_RUNS, {'trials_of_case': 2},
         {f'bandwidth pair={pair}': values for pair, values in NUMA.items()},
         {'bandwidth distance=local': (15, 17), 'bandwidth distance=remote': (6, 8)}, ''),
        # the times of equal work are 0.1 and 1/30, then 0.05 and 0.025: standard deviations of 1/15 and 0.025, by the
        # square root of 2, over means of 1/15 and 0.0375
        ('NumaStream', 'two', NUMA_RUNS, {'trials_of_case': 2},
         {'triad domain=0': (10, 20), 'triad domain=1': (30, 40)},
         {'triad_total': (40, 60), 'triad_cv': (0.5**0.5, 0.5**0.5 * 2 / 3), 'triad_range': (2, 1)}, ''),
        ('OsuDeviceLatency', 'gpus', 'choose_modes choose_budget place',
         {'buffers': 'device-device', 'link_class': 'near', 'pairs': 'all'},
         {'latency message_bytes=1,pair=0-1': (2, 3), 'latency message_bytes=1,pair=2-3': (4, 7)},
         {'mpi_latency': (3, 5)}, ''),
    ],
)  # fmt: skip
def test_a_computed_metric_of_each_trial(case_on, check, node, hooks, parameters, measured, computed, near):
    node = NODES.get(node) if isinstance(node, str) else node
    site = {'peaks': {'device_flops_double': 8e13}, 'link_classes': {'near': SimpleNamespace(peak=None)}}
    case = case_on(check, node, hooks, site, **parameters)
    case.trials = 2
    record = plan_of(check, (), case.metrics, dims=case.dims, trials=2).empty_record()
    series = {f'{metric} {to_text(one.dims)}'.removesuffix(' -'): one for metric, _, one in record.series()}
    for name, values in measured.items():
        series[name].samples = [(trial, 'n1', value) for trial, value in enumerate(values, start=1)]
    compute(record, case.metrics)
    case.derive(record)
    found = {name: one.samples for name, one in series.items() if one.samples and name not in measured}
    assert {name: tuple(value for *_, value in samples) for name, samples in found.items()} == {
        name: pytest.approx(values) for name, values in computed.items()
    }
    assert all([trial for trial, *_ in samples] == [1, 2] for samples in found.values())
    best = {'best': 'mul'} if check == 'BabelStreamDevice' else {}
    assert record.provenance == best and case.provenance.get('nearest_numa_domain', '') == near


def test_the_best_kernel_is_one_that_was_measured_and_is_valid(case_on):
    case = case_on('BabelStreamDevice', GPUS, f'{PLACE} choose_device', model='cuda', device=0)
    record = plan_of('BabelStreamDevice', (), case.metrics, dims=case.dims, trials=2).empty_record()
    case.derive(record)
    assert record.provenance == {} and not record.metrics['best'].series[0].samples
    for series in record.metrics['bandwidth'].series:
        values = KERNELS[dict(series.dims)['kernel']]
        series.samples = [(trial, 'n1', value) for trial, value in enumerate(values, start=1)]
        series.invalid = 'above the peak' if ('kernel', 'mul') in series.dims else None
    case.derive(record)
    assert record.provenance == {'best': 'triad'}


def test_the_best_of_the_bindings_is_of_one_thread_and_of_all(case_on):
    def of(binding, **kernels):
        metrics = [Metric('bandwidth', 'GB/s', 'higher', 'x', expected={'kernel': [*kernels]})]
        record = plan_of('BabelStreamHost', (), metrics, trials=2, provenance={'binary_sha256': 'abc'}).empty_record()
        for series in record.metrics['bandwidth'].series:
            values = kernels[dict(series.dims)['kernel']]
            series.samples = [(trial, 'n1', value) for trial, value in enumerate(values, start=1)]
        return SimpleNamespace(binding=binding, result=record, trials=2)

    cases = {
        'a': of('one', copy=(9, 9), dot=(8, 11)), 'b': of('one-true', copy=(9, 8)),
        'c': of('cores', copy=(70, 80)), 'd': of('threads-close', copy=(90, 50), dot=(90, 40)),
    }  # fmt: skip
    case = case_on('BabelStreamBest', TWO)
    case.parts, case.getdep = [*cases], cases.__getitem__
    record = plan_of('BabelStreamBest', (), case.metrics).empty_record()
    case.derive(record)
    assert record.provenance == {
        'single_best': 'dot with binding one', 'all_best': 'copy with binding cores', 'binary_sha256': 'abc',
    }  # fmt: skip
    found = {metric: [value for *_, value in series.samples] for metric, _, series in record.series()}
    assert (found, record.trials) == ({'single_best': [8, 11], 'all_best': [70, 80]}, 2)


NEAR = {'near': SimpleNamespace(peak=5e10)}
TO_OTHERS = {'network_peak': lambda nics=(): 2.5e10 * (len(nics) or 2), 'transport': None}  # two devices
ON_PAIR = 'choose_pair choose_budget place'
ON_DEVICES = 'choose_modes choose_budget place'
BOTH = {'bandwidth', 'bidirectional_bandwidth'}


@pytest.mark.parametrize(
    ('check', 'hooks', 'parameters', 'site', 'peaks'),
    [
        ('BabelStreamHost', 'choose_modes choose_budget place', {'binding': 'cores', 'num_nodes': 2},
         {'peaks': {'memory_bandwidth': 3e11}}, {'bandwidth': 6e11}),
        ('BabelStreamHost', 'choose_modes choose_budget place', {'binding': 'cores'}, {}, {'bandwidth': None}),
        ('OsuBandwidth', ON_PAIR, {'pair': 'two_nodes'}, TO_OTHERS,
         {'bandwidth': 2.5e10, 'bidirectional_bandwidth': 5e10}),  # by the one that it asks for
        ('OsuDeviceBandwidth', ON_DEVICES, {'buffers': 'device-device', 'link_class': 'near', 'pairs': 'all'},
         {'link_classes': NEAR}, {'bandwidth': 5e10, 'bidirectional_bandwidth': 1e11}),
        ('OsuDeviceBandwidth', ON_DEVICES, {'buffers': 'host-device', 'link_class': 'near', 'pairs': 'all'},
         {'link_classes': NEAR}, dict.fromkeys(BOTH)),
        ('OsuDeviceBandwidth', ON_DEVICES, {'buffers': 'device-device', 'link_class': 'near', 'pairs': 'all'},
         {'link_classes': {'near': SimpleNamespace(peak=None)}}, dict.fromkeys(BOTH)),
        ('CommScopeDevicePair', f'{PLACE} choose_benchmarks', {'model': 'cuda', 'link_class': 'near', 'pairs': 'all'},
         {'link_classes': NEAR}, {'latency': None, 'bandwidth': 5e10}),
    ],
)  # fmt: skip
def test_the_peak_that_no_value_of_a_metric_may_exceed(case_on, check, hooks, parameters, site, peaks):
    case = case_on(check, GPUS, hooks, site, **parameters)
    metrics = [bounded(metric, case.partition.peaks, case.num_nodes) for metric in case.metrics]
    assert {metric.name: metric.peak for metric in metrics} == peaks


FRACTION, GFLOPS = Metric('peak_fraction', '1', 'higher'), Metric('gflops', 'GFlop/s', 'higher', peak='flops_dp')


@pytest.mark.parametrize(
    ('metric', 'value', 'reason'),
    [
        (FRACTION, 1.0, None),
        (FRACTION, 1.25, '1.25 of the theoretical peak'),
        (replace(FRACTION, peak=inf), 1.25, None),
        (GFLOPS, 2000, None),
        (GFLOPS, 2001, '2001 GFlop/s is above the physical peak of 2000'),
        (Metric('triad_cv', '1', 'lower'), 1.25, None),
        (Metric('triad', 'GB/s', 'higher', peak='not stated'), 1e9, None),
        (Metric('latency', 'us', 'lower'), 0.0, '0 us is not above 0'),
        (Metric('latency', 'us', 'lower'), -5.0, '-5 us is not above 0'),
        (Metric('latency', 'us', 'lower'), 0.01, None),
        (Metric('triad_cv', '1', 'lower'), 0.0, None),
        (Metric('triad', 'GB/s', 'higher'), 0.0, None),
    ],
)
def test_a_value_that_cannot_be_true_is_invalid(metric, value, reason):
    assert bounded(metric, {'flops_dp': 2e12}, 1).invalid_reason(value) == reason


@pytest.mark.parametrize(('published', 'peak'), [({}, None), ({'flops_dp': 1e12}, inf)])
def test_a_share_of_a_published_peak_may_be_above_1(case_on, published, peak):
    """Cores may run faster than a document says."""
    site = {'peaks': {'flops_dp': 2e12}, 'published_peaks': published}
    case = case_on('HPL', TWO, 'choose choose_budget write_input', site, size='quick', nodes=1, implementation='netlib')
    for metrics in (case.metrics, budget.informational(case.metrics)):
        assert {metric.name: metric.peak for metric in metrics}['peak_fraction'] == peak


def test_a_share_that_has_no_peak_shows_none_in_a_dry_run(case_on):
    site = {'peaks': {'flops_dp': 2e12}, 'published_peaks': {'flops_dp': 1e12}}
    case = case_on('HPL', TWO, 'choose choose_budget write_input', site, size='quick', nodes=1, implementation='netlib')
    case.is_dry_run, case._job = lambda: True, SimpleNamespace()
    assert case.peaks == {'gflops': 2000}


def test_a_domain_of_two_has_half_of_the_peak_of_its_node(case_on):
    case = case_on('NumaStream', TWO, NUMA_RUNS, {'peaks': {'memory_bandwidth': 3e11}}, trials_of_case=2)
    assert {metric.name: metric.peak for metric in case.metrics} == {
        'triad': 1.5e11, 'triad_total': None, 'triad_cv': None, 'triad_range': None,
    }  # fmt: skip


def test_a_computed_value_that_cannot_be_true_is_invalid(case_on):
    case = case_on('ClPeak', GPUS, 'choose_budget choose_tests', device=0, tests=['bandwidth'])
    metrics = [bounded(metric, {'device_memory_bandwidth': 8e9}, 1) for metric in case.metrics]
    record = plan_of('ClPeak', (), metrics, dims=case.dims, trials=2).empty_record()
    best = series_of(record, 'bandwidth')
    best.samples = [(1, 'n1', 5.0), (2, 'n1', 9.0)]
    mark_impossible(record, metrics, 'n1')
    assert best.invalid == 'trial 2: 9 GB/s is above the physical peak of 8'
