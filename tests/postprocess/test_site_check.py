# SPDX-License-Identifier: BSD-3-Clause
"""What `plumbline sites` says of the nodes, cases and job scripts of a site, and how numbers and names are told."""

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

STREAM = CaseId('cpu', 'system', 'STREAM', from_text('size=big'))


def partition(name='cpu', processor=None, memory=None, nodes=0, scheduler='local', **entry):
    """A partition with these facts."""
    known = {'scheduler': scheduler} | ({'num_nodes': nodes} if nodes else {}) | entry
    return SimpleNamespace(
        name=name, processor=processor or {}, memory_bytes=memory, num_nodes=nodes, peaks={}, environs=(), entry=known,
        max_time=None,
    )  # fmt: skip


def site(*partitions, environs=None):
    known = {one.name: one for one in partitions}
    parts = {'partitions': known, 'environs': environs or {}, 'tolerance': {}}
    return SimpleNamespace(name='demo', **parts, matches=lambda host: False)


def case(name='a', of='cpu', script=Path('rfm_job.sh'), peaks=None, **fields):
    record = Record('STREAM', STREAM.params, metrics={'triad': MetricRecord('GB/s', 'higher', [Series()])})
    return Case(CaseId(of, 'system', 'STREAM', record.params), name, (), record, peaks or {}, script, **fields)


def row(mean=100.0, unit='GB/s', kind='published'):
    """A reference of the one series of `case`."""
    return Reference(STREAM.series('triad', ()), Quantity(unit, 'higher'), mean, None, None, kind, 'x')


CORES = {'num_sockets': 2, 'num_cpus_per_core': 2, 'num_cpus': 256}


@each_row(('of', 'says'), [
    (partition(devices=[{'type': 'gpu', 'num_devices': 1}, {'type': 'fpga', 'num_devices': 2, 'arch': 'x1'}]),
     'its nodes are not described, so it has no case, 1 GPU, 2 fpgas x1'),
    # 256 hardware threads of 2 a core are 128 cores on 2 sockets
    (partition(processor=CORES, nics=['a'], memory=2**30, nodes=1),
     '2 sockets x 64 cores x 2 threads, 1 NIC, 1 GiB, 1 node'),
    (partition(processor=CORES, memory=2**29, memory_per_node='512 MiB', nodes=12),
     '2 sockets x 64 cores x 2 threads, 512 MiB, 12 nodes'),
])  # fmt: skip
def test_a_node_is_told_as_far_as_it_is_stated(of, says):
    assert node_of(of) == says


def test_cases_that_fail_alike_are_one_mistake(tmp_path):
    path = tmp_path / 'site.yaml'
    path.write_text('environments:\n- name: system\n  features: [hpcc, unheard-of, bablestream-omp]\n')
    found = Checked('demo')
    cases = [case(f'a{i}', fault='no such module: | tried x') for i in range(1, 6)] + [case(peaks={'triad': 500.0})]
    environ = SimpleNamespace(features=['hpcc', 'unheard-of', 'bablestream-omp'])  # the last one is told without cases
    rows = [
        ('x.csv:3', row(unit='TB/s')), ('x.csv:4', row(kind='unmeasured')),
        ('x.csv:5', row(501.0, kind='elsewhere')),  # of another machine: it may be beyond the peak of this one
    ]  # fmt: skip
    site_check._check_cases(found, site(partition(), environs={'system': environ}), path, rows, cases)
    assert found.mistakes[0] == 'demo: 5 cases of partition cpu: no such module: a1; a2; a3 and 2 more'
    assert found.mistakes[1].startswith(f'{path}:3: environments.0.features.1: no check requires it; ')
    assert found.mistakes[2:] == ['x.csv:3: unit differs: measured GB/s, the reference (published, x) says TB/s']


def test_scripts_are_left_for_a_person_to_read_where_no_scheduler_is_asked(tmp_path):
    (path := tmp_path / 'a.sh').write_text('#!/bin/bash\n#SBATCH --nodes=2\n')
    cases = [case(f'a{number}', script=path, time_limit='3 x 20 s are 60 s') for number in (1, 2, 3)]
    slurm, found = partition(scheduler='slurm', queue={'needs': ['account', 'qos']}), Checked('demo')
    here = site(slurm)
    here.matches = lambda host: True
    assert site_check._check_scripts(found, here, cases, tmp_path) is True
    assert (found.mistakes, found.scripts) == ([], 3)
    assert found.notes == [
        'demo:cpu: a1 and 2 more: 3 x 20 s are 60 s',
        'demo: each job needs its account, qos: reframe -J, or SBATCH_ACCOUNT, SBATCH_QOS for Slurm',
        f'demo: no scheduler was asked; its job scripts are in {tmp_path}',
    ]
    assert site_check._check_scripts(Checked('demo'), here, [], tmp_path) is False


