# SPDX-License-Identifier: BSD-3-Clause
"""HPL.dat, and the numbers and faults of outputs that HPL 2.3 really printed."""

import json
import math
import re
from collections import Counter
from dataclasses import replace

import pytest
from described_nodes import TWO
from hypothesis import given
from hypothesis import strategies as st
from reading import value_of
from rows import each_row
from scratch import ROOT

from checks.compute.hpl import (
    IMPLEMENTATIONS,
    LINES,
    configurations,
    dat_of,
    lines_of,
    matrix_order,
    nearly_square,
    operations,
)
from checks.compute.hpl_output import errors_of, faults_of, metrics_of, results_of
from checks.core.reading.metrics import NotMeasured
from plumbline.errors import SiteError
from plumbline.stacks.manifest import known_benchmarks

ASKED = ((2000, 192, 1, 2),)
EIGHT = tuple((n, nb, 1, 2) for n in (2304, 4608) for nb in (96, 192) for _ in range(2))
RATES = [6.7987, 6.1826, 3.4183, 4.8668, 8.9736, 10.430, 11.203, 14.720]
SMALL = ((2304, 192, 1, 2),)


def values(output, asked, nodes=1, peak=None):
    return {metric.name: value_of(metric, output) for metric in metrics_of(asked, nodes, peak)}


def outcome(output, asked):
    """The values of a case that passes; None where a fault or an unmeasured metric fails it."""
    try:
        measured = values(output, asked)
    except NotMeasured:
        return None
    return None if faults_of(output, asked) else measured


def hpl_output(solved, verdict='PASSED'):
    """What HPL prints of (N, NB, P, Q, s) without progress reports and detailed timings."""
    lines = ['T/V                N    NB     P     Q               Time                 Gflops']
    for n, nb, p, q, seconds in solved:
        rate = operations(n) / 1e9 / seconds
        lines.append(f'WR11C2R4{n:12d} {nb:5d} {p:5d} {q:5d} {seconds:18.2f}    {rate:19.4e}')
        lines.append(f'||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.37595811e-03 ...... {verdict}')
    return '\n'.join([*lines, f'Finished {len(solved):6d} tests with the following results:', 'End of Tests.', ''])


# Configurations that were asked for, gigaflops, and seconds of the fastest; Intel's files are published by others
RUNS = {
    '2.3': (ASKED, {'gflops': 12.001, 'time': 0.44}),  # with progress reports, which also say Gflops=
    '2.3-eight-configurations': (EIGHT, {'gflops_best': 14.720, 'gflops_mean': sum(RATES) / 8, 'time': 4.43}),
    'intel-2019': (((204288, 384, 2, 2),), {'gflops': 4488.91, 'time': 1266.20}),
    'intel-2024.0-run-1': (((1000, 192, 4, 4),), {'gflops': 3.05759e-3, 'time': 218.53}),
    'intel-2024.0-run-2': (((1000, 192, 4, 4),), {'gflops': 3.08243e-3, 'time': 216.77}),
}
CUT_BY_THE_PAGE = {
    'intel-2019-unended': (((204288, 384, 2, 2),), {'gflops': 4434.68, 'time': 1281.68}),
    'intel-2019-24-nodes': (((353856, 336, 4, 6),), {'gflops': 37788.2, 'time': 781.69}),
}


@each_row(('name', 'run'), (RUNS | CUT_BY_THE_PAGE).items())
def test_the_numbers_of_a_recorded_run(recorded, name, run):
    asked, expected = run
    output = recorded(f'hpl-{name}.txt')
    assert values(output, asked) == pytest.approx(expected)
    assert faults_of(output, asked) == ([] if name in RUNS else ['HPL did not end: no line "End of Tests."'])


def test_a_rate_is_also_told_per_node_and_as_a_part_of_the_peak(recorded):
    measured = values(recorded('hpl-2.3.txt'), ASKED, nodes=4, peak=10e9)
    assert measured == {'gflops': 12.001, 'gflops_per_node': 12.001 / 4, 'time': 0.44, 'peak_fraction': 12.001 / 40}


