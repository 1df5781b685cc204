# SPDX-License-Identifier: BSD-3-Clause
"""Series without a reference of this machine are compared with the same hardware elsewhere, which warns at most."""

import math

import pytest
from rows import each_row
from run_reports import case, metric, only, reference

from plumbline.errors import SiteError
from plumbline.identity import Quantity, SeriesId
from plumbline.references import Reference
from postprocess.verdicts.elsewhere import CARRIED, COLUMNS, SPREAD, NodeHardware, limits, parse, read

A100 = {'cpu_model': 'AMD EPYC 7543 32-Core Processor', 'sockets': '2', 'gpus': '4 x NVIDIA A100-SXM4-40GB'}
ICELAKE = {'cpu_model': 'Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz', 'sockets': '2'}
DEVICE = {'check': 'BabelStreamDevice', 'parameters': 'device=2,model=cuda', 'tags': ('nightly', 'memory')}
HOST = {'check': 'BabelStreamHost', 'parameters': 'binding=cores-spread'}
TRIAD = 'bandwidth kernel=triad'


def judged(work, facts, name, value, *rows, unit='GB/s', **of):
    """The verdict of one series of one sample on a machine with these facts."""
    return only(work.judge(case(metrics={name: metric([value], unit)}, provenance=facts, **of), *rows))


# Two machines of 003 Table 5 have 40 GB A100s: 1362.75 and 1363.74 GB/s, median 1363.245, spread of the logarithms
# 0.0005135. With 0.12 for four degrees of freedom: sqrt((4 x 0.0144 + 0.0005135^2) / 5) = 0.10733; one more machine:
# times sqrt(1.5); t of 99 % at 5 degrees of freedom is 3.36493; the limit is 1363.245 exp(-0.44233) = 875.9.
@pytest.mark.parametrize(('value', 'verdict'), [(880.0, 'ok'), (870.0, 'warning'), (1500.0, 'ok')])
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
@pytest.mark.parametrize(('facts', 'expected'), [(ICELAKE, 337.5), (ICELAKE | {'sockets': '1'}, 168.7)])
def test_memory_is_compared_with_a_share_of_all_channels(work, facts, expected):
    row = judged(work, facts, TRIAD, expected * 0.4, **HOST)
    assert row['expected'] == pytest.approx(expected, abs=0.1)
    assert row['verdict'] == 'warning' and '82 % of the peak; 4 machines: ' in row['reference_source']


def test_a_stated_peak_counts_before_that_of_the_model(work):
    row = judged(work, ICELAKE, TRIAD, 70.0, figures={'bandwidth': {'peak': 100.0}}, **HOST)
    assert row['verdict'] == 'ok' and row['expected'] == pytest.approx(82.39, abs=0.01)


@pytest.mark.parametrize('facts', [
    ICELAKE | {'virtual': 'yes'}, ICELAKE | {'cpus': '2 of 144'}, {'cpu_model': 'AMD EPYC', 'sockets': '1'}, {},
    ICELAKE | {'sockets': '0'},
])  # fmt: skip
def test_nothing_is_said_of_hardware_that_is_not_known(work, facts):
    assert judged(work, facts, TRIAD, 1.0, **HOST)['verdict'] == 'no_reference'


def test_a_reference_of_the_machine_comes_first(work):
    own = reference(check='BabelStreamDevice', params='device=2,model=cuda', metric='best', mean=870, std=1)
    row = judged(work, A100, 'best', 870.0, own, **DEVICE)
    assert (row['verdict'], row['gate'], row['expected']) == ('ok', 'gated', 870.0)


def test_what_failed_is_not_judged_or_has_another_unit_is_not_compared(work):
    assert judged(work, A100, 'best', math.nan, **DEVICE)['gate'] == ''
    shown = case(metrics={'best': metric([870.0]) | {'judged': False}}, provenance=A100, **DEVICE)
    assert only(work.judge(shown, uuid='bbbb2222'))['verdict'] == 'informational'
    other = case(metrics={'best': metric([870.0], 'GFlop/s')}, provenance=A100, **DEVICE)
    assert only(work.judge(other, uuid='cccc3333'))['verdict'] == 'no_reference'


