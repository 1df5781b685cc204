# SPDX-License-Identifier: BSD-3-Clause
"""Saved files of benchmarks become the numbers that they hold; what failed its own validation failed.

Recorded outputs are in tests/outputs. Those in tests/data/as-people-have-them have made-up
numbers: labels, several runs, ends before the end, and what is no measurement.
"""

import shutil
from fnmatch import fnmatch

import pytest
from saved_files import OUTPUTS, PEOPLE, cut_anywhere, found_in, saved

from plumbline.errors import InputError
from plumbline.outputs import plain
from postprocess.readers.measurements import read_measurements, readers

GFLOPS, GBS, US, OPS, S = (
    ('GFlop/s', 'higher'),
    ('GB/s', 'higher'),
    ('us', 'lower'),
    ('ops/s', 'higher'),
    ('s', 'lower'),
)
NCCL_2_MB = '* bus_bandwidth collective=all_reduce,message_bytes=2097152'
#: Format -> file, the one series of this pattern, its mean as it is printed or worked out by hand, unit and direction.
RECORDED = {
    'hpl': [
        ('hpl-2.3.txt', 'HPL n=2000,nb=192,p=1,q=2,variant=WR11C2R4 gflops -', 12.001, *GFLOPS),
        ('hpl-2.3.txt', 'HPL n=2000,nb=192,p=1,q=2,variant=WR11C2R4 time -', 0.44, *S),
        ('hpl-intel-2019.txt', 'HPL n=204288,nb=384,p=2,q=2,variant=WR00L2L4 gflops -', 4488.91, *GFLOPS),
        ('hpl-two-runs.txt', '* gflops -', 66.69, *GFLOPS),
    ],
    'hpl-mxp': [
        ('hpl-mxp-colours.txt', '* gflops -', 2e5, *GFLOPS),
        ('hpl-mxp-colours.txt', '* lu_gflops -', 8e5, *GFLOPS),
    ],
    'hpcg': [
        ('hpcg-3.1.txt', 'HPCG grid=32x32x32,ranks=2,threads=1 gflops -', 1.43461, *GFLOPS),
        ('hpcg-3.1.txt', 'HPCG grid=32x32x32,ranks=2,threads=1 total_bandwidth -', 10.895, *GBS),
        ('hpcg-3.0.txt', 'HPCG grid=32x32x32,ranks=2,threads=1 gflops -', 0.559133, *GFLOPS),
        ('hpcg-nvidia-without-nz.txt', '* gflops -', 9.5, *GFLOPS),
    ],
    'babelstream': [
        ('babelstream-5.0-omp.txt',
         'BabelStream array_mb=268.4,implementation=OpenMP,precision=double bandwidth kernel=triad', 22.374416, *GBS),
        ('babelstream-5.0-float.txt',
         'BabelStream array_mb=134.2,implementation=OpenMP,precision=float bandwidth kernel=dot', 19.40755, *GBS),
    ],
    'stream': [
        ('stream.txt', '* bandwidth kernel=triad', 24000.0, 'MB/s', 'higher'),
        ('stream-cuda.txt', '* bandwidth kernel=add', 250.0, 'GiB/s', 'higher'),
    ],
    'osu': [
        ('osu_latency-7.4-all-sizes.txt', 'osu_latency - latency message_bytes=4194304', 1914.13, *US),
        ('osu_barrier-7.4.txt', 'osu_barrier - barrier -', 0.45, *US),
        ('osu_mbw_mr-6.2.txt', 'osu_mbw_mr pairs=1 message_rate message_bytes=8', 6033626.15, *OPS),
        ('osu_bw-7.5-cuda.txt', 'osu_bw gpu=cuda bandwidth message_bytes=4194304', 23987.18, 'MB/s', 'higher'),
        ('osu-init-beside-latency.txt', '* latency message_bytes=1', 1.5, *US),
    ],
    'mdtest': [
        ('mdtest-4.0.0-files-unique.txt',
         'mdtest items=400,nodes=1,path=data/md,ranks=2 operations operation=creation,place=easy_unique',
         41276.148, *OPS),
        ('mdtest-4.0.0-directories-shared.txt',
         'mdtest items=200,nodes=1,path=data/md,ranks=2 operations_per_process '
         'operation=creation,place=directories_shared', 10913.8905, *OPS),  # half of 21827.781
        ('mdtest-4.0.0-times.txt',
         'mdtest items=400,nodes=1,path=data/md,ranks=2 operations operation=creation,place=easy_unique',
         9232.929, *OPS),
    ],
    'ior': [
        ('ior-4.0.0-json-write.txt',
         'IOR api=POSIX,block=16777216,files=process,nodes=1,offsets=sequential,path=data/easy,ranks=2,segments=1,'
         'transfer=1048576 bandwidth access=write', 1549.8897, 'MiB/s', 'higher'),
        ('ior-4.0.0-json-random.txt',
         'IOR api=POSIX,block=4194304,files=process,nodes=1,offsets=random,path=data/r,ranks=2,segments=1,'
         'transfer=4096 operations access=read', 33608.3892, *OPS),
    ],
    'nccl-tests': [
        ('nccl-tests-all_gather-8-ranks.txt',  # 67108864 bytes in 1739.6 us
         'all_gather_perf nodes=2,ranks=8 algorithm_bandwidth collective=all_gather,message_bytes=67108864',
         38.5772, *GBS),
        ('nccl-tag-output.txt', NCCL_2_MB, 10.48576, *GBS), ('nccl-timestamps.txt', NCCL_2_MB, 10.48576, *GBS),
        ('nccl-program-suffix.txt', NCCL_2_MB, 10.48576, *GBS),
        ('nccl-bfloat16-broadcast.txt', '* bus_bandwidth collective=broadcast,message_bytes=2000000', 100.0, *GBS),
    ],
}  # fmt: skip


