# SPDX-License-Identifier: BSD-3-Clause
"""Series without a reference of this machine are compared with the same hardware elsewhere, which warns at most."""

import math

import pytest
from run_reports import case, metric, only, reference, report

from plumbline.errors import SiteError
from plumbline.identity import Quantity, SeriesId
from plumbline.references import Reference
from postprocess.verdicts.elsewhere import CARRIED, COLUMNS, SPREAD, NodeHardware, limits, parse, read
from postprocess.verdicts.sharing import of_series, summarize

A100 = {'cpu_model': 'AMD EPYC 7543 32-Core Processor', 'sockets': '2', 'gpus': '4 x NVIDIA A100-SXM4-40GB'}
ICELAKE = {'cpu_model': 'Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz', 'sockets': '2'}
DEVICE = {'check': 'BabelStreamDevice', 'parameters': 'device=2,model=cuda', 'tags': ('nightly', 'memory')}
HOST = {'check': 'BabelStreamHost', 'parameters': 'binding=cores-spread'}
TRIAD = 'bandwidth kernel=triad'


def each(**columns):
    """Run a test once for each row of these columns."""
    return pytest.mark.parametrize(','.join(columns), list(zip(*columns.values(), strict=True)))


def judged(work, facts, name, value, *rows, unit='GB/s', better='higher', **of):
    """The verdict of one series of one sample on a machine with these facts."""
    entry = case(metrics={name: metric([value], unit, better)}, provenance=facts, **of)
    return only(work.judge(entry, *rows))


# Two machines of 003 Table 5 have 40 GB A100s: 1362.75 and 1363.74 GB/s, median 1363.245, spread of the logarithms
# 0.0005135. With 0.12 for four degrees of freedom: sqrt((4 x 0.0144 + 0.0005135^2) / 5) = 0.10733; one more machine:
# times sqrt(1.5); t of 99 % at 5 degrees of freedom is 3.36493; the limit is 1363.245 exp(-0.44233) = 875.9.
@each(
    value=(1340.0, 880.0, 870.0, 1500.0),
    verdict=('ok', 'ok', 'warning', 'ok'),
)
def test_a_gpu_is_compared_with_the_same_model(work, value, verdict):
    worse = verdict == 'warning'
    row = judged(work, A100, 'best', value, **DEVICE)
    assert (row['verdict'], row['gate'], row['reference_kind']) == (verdict, 'elsewhere', 'elsewhere')
    assert row['expected'] == pytest.approx(1363.245, rel=1e-5)
    assert row['limit'] == pytest.approx(875.9, abs=0.1)
    assert '2 machines: 003 Table 5' in row['reference_source']
    answer = work.run('compare')
    said = ' '.join(answer.stdout.split())
    assert answer.exit_code == 0 and 'NEEDS A LOOK: only compared with other machines' in said
    assert f'of 1 metric 1 could be compared with the same hardware elsewhere, {"1" if worse else "none"}' in said
    assert ('look there first' in said) is worse


# Memory of a socket of an 8360Y: 8 channels of DDR4-3200, 204.8 GB/s. Published, as a share of their peak, on all cores
# of nodes of two sockets: 0.4572 (the median of four kernels), 0.8135, 0.8343 and 0.8480; the median is 0.8239.
@each(facts=(ICELAKE, ICELAKE | {'sockets': '1'}), expected=(337.5, 168.7))
def test_memory_is_compared_with_a_share_of_all_channels(work, facts, expected):
    row = judged(work, facts, TRIAD, expected * 0.4, **HOST)
    assert row['expected'] == pytest.approx(expected, abs=0.1)
    assert row['verdict'] == 'warning' and '82 % of the peak; 4 machines: ' in row['reference_source']
    again = case(metrics={TRIAD: metric([expected * 0.7])}, provenance=facts, **HOST)
    assert only(work.judge(again, uuid='bbbb2222'))['verdict'] == 'ok'


def test_a_stated_peak_counts_before_that_of_the_model(work):
    figures = {'bandwidth': {'peak': 100.0}}
    row = judged(work, ICELAKE, TRIAD, 70.0, figures=figures, **HOST)
    assert row['expected'] == pytest.approx(82.39, abs=0.01)


@pytest.mark.parametrize(
    'facts',
    [
        ICELAKE | {'virtual': 'yes'},
        ICELAKE | {'cpus': '2 of 144'},
        {'cpu_model': 'AMD EPYC', 'sockets': '1'},
        {},
        ICELAKE | {'sockets': '0'},
    ],
)
def test_nothing_is_said_of_hardware_that_is_not_known(work, facts):
    assert judged(work, facts, TRIAD, 1.0, **HOST)['verdict'] == 'no_reference'


