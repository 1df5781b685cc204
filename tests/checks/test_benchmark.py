# SPDX-License-Identifier: BSD-3-Clause
"""The base class of all checks, without a job: selection, peaks, references and what ends a case."""

import os
import re
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import reframe.utility.sanity as sn
from described_nodes import GPUS, TWO
from reading import measured, plan_of
from reframe.core.exceptions import PerformanceError, SanityError
from reframe.core.fields import make_convertible
from rows import each_row
from scratch import ROOT

from checks.core.bounds import limits_of
from checks.core.job.assembly import write_tables
from checks.core.job.script import prerun
from checks.core.job.spec import JobSpec
from checks.core.placement import Execution
from checks.core.reading.metrics import Metric
from plumbline.errors import SiteError
from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Limits
from plumbline.record import Record
from plumbline.references import Reference
from plumbline.site.sites import Environ

METRICS = [
    Metric('rate', 'GB/s', 'higher', 'x'), Metric('delay', 'us', 'lower', 'x'), Metric('new', 's', 'lower', 'x'),
    Metric('abroad', 'GB/s', 'higher', 'x'),
]  # fmt: skip
MODES = ('quick', 'nightly', 'acceptance')
# metric -> mean, the value beyond which it fails, its unit, and whether that fails
ROWS = {
    'rate': (100.0, 90.0, 'GB/s', 'gated'), 'delay': (5.0, 10.0, 'us', 'gated'),
    'abroad': (8.0, 4.0, 'GB/s', 'elsewhere'),
}  # fmt: skip


@pytest.fixture
def judged_case(case_on, monkeypatch):
    """A case whose metrics have these references; `rows` replaces some."""

    def make(**rows):
        def judges(references, series, tolerance):
            if series.metric not in ROWS:
                return []
            mean, bad, unit, gate = (ROWS | rows)[series.metric]
            quantity = Quantity(unit, 'lower' if unit == 'us' else 'higher')
            id = SeriesId('cpu', 'gnu', 'HPCC', (), series.metric)
            row = Reference(id, quantity, mean, 1.0, 10, 'baseline', 'x')
            return [(row, Limits(bad, mean, 0.1, 'floor', gate)), (None, None)]

        monkeypatch.setattr('checks.core.bounds.load_references', lambda site: site)
        monkeypatch.setattr('checks.core.bounds.judges', judges)
        case = case_on('HPCC', TWO, entry={'name': 'cpu', 'energy': {}, 'looks': 'required', 'transport': None})
        case.site, case.metrics = SimpleNamespace(name='box', tolerance={}), METRICS
        case._current_partition = SimpleNamespace(name='cpu', fullname='box:cpu')
        case._current_environ = SimpleNamespace(name='gnu')
        case.result = measured(
            plan_of('HPCC', (), METRICS).record, rate=[(1, 'n1', 95.0), (2, 'n1', 97.0)], delay=[(1, 'n1', 6.0)],
            new=[(1, 'n1', 3.0)], abroad=[(1, 'n1', 1.0)],
        )  # fmt: skip
        return case

    return make


def test_a_limit_is_a_threshold_of_reframe_where_it_fails_a_case(judged_case):
    case = judged_case()
    assert case.bounds() == {
        'rate': (100.0, pytest.approx(-0.1), None, 'GB/s'),
        'delay': (5.0, None, 1.0, 'us'),
        'abroad': (8.0, None, None, 'GB/s'),
    }
    assert limits_of(case.bounds()) == {'rate': pytest.approx(90.0), 'delay': 10.0}
    case.compare_with_references()
    assert {name: case.reference[f'box:cpu:{name}'] for name in case.bounds()} == case.bounds()
    assert {name: value.evaluate() for name, value in case.perf_variables.items()} == {
        'rate': 96.0, 'delay': 6.0, 'new': 3.0, 'abroad': 1.0,
    }  # fmt: skip
    case.swept = [{'breaches': []}]  # each place is judged by itself
    case.compare_with_references()
    assert list(case.perf_variables) == ['worst_rate', 'worst_delay', 'worst_new', 'worst_abroad']
    for name, (mean, _, unit, _) in ROWS.items():
        assert case.reference[f'box:cpu:worst_{name}'] == (mean, None, None, unit)