@pytest.mark.parametrize('name', RECORDED)
def test_the_numbers_of_a_saved_file(name):
    for file, pattern, mean, unit, better in RECORDED[name]:
        found = found_in(name, saved(file))
        ((value, *more),) = (value for key, value in found.numbers.items() if fnmatch(key, pattern))
        assert (value, *more[:2]) == (pytest.approx(mean, rel=1e-5), unit, better), (file, pattern)
        assert not found.failed


def test_each_format_of_a_check_has_a_saved_file():
    assert {name for name, reader in readers().items() if reader.value.startswith('checks.')} == {*RECORDED}


def with_stderr(of):
    return of + 'Validation failed on sum. Error 0.115442\nSum was 35.19 but should be 39.79\n'


@pytest.mark.parametrize(
    ('name', 'file', 'change', 'said'),
    [
        ('hpl', 'hpl-2.3-failed-residual.txt', str, 'residual 3.87059020e-03 FAILED'),
        ('hpl', 'hpl-2.3-unchecked.txt', str, 'no residual was checked'),
        ('hpl', 'hpl-intel-2019-unended.txt', str, 'no line "End of Tests."'),
        ('hpcg', 'hpcg-3.1-invalid.txt', str, 'its result is INVALID'),
        ('hpl', 'hpl-2.3-no-memory.txt', str, 'Memory allocation failed'),
        ('babelstream', 'babelstream-5.0-float.txt', with_stderr, 'Validation failed on sum'),
        ('osu', 'osu_bw-7.4.txt', lambda of: of[: of.index('65536')], 'up to 4194304 bytes, found up to 32768'),
        (
            'osu', 'osu_bw-7.4-validated.txt', lambda of: f'+ osu_bw -m 64\n{of}'.replace('Pass', 'Fail', 1),
            'failed for',
        ),
        ('nccl-tests', 'rccl-tests-all_reduce-8-ranks.txt', lambda of: of.replace('0 OK', '3 FAILED'), 'Out of bounds'),
        ('mdtest', 'mdtest-4.0.0-files-unique.txt', lambda of: of[: of.index('-- finished')], 'did not finish'),
        (
            'nccl-tests', 'rccl-tests-all_reduce-8-ranks.txt', lambda of: of.replace('313.66      0', '313.66    N/A'),
            'of 1 of 31 sizes were not checked',
        ),
        ('mdtest', 'mdtest-error.txt', str, 'ERROR: verifying the data on read (400 errors)!'),
        ('mdtest', 'mdtest-lower-case-error.txt', str, "error could not create directory '/fs/a/mdtest_tree.1.0/'"),
        ('hpl', 'hpl-ends-with-error.txt', str, 'ERROR: P==1 requires problem size smaller than GPU memory'),
        ('hpl', 'hpl-cut-in-progress.txt', str, 'Prog= 64.00%'),
        ('nccl-tests', 'nccl-busy.txt', str, 'device(s) is/are busy'),
        ('babelstream', 'babelstream-5.0-omp.txt', lambda of: of.replace('Triad       ', 'Triad       9'), 'Triad: 9'),
        ('babelstream', 'babelstream-columns-together.txt', str, 'found Copy 2.900001111e60.00019'),
        ('table', 'zero-time.csv', str, 'run_time: 0 s is no measurement: expected a number above 0 (row 7)'),
        ('table', 'minus-one-time.csv', str, 'run_time: -1 s is no measurement: expected a number above 0 (row 7)'),
    ],
)  # fmt: skip
def test_a_file_that_is_not_valid_or_says_so_itself_is_a_case_that_failed(tmp_path, name, file, change, said):
    path = tmp_path / f'all_reduce_perf-{file}'
    path.write_text(change(saved(file).read_text()))
    found = found_in(name, path)
    (why, *_) = found.failed
    assert said in why and '(?' not in why and '\\' not in why, 'no pattern of ours'