def test_a_reference_of_the_machine_comes_first(work):
    own = reference(
        check='BabelStreamDevice', params='device=2,model=cuda', metric='best', mean=870, std=1, partition='cpu'
    )
    row = judged(work, A100, 'best', 870.0, own, **DEVICE)
    assert (row['verdict'], row['gate'], row['expected']) == ('ok', 'gated', 870.0)


def test_what_failed_or_is_not_judged_is_not_compared(work):
    assert judged(work, A100, 'best', math.nan, **DEVICE)['gate'] == ''
    best = metric([870.0]) | {'judged': False}
    row = only(work.judge(case(metrics={'best': best}, provenance=A100, **DEVICE), uuid='bbbb2222'))
    assert row['verdict'] == 'informational'


def test_a_unit_that_differs_is_not_compared(work):
    assert judged(work, A100, 'best', 870.0, unit='GFlop/s', **DEVICE)['verdict'] == 'no_reference'


@each(
    n=(1, 3),
    spread=(None, 0.3),
    sign=(1, -1),
    # t(4, 99 %) 3.74695, sd 0.12 sqrt(2); t(6) 3.14267, sd sqrt((4 x 0.0144 + 2 x 0.09) / 6 x 4 / 3)
    bad=(100 * math.exp(-3.74695 * 0.169706), 100 * math.exp(3.14267 * 0.229783)),
)
def test_one_machine_of_100_is_beyond_the_limit(n, spread, sign, bad):
    known = Reference(
        SeriesId('*', '*', 'A', (), 'm'), Quantity('us', 'lower'), 1.0, None, n, 'elsewhere', 'x', spread=spread
    )
    assert limits(known, 100.0, sign).bad == pytest.approx(bad, rel=1e-4)


def test_the_spread_between_machines_is_that_of_the_published_ones():
    levels = [level.row for level in read(CARRIED) if level.part != 'any' and level.row.spread is not None]
    squares = sum((row.n - 1) * row.spread**2 for row in levels)
    assert (len(levels), round((squares / sum(row.n - 1 for row in levels)) ** 0.5, 2)) == (35, SPREAD)


def test_the_loss_at_the_limit_is_at_most_three_quarters():
    known = Reference(
        SeriesId('*', '*', 'A', (), 'm'), Quantity('us', 'lower'), 1.0, None, 9, 'elsewhere', 'x', spread=2.0
    )
    assert limits(known, 100.0, 1).bad == pytest.approx(25.0) and limits(known, 100.0, -1).bad == pytest.approx(400.0)


def test_the_carried_file_is_what_was_published():
    import studies.elsewhere_table

    assert studies.elsewhere_table.table() == CARRIED.read_text(), 'run studies/elsewhere_table.py'


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


@each(
    params=((('pair', 'same_numa'),), (('num_nodes', '2'),), ()),
    machine=(NodeHardware('POWER9', 2, ()), NodeHardware('POWER9', 2, ()), NodeHardware('POWER9', 2, (), False)),
    params_of=((('pair', 'same_numa'),), None, None),
)
def test_only_single_real_nodes_are_shared(params, machine, params_of):
    found = of_series(SeriesId('p', 'e', 'Osu', params, 'latency'), Quantity('us', 'lower'), machine)
    assert (found and found.params) == params_of and (found is None or found.number == 2)


def shared(work):
    """A site with a baseline of two series on one GPU node each, and the file that it shares."""
    nights = [
        report(
            *(
                case(
                    'Copies', f'device={device}', {'rate': metric([value + night])}, partition='gpu',
                    nodes=('secret7',), tags=('nightly', 'memory'), provenance=A100,
                )
                for device, value in ((0, 50.0), (1, 52.0))
            ),
            uuid=f'{night}aaa1111', began=1_795_257_531.0 + night * 86400,
        )
        for night in range(2)
    ]  # fmt: skip
    work.ingest(*nights)
    assert work.run('record propose').exit_code == 0 and work.run('record accept').exit_code == 0
    return work.results.parent / 'ours.csv'


def test_a_baseline_is_shared_without_names_and_taken_in(work, tmp_path):
    file = shared(work)
    shown = work.run('share')
    assert shown.exit_code == 0 and 'not written' in shown.stderr and not file.exists()
    written = work.run('share', '--output', file, '--signed-off-by', 'HPC  team of a lab')
    assert written.exit_code == 0, written.output
    text = file.read_text()
    assert not any(name in text for name in ('secret7', 'cluster', 'aaa1111', 'gpu,system'))
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


@each(
    arguments=(
        ('--output', 'x.csv'),
        ('--signed-off-by', 'me'),
        ('--elsewhere', __file__, '--signed-off-by', 'me'),
        (),
    ),
    says=('--signed-off-by together', '--output', 'alone', 'has no baseline to share'),
)
def test_sharing_that_cannot_be(work, arguments, says):
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    answer = work.run('share', *arguments)
    assert answer.exit_code == 2 and says in answer.stderr and answer.stderr.count('\n') == 1, answer.output