def test_a_reference_in_another_unit_and_an_invalid_value_fail_the_performance(judged_case):
    case = judged_case(rate=(100.0, 90.0, 'MB/s', 'gated'))
    with pytest.raises(SiteError, match='rate: '):
        case.bounds()
    with pytest.raises(PerformanceError, match='rate: '):
        case.compare_with_references()
    case = judged_case()
    for metric, _, series in case.result.series():
        series.invalid = 'above the peak' if metric in ('delay', 'new') else None
    with pytest.raises(PerformanceError, match=r'^invalid: delay: above the peak; invalid: new: above the peak$'):
        case.compare_with_references()


def test_a_case_with_faults_fails_with_the_first_of_them(case_on):
    case = case_on('HPCC', TWO)
    case.faults, case.result = ['a', 'b {x}', *'cdef'], SimpleNamespace(evidence='box/1.tar')
    with pytest.raises(SanityError) as failed:
        case.has_no_fault().evaluate()
    said = 'a; also: b {x}; also: c; also: d; and 2 causes more, in the record; all output: box/1.tar'
    assert str(failed.value) == said
    case.faults = []
    assert case.has_no_fault().evaluate()


@pytest.mark.parametrize(
    ('declared', 'beyond', 'message', 'codes'),
    [
        (['rate', 'delay', 'abc'], 0, 'declared and not measured: abc, delay', ['lost-metric']),
        (['rate'], 7, '7 of 8 places: n0: x; n1: x; n2: x; n3: x; n4: x; and 2 more', []),
    ],
)
def test_what_was_not_measured_or_is_beyond_a_limit_at_a_place_fails(case_on, declared, beyond, message, codes):
    case = case_on('HPCC', TWO)
    case.perf_variables = {name: sn.make_performance_function(lambda: 1, 'GB/s') for name in declared}
    case._perfvalues = {'box:cpu:rate': (1, 1, None, None, 'GB/s')}
    case.swept = [{'job': {'nodes': [f'n{place}']}, 'breaches': ['x'] * (place < beyond)} for place in range(8)]
    case.result = Record('HPCC', ())
    with pytest.raises(PerformanceError) as failed:
        case.every_variable_has_a_value()
    assert str(failed.value) == message
    assert [cause.code for cause in case.result.causes] == codes
    case.perf_variables, case.swept = {}, []
    case.every_variable_has_a_value()


def test_the_parameters_of_a_case_are_its_own_and_its_nodes(case_on):
    own = (('implementation', 'netlib'), ('size', 'full'))
    for nodes, params in ((1, own), (4, (own[0], ('num_nodes', '4'), own[1]))):
        case = case_on('HPL', TWO, size='full', nodes=nodes, num_nodes=nodes, implementation='netlib')
        assert (case.check, case.params) == ('HPL', params)


@pytest.mark.parametrize(
    ('nodes', 'transport', 'fields', 'sends'),
    [
        (2, None, {}, True),
        (2, 'sockets', {}, False),
        (2, None, {'_current_partition': None}, False),  # while ReFrame only describes the check
    ],
)
def test_ranks_of_several_nodes_that_communicate_send_by_the_fabric(placed, nodes, transport, fields, sends):
    case = placed('HPCC', num_nodes=nodes)
    case.partition.transport = transport
    for name, value in fields.items():
        setattr(case, name, value)
    assert (case.plan().nics is not None) is sends


def test_the_network_devices_that_must_carry_traffic_are_those_of_the_placement(case_on):
    case = case_on('OsuBandwidth', TWO, 'choose_pair choose_budget place', pair='two_nodes')
    assert case.placement.carriers == ('mlx5_0',)
    assert replace(case.placement, must_carry=('mlx5_0', 'mlx5_1')).carriers == ('mlx5_0', 'mlx5_1')
    assert replace(case.placement, must_carry=None).carriers is None
    case = case_on('OsuBandwidth', TWO, 'choose_pair choose_budget place', pair='same_numa')
    assert case.placement.carriers == ()


