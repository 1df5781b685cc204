# SPDX-License-Identifier: BSD-3-Clause
"""Files in the forms in which people have them: labels, several runs, ends before the end, and what is no measurement.

All are in tests/data/as-people-have-them, with made-up numbers.
"""

import json
import re
import shutil
from typing import NamedTuple

import pytest
from run_reports import Workplace, all_nights_over
from scratch import OUTPUTS, ROOT

from plumbline.errors import InputError
from plumbline.identity import to_text
from plumbline.outputs import plain
from postprocess.formats.measurements import read_measurements

FOLDER = ROOT / 'tests/data/as-people-have-them'
XDMOD = """title
"App Kernel Data"
parameters
"App Kernel = K","Resource = R","Metric = Wall Clock Time","Processing Units = 1 node"
start,end
2026-11-02,2026-11-02
---------
Date,Value,Control,Changed
"2026-11-02 04:12:33",0,1,no
---------
"""
ALL_REDUCE = 'bus_bandwidth', 'collective=all_reduce,message_bytes=2097152'


class Found(NamedTuple):
    """What the files of a test became. `numbers`: check, params, metric, dims -> mean, unit and number of trials."""

    numbers: dict
    failed: dict  # check and params -> why
    notes: list
    days: set
    undecided: set


def found_in(name, *paths):
    found = Found({}, {}, [], set(), set())
    for path in paths:
        for report in read_measurements(path, name, 'box'):
            cases = {case.case_id: (case.check, to_text(case.params)) for case in report.cases}
            found.failed.update({cases[c.case_id]: c.fail_reason for c in report.cases if c.result == 'fail'})
            found.notes.extend(report.notes)
            found.days.add(f'{report.session.started:%Y-%m-%d}')
            found.undecided.update(report.undecided)
            for row in report.metrics:
                key = *cases[row.case_id], row.metric, to_text(row.dims)
                found.numbers[key] = (row.mean, row.unit, row.n)
    return found


@pytest.mark.parametrize(
    ('name', 'file', 'metric', 'dims', 'expected'),
    [
        ('hpl', 'hpl-two-runs', 'gflops', '-', (66.69, 'GFlop/s', 2)),
        ('hpcg', 'hpcg-nvidia-without-nz', 'gflops', '-', (9.5, 'GFlop/s', 1)),
        ('hpl-mxp', 'hpl-mxp-colours', 'gflops', '-', (2e5, 'GFlop/s', 1)),
        ('hpl-mxp', 'hpl-mxp-colours', 'lu_gflops', '-', (8e5, 'GFlop/s', 1)),
        ('nccl-tests', 'nccl-tag-output', *ALL_REDUCE, (10.48576, 'GB/s', 1)),
        ('nccl-tests', 'nccl-timestamps', *ALL_REDUCE, (10.48576, 'GB/s', 1)),
        ('nccl-tests', 'nccl-program-suffix', *ALL_REDUCE, (10.48576, 'GB/s', 1)),
        (
            'nccl-tests', 'nccl-bfloat16-broadcast', 'bus_bandwidth', 'collective=broadcast,message_bytes=2000000',
            (100.0, 'GB/s', 1),
        ),
        ('osu', 'osu-init-beside-latency', 'latency', 'message_bytes=1', (1.5, 'us', 1)),
        ('stream', 'stream', 'bandwidth', 'kernel=triad', (24000.0, 'MB/s', 1)),
        ('stream', 'stream-cuda', 'bandwidth', 'kernel=add', (250.0, 'GiB/s', 1)),
        ('google-benchmark', 'user-counter', 'FOM: GB/s', '-', (40.0, 'GB/s', 1)),
    ],
)  # fmt: skip
def test_what_a_file_says_is_read(name, file, metric, dims, expected):
    found = found_in(name, next(FOLDER.glob(f'{file}.*')))
    ((mean, *more),) = (value for key, value in found.numbers.items() if key[2:] == (metric, dims))
    assert not found.failed and mean == pytest.approx(expected[0], rel=1e-12) and (*more,) == expected[1:]


@pytest.mark.parametrize(
    ('name', 'file', 'said'),
    [
        ('mdtest', 'mdtest-error', 'ERROR: verifying the data on read (400 errors)!'),
        ('mdtest', 'mdtest-lower-case-error', "error could not create directory '/fs/a/mdtest_tree.1.0/'"),
        ('hpl', 'hpl-ends-with-error', 'ERROR: P==1 requires problem size smaller than GPU memory'),
        ('hpl', 'hpl-cut-in-progress', 'Prog= 64.00%'),
        ('nccl-tests', 'nccl-busy', 'device(s) is/are busy'),
        ('babelstream', 'babelstream-columns-together', 'found Copy 2.900001111e60.00019'),
        ('table', 'zero-time', 'run_time: 0 s is no measurement: expected a number above 0 (row 7)'),
        ('table', 'minus-one-time', 'run_time: -1 s is no measurement: expected a number above 0 (row 7)'),
    ],
)
def test_what_a_file_says_against_itself_is_the_cause(name, file, said):
    found = found_in(name, next(FOLDER.glob(f'{file}.*')))
    (why,) = found.failed.values()
    assert said in why and '(?' not in why and '\\' not in why


