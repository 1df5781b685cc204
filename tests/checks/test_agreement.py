# SPDX-License-Identifier: BSD-3-Clause
"""Outputs that contradict themselves, the clock or the nodes of their job; and honest ones, which none accuses."""

import importlib
import json
import math
import re
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import output_mutations as study
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each_row

from checks.core.reading import agreement
from checks.core.reading.agreement import Agreement, Claim, Span, Traces, at_most, equal, exact, printed, too_long

# Spans


@each_row(('text', 'more', 'low', 'high'), [
    ('0.01715', {}, 0.017145, 0.017155),
    ('5.0701e+01', {}, 50.7005, 50.7015),
    ('9984', {}, 9984, 9984),
    ('12816', {'whole': True}, 12815.5, 12816.5),
    ('324.41', {'digits': 6}, 324.4095, 324.4105),  # %g has printed 324.410
    ('1795257931', {'digits': 6}, 1795257930.5, 1795257931.5),
    ('0.00', {}, 0, 0.005),
    ('1e999', {'digits': 6}, math.inf, math.inf),
    ('0e999', {'digits': 6}, 0, 0.5),
])  # fmt: skip
def test_a_printed_number_stands_for_all_that_round_to_it(text, more, low, high):
    span = printed(text, **more)
    assert (span.low, span.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))


def test_a_number_beyond_all_others_contradicts_its_claim():
    claims = [Claim('N and time', lambda numbers: (numbers['N'] * 2.0, numbers['time']), at_most)]
    (fault,) = agreement.contradictions(claims, {'N': 10**400, 'time': 1.0}, 'HPL.out')
    assert fault == "N and time contradict each other in 'HPL.out': one is beyond all numbers"


def test_what_is_computed_of_spans_has_all_results():
    a, b = Span(1, 2), Span(4, 8)
    assert (a + b, a * b, b / a, a * 3, 3 + a) == (Span(5, 10), Span(4, 16), Span(2, 8), Span(3, 6), Span(4, 5))
    assert a / Span(0, 1) == Span(1, math.inf)
    assert equal(a, Span(2, 3)) and not equal(a, Span(2.001, 3)) and equal(a, Span(2.001, 3), within=1e-3)
    assert at_most(b, Span(0, 4)) and not at_most(b, Span(0, 3.99))


TABLE = Agreement(
    r'^(?P<size>\d+) +(?P<rate>\S+) +(?P<seconds>\S+)$',
    [Claim('rate and time', lambda row: (row['rate'] * row['seconds'], row['size'])),
     Claim('odd and even', lambda row: (row['odd'], row['even']))],
)  # fmt: skip
positive = st.floats(1e-3, 1e6)


def test_a_printed_number_beyond_all_floats_contradicts_the_others_of_its_row():
    (fault,) = TABLE.faults('10 1e999 5.0')
    assert 'rate and time' in fault and 'inf' in fault
    assert TABLE.faults('10 2.0 5.0') == []


@given(positive, st.integers(1, 10**12), st.integers(1, 6), st.integers(1, 6))
def test_rounded_numbers_of_one_measurement_never_contradict_each_other(seconds, size, decimals, others):
    assert TABLE.faults(f'{size} {size / seconds:.{decimals}f} {seconds:.{others}f}\n') == []


@given(positive, positive, st.floats(1.02, 1e3), st.booleans(), st.integers(5, 9))
def test_a_column_that_was_scaled_by_two_percent_is_found(seconds, rate, factor, down, digits):
    """Where the digits are enough to tell: five significant ones."""
    factor = 1 / factor if down else factor
    text = f'{round(seconds * rate * 1000) or 1} {rate * factor:.{digits}e} {seconds * 1000:.{digits}e}\n'
    found = TABLE.faults(text)
    error = abs(round(seconds * rate * 1000) - seconds * rate * 1000) / (seconds * rate * 1000)
    assert error > 0.01 or (len(found) == 1 and found[0].startswith('rate and time contradict each other in '))


# Recorded outputs, each of which test_output_mutations.py reads without a fault


@pytest.fixture(scope='module')
def targets(reframe_runtime):
    return {target.name: target for target in study.targets()}