BY_MODE = {'quick': 2, 'nightly': 3, 'acceptance': 5}


@pytest.mark.parametrize(
    ('fields', 'trials', 'seconds', 'tags'),
    [
        ({'mode': None, 'trials': BY_MODE}, 2, 55, {'compute', *MODES}),
        ({'mode': 'acceptance', 'trials': BY_MODE, 'trial_seconds': 9}, 5, 9, {'compute', *MODES}),
        ({'mode': 'nightly', 'trials': 7, 'last_run': 'not yet on a GPU'}, 7, 55, {'compute', 'experimental', *MODES}),
    ],
)  # fmt: skip
def test_what_is_selected_and_how_often_it_runs(case_on, monkeypatch, fields, trials, seconds, tags):
    monkeypatch.setattr('checks.core.selection.topologies', lambda: [('box:cpu', TWO), ('box:gpu', GPUS)])
    case = case_on('HPCC', TWO, **fields)
    case.tags = {*MODES}
    case.supports = lambda topology: not topology.gpus
    case.select()
    assert (case.trials, case.trials_of_case, case.trial_seconds, case.tags) == (trials, trials, seconds, tags)
    assert case.valid_systems == ['box:cpu']


@each_row(
    'fields, fault',
    [
        ({'mode': 'fast'}, 'ERROR: mode=fast: expected one of quick, nightly, acceptance'),
        ({'trials': 'abc'}, 'ERROR: HPCC: trials=abc: expected a number of at least 1'),
        ({'trials': '-1'}, 'trials=-1: expected'), ({'trials': 0}, 'trials=0: expected'),
        ({'trials': {'quick': 3}, 'mode': 'nightly'}, "trials={'quick': 3}: expected"), ({'trials': '2'}, ''),
    ],
)  # fmt: skip
def test_a_mode_or_a_number_of_trials_that_is_none_ends_reframe(case_on, fields, fault):
    """An exception would not: ReFrame leaves out the check that raised it, and passes."""
    case = case_on('HPCC', TWO, **{'mode': None, 'tags': {*MODES}} | fields)
    with pytest.raises(SystemExit, match=re.escape(fault)) if fault else nullcontext():
        assert case.trials_of_mode() == 2


def test_a_check_is_not_listed_in_a_mode_that_it_has_neither_trials_nor_a_tag_for(case_on):
    case = case_on('HPCC', TWO, mode='nightly', trials={'quick': 3}, tags={'quick'})
    case.select()
    assert case.valid_systems == []


def test_seconds_and_time_limit_of_trials(case_on, monkeypatch, tmp_path):
    case = case_on('HPCC', TWO, trials=4, size='quick')
    monkeypatch.setenv('PLUMBLINE_BUDGETS', str(tmp_path / 'budgets'))
    case.choose_budget()
    assert (tmp_path / 'budgets').read_text() == f'{case.hashcode} 220 {ROOT}/checks/compute/hpcc.py\n'
    case.limit_trial()
    assert (case.trial_seconds, case.trial_time_limit) == (55, 60 + 550)
    case.estimates, case.trial_time_limit = [10.2, 20.5], None
    case.limit_trial()
    assert (case.trial_seconds, case.trial_time_limit) == (31, 60 + 310)


# A job