@pytest.mark.parametrize(
    ('name', 'files', 'metric', 'expected'),
    [
        ('osu', ['osu-two-commands'], 'latency', [0.4, 200.0]),
        ('nccl-tests', ['nccl-one-node', 'nccl-two-nodes'], 'bus_bandwidth', [10.48576] * 2 + [104.8576] * 2),
        ('mdtest', ['mdtest-file-system-a', 'mdtest-file-system-b'], 'operations', [5000.0, 9000.0]),
    ],
)
def test_runs_that_differ_are_series_of_their_own(name, files, metric, expected):
    found = found_in(name, *(FOLDER / f'{file}.txt' for file in files))
    means = [mean for key, (mean, _, n) in found.numbers.items() if key[2] == metric and n == 1]
    assert sorted(means) == pytest.approx(expected) and not found.failed


def test_runs_of_one_file_are_trials_only_if_they_say_the_same_of_themselves(tmp_path):
    text, path = (FOLDER / 'mdtest-file-system-a.txt').read_text(), tmp_path / 'job.out'
    path.write_text(text + text)
    assert {n for *_, n in found_in('mdtest', path).numbers.values()} == {2}
    path.write_text(text + text.replace("'-F'", "'-F' '-L'").replace('5000', '9000'))
    found = found_in('mdtest', path)
    assert {value[::2] for value in found.numbers.values()} == {(5000.0, 1), (1250.0, 1)}
    (note,) = found.notes
    assert 'line 13' in note and '--param' in note


def test_a_part_that_is_not_known_costs_that_part_only(work):
    answer = work.run('ingest', '--format', 'osu', '--site', 'box', FOLDER / 'osu-init-beside-latency.txt')
    told = ' '.join(answer.output.split())
    assert answer.exit_code == 0 and '1 sample' in told and 'line 7' in told and 'MPI Init Test' in told


def test_the_date_of_a_run_is_that_of_its_session(tmp_path):
    assert found_in('hpl', FOLDER / 'hpl-date.txt').days == {'2026-01-02'}
    shutil.copy(FOLDER / 'hpcg-nvidia-without-nz.txt', path := tmp_path / 'HPCG-Benchmark_3.1_2026-01-03_12-00-00.txt')
    assert found_in('hpcg', path).days == {'2026-01-03'}
    assert found_in('ior', OUTPUTS / 'ior-4.0.0-mpiio.txt').days == {'2026-11-21'}


def test_iors_text_is_read_as_its_json(tmp_path):
    found = found_in('ior', OUTPUTS / 'ior-4.0.0-mpiio.txt')
    rates = {key[3]: value for key, value in found.numbers.items()}
    assert rates == {'access=write': (1880.59, 'MiB/s', 1), 'access=read': (2526.5, 'MiB/s', 1)} and not found.failed
    ((_, params, *_), *_) = found.numbers
    assert params == (
        'api=MPIIO,block=8388608,files=shared,nodes=1,offsets=sequential,path=ior.data,ranks=2,segments=1,transfer=1048576'
    )
    (path := tmp_path / 'job.out').write_text((OUTPUTS / 'ior-4.0.0-mpiio.txt').read_text().partition('\nSummary')[0])
    rows = {key[3]: value[0] for key, value in found_in('ior', path).numbers.items()}
    assert rows == {'access=write': 1880.59, 'access=read': 2526.5}  # as the IO500 keeps it
    path.write_text((OUTPUTS / 'ior-4.0.0-mpiio.txt').read_text().partition('\nwrite ')[0])
    assert 'no whole table' in ''.join(found_in('ior', path).failed.values())


def test_what_is_stated_of_a_file_is_part_of_its_series(work):
    file, command = FOLDER / 'mdtest-file-system-a.txt', ('ingest', '--format', 'mdtest', '--site', 'box')
    assert work.run(*command, '--partition', 'gpu', '--param', 'client=new', '--nodes', 'n[1-2]', file).exit_code == 0
    stored = work.run('export', '--to', 'csv', '--site', 'box', '--table', 'cases').output
    assert 'client=new' in stored and 'gpu' in stored and 'n1' in stored and 'n2' in stored
    for options, said in (
        (['--param', 'ranks=9'], 'ranks: 9 is stated, and the file says 4'), (['--param', 'ranks'], 'NAME=VALUE'),
        (['--partition', 'a b'], '--partition a b'), (['--nodes', 'n[1'], '--nodes n[1'),
    ):  # fmt: skip
        answer = work.run(*command, *options, file)
        assert answer.exit_code == 2 and said in ' '.join(answer.output.split()), answer.output
    answer = work.run('ingest', '--site', 'box', '--partition', 'gpu', file)
    assert answer.exit_code == 2 and '--format' in answer.output