#: Output -> a pattern whose only group is a number that other columns tell as well
REDUNDANT = {
    'babelstream-5.0-omp': [rf'^{kernel} +(\S+)' for kernel in ('Copy', 'Mul', 'Add', 'Triad', 'Dot')]
    + [r'^Triad +\S+ +(\S+)'],
    'osu_mbw_mr-7.4': [r'^1 +(\S+)', r'^4194304 +(\S+)', r'^4096 +\S+ +(\S+)'],
    'heffte-2.4.1-stock': [r'^Performance: +(\S+)', r'^Time per run: (\S+)'],
    'hpl-2.3': [r'^WR.* (\S+)$'],
    'hpl-intel-2019': [r'^W\S+ +204288 .* (\S+)$', r'^W\S+ +204288 +384 +2 +2 +(\S+)'],
    'hpl-mxp-nvidia': [r'^ +GFLOPS = (\S+),', r'^ +LU GFLOPS = .* = +(\S+)'],
    'hpcg-3.1': [
        'GFLOP/s rating of=(.*)', r'^GFLOP/s Summary::Raw SpMV=(.*)', 'Raw Read B/W=(.*)',
        'Raw Total B/W=(.*)', '^GB/s Summary::Total with .*=(.*)', '^Benchmark Time Summary::MG=(.*)',
    ],
    'hpcg-3.0': ['Raw Write B/W: (.*)', r'^  Raw Total: (.*)'],
    'hpcc-1.5.0': [
        '^HPL_Tflops=(.*)', '^MPIRandomAccess_GUPs=(.*)', '^StarSTREAM_Triad=(.*)', '^SingleDGEMM_Gflops=(.*)',
    ],
    'likwid-bench-triad_avx512_fma': [r'^MByte/s:\s+(\S+)', r'^Time:\s+(\S+)', r'^Data volume \(Byte\):\s+(\S+)'],
    'rccl-tests-all_reduce-8-ranks': [
        r'^ +1073741824 .* -1 +(\S+)', r'^ +1073741824 .* -1 +\S+ +(\S+)', r'^ +1073741824 .* -1 +\S+ +\S+ +(\S+)',
        r'^ +1073741824 .* (\S+) +\S+ +\S+ +0 *$',
    ],
    'transferbench-host-to-gpu': [r'Transfer 0 +\S (.*) GB/s', r'Transfer 0 +\S .*GB/s \S +(\S+) ms'],
    'ior-4.0.0-json-write': ['"bwMeanMIB": ([0-9.]+)', '"OPsMean": ([0-9.]+)', '"MeanTime": ([0-9.]+)'],
    'ior-3.3.0-json-read': ['"bwMiB": ([0-9.]+)', '"bwMeanMIB": ([0-9.]+)', '"iops": ([0-9.]+)'],
    'mdtest-4.0.0-files-unique': [r'File creation +\S+ +\S+ +(\S+)', r'File stat +(\S+)', r'File read +\S+ +(\S+)'],
}  # fmt: skip
COLUMNS = [(name, pattern) for name, patterns in REDUNDANT.items() for pattern in patterns]


def scaled(text: str, pattern: str, factor: float) -> str:
    """Return a text in which the first number that a pattern finds is multiplied, in as many digits."""
    found = re.search(pattern, text, re.MULTILINE)
    old = found[1].strip()
    mantissa, e, _ = old.partition('e')
    decimals = len(mantissa.partition('.')[2])
    new = f'{float(old) * factor:.{decimals}{"e" if e else "f"}}'
    at = found.start(1) + found[1].index(old)
    return text[:at] + new.rjust(len(old)) + text[at + len(old) :]


@given(st.sampled_from(COLUMNS), st.floats(1.05, 20), st.booleans())
@settings(max_examples=300)
def test_a_number_that_the_others_contradict_is_found(targets, column, factor, down):
    name, pattern = column
    target = targets[name]
    assert target.outcome(target.text)
    assert target.outcome(scaled(target.text, pattern, 1 / factor if down else factor)) is None, column


#: Those whose digits do not tell 2 %: the shortest time of BabelStream has four, that of HPL 0.44 s
COARSE = {'hpl-2.3', 'transferbench-host-to-gpu'}


@each_row(('name', 'pattern'), [column for column in COLUMNS if column[0] not in COARSE])
def test_two_percent_more_are_found(targets, name, pattern):
    for factor in (1.02, 1 / 1.02):
        assert targets[name].outcome(scaled(targets[name].text, pattern, factor)) is None, factor


@each_row(('name', 'pattern'), COLUMNS)
def test_what_is_no_number_is_no_measurement(targets, name, pattern):
    text = targets[name].text
    begin, end = re.search(pattern, text, re.MULTILINE).span(1)
    for word in ('nan', '-nan', 'inf', '-1.0', '1e400', 'x', '*' * 8):
        assert targets[name].outcome(f'{text[:begin]}{word}{text[end:]}') is None, word


# The clock and the nodes of the job

BEGAN = datetime(2026, 11, 21, 22, 30, 0, tzinfo=timezone.utc)