@pytest.fixture
def placed(case_on, tmp_path, monkeypatch):
    """A case after its setup on a partition of a site."""

    def placed(check='HPCC', hooks='', from_reframe=False, **more):
        case = case_on(check, more.pop('node', TWO), **more)
        entry = {'scheduler': 'slurm', 'launcher': 'srun'}
        case.partition = SimpleNamespace(
            name='cpu', max_time=None, energy={}, peaks={}, entry=entry, looks='required', transport=None,
            published_peaks={}, benchmarks={},
        )  # fmt: skip
        case.stack, case.installed = Environ('gnu', 'system'), None
        parts = {'partitions': {'cpu': case.partition}, 'environs': {'gnu': case.stack}}
        case.site = SimpleNamespace(name='box', from_reframe=from_reframe, tolerance={}, **parts)
        scheduler = SimpleNamespace(host_of=lambda node: f'{node}.cluster', is_local=False)
        launcher = SimpleNamespace(options=[], registered_name='srun')
        case._job = SimpleNamespace(options=[], launcher=launcher, scheduler=scheduler)
        case._current_partition = SimpleNamespace(name='cpu', fullname='box:cpu', scheduler=scheduler)
        case._current_environ = SimpleNamespace(name='gnu')
        monkeypatch.setattr('checks.core.selection.current_site', lambda: case.site)
        monkeypatch.setattr('checks.core.budget.current_site', lambda: case.site)
        monkeypatch.setattr('checks.core.selection.topology_of', lambda site, partition: case.topology)
        for hook in hooks.split():
            getattr(case, hook)()
        return case

    return placed


def test_peaks_of_the_partition_are_numbers_in_the_plan_of_a_case(placed):
    case = placed('HPCC', num_nodes=2)
    case.partition.peaks = {'flops_dp': 1e12}
    plan = case.plan()
    assert {metric.name: metric.peak for metric in plan.metrics}['HPL_Tflops'] == 2e12
    assert plan.record.figures['HPL_Tflops'] == {'peak': 2.0} and 'StarSTREAM_Triad' not in plan.record.figures


def test_each_execution_gets_the_files_that_the_check_has_written(placed, tmp_path):
    case = placed('HPCC', 'choose_modes choose_budget write_input', size='quick')
    for name in ('rank.sh', '.rfm_mark'):  # of the base, and of ReFrame
        (tmp_path / name).touch()
    (tmp_path / 'trial_1').mkdir()
    assert case.job_spec().inputs == ['hpccinf.txt']


@pytest.mark.parametrize(
    ('check', 'hooks', 'fields', 'concurrent'),
    [
        ('NumaStream', 'choose_modes look_at_the_domains choose_budget choose_runs', {'trials_of_case': 2}, True),
        ('NumaBandwidth', 'choose_modes look_at_the_domains choose_budget choose_runs', {'trials_of_case': 2}, False),
        ('BabelStreamAllDevices', 'choose_budget start_on_each', {'model': 'cuda', 'node': GPUS}, True),
    ],
)  # fmt: skip
def test_processes_of_all_parts_of_a_node_run_at_the_same_time(placed, check, hooks, fields, concurrent):
    case = placed(check, hooks, trials=2, num_tasks=1, num_tasks_per_node=1, **fields)
    case.job.launcher.run_command = lambda job: 'launch'
    assert case.job_spec().concurrent is concurrent


def test_setup_looks_at_the_partition_and_leaves_nothing_of_an_earlier_run(placed, tmp_path):
    case = placed(trial_seconds=100)
    (tmp_path / 'folder/x').mkdir(parents=True)
    (tmp_path / 'file').touch()
    (tmp_path / 'link').symlink_to(tmp_path / 'folder')
    case.partition.max_time = 120
    case.topology = replace(TWO, cache_note='L3 counts as 64 MiB')
    case.look_at_the_partition()
    assert [*tmp_path.iterdir()] == [] and case.installed is None
    assert case.provenance == {'caches': 'L3 counts as 64 MiB'}
    assert case.trial_seconds == 40  # (120 - 60) / 1.5
    case = placed(trial_seconds=100, from_reframe=True)
    case.look_at_the_partition()
    assert (case.trial_seconds, case.provenance) == (100, {'configuration': 'own'})