@each_row(
    ('name', 'asked', 'fault'),
    [
        ('failed-residual', SMALL, 'the solution is wrong: residual 3.87059020e-03 FAILED'),
        ('unchecked', SMALL, 'no residual was checked: the threshold in HPL.dat is not above zero'),
        ('too-few-processes', SMALL, 'HPL did not end: no line "End of Tests."'),
        ('no-memory', ((100000, 192, 1, 2),), 'HPL says: [0,1] Memory allocation failed for A, x and b. Skip.'),
        ('eight-configurations', (*EIGHT, EIGHT[0]), '9 tests were requested, HPL finished 8'),
    ],
)
def test_what_went_wrong_is_one_sentence(recorded, name, asked, fault):
    output = recorded(f'hpl-2.3-{name}.txt')
    assert fault in faults_of(output, asked) and outcome(output, asked) is None
    if name == 'too-few-processes':
        said = errors_of(output)
        assert said[0] == 'HPL says: Need at least 2 processes for these tests' and len(said) == 2


def test_another_matrix_than_the_one_asked_for_is_a_fault(recorded):
    faults = faults_of(recorded('hpl-2.3.txt'), ((3600, 100, 1, 1),))
    assert any('N=3600' in fault and 'N=2000' in fault for fault in faults)


@each_row(
    ('old', 'new', 'fault'),
    [
        ('2.39539597e-03 ...... PASSED', '2.39539597e+03 ...... FAILED', 'residual 2.39539597e+03 FAILED'),
        ('||Ax-b||_oo/(eps*', '', '8 residuals should have PASSED, 7 did'),
    ],
)
def test_one_wrong_residual_among_eight(recorded, old, new, fault):
    (found,) = faults_of(recorded('hpl-2.3-eight-configurations.txt').replace(old, new, 1), EIGHT)
    assert fault in found


@each_row(('name', 'asked'), [('2.3', ASKED), ('2.3-eight-configurations', EIGHT)])
def test_no_line_that_counts_can_be_lost(recorded, name, asked):
    lines = recorded(f'hpl-{name}.txt').splitlines(keepends=True)
    counting = [i for i, line in enumerate(lines) if re.match(r'W[RC]\d|\|\|Ax-b\|\|_oo/\(|Finished|End of', line)]
    assert len(counting) == 2 * len(asked) + 2
    for lost in counting:
        assert outcome(''.join(lines[:lost] + lines[lost + 1 :]), asked) is None