@each_row(('host', 'scheduler', 'refusals', 'wrong', 'note'), [
    ('here', 'slurm', ['no such partition'], True, None),
    ('here', 'slurm', [], False, 'demo: sbatch --test-only takes these job scripts'),
    ('here', 'pbs', [], True, 'demo: no scheduler was asked; '), ('there', 'slurm', ['x'], True, 'demo: no scheduler'),
])  # fmt: skip
def test_the_scheduler_of_this_site_is_asked_itself(
    host, scheduler, refusals, wrong, note, tmp_path_factory, monkeypatch
):
    path = tmp_path_factory.mktemp('scripts') / 'a.sh'
    path.write_text('#!/bin/bash\n')
    found, here = Checked('demo'), site(partition(scheduler=scheduler))
    here.matches = lambda name: host == 'here'
    with monkeypatch.context() as patch:
        patch.setattr(site_check.shutil, 'which', lambda name: name)
        patch.setattr(site_check, 'refusals_of_sbatch', lambda scripts: [(path, why) for why in refusals])
        assert site_check._check_scripts(found, here, [case('a', script=path)], path.parent) is wrong
    refused = refusals if (host, scheduler) == ('here', 'slurm') else []
    assert found.mistakes == [f'{path}: sbatch --test-only: {why}' for why in refused]
    assert len(found.notes) == bool(note) and all(said.startswith(note) for said in found.notes)


@each_row(('processor', 'environs', 'entry', 'has'), [
    (CORES, ('system',), {}, True), (CORES, (), {}, False), (None, ('system',), {}, False),
    (None, (), {'detect': True}, True),
])  # fmt: skip
def test_a_site_has_cases_where_a_described_or_detected_node_has_a_stack(processor, environs, entry, has):
    one = partition(processor=processor, **entry)
    one.environs = environs
    assert bool(site_check._has_cases(site(one))) is has


def test_a_case_of_a_dry_run_is_read_with_all_that_is_said_of_it():
    entry = {
        'partition': 'cpu', 'environ': 'system', 'display_name': 'STREAM %size=big', 'stagedir': None,
        'fail_reason': None,
    }  # fmt: skip
    unmade = _case(entry)  # as it uses a case that failed
    assert unmade.fault and not unmade.submitted
    assert unmade.series() == {unmade.id.series('*'): (None, None)}
    own = _case(entry | {
        'stagedir': '/stage', 'valid_prog_environs': ['+hpcc', '+osu'], 'peaks': {'triad': 500.0}, 'local': True,
        'fail_reason': 'lost', 'time_limits': {'cpu': '3 x 20 s', 'gpu': '1 s'}, 'record': case().record.to_dict(),
    })  # fmt: skip
    assert own == Case(
        STREAM, 'STREAM %size=big', ('hpcc', 'osu'), case().record, {'triad': 500.0}, Path('/stage/rfm_job.sh'), 'lost',
        False, '3 x 20 s',
    )  # fmt: skip
    assert own.series() == {STREAM.series('triad', ()): (Quantity('GB/s', 'higher'), 500.0)}


@each_row(('said', 'text'), [
    # four significant digits, and all before the point
    (text.number(None), ''), (text.number(12.3456), '12.35'), (text.number(-23456.7), '-23457'),
    (text.number(1e9), '1e+09'), (text.number(0.00012346), '0.0001235'),
    # a quantity with its spread and its unit
    (text.quantity(None, 1.0, 'GB/s'), ''), (text.quantity(61.4, 0.354, ''), '61.4 ± 0.35'),
    (text.quantity(61.4, None, 'GB/s'), '61.4 GB/s'), (text.quantity(6100.0, 99.9, 'us'), '6100 ± 1e+02 us'),
    (text.quantity(6100.0, 123.4, 'us'), '6100 ± 123 us'),
    # a column has its decimals, unless a number is beyond them
    (text.fixed(None, 2), ''), (text.fixed(61.44, 1, 0.35), '61.4 ± 0.3'), (text.fixed(1e9, 1), '1e+09'),
    (text.fixed(61.44, 1, 2e9), '61.4 ± 2e+09'), (text.fixed(1e-9, 1), '1e-09'), (text.fixed(2e-9, 9), '0.000000002'),
    (text.signed(-0.04, 1), '+0.0'), (text.percent(-3.14, 2), '-3.14 %'), (text.percent(None, 1), ''),
    (text.digits(1234.5678), '1234.57'), (text.digits(1e-7), '1e-07'), (text.digits(None), ''),
])  # fmt: skip
def test_numbers_are_told_with_the_digits_that_count(said, text):
    assert said == text


@each_row(('values', 'places'), [
    ([1234.0, 0.01234], 5), ([1234.0, 5678.0], 0), ([12.34, None, 0.0], 2), ([1e-12], 0), ([3e-8], 9), ([], 0),
])  # fmt: skip
def test_a_column_has_four_digits_of_its_smallest_number(values, places):
    assert text.decimals(values) == places


def test_up_to_32_nodes_are_named_and_of_more_the_ranges():
    nodes = [f'n{i}' for i in range(1, 34)]
    assert text.named(nodes[:32]) == ', '.join(nodes[:32])
    assert text.named(nodes) == '33 nodes, n[1-33]'
    assert sorted(text.names_in('n[1-3],login1')) == ['login1', 'n1', 'n2', 'n3']
    assert text.names_in('n1,,n2') == ['n1', 'n2']
    with pytest.raises(ValueError, match=r"expected names of nodes such as n\[1-3\],login1, found 'n\[1-'"):
        text.names_in('n[1-')