@pytest.mark.parametrize(
    ('check', 'hooks', 'fields', 'ranks', 'launcher', 'variables', 'time_limit'),
    [
        ('OpenSSLSpeed', 'choose_budget choose_runs', {}, 1, 'local', {'PLUMBLINE_CPUS': '0'}, 2 * (60 + 100) + 60),
        ('OpenSSLSpeed', 'choose_budget choose_runs', {'node': GPUS}, 1, 'local',
         {'PLUMBLINE_CPUS': '0', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}, 2 * (60 + 100) + 60),  # numbered as links are
        ('OsuLatency', 'choose_pair choose_budget place', {'pair': 'same_numa'}, 2, 'srun',
         {'PLUMBLINE_LOCATE': '1', 'PLUMBLINE_CPUS': '0:1', 'SLURM_KILL_BAD_EXIT': '1'}, 2 * (60 + 50) + 60),
    ],
)  # fmt: skip
def test_a_job_has_its_ranks_and_time_limit(placed, check, hooks, fields, ranks, launcher, variables, time_limit):
    case = placed(check, hooks, trials=2, **fields)
    case.assemble_job()
    assert (case.num_tasks, case.num_tasks_per_node, case.job.cpus_of_node) == (ranks, ranks, 16)
    assert (case.job.launcher.registered_name, case.time_limit) == (launcher, time_limit)
    assert dict(case.env_vars) == {'OMP_NUM_THREADS': '1'} | variables
    assert {of.program for of in case.plan().runs.values()} == {'openssl' if check == 'OpenSSLSpeed' else 'osu_latency'}
    assert case.prerun_cmds[0].startswith('unset ') and case.postrun_cmds[-2].startswith('(. ./load.sh after')


def test_a_metered_metric_that_the_check_lacks_is_named(placed):
    with pytest.raises(SanityError, match='metered=ture: expected true, false, or a metric'):
        placed('OpenSSLSpeed', 'choose_budget choose_runs', trials=2, metered='ture').assemble_job()


@each_row('stated', ['', 'true', '1', 'false', 'seconds'])
@each_row(
    ('check', 'rates'),
    [('HPL', ['gflops']), ('HPCG', ['gflops']), ('BabelStreamHost', ['bandwidth']), ('Gemm', []), ('Fft', [])],
)
def test_what_a_run_says_of_metering_leaves_a_check_its_efficiency(classes, stated, check, rates):
    """As `-S metered=true` sets it, of which ReFrame makes what the variable's types allow."""
    cls = classes[check]
    own = cls._rfm_var_space['metered'].default_value
    cls.setvar('metered', make_convertible(stated) if stated else own)
    try:
        case = cls(variant_num=0)
    finally:
        cls.setvar('metered', own)
    case.partition = SimpleNamespace(energy={'rapl': {'boundary': 'package', 'accuracy': 0.05}}, entry={})
    case.metrics = [Metric(name, 'GB/s', 'higher') for name in ('gflops', 'bandwidth', 'seconds')]
    case.trial_seconds = 15
    expected = {'seconds': ['seconds'], 'false': []}.get(stated, rates)
    assert [metric.name for metric in case.metering.rates] == expected
    usually = bool(rates) or check == 'Gemm'
    assert bool(case.metering.meters) is (stated != 'false' if stated else usually)


def test_a_stack_is_brought_up_before_a_run_and_not_before_a_dry_one(placed, monkeypatch):
    monkeypatch.setattr('checks.core.benchmark.jobscript.bring_up', lambda of: f'{of} has no compiler')
    case = placed('OpenSSLSpeed', 'choose_budget choose_runs', trials=2)
    case.assemble_job()  # there is none
    case.installed = SimpleNamespace(activation='load.sh', __str__=lambda: '')
    with pytest.raises(SanityError, match='has no compiler'):
        case.assemble_job()
    case.is_dry_run = lambda: True
    case.assemble_job()


def test_what_a_plan_asks_of_the_ranks(placed):
    """Looks where the partition does not excuse them, and hosts of nodes where a scheduler chose them."""
    case = placed()
    assert case.plan().ranks.looks_required and case.plan().ranks.host_of('n1') == 'n1.cluster'
    case.partition.looks, case._job.scheduler = 'lacking', SimpleNamespace(is_local=False)
    assert not case.plan().ranks.looks_required and case.plan().ranks.host_of('n1') == 'n1'
    case._current_partition, case.local = None, True
    assert case.plan().ranks.looks_required and case.plan().ranks.host_of is None