@each_row(
    'broken',
    [
        lambda line: line[: len(line) // 2] + 'WARNING: no device' + line[len(line) // 2 :],
        lambda line: line.replace('1.2001e+01', '0.0000e+00'),
        lambda line: line.replace('2000', '**********'),
    ],
)
def test_a_broken_result_line_is_no_measurement(recorded, broken):
    output = recorded('hpl-2.3.txt')
    line = next(line for line in output.splitlines() if line.startswith('WR'))
    assert outcome(output.replace(line, broken(line)), ASKED) is None


@given(
    st.lists(
        st.tuples(st.integers(1000, 10**7), st.integers(1, 2048), st.integers(1, 500), st.integers(1, 500),
                  st.floats(0.01, 1e6)),
        min_size=1, max_size=6,
    )
)  # fmt: skip
def test_whatever_hpl_solves_is_read_as_printed(solved):
    output = hpl_output(solved)
    asked = tuple(tuple(configuration) for *configuration, _ in solved)
    rates = [float(f'{operations(n) / 1e9 / s:.4e}') for n, *_, s in solved]
    assert faults_of(output, asked) == []
    measured = values(output, asked)
    assert measured['gflops' if len(solved) == 1 else 'gflops_best'] == max(rates)
    assert faults_of(hpl_output(solved, 'FAILED'), asked)


def test_a_vendors_rate_of_one_gpu_is_not_the_result():
    """The form is from NVIDIA's and AMD's sources and pages: no such run could be recorded here."""
    line = 'WC0           264192  1024     4     2             192.38              6.391e+04 ( 7.989e+03)'
    (result,) = results_of(line)
    assert (result.configuration, result.seconds, result.gflops) == ((264192, 1024, 4, 2), 192.38, 63910)


# HPL.dat


def parsed(text):
    """HPL.dat as HPL reads it: line by line, the first words of each."""
    lines = [line.split() for line in text.splitlines()]
    assert lines[3][0] == '6'  # standard output
    rest, found = lines[4:], {}
    for name in LINES:
        count = 1
        if name in ('Ns', 'NBs', 'Ps', 'PFACTs', 'NBMINs', 'NDIVs', 'RFACTs', 'BCASTs', 'DEPTHs'):
            count = int(rest.pop(0)[0])
        elif name == 'Qs':
            count = len(found['Ps'])
        line = rest.pop(0)
        found[name], label = line[:count], ' '.join(line[count:])
        assert label == name
    assert not rest
    return found


@given(st.integers(10**6, 10**16), st.integers(1, 2048), st.integers(1, 100_000))
def test_the_matrix_fits_and_the_grid_has_all_ranks(memory, block_size, ranks):
    n = matrix_order(memory, block_size)
    assert n % block_size == 0
    assert 8 * n**2 <= memory < 8 * (n + block_size) ** 2 + 8
    lines = lines_of(n, block_size, ranks, {})
    ((n_asked, nb, p, q),) = configurations(lines, ranks)
    assert (n_asked, nb) == (n, block_size)
    assert p * q == ranks and p <= q and (p, q) == nearly_square(ranks)
    assert parsed(dat_of(lines)) == {name: value.split() for name, value in lines.items()}


@given(st.fixed_dictionaries({}, optional={
    name: st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda values: '  '.join(map(str, values)))
    for name in ('NBs', 'PFACTs', 'NBMINs', 'NDIVs', 'RFACTs', 'BCASTs', 'DEPTHs')
} | {'PMAP': st.sampled_from([0, 1]), 'threshold': st.just(-1.0), 'Ns': st.just('100 200')}))  # fmt: skip
def test_any_line_is_the_sites_to_change(site):
    lines = lines_of(1000, 8, 6, site)
    found = parsed(dat_of(lines))
    assert all(found[name] == str(value).split() for name, value in site.items())
    asked = configurations(lines, 6)
    algorithms = ('PFACTs', 'NBMINs', 'NDIVs', 'RFACTs', 'BCASTs', 'DEPTHs')
    assert len(asked) == math.prod(len(found[name]) for name in ('Ns', 'NBs', *algorithms))
    assert {(p, q) for _, _, p, q in asked} == {(2, 3)}


def test_several_grids_and_one_that_leaves_ranks_idle():
    lines = lines_of(1000, 8, 6, {'Ps': '1 6', 'Qs': '6 1', 'NBs': '8 16'})
    assert Counter(configurations(lines, 6)) == Counter((1000, nb, p, 6 // p) for p in (1, 6) for nb in (8, 16))
    for ps, qs in (('1', '2'), ('1 2', '6'), ('1 2', '6 2')):
        with pytest.raises(SiteError, match='expected grids Ps x Qs of 6 ranks'):
            configurations(lines_of(1000, 8, 6, {'Ps': ps, 'Qs': qs}), 6)


def test_the_schema_knows_the_lines_of_hpl_dat():
    schema = json.loads((ROOT / 'plumbline/schemas/site.schema.json').read_text())
    assert list(schema['$defs']['hpl']['properties']['lines']['properties']) == list(LINES)


def test_every_implementation_is_a_known_feature_with_a_rule_for_its_ranks(case_on):
    cores, halves = tuple((cpu,) for cpu in range(80)), (frozenset(range(40)), frozenset(range(40, 80)))
    node = replace(TWO, cores=cores, numa_domains=halves, sockets=halves, gpus=('sm_90',) * 4)
    for name, implementation in IMPLEMENTATIONS.items():
        kind = known_benchmarks()[implementation.feature].get('gpu', 'cpu')
        assert implementation.on_gpus is (kind != 'cpu')
        site = {'benchmarks': {implementation.feature: {'memory': '320 GiB'}}}
        of_case = {'size': 'quick', 'nodes': 1, 'implementation': name, 'num_nodes': 1}
        placement = case_on('HPL', node, 'choose choose_budget write_input', site, **of_case).placement
        expected = (80, 1) if name == 'netlib' else (4, 20)  # 000, section 4.1: 4 ranks, 20 threads each
        assert (placement.ranks_per_node, placement.threads) == expected