def test_what_failed_its_validation_fails_the_night_and_becomes_no_baseline(work):
    answer = work.run('ingest', '--format', 'hpl', '--site', 'box', saved('hpl-2.3-failed-residual.txt'))
    red = work.run('compare', '--site', 'box')
    assert answer.exit_code == 0 and red.exit_code == 1 and 'FAILED' in ' '.join(red.stdout.split()), red.output
    refused = work.run('record', 'propose', '--site', 'box')
    assert '10.955' not in refused.output and refused.exit_code != 0, refused.output


@pytest.mark.parametrize(
    ('name', 'file', 'said'),
    [
        ('hpl', 'osu_bw-7.4', 'expected a line such as "WR11C2R4'),
        ('osu', 'hpl-2.3', 'expected a line such as "# OSU MPI Latency Test'),
        ('osu', 'osu_init-7.4', 'no check reads the program "MPI Init Test"'),
        ('hpcg', 'hpcg-3.1-grid-20', 'expected a line such as "Machine Summary'),
        ('babelstream', 'babelstream-5.0-csv', 'expected a line such as "Implementation: OpenMP'),
        ('nccl-tests', 'nccl-tests-sendrecv-rows', 'expected a line such as "# nThread'),
        ('ior', 'hpl-2.3', 'expected a line such as "IOR-4.0.0'),
        ('mdtest', 'mdtest-4.1.0-nfs', 'with its command'),
    ],
)
def test_another_output_is_refused_in_one_sentence(name, file, said):
    path = OUTPUTS / f'{file}.txt'
    with pytest.raises(InputError) as refused:
        found_in(name, path)
    assert said in str(refused.value) and str(path) in str(refused.value) and '\n' not in str(refused.value)


TABLE = """\
session,time,check,metric,unit,value,node
a,2026-11-01T02:00:00Z,Stream,rate,GB/s,95.125,n1
a,2026-11-01T02:00:00Z,Solve,time,s,12.25,n2
b,2026-11-02T02:00:00Z,Stream,rate,GB/s,94.75,n1
"""


@pytest.mark.parametrize('name', RECORDED)
def test_a_file_that_was_cut_short_is_named_or_read_as_far_as_it_goes(tmp_path, name):
    cut_anywhere(tmp_path / 'cut_all_reduce_perf.csv', name, saved(RECORDED[name][0][0]).read_bytes())


def test_a_table_that_was_cut_short_is_named_or_read_up_to_a_row(tmp_path):
    cut_anywhere(tmp_path / 'cut.csv', 'table', TABLE.encode(), is_open_ended=True)


def test_the_command_above_an_output_says_which_sizes_were_asked_for(tmp_path):
    path, text = tmp_path / 'job.out', (OUTPUTS / 'osu_bw-7.4-validated.txt').read_text()
    path.write_text(f'+ mpirun -np 2 osu_bw -c -m 1:64\n{text}')
    found = found_in('osu', path)
    assert not found.failed and len(found.numbers) == 7  # 1, 2, 4, ... 64 bytes


def test_of_the_full_output_of_a_collective_the_means_are_read(tmp_path):
    path = tmp_path / 'job.out'
    path.write_text('+ osu_allreduce -f -m 4:64\n' + (OUTPUTS / 'osu_allreduce-7.4-full.txt').read_text())
    found = found_in('osu', path)
    means = {int(key.rpartition('=')[2]): value[0] for key, value in found.numbers.items()}
    assert not found.failed and means == {4: 0.48, 8: 0.28, 16: 0.31, 32: 0.29, 64: 0.31}


def test_mdtest_1_has_numbers_of_all_ranks(tmp_path):
    text = (OUTPUTS / 'mdtest-4.0.0-files-unique.txt').read_text()
    path, old = tmp_path / 'mdtest.txt', text.replace('mdtest-4.0.0', 'mdtest-1.9.3').replace('SUMMARY rate', 'SUMMARY')
    path.write_text(old.replace('5660.196', '26.390').replace('2 tasks, 400 files', '2 tasks, 2000000000000 files'))
    found = found_in('mdtest', path)
    key = 'mdtest items=2000000000000,nodes=1,path=data/md,ranks=2 operations operation=creation,place=easy_unique'
    assert not found.failed and found.numbers[key] == (41276.148, 'ops/s', 'higher', 1)


