"""Names of schema 1 become metrics with dims; records of schema 1 become records of today."""

import pytest

from plumbline.identity import to_text
from plumbline.migration import floor_of_schema_1, metric_and_dims
from plumbline.record import RecordError, from_dict


@pytest.mark.parametrize(
    ('check', 'old', 'metric', 'dims'),
    [
        ('OsuLatency', 'latency_8', 'latency', 'message_bytes=8'),
        ('OsuLatency', 'mpi_latency', 'mpi_latency', '-'),
        ('OsuBandwidth', 'bidirectional_bandwidth_4194304', 'bidirectional_bandwidth', 'message_bytes=4194304'),
        ('OsuCollectives', 'reduce_scatter_4', 'reduce_scatter', 'message_bytes=4'),
        ('OsuCollectives', 'barrier', 'barrier', '-'),
        ('OsuDeviceLatency', 'latency_8_0_10', 'latency', 'message_bytes=8,pair=0-10'),
        ('BabelStreamHost', 'triad', 'bandwidth', 'kernel=triad'),
        ('BabelStreamDevice', 'best', 'best', '-'),
        ('BabelStreamBest', 'all_best', 'all_best', '-'),
        ('BabelStreamThreads', 'dot_spread_16', 'bandwidth', 'kernel=dot,proc_bind=spread,threads=16'),
        ('BabelStreamSizes', 'add_16384', 'bandwidth', 'elements=16384,kernel=add'),
        ('BabelStreamAllDevices', 'triad_3', 'bandwidth', 'device=3,kernel=triad'),
        ('BabelStreamAllDevices', 'slowest', 'slowest', '-'),
        ('CommScopeKernel', 'launch_numa1', 'launch', 'domain=1'),
        ('CommScopeKernel', 'wait', 'wait', '-'),
        ('CommScopeHostDevice', 'h2d_latency_numa0', 'latency', 'direction=h2d,domain=0'),
        ('CommScopeHostDevice', 'd2h_bandwidth', 'bandwidth', 'direction=d2h'),
        ('CommScopeHostDevice', 'bandwidth', 'bandwidth', '-'),
        ('CommScopeDevicePair', 'latency_0_3', 'latency', 'pair=0-3'),
        ('CommScopeDevicePair', 'peer_bandwidth_0_3', 'peer_bandwidth', 'pair=0-3'),
        ('NumaLatency', 'latency_0_1', 'latency', 'pair=0-1'),
        ('NumaBandwidth', 'bandwidth_same_group_16', 'bandwidth', 'distance=same_group_16'),
        ('NumaStream', 'triad_11', 'triad', 'domain=11'),
        ('NumaStream', 'triad_total', 'triad_total', '-'),
        ('LikwidPeakFlops', 'avx512_dp', 'flops', 'isa=avx512,precision=dp'),
        ('LikwidPeakFlops', 'avx_sp_per_nominal_cycle', 'flop_per_cycle', 'isa=avx,precision=sp'),
        ('LikwidPeakFlops', 'scalar_dp_peak_fraction', 'peak_fraction', 'isa=scalar,precision=dp'),
        ('LikwidBandwidth', 'store', 'bandwidth', 'kernel=store'),
        ('LikwidBandwidth', 'copy_per_nominal_cycle', 'bytes_per_cycle', 'kernel=copy'),
        ('IOR', 'easy_1m_write', 'bandwidth', 'access=write,pattern=easy_1m'),
        ('IORRanks', 'shared_4m_direct_read', 'bandwidth', 'access=read,io=direct,pattern=shared_4m'),
        ('IOR', 'hard_47008_read', 'bandwidth', 'access=read,pattern=hard_47008'),
        ('IOR', 'random_4k_direct_read', 'operations', 'access=read,io=direct,pattern=random_4k'),
        ('Mdtest', 'easy_unique_stat', 'operations', 'operation=stat,place=easy_unique'),
        ('Mdtest', 'hard_shared_stat_per_process', 'operations_per_process', 'operation=stat,place=hard_shared'),
        ('HPL', 'gflops_best', 'gflops_best', '-'),
        ('HPCC', 'StarSTREAM_Triad', 'StarSTREAM_Triad', '-'),
        ('Foreign', 'latency_8', 'latency_8', '-'),
    ],
)
def test_each_old_name_has_its_metric_and_dims(check, old, metric, dims):
    found, its = metric_and_dims(check, old)
    assert (found, to_text(its)) == (metric, dims)
    assert metric_and_dims(check, metric) == (metric, ()) or not its  # what is new stays as it is


def old_record(**changes):
    metric = {'unit': 'us', 'better': 'lower', 'judged': False, 'samples': [[1, 'n1', 2.0]], 'void': None}
    record = {
        'schema': 1, 'check': 'OsuLatency', 'case': 'pair=same_numa', 'tags': ['quick'], 'trials': 3,
        'metrics': {'latency_1': metric, 'latency_8': metric | {'samples': [], 'judged': True}},
        'missing': {'latency_8': 'trial 1: matched nothing'}, 'trial_seconds': [1.5],
        'binding': {'asked': '0;1', 'got': {'n1.0': '0'}}, 'job': {'id': '7'}, 'provenance': {'kernel': '6.1'},
    }  # fmt: skip
    return record | changes


def test_an_old_record_keeps_all_that_it_says():
    found = from_dict(old_record())
    assert (found.check, found.params, found.trials) == ('OsuLatency', (('pair', 'same_numa'),), 3)
    assert found.placement == {'requested': '0;1', 'actual': {'n1.0': '0'}}
    ((name, metric),) = found.metrics.items()
    assert (name, metric.unit, metric.floor) == ('latency', 'us', 0.05)
    one, eight = metric.series
    assert (to_text(one.dims), one.samples, one.judged) == ('message_bytes=1', [(1, 'n1', 2.0)], False)
    assert (to_text(eight.dims), eight.samples, eight.missing) == ('message_bytes=8', [], 'trial 1: matched nothing')


def test_names_that_would_be_one_metric_in_two_units_stay_apart():
    metric = {'better': 'higher', 'samples': [[1, 'n1', 2.0]]}
    metrics = {'copy': metric | {'unit': 'GB/s'}, 'mul': metric | {'unit': 'MB/s'}}
    found = from_dict(old_record(check='BabelStreamHost', metrics=metrics, missing={}))
    assert [(name, to_text(series.dims)) for name, _, series in found.series()] == [
        ('bandwidth', 'kernel=copy'), ('mul', '-'),
    ]  # fmt: skip


CHANGES = [{'case': 3}, {'case': 'quick'}, {'metrics': 5}, {'metrics': {'x': 5}}, {'trial_seconds': [10**400]}]


@pytest.mark.parametrize('changes', CHANGES)
def test_what_is_no_record_is_refused(changes):
    with pytest.raises(RecordError):
        from_dict(old_record(**changes))


def test_tolerances_that_records_did_not_state():
    assert floor_of_schema_1('IORRanks', 'MiB/s') == 0.15
    assert floor_of_schema_1('HPCC', 'GB/s') is None