@pytest.mark.parametrize(
    ('limit', 'most', 'found', 'late'),
    [
        (None, 260, 260, None),  # 60 s and two trials of 100 s
        (None, 200, 200, 200),
        ('500s', 200, 200, None),  # of the user's own limit
    ],
)
def test_the_time_limit_of_a_job(placed, limit, most, found, late):
    case = placed('OpenSSLSpeed', 'choose_budget choose_runs', trials=2)
    case.trial_time_limit, case.time_limit, case.partition.max_time = 100, limit, most
    spec = case.job_spec()
    assert (spec.seconds if spec.hurries else None, spec.seconds) == (late, found)


def test_what_other_nodes_and_the_settings_of_a_node_need(placed, tmp_path):
    expecting = replace(TWO, expects=(('governor', 'performance'), ('gpus', '4')))
    case = placed('HPCC', 'choose_budget', node=expecting, num_nodes=2, num_tasks=4, num_tasks_per_node=2)
    case.job.launcher.run_command = lambda job: f'launch {job.num_tasks} {job.num_tasks_per_node}'
    tmp_path.mkdir(exist_ok=True)
    write_tables(case.job_spec(), tmp_path)
    assert (tmp_path / 'required.tsv').read_text() == 'governor\tperformance\ngpus\t4\n'
    assert (tmp_path / 'on_all_nodes').read_text() == (
        'srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --mpi=none \n'
    )
    case.partition.entry['scheduler'] = 'pbs'
    write_tables(case.job_spec(), tmp_path)
    assert (tmp_path / 'on_all_nodes').read_text() == 'launch 4 2\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['on_all_nodes', 'required.tsv']
    for path in tmp_path.iterdir():
        path.unlink()
    for fields in ({'num_nodes': 2, 'mpi': False}, {'num_nodes': 1}):
        write_tables(placed('HPCC', 'choose_budget', num_tasks=2, num_tasks_per_node=2, **fields).job_spec(), tmp_path)
    assert not [*tmp_path.iterdir()], 'of one node, or without settings'


@pytest.mark.parametrize(
    ('fields', 'launcher', 'start'),
    [
        ({}, 'srun', ''),
        ({}, 'jsrun', 'launch 1 1 bash ./rfm_job.sh'),
        ({'mpi': True}, 'jsrun', ''),
        ({'local': True}, 'jsrun', ''),
    ],
)
def test_a_script_starts_again_on_its_compute_node_where_jobs_begin_on_another(placed, fields, launcher, start):
    case = placed('OpenSSLSpeed', 'choose_budget choose_runs', trials=2, num_tasks=1, num_tasks_per_node=1, **fields)
    case.job.launcher.run_command = lambda job: f'launch {job.num_tasks} {job.num_tasks_per_node}'
    case.partition.entry['launcher'], case.trial_time_limit = launcher, 100
    spec = case.job_spec()
    assert (f'{spec.launch} bash ./rfm_job.sh' if spec.elsewhere else '') == start


def test_the_script_of_a_plain_process_starts_itself_once_by_the_launcher(tmp_path):
    lines = prerun(JobSpec('x', {'run': Execution(())}, 1, 9, launch='jsrun --nrs 1', elsewhere=True))[1:6]
    (tmp_path / 'rfm_job.sh').write_text('\n'.join(['echo begin', *lines, 'echo measured', 'exit 3']))
    (tmp_path / 'jsrun').write_text('#!/bin/bash\necho jsrun; while [ "$1" != bash ]; do shift; done; exec "$@"')
    (tmp_path / 'jsrun').chmod(0o755)
    environment = {'PATH': f'{tmp_path}:{os.environ["PATH"]}'}
    ran = subprocess.run(['bash', 'rfm_job.sh'], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (ran.stdout.split(), ran.stderr) == (['begin', 'jsrun', 'begin', 'measured'], '')
    assert ran.returncode == 3


# Of all checks


def test_what_a_case_varies_is_in_the_report(classes):
    logged = {'last_run', 'num_nodes', 'trials', 'trial_seconds', 'size', 'record', 'peaks', 'time_limits'}
    assert logged <= {one for one, _ in classes['HPCC'].loggable_attrs()}
    assert not any(one == 'variables' for cls in classes.values() for one, _ in cls.loggable_attrs())