def test_an_empty_cell_is_named():
    with pytest.raises(InputError, match='row 2: check is empty'):
        found_in('table', FOLDER / 'empty-cells.csv')


@pytest.fixture(scope='module')
def six_nights(tmp_path_factory):
    """A baseline of six nights of 10 s."""
    work = Workplace(tmp_path_factory.mktemp('six'))
    rows = (FOLDER / 'zero-time.csv').read_text().splitlines(keepends=True)
    (path := work.results.parent / 'six.csv').write_text(''.join(rows[:-1]))
    with all_nights_over():
        for words in (['ingest', '--format', 'table', path], ['record', 'propose'], ['record', 'accept']):
            answer = work.run(*words, '--site', 'box')
            assert answer.exit_code == 0, answer.output
    return work


@pytest.mark.parametrize('file', ['zero-time', 'minus-one-time'])
def test_what_is_no_measurement_never_improves(six_nights, file):
    six_nights.run('ingest', '--format', 'table', '--site', 'box', FOLDER / f'{file}.csv')
    answer = six_nights.run('compare', '--site', 'box')
    told = ' '.join(answer.stdout.split())
    assert answer.exit_code == 1 and 'improved' not in told and 'is no measurement' in told, answer.output


@pytest.mark.parametrize('value', [0, -1])
@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('google-benchmark', '{"context": {"date": "2026-01-02"}, "benchmarks": [{"name": "k", "real_time": 0}]}'),
        ('hyperfine', '{"results": [{"command": "k", "mean": 0, "times": [0]}]}'),
        ('bencher', '{"k": {"latency": {"value": 0}}}'),
        ('github-action-benchmark', '[{"name": "k", "value": 0, "unit": "s"}]'),
        ('superbench', '{"node": "n1", "k/step_time": 0}'),
        ('xdmod', XDMOD),
    ],
)  # fmt: skip
def test_a_time_of_zero_or_below_fails_in_each_format(tmp_path, name, text, value):
    (path := tmp_path / 'a.json').write_text(re.sub(r'(?<=[ \[,])0(?=[]},])', str(value), text, count=2))
    (why,) = found_in(name, path).failed.values()
    assert f'{value} ' in why and 'is no measurement' in why


def test_a_count_may_be_zero(tmp_path):
    (tmp_path / 'a.csv').write_text('check,metric,value,better,unit\nA,errors,0,lower,\nA,rate,5,,GB/s\n')
    assert not found_in('table', tmp_path / 'a.csv').failed


@pytest.mark.parametrize(
    'label',
    [
        '0: ', ' 12: ', '[0] ', '[1,0]<stdout>:', '[prterun-n1-77@1,0]<stdout>: ', '2026-01-02T03:04:05.000000001Z ',
        '2026-01-02 03:04:05,123 ', '[2026-01-02 03:04:05] ', 'Fri Jan  2 03:04:05 2026[1,0]<stdout>:', '\x1b[32m',
    ],
)  # fmt: skip
def test_what_stands_in_front_of_lines_is_taken_off(label):
    text = (OUTPUTS / 'hpl-2.3.txt').read_text()
    for ending in ('\n', '\r\n'):
        assert plain('\ufeff' + ''.join(f'{label}{line}{ending}' for line in text.split('\n')[:-1])) == text


def test_lines_that_only_look_like_labels_stay():
    text = 'node distances:\n0: 10 21\n1: 21 10\nd 2: 3\n2 4\n'
    assert plain(text) == text


def test_a_time_of_zero_in_a_run_report_is_no_measurement(work, tmp_path):
    report = json.loads((ROOT / 'tests/data/other-suites/reframe-4.10.4.json').read_text())
    (values, *_) = [case['perfvalues'] for run in report['runs'] for case in run['testcases'] if case.get('perfvalues')]
    name = min(values)
    values[name] = [0.0, 0, None, None, 's', 'pass'][: len(values[name])]
    (path := tmp_path / 'run-report.json').write_text(json.dumps(report))
    assert work.run('ingest', path).exit_code == 0
    stored = work.run('export', '--to', 'csv', '--table', 'metrics').output
    assert '0 s is no measurement' in stored