def trial(folder, seconds: float = 10.0):
    """A trial that began at BEGAN and took so long."""
    folder.mkdir(exist_ok=True)
    (folder / 'started').write_text(f'{BEGAN.timestamp():.6f} 1000.00')
    (folder / 'ended').write_text(f'{BEGAN.timestamp() + seconds:.6f} {1000 + seconds:.2f}')
    return folder


def faults(traces: Traces, folder, zone='+0000', known=('n1',)) -> list[str]:
    return list(traces.faults(trial(folder), zone, known))


def test_a_date_of_another_night_is_named(tmp_path):
    assert faults(Traces(dates=['Sat Nov 21 22:30:05 2026']), tmp_path) == []
    (fault,) = faults(Traces(dates=['Fri Nov 20 22:30:05 2026', 'Fri Nov 20 22:30:07 2026']), tmp_path)
    said = 'it says Fri Nov 20 22:30:05 2026, and the trial began at 2026-11-21 22:30:00 UTC'
    assert fault == f'it was printed at another time: {said}'


@each_row(('after', 'right'), [(-61, False), (-59, True), (0, True), (3600, True), (3659, True), (3661, False)])
def test_a_time_within_a_trial_of_an_hour_or_a_minute_beside_it_is_right(tmp_path, after, right):
    traces = Traces(epochs=[BEGAN.timestamp() + after])
    assert (list(traces.faults(trial(tmp_path, 3600), '', ())) == []) == right


def test_three_other_hosts_are_named_and_three_of_the_job(tmp_path):
    (fault,) = faults(Traces(hosts=['b5', 'b4', 'b3', 'b2', 'b1']), tmp_path, known=['n4', 'n3', 'n2', 'n1'])
    assert 'b1, b2, b3,' in fault and 'b4' not in fault and fault.endswith('n1, n2, n3')


@each_row(('text', 'zone', 'right'), [
    ('2026-11-21T22:30:03+00:00', '', True),
    ('2026-11-22T00:30:03+02:00', '', True),
    ('2026-11-21T22:30:03+02:00', '', False),  # it says where it is: two hours earlier
    ('11/22/2026 04:00:03', '+0530', True),  # of India
    ('11/22/2026 04:00:03', '+0000', False),
    ('11/22/2026 04:00:03', '', True),  # of which nothing is known
    ('2026-11-21_17-30-03', '-0500', True),
    ('2026-11-21_22-30-03', '-0500', True),  # UTC, as in a container
    ('2026-11-21_21-30-03', '-0500', False),
    ('a night of November', '+0000', True),  # no date
])  # fmt: skip
def test_local_dates_are_those_of_the_node(tmp_path, text, zone, right):
    assert (faults(Traces(dates=[text]), tmp_path, zone) == []) == right


@given(st.floats(-30, 40), st.integers(-48, 56))
def test_no_date_within_a_trial_is_accused_in_any_zone(tmp_path_factory, at, quarters):
    zone = timezone(timedelta(minutes=15 * quarters))
    local = (BEGAN + timedelta(seconds=at)).astimezone(zone)
    assert faults(Traces(dates=[f'{local:%a %b %d %H:%M:%S %Y}']), tmp_path_factory.getbasetemp(), f'{local:%z}') == []


def test_seconds_since_1970_need_no_zone(tmp_path):
    assert faults(Traces(epochs=[BEGAN.timestamp()]), tmp_path, '') == []
    assert len(faults(Traces(epochs=[BEGAN.timestamp() - 86400]), tmp_path, '')) == 1


def test_the_host_that_a_program_names_is_one_of_the_job(tmp_path):
    assert faults(Traces(hosts=['N1.example.org', 'n2']), tmp_path, known=['n1', 'n2.example.org']) == []
    assert faults(Traces(hosts=['n3']), tmp_path, known=[]) == []
    assert faults(Traces(hosts=['n3', 'n1']), tmp_path) == ['it says that it ran on n3, and the job ran on n1']


def test_an_output_cannot_have_taken_longer_than_its_trial(tmp_path):
    folder = trial(tmp_path, 10)
    assert too_long([exact(4), exact(6)], False, folder) == too_long([exact(9), exact(9)], True, folder) == ''
    assert too_long([Span(10.0, 10.3)], False, folder) == too_long([], False, folder) == ''
    assert too_long([exact(9), exact(9)], False, tmp_path / 'did_not_end') == ''
    said = too_long([exact(9), exact(9)], False, folder)
    assert said == 'by its own times it ran for 18 s, and the whole trial took 10.00 s'