def test_a_site_whose_hardware_has_no_name_shares_nothing(work):
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    assert work.run('record propose').exit_code == 0 and work.run('record accept').exit_code == 0
    answer = work.run('share')
    assert answer.exit_code == 2 and 'aaaa1111' in answer.stderr and 'has a known name' in answer.stderr


ROW = dict(
    zip(
        COLUMNS,
        ('gpu', 'A100', '4', 'Copies', 'device=*', 'rate', '-', '', 'GB/s', 'higher', '50', '0.1', '3', 'x'),
        strict=True,
    )
)


@each(
    wrong=(
        {'part': 'cpu'},
        {'model': ''},
        {'part': 'any'},
        {'number': '0'},
        {'number': 'x'},
        {'check': '*'},
        {'check': ''},
        {'metric': '*'},
        {'params': 'b'},
        {'dims': 'x'},
        {'share_of': 'peak'},
        {'unit': 'GBytes'},
        {'better': 'more'},
        {'median': ''},
        {'median': '0'},
        {'median': 'nan'},
        {'spread': '-1'},
        {'spread': ''},
        {'n': ''},
        {'n': '1'},
        {'n': '0'},
        {'source': ''},
    ),
    column=(
        'part',
        'model',
        'model',
        'number',
        'number',
        'check',
        'check',
        'metric',
        'params',
        'dims',
        'share_of',
        'unit',
        'better',
        'median',
        'median',
        'median',
        'spread',
        'spread',
        'n',
        'spread',
        'n',
        'source',
    ),
)
def test_each_mistake_of_a_file_is_named(tmp_path, wrong, column):
    path, lines = tmp_path / 'theirs.csv', [','.join(COLUMNS), ','.join(ROW.values())]
    assert [level.number for level in parse('\n'.join(lines), path)] == [4]
    lines.append(','.join((ROW | wrong).values()))
    with pytest.raises(SiteError, match=rf'theirs\.csv:3: {column}: '):
        parse('\n'.join(lines), path)


@each(
    text=('', 'a,b\n1,2\n', ','.join(COLUMNS) + '\n1,2\n', ','.join(COLUMNS) + '\n' + '"x' * 3 + '\n'),
    says=(':1: expected the columns', ':1: expected the columns', ':2: expected 14 fields', 'not a valid CSV file'),
)
def test_a_file_that_is_no_such_table_changes_nothing(work, tmp_path, text, says):
    path = tmp_path / 'theirs.csv'
    path.write_text(text)
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    answer = work.run('share', '--elsewhere', path)
    assert answer.exit_code == 2 and says in answer.stderr and not list(work.sites.rglob('elsewhere.csv'))


def test_a_file_that_is_not_there(work, tmp_path):
    work.ingest(report(case(metrics={'triad': metric([1.0])})))
    for path in (tmp_path / 'nothing.csv', tmp_path):
        answer = work.run('share', '--elsewhere', path)
        assert answer.exit_code == 2 and f'{path}: cannot be read: ' in answer.stderr, answer.output


def test_a_mistake_in_the_file_of_a_site_is_found_by_its_check(work):
    (work.sites / 'cluster' / 'elsewhere.csv').write_text(','.join(COLUMNS) + '\n1,2\n')
    answer = work.run('sites', 'cluster', '--check')
    assert answer.exit_code == 2 and 'elsewhere.csv:2: expected 14 fields' in answer.stderr, answer.output


def test_facts_of_another_form_describe_no_machine():
    assert NodeHardware.of({'gpus': 'none; 64 GB', 'sockets': 'two'}) == NodeHardware('', 0, ())
    assert NodeHardware.of({'gpus': '4 x H100; 64 GB; 2 x A30'}).gpus == (('H100; 64 GB', 4), ('A30', 2))


def test_storage_is_not_shared_as_it_names_file_systems_and_is_not_of_the_node(work):
    entry = case('IOR', 'file_system=secret', {'bandwidth': metric([1.0])}, tags=('storage',), provenance=ICELAKE)
    work.ingest(report(entry))
    assert work.run('record propose').exit_code == 0 and work.run('record accept').exit_code == 0
    answer = work.run('share')
    assert answer.exit_code == 2 and 'secret' not in answer.output, answer.output


def test_the_provenance_names_the_machine():
    assert NodeHardware.of(A100) == NodeHardware('AMD EPYC 7543 32-Core Processor', 2, (('NVIDIA A100-SXM4-40GB', 4),))
    two = NodeHardware.of({'gpus': '1 x A; 2 x B x C', 'virtual': 'yes'})
    assert (two.gpus, two.is_whole, two.sockets, two.processor) == ((('A', 1), ('B x C', 2)), False, 0, '')
    shares = ('2 of 64', '31 of 64', '32 of 64', '62 of 64', '')
    assert [NodeHardware.of({'cpus': cpus}).is_whole for cpus in shares] == [False, False, True, True, True]