def test_columns_of_other_versions_of_nccl_tests_are_refused(tmp_path):
    path = tmp_path / 'all_reduce_perf.txt'
    text = (OUTPUTS / 'rccl-tests-all_reduce-8-ranks.txt').read_text()
    path.write_text(text.replace('redop    root', 'redop').replace('#wrong', 'error'))
    with pytest.raises(InputError, match=r'the columns size count type redop root .*, found size count type redop t'):
        found_in('nccl-tests', path)


def test_several_programs_in_one_output_are_cases_and_trials(tmp_path):
    path, texts = tmp_path / 'job.out', [(OUTPUTS / f'osu_{of}-6.2.txt').read_text() for of in ('bw', 'mbw_mr', 'bw')]
    path.write_text('loading modules\n' + '+ srun\n'.join(texts))
    (report,) = read_measurements(path, 'osu', 'box')
    assert {case.check: case.trials for case in report.cases} == {'osu_bw': 2, 'osu_mbw_mr': 1}
    assert all(case.result == 'pass' for case in report.cases)


def test_each_configuration_of_hpl_is_a_case():
    (report,) = read_measurements(OUTPUTS / 'hpl-2.3-eight-configurations.txt', 'hpl', 'box')
    assert len({case.params for case in report.cases}) == 8 and report.number_of_samples == 16


@pytest.mark.parametrize(
    ('name', 'files', 'metric', 'expected'),
    [
        ('osu', ['osu-two-commands'], 'latency', [0.4, 200.0]),
        ('nccl-tests', ['nccl-one-node', 'nccl-two-nodes'], 'bus_bandwidth', [10.48576] * 2 + [104.8576] * 2),
        ('mdtest', ['mdtest-file-system-a', 'mdtest-file-system-b'], 'operations', [5000.0, 9000.0]),
    ],
)
def test_runs_that_differ_are_series_of_their_own(name, files, metric, expected):
    found = found_in(name, *(PEOPLE / f'{file}.txt' for file in files))
    means = [mean for key, (mean, *_, n) in found.numbers.items() if f' {metric} ' in key and n == 1]
    assert sorted(means) == pytest.approx(expected) and not found.failed


def test_runs_of_one_file_are_trials_only_if_they_say_the_same_of_themselves(tmp_path):
    text, path = (PEOPLE / 'mdtest-file-system-a.txt').read_text(), tmp_path / 'job.out'
    path.write_text(text + text)
    assert {n for *_, n in found_in('mdtest', path).numbers.values()} == {2}
    path.write_text(text + text.replace("'-F'", "'-F' '-L'").replace('5000', '9000'))
    found = found_in('mdtest', path)
    assert {(mean, n) for mean, *_, n in found.numbers.values()} == {(5000.0, 1), (1250.0, 1)}
    (note,) = found.notes
    assert 'line 13' in note and '--param' in note


def test_a_part_that_is_not_known_costs_that_part_only(work):
    answer = work.run('ingest', '--format', 'osu', '--site', 'box', PEOPLE / 'osu-init-beside-latency.txt')
    told = ' '.join(answer.output.split())
    assert answer.exit_code == 0 and '1 sample' in told and 'line 7' in told and 'MPI Init Test' in told


def test_the_date_of_a_run_is_that_of_its_session(tmp_path):
    assert found_in('hpl', PEOPLE / 'hpl-date.txt').days == {'2026-01-02'}
    shutil.copy(PEOPLE / 'hpcg-nvidia-without-nz.txt', path := tmp_path / 'HPCG-Benchmark_3.1_2026-01-03_12-00-00.txt')
    assert found_in('hpcg', path).days == {'2026-01-03'}
    assert found_in('ior', OUTPUTS / 'ior-4.0.0-mpiio.txt').days == {'2026-11-21'}


def test_iors_text_is_read_as_its_json(tmp_path):
    text, path = saved('ior-4.0.0-mpiio.txt').read_text(), tmp_path / 'job.out'
    of_run = (
        'IOR api=MPIIO,block=8388608,files=shared,nodes=1,offsets=sequential,path=ior.data,ranks=2,segments=1,'
        'transfer=1048576'
    )
    rates = {f'{of_run} bandwidth access=write': 1880.59, f'{of_run} bandwidth access=read': 2526.5}
    for part in (text, text.partition('\nSummary')[0]):  # as the IO500 keeps it
        path.write_text(part)
        found = found_in('ior', path)
        assert {key: value[0] for key, value in found.numbers.items() if 'bandwidth' in key} == rates
        assert not found.failed
    path.write_text(text.partition('\nwrite ')[0])
    assert 'no whole table' in ''.join(found_in('ior', path).failed)


def test_what_is_stated_of_a_file_is_part_of_its_series(work):
    file, command = PEOPLE / 'mdtest-file-system-a.txt', ('ingest', '--format', 'mdtest', '--site', 'box')
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
        found_in('table', PEOPLE / 'empty-cells.csv')


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