@pytest.fixture(scope='module')
def modules(reframe_runtime):
    names = (
        'compute.hpcc', 'compute.hpcg_output', 'compute.hpl_output', 'gpu.comm_scope_output', 'gpu.gemm_output',
        'gpu.xccl_output', 'memory.babelstream_output', 'memory.likwid_base', 'storage.storage_output',
    )  # fmt: skip
    found = {name.partition('.')[2]: importlib.import_module(f'checks.{name}') for name in names}
    return SimpleNamespace(**found)


def test_what_recorded_outputs_say_of_time_and_place(modules, recorded):
    stream = modules.babelstream_output.traces_of(recorded('babelstream-5.0-omp.txt'), 10)
    assert str(stream.seconds) == '1.49607'  # nine times 0.02765 + 0.02579 + 0.0396 + 0.0404 + 0.03279
    hpl = modules.hpl_output.traces_of(recorded('hpl-2.3.txt'))
    assert (str(hpl.seconds), hpl.dates) == ('0.44', ['Sat Nov 21 14:00:53 2026', 'Sat Nov 21 14:00:54 2026'])
    hpcg = modules.hpcg_output.traces_of(recorded('hpcg-3.1.txt'), ['HPCG-Benchmark_3.1_2026-11-21_14-03-11.txt'])
    assert (str(hpcg.seconds), hpcg.dates) == ('5.59032', ['2026-11-21_14-03-11'])
    hpcc = modules.hpcc.traces_of(recorded('hpcc-1.5.0.txt'))
    assert hpcc.seconds == 67 and hpcc.epochs[0] == 1795257931 and hpcc.epochs[-1] == 1795257999
    assert str(modules.likwid_base.traces_of(recorded('likwid-bench-triad_avx512_fma.txt')).seconds) != '0'
    ior = modules.storage_output.ior_traces(recorded('ior-4.0.0-json-write.txt'), 'write')
    assert str(ior.seconds) == '0.0621'  # 0.0221 + 0.02 + 0.02
    assert (ior.dates, ior.hosts) == (['Sat Nov 21 15:21:58 2026'] * 2, ['vm'])
    mdtest = modules.storage_output.mdtest_traces(recorded('mdtest-4.0.0-files-unique.txt'), 400, 3)
    best = 47811.958, 1173231.888, 597053.950, 239948.741
    assert mdtest.seconds.low == pytest.approx(sum(1200 / rate for rate in best))
    assert mdtest.dates == ['11/21/2026 15:22:01', '11/21/2026 15:22:02']
    scope = modules.comm_scope_output.traces_of(recorded('comm_scope-0.12.0-cpu.txt'))
    assert scope.seconds == pytest.approx(121306 * 797.23061924402157e-9 + 5257 * 13248.340498383131e-9)
    assert (scope.dates, scope.hosts) == (['2026-11-21T17:26:39+00:00'], ['vm'])
    nccl = modules.xccl_output.traces_of(recorded('nccl-tests-2.17.6-8-ranks.txt'))
    assert (str(nccl.seconds), nccl.hosts) == ('3.22181', {'node-00000-00-00000'})  # 20 x (80545.0 + 80545.7) us
    assert modules.gemm_output.coral_traces(recorded('coralgemm-2025.11-two-devices.txt')).seconds == 3.14


def test_fewer_samples_or_iterations_than_asked_are_named(modules, recorded):
    from checks.memory.multichase_output import chase_faults

    output = recorded('multichase-20250815.txt')
    assert chase_faults(output, 2**29, 3) == []
    assert chase_faults(output, 2**29, 5) == ['5 samples were requested, multichase took 3']
    (fault,) = chase_faults(output.replace(' 151.3\n', ' 131.3\n'), 2**29, 3)
    assert 'samples and mean contradict each other' in fault
    asked = modules.xccl_output.iteration_faults
    assert asked(recorded('nccl-tests-2.17.6-8-ranks.txt')) == []
    assert asked(recorded('nccl-tests-2.18.3-16-ranks.txt')) == ['20 iterations were asked for, it says 100']


def test_a_repetition_of_ior_that_contradicts_its_time_is_named(modules, recorded):
    text = recorded('ior-4.0.0-json-write.txt')
    asked = modules.storage_output.Requested('write', 'POSIX', 2**20, 2**24, 1, 2, 1, 3, True)
    report = json.loads(text)
    for each in report['tests'][0]['Results']:
        each['totalTime'] = 0.04
    report['summary'][0]['MeanTime'] = 0.04
    (first, *_) = modules.storage_output.ior_faults(json.dumps(report), asked)
    assert first == "rate and time contradict each other in 'repetition 1': 58.037 and 32"
