# SPDX-License-Identifier: BSD-3-Clause
"""What `plumbline sites` says of the nodes, cases and job scripts of a site, sentence by sentence."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity, from_text
from plumbline.record import MetricRecord, Record, Series
from plumbline.references import Reference
from postprocess import site_check, text
from postprocess.site_cases import Case, _case
from postprocess.site_check import Checked, node_of


def partition(name='cpu', processor=None, memory=None, nodes=None, peaks=None, **entry):
    """A partition with these facts, of a scheduler whose scripts nobody judges."""
    known = {'scheduler': 'local'} | ({} if nodes is None else {'num_nodes': nodes}) | entry
    return SimpleNamespace(
        name=name,
        processor=processor or {},
        memory_bytes=memory,
        num_nodes=nodes or 0,
        peaks=peaks or {},
        environs=(),
        entry=known,
        max_time=None,
    )


def site(*partitions, **fields):
    known = {one.name: one for one in partitions}
    return SimpleNamespace(
        **{'name': 'demo', 'partitions': known, 'environs': {}, 'tolerance': {}, 'hostnames': ('a',), 'retired': None}
        | fields
    )


def case(name='a', of='cpu', script=Path('rfm_job.sh'), **fields):
    record = Record('STREAM', from_text('size=big'), metrics={'triad': MetricRecord('GB/s', 'higher', [Series()])})
    return Case(CaseId(of, 'system', 'STREAM', record.params), name, (), record, {}, script, **fields)


def row(mean=100.0, **fields):
    """A reference of the one series of `case`."""
    of = {
        'partition': 'cpu',
        'environ': 'system',
        'check': 'STREAM',
        'params': 'size=big',
        'metric': 'triad',
        'dims': '-',
    }
    known = {'unit': 'GB/s', 'better': 'higher', 'kind': 'published', 'recorded_at': '2020-01-01'} | fields
    series = CaseId(of['partition'], of['environ'], of['check'], from_text(of['params'])).series('triad', ())
    return Reference(
        series, Quantity(known['unit'], known['better']), mean, None, None, known['kind'], 'x',
        recorded_at=known['recorded_at'],
    )  # fmt: skip


CORES = {'num_sockets': 2, 'num_cpus_per_core': 2, 'num_cpus': 256}


@each_row(('of', 'says'), [
    (partition(), 'its nodes are not described, so it has no case'),
    # 256 hardware threads of 2 a core are 128 cores on 2 sockets
    (partition(processor=CORES), '2 sockets x 64 cores x 2 threads'),
    (partition(processor={'num_sockets': 1, 'num_cpus_per_core': 1, 'num_cpus': 1}), '1 socket x 1 core x 1 thread'),
    (partition(devices=[{'type': 'gpu', 'num_devices': 1}, {'type': 'fpga', 'num_devices': 2, 'arch': 'x1'}]),
     'its nodes are not described, so it has no case, 1 GPU, 2 fpgas x1'),
    (partition(processor=CORES, nics=['a'], memory=2**30, nodes=1),
     '2 sockets x 64 cores x 2 threads, 1 NIC, 1 GiB, 1 node'),
    (partition(processor=CORES, memory=2**29, memory_per_node='512 MiB', nodes=12),
     '2 sockets x 64 cores x 2 threads, 512 MiB, 12 nodes'),
])  # fmt: skip
def test_a_node_is_told_as_far_as_it_is_stated(of, says):
    assert node_of(of) == says


def test_cases_that_fail_alike_are_one_mistake_and_a_place_is_told_once(tmp_path):
    path = tmp_path / 'site.yaml'
    path.write_text('environments:\n- name: system\n  features: [hpcc, unheard-of]\n')
    found = Checked('demo', mistakes=['x.csv:2: unit differs: found before'])
    cases = [case(f'a{i}', fault='no such module: | tried x') for i in range(1, 6)] + [case('b', 'gpu', fault='lost')]
    environ = SimpleNamespace(features=['hpcc', 'unheard-of'])
    of = site(partition(), partition('gpu'), environs={'system': environ})
    rows = [('x.csv:2', row(unit='TB/s')), ('x.csv:3', row(unit='TB/s')), ('x.csv:4', row(kind='unmeasured'))]
    site_check._check_cases(found, of, path, rows, cases)
    assert found.mistakes[:3] == [
        'x.csv:2: unit differs: found before',
        'demo: 5 cases of partition cpu: no such module: a1; a2; a3 and 2 more',
        'demo: 1 case of partition gpu: lost: b',
    ]
    assert found.mistakes[3].startswith(f'{path}:3: environments.0.features.1: no check requires it; ')
    assert found.mistakes[4:] == ['x.csv:3: unit differs: measured GB/s, the reference (published, x) says TB/s']
    assert found.notes == []


@pytest.mark.parametrize('scripts', [1, 2, 3])
def test_scripts_with_one_fault_are_one_mistake_and_times_are_told_once(tmp_path, scripts):
    """A job of Slurm that states no time limit: the first line is named, and how many scripts are alike."""
    cases = []
    for number in range(1, scripts + 1):
        path = tmp_path / f'{number}.sh'
        path.write_text('#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --exclusive\n')
        cases.append(case(f'a{number}', script=path, time_limit='3 x 20 s are 60 s'))
    cases += [case('b', 'other', path), case('c', 'other', path)]
    of = site(
        partition(scheduler='slurm', nodes=4, queue={'needs': ['account', 'qos']}),
        partition('other', scheduler='unheard'),
    )  # fmt: skip
    found = Checked('demo')
    assert site_check._check_scripts(found, of, cases) is True
    others = {1: '', 2: ' (and in 1 other script)', 3: ' (and in 2 other scripts)'}[scripts]
    why = 'time limit: none is stated: the default of the queue would end the job'
    assert found.mistakes == [f'{tmp_path}/1.sh:1: {why}{others}']
    more = {1: '', 2: ' and 1 more', 3: ' and 2 more'}[scripts]
    assert found.notes == [
        f'demo:cpu: a1{more}: 3 x 20 s are 60 s',
        'demo: each job needs its account, qos: reframe -J, or SBATCH_ACCOUNT, SBATCH_QOS for Slurm',
        'demo: no rules of scheduler unheard are known: its scripts were not checked',
    ]
    assert found.scripts == scripts + 2


def test_scripts_without_a_fault_leave_no_mistake(tmp_path):
    path = tmp_path / 'job.sh'
    path.write_text('#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --exclusive\n#SBATCH --time=0:10:0\n')
    found = Checked('demo')
    assert site_check._check_scripts(found, site(partition(scheduler='slurm', nodes=2)), [case(script=path)]) is False
    assert (found.mistakes, found.notes, found.scripts) == ([], [], 1)


def test_a_reference_of_machines_elsewhere_may_lie_beyond_the_peaks_of_this_one():
    peaked = case()
    peaked.peaks['triad'] = 500.0
    for mean in (501.0, 0.25):
        assert (
            list(site_check._unmet_rows(site(partition()), [('x.csv:2', row(mean, kind='elsewhere'))], [peaked])) == []
        )


def test_what_a_partition_lacks_is_told_with_what_it_costs(monkeypatch):
    known = {'hpcc': {}, 'osu': {}, 'osu-cuda': {'gpu': 'cuda'}, 'rare': {'optional': True}}
    monkeypatch.setattr(site_check, 'known_benchmarks', lambda: known)
    bare, full = partition('bare', CORES), partition('full', {'topology': {'caches': {'L3': 1}}}, 2**30)
    full.peaks['memory_bandwidth'] = 1.0
    environs = {'system': SimpleNamespace(features=['osu'])}
    assert list(site_check._lacks(site(bare, full, partition('undescribed'), environs=environs))) == [
        'demo: partition bare has no processor.caches: checks whose sizes follow from them fail',
        'demo: partition bare has no memory_per_node: sizes may exceed the memory',
        'demo: partition bare has no peaks.memory_bandwidth: no bandwidth is too high to be true',
        'demo: no environ offers hpcc: their checks have no case',
    ]
    environs['system'].features.append('hpcc')
    assert list(site_check._lacks(site(full, environs=environs))) == []


@each_row(('processor', 'environs', 'entry', 'has'), [
    (CORES, ['system'], {}, True), (CORES, [], {}, False), (None, ['system'], {}, False),
    (None, [], {'detect': True}, True),
])  # fmt: skip
def test_a_site_has_cases_where_a_described_or_detected_node_has_a_stack(processor, environs, entry, has):
    one = partition(processor=processor, **entry)
    one.environs = environs
    assert bool(site_check._has_cases(site(one))) is has


@each_row(('value', 'says'), [
    (None, ''), (0.0, '0'), (12.3456, '12.35'), (9999.4, '9999'), (1e4, '10000'), (123456.7, '123457'),
    (-23456.7, '-23457'), (1e9, '1e+09'), (0.00012346, '0.0001235'),
])  # fmt: skip
def test_a_number_has_four_significant_digits_and_all_before_the_point(value, says):
    assert text.number(value) == says


@each_row(('mean', 'std', 'unit', 'says'), [
    (None, 1.0, 'GB/s', ''), (61.4, None, 'GB/s', '61.4 GB/s'), (61.4, 0.354, '', '61.4 ± 0.35'),
    (6100.0, 99.9, 'us', '6100 ± 1e+02 us'), (6100.0, 100.0, 'us', '6100 ± 100 us'),
    (6100.0, 123.4, 'us', '6100 ± 123 us'),
])  # fmt: skip
def test_a_quantity_has_its_spread_and_its_unit(mean, std, unit, says):
    assert text.quantity(mean, std, unit) == says


@each_row(('value', 'places', 'std', 'says'), [
    (None, 2, None, ''), (0.0, 2, None, '0.00'), (61.44, 1, 0.35, '61.4 ± 0.3'), (61.44, 1, 2e9, '61.4 ± 2e+09'),
    (5e9, 1, None, '5e+09'), (1e9, 1, None, '1e+09'), (1e-9, 1, None, '1e-09'), (2e-9, 9, None, '0.000000002'),
    (-61.46, 1, None, '-61.5'),
])  # fmt: skip
def test_a_number_of_a_column_has_its_decimals_unless_it_is_beyond_them(value, places, std, says):
    assert text.fixed(value, places, std) == says


@each_row(('value', 'places', 'says'), [
    (None, 1, ''), (-0.04, 1, '+0.0'), (3.14, 1, '+3.1'), (-3.14, 2, '-3.14'), (0.0, 0, '+0'),
])  # fmt: skip
def test_a_change_has_its_sign(value, places, says):
    assert text.signed(value, places) == says
    assert text.percent(value, places) == (f'{says} %' if says else '')


def test_up_to_32_nodes_are_named_and_of_more_the_ranges():
    nodes = [f'n{i}' for i in range(1, 34)]
    assert text.named(nodes[:32]) == ', '.join(nodes[:32])
    assert text.named(nodes) == '33 nodes, n[1-33]'
    assert text.names_in('n[1-3],login1') == ['login1', 'n1', 'n2', 'n3'] or set(text.names_in('n[1-3],login1')) == {
        'n1',
        'n2',
        'n3',
        'login1',
    }
    assert text.names_in('n1,,n2') == ['n1', 'n2']
    with pytest.raises(ValueError, match=r"expected names of nodes such as n\[1-3\],login1, found 'n\[1-'"):
        text.names_in('n[1-')


def test_a_case_of_a_dry_run_is_read_with_all_that_is_said_of_it():
    entry = {
        'partition': 'cpu', 'environ': 'system', 'display_name': 'STREAM %size=big', 'stagedir': '/stage',
        'fail_reason': None,
    }  # fmt: skip
    of_another = _case(entry)
    assert of_another == Case(
        CaseId('cpu', 'system', 'STREAM', (('size', 'big'),)), 'STREAM %size=big', (),
        Record('STREAM', (('size', 'big'),)), {}, Path('/stage/rfm_job.sh'), '', True, '',
    )  # fmt: skip
    unmade = _case(entry | {'stagedir': None})  # as it uses a case that failed
    assert unmade.fault and not unmade.submitted
    assert of_another.series() == {of_another.id.series('*'): (None, None)}
    full = {
        'valid_prog_environs': ['+hpcc', '+osu'], 'peaks': {'triad': 500.0}, 'fail_reason': 'lost', 'local': True,
        'time_limits': {'cpu': '3 x 20 s', 'gpu': '1 s'}, 'record': case().record.to_dict(),
    }  # fmt: skip
    own = _case(entry | full)
    assert own == Case(
        CaseId('cpu', 'system', 'STREAM', (('size', 'big'),)), 'STREAM %size=big', ('hpcc', 'osu'), case().record,
        {'triad': 500.0}, Path('/stage/rfm_job.sh'), 'lost', False, '3 x 20 s',
    )  # fmt: skip
    assert own.series() == {own.id.series('triad', ()): (Quantity('GB/s', 'higher'), 500.0)}
