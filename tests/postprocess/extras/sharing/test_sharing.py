# SPDX-License-Identifier: BSD-3-Clause
"""A baseline becomes levels by hardware, without names of the site, and other sites take them in."""

import math

import pytest
from rows import each_row
from run_reports import BEGAN, case, metric, only, record, report

from plumbline.identity import Quantity, SeriesId
from postprocess.extras.sharing import carried
from postprocess.extras.sharing.levels import of_series, summarize
from postprocess.verdicts.elsewhere import CARRIED, COLUMNS, NodeHardware, read

A100 = {'cpu_model': 'AMD EPYC 7543 32-Core Processor', 'sockets': '2', 'gpus': '4 x NVIDIA A100-SXM4-40GB'}
ICELAKE = {'cpu_model': 'Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz', 'sockets': '2'}


def test_the_carried_file_is_what_was_published():
    assert carried.table() == CARRIED.read_text(), 'run python -m postprocess.extras.sharing.carried'


def test_parts_of_a_node_are_one_level_and_machines_are_its_spread():
    rate, machine = Quantity('GB/s', 'higher'), NodeHardware('AMD EPYC 7763', 2, (('A100', 4),))
    values = []
    for site, factor in (('a', 1.0), ('b', 1.1)):
        for device in range(3):
            id = SeriesId(site, 'cuda', 'Copies', (('device', str(device)),), 'rate')
            values.append((of_series(id, rate, machine), site, factor * (10 + device), 'x'))
    (level,) = summarize(values)
    assert (level.part, level.model, level.number, level.row.id.params) == ('gpu', 'A100', None, (('device', '*'),))
    assert level.row.mean == pytest.approx(11.55) and level.row.n == 2
    assert level.row.spread == pytest.approx(math.log(1.1) / math.sqrt(2))


@each_row(('params', 'is_whole', 'shared'), [
    ((('pair', 'same_numa'),), True, True), ((('num_nodes', '2'),), True, False), ((), False, False),
])  # fmt: skip
def test_only_single_real_nodes_are_shared(params, is_whole, shared):
    machine = NodeHardware('POWER9', 2, (), is_whole)
    found = of_series(SeriesId('p', 'e', 'Osu', params, 'latency'), Quantity('us', 'lower'), machine)
    assert (found.params, found.number) == (params, 2) if shared else found is None


def test_a_baseline_is_shared_without_names_and_taken_in(work, tmp_path):
    for night in range(2):
        entries = [
            case('Copies', f'device={device}', {'rate': metric([value + night])}, 'gpu', nodes=('secret7',),
                 tags=('nightly', 'memory'), provenance=A100)
            for device, value in ((0, 50.0), (1, 52.0))
        ]  # fmt: skip
        work.ingest(report(*entries, uuid=f'{night}aaa1111', began=BEGAN + night * 86400))
    record(work)
    file = tmp_path / 'ours.csv'
    shown = work.run('share')
    assert shown.exit_code == 0 and 'not written' in shown.stderr and not file.exists()
    written = work.run('share', '--output', file, '--signed-off-by', 'HPC  team of a lab')
    assert written.exit_code == 0, written.output
    assert not [name for name in ('secret7', 'cluster', 'aaa1111', 'gpu,system') if name in file.read_text()]
    (level,) = read(file)
    assert (level.part, level.model, level.number) == ('gpu', 'NVIDIA A100-SXM4-40GB', None)
    assert level.row.mean == pytest.approx(51.5) and 'signed off by HPC team of a lab' in level.row.source
    assert level.row.n == 1 and level.row.spread is None

    (tmp_path / 'other').mkdir()
    other = type(work)(tmp_path / 'other')
    entry = case('Copies', 'device=3', {'rate': metric([20.0])}, partition='gpu', tags=('memory',), provenance=A100)
    assert only(other.judge(entry))['verdict'] == 'no_reference'
    for new in ('1 new level', '0 new levels'):
        taken = other.run('share', '--elsewhere', file)
        assert taken.exit_code == 0 and new in taken.stdout, taken.output
    row = only(other.compare())
    assert (row['verdict'], row['expected']) == ('warning', pytest.approx(51.5))


@pytest.mark.parametrize(('arguments', 'says'), [
    (('--output', 'x.csv'), '--signed-off-by together'), (('--signed-off-by', 'me'), '--output'),
    (('--elsewhere', __file__, '--signed-off-by', 'me'), 'alone'), ((), 'has no baseline to share'),
])  # fmt: skip
def test_sharing_that_cannot_be(work, arguments, says):
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    answer = work.run('share', *arguments)
    assert answer.exit_code == 2 and says in answer.stderr and answer.stderr.count('\n') == 1, answer.output


def test_hardware_without_a_name_and_file_systems_are_not_shared(work):
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    record(work)
    answer = work.run('share')
    assert answer.exit_code == 2 and 'aaaa1111' in answer.stderr and 'has a known name' in answer.stderr
    storage = case('IOR', 'file_system=secret', {'bandwidth': metric([1.0])}, tags=('storage',), provenance=ICELAKE)
    work.ingest(report(storage, uuid='bbbb2222', began=BEGAN + 86400))
    record(work, 'bbbb2222')
    answer = work.run('share')
    assert answer.exit_code == 2 and 'secret' not in answer.output, answer.output


@pytest.mark.parametrize(('text', 'says'), [
    ('', ':1: expected the columns'), (','.join(COLUMNS) + '\n1,2\n', ':2: expected 14 fields'),
    (','.join(COLUMNS) + '\n' + '"x' * 3 + '\n', 'not a valid CSV file'), (None, ': cannot be read: '),
])  # fmt: skip
def test_a_file_that_is_no_such_table_or_not_there_changes_nothing(work, tmp_path, text, says):
    path = tmp_path / 'theirs.csv'
    if text is not None:
        path.write_text(text)
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    answer = work.run('share', '--elsewhere', path)
    assert answer.exit_code == 2 and str(path) in answer.stderr and says in answer.stderr, answer.output
    assert not list(work.sites.rglob('elsewhere.csv'))