@each_row(('n', 'spread', 'sign', 'bad'), [
    # t(4, 99 %) 3.74695, sd 0.12 sqrt(2); t(6) 3.14267, sd sqrt((4 x 0.0144 + 2 x 0.09) / 6 x 4 / 3)
    (1, None, 1, 100 * math.exp(-3.74695 * 0.169706)), (3, 0.3, -1, 100 * math.exp(3.14267 * 0.229783)),
    (9, 2.0, 1, 25.0), (9, 2.0, -1, 400.0),  # the loss at the limit is at most three quarters
])  # fmt: skip
def test_one_machine_of_100_is_beyond_the_limit(n, spread, sign, bad):
    series, quantity = SeriesId('*', '*', 'A', (), 'm'), Quantity('us', 'lower')
    known = Reference(series, quantity, 1.0, None, n, 'elsewhere', 'x', spread=spread)
    assert limits(known, 100.0, sign).bad == pytest.approx(bad, rel=1e-4)


def test_the_spread_between_machines_is_that_of_the_published_ones():
    levels = [level.row for level in read(CARRIED) if level.part != 'any' and level.row.spread is not None]
    squares = sum((row.n - 1) * row.spread**2 for row in levels)
    assert (len(levels), round((squares / sum(row.n - 1 for row in levels)) ** 0.5, 2)) == (35, SPREAD)


VALUES = 'gpu', 'A100', '4', 'Copies', 'device=*', 'rate', '-', '', 'GB/s', 'higher', '50', '0.1', '3', 'x'
ROW = dict(zip(COLUMNS, VALUES, strict=True))


@each_row(('column', 'wrong'), [
    ('part', {'part': 'cpu'}), ('model', {'model': ''}), ('model', {'part': 'any'}), ('number', {'number': '0'}),
    ('number', {'number': 'x'}), ('check', {'check': '*'}), ('check', {'check': ''}), ('metric', {'metric': '*'}),
    ('params', {'params': 'b'}), ('dims', {'dims': 'x'}), ('share_of', {'share_of': 'peak'}),
    ('unit', {'unit': 'GBytes'}), ('better', {'better': 'more'}), ('median', {'median': ''}),
    ('median', {'median': 'nan'}), ('spread', {'spread': '-1'}), ('spread', {'spread': ''}), ('spread', {'n': '1'}),
    ('n', {'n': ''}), ('n', {'n': '0'}), ('source', {'source': ''}),
])  # fmt: skip
def test_each_mistake_of_a_file_is_named(tmp_path, column, wrong):
    lines = [','.join(COLUMNS), ','.join(ROW.values()), ','.join((ROW | wrong).values())]
    with pytest.raises(SiteError, match=rf'theirs\.csv:3: {column}: '):
        parse('\n'.join(lines), tmp_path / 'theirs.csv')


def test_a_mistake_in_the_file_of_a_site_is_found_by_its_check(work):
    (work.sites / 'cluster' / 'elsewhere.csv').write_text(','.join(COLUMNS) + '\n1,2\n')
    answer = work.run('sites', 'cluster', '--check')
    assert answer.exit_code == 2 and 'elsewhere.csv:2: expected 14 fields' in answer.stderr, answer.output


@each_row(('facts', 'machine'), [
    (A100, NodeHardware('AMD EPYC 7543 32-Core Processor', 2, (('NVIDIA A100-SXM4-40GB', 4),))),
    ({'gpus': '1 x A; 2 x B x C', 'virtual': 'yes'}, NodeHardware('', 0, (('A', 1), ('B x C', 2)), False)),
    ({'gpus': '4 x H100; 64 GB; 2 x A30'}, NodeHardware('', 0, (('H100; 64 GB', 4), ('A30', 2)))),
    ({'gpus': 'none; 64 GB', 'sockets': 'two'}, NodeHardware('', 0, ())),
    # a node of which a job has less than half is none
    ({'cpus': '31 of 64'}, NodeHardware('', 0, (), False)), ({'cpus': '32 of 64'}, NodeHardware('', 0, ())),
])  # fmt: skip
def test_the_provenance_names_the_machine(facts, machine):
    assert NodeHardware.of(facts) == machine
