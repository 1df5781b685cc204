# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of benchmarks become the metrics of their checks; what failed its own validation has failed."""

import pytest
from scratch import OUTPUTS

from plumbline.errors import InputError
from plumbline.identity import to_text
from postprocess.formats.measurements import read_measurements

RATE = 'GFlop/s', 'higher'


def series(name, *paths):
    """Return check, params, metric, dims -> mean, unit and direction of the sessions, and why cases failed."""
    found, failed = {}, []
    for path in paths:
        for report in read_measurements(path, name, 'box'):
            cases = {case.case_id: case for case in report.cases}
            failed += [case.fail_reason for case in report.cases if case.result == 'fail']
            for row in report.metrics:
                case = cases[row.case_id]
                key = case.check, to_text(case.params), row.metric, to_text(row.dims)
                found[key] = (row.mean, row.unit, row.better)
    return found, failed


SAME_WAY = 'GB/s', 'higher'
OF_2_18 = 'all_reduce_perf', 'ranks=8'
EXPECTED = [
    ('hpl', 'hpl-2.3', ('HPL', 'n=2000,nb=192,p=1,q=2,variant=WR11C2R4', 'gflops', '-'), (12.001, *RATE)),
    ('hpl', 'hpl-2.3', ('HPL', 'n=2000,nb=192,p=1,q=2,variant=WR11C2R4', 'time', '-'), (0.44, 's', 'lower')),
    ('hpl', 'hpl-intel-2019', ('HPL', 'n=204288,nb=384,p=2,q=2,variant=WR00L2L4', 'gflops', '-'), (4488.91, *RATE)),
    ('hpcg', 'hpcg-3.1', ('HPCG', 'grid=32x32x32,ranks=2,threads=1', 'gflops', '-'), (1.43461, *RATE)),
    ('hpcg', 'hpcg-3.1', ('HPCG', 'grid=32x32x32,ranks=2,threads=1', 'total_bandwidth', '-'), (10.895, *SAME_WAY)),
    ('hpcg', 'hpcg-3.0', ('HPCG', 'grid=32x32x32,ranks=2,threads=1', 'gflops', '-'), (0.559133, *RATE)),
    (
        'babelstream', 'babelstream-5.0-omp',
        ('BabelStream', 'array_mb=268.4,implementation=OpenMP,precision=double', 'bandwidth', 'kernel=triad'),
        (22.374416, *SAME_WAY),
    ),
    (
        'babelstream', 'babelstream-5.0-float',
        ('BabelStream', 'array_mb=134.2,implementation=OpenMP,precision=float', 'bandwidth', 'kernel=dot'),
        (19.40755, *SAME_WAY),
    ),
    (
        'osu', 'osu_latency-7.4-all-sizes', ('osu_latency', '-', 'latency', 'message_bytes=4194304'),
        (1914.13, 'us', 'lower'),
    ),
    ('osu', 'osu_barrier-7.4', ('osu_barrier', '-', 'barrier', '-'), (0.45, 'us', 'lower')),
    (
        'osu', 'osu_mbw_mr-6.2', ('osu_mbw_mr', 'pairs=1', 'message_rate', 'message_bytes=8'),
        (6033626.15, 'ops/s', 'higher'),
    ),
    (
        'osu', 'osu_bw-7.5-cuda', ('osu_bw', 'gpu=cuda', 'bandwidth', 'message_bytes=4194304'),
        (23987.18, 'MB/s', 'higher'),
    ),
    (
        'mdtest', 'mdtest-4.0.0-files-unique',
        ('mdtest', 'items=400,nodes=1,path=data/md,ranks=2', 'operations', 'operation=creation,place=easy_unique'),
        (41276.148, 'ops/s', 'higher'),
    ),
    (
        'mdtest', 'mdtest-4.0.0-directories-shared',
        (
            'mdtest', 'items=200,nodes=1,path=data/md,ranks=2',
            'operations_per_process', 'operation=creation,place=directories_shared',
        ),
        (10913.8905, 'ops/s', 'higher'),  # half of 21827.781
    ),
    (
        'mdtest', 'mdtest-4.0.0-times',
        ('mdtest', 'items=400,nodes=1,path=data/md,ranks=2', 'operations', 'operation=creation,place=easy_unique'),
        (9232.929, 'ops/s', 'higher'),
    ),
    (
        'ior', 'ior-4.0.0-json-write',
        (
            'IOR',
            'api=POSIX,block=16777216,files=process,nodes=1,offsets=sequential,path=data/easy,ranks=2,segments=1,'
            'transfer=1048576',
            'bandwidth', 'access=write',
        ),
        (1549.8897, 'MiB/s', 'higher'),
    ),
    (
        'ior', 'ior-4.0.0-json-random',
        (
            'IOR',
            'api=POSIX,block=4194304,files=process,nodes=1,offsets=random,path=data/r,ranks=2,segments=1,transfer=4096',
            'operations', 'access=read',
        ),
        (33608.3892, 'ops/s', 'higher'),
    ),
    (
        'nccl-tests', 'nccl-tests-all_gather-8-ranks',
        ('all_gather_perf', 'nodes=2,ranks=8', 'algorithm_bandwidth', 'collective=all_gather,message_bytes=67108864'),
        (38.5772, *SAME_WAY),  # 67108864 bytes in 1739.6 us
    ),
]  # fmt: skip


@pytest.mark.parametrize(('name', 'file', 'key', 'expected'), EXPECTED)
def test_a_saved_output(name, file, key, expected):
    found, failed = series(name, OUTPUTS / f'{file}.txt')
    assert not failed
    mean, *of = found[key]
    assert mean == pytest.approx(expected[0], rel=1e-5) and (*of,) == expected[1:]


def with_stderr(of):
    return of + 'Validation failed on sum. Error 0.115442\nSum was 35.19 but should be 39.79\n'


@pytest.mark.parametrize(
    ('name', 'file', 'change', 'said'),
    [
        ('hpl', 'hpl-2.3-failed-residual', str, 'residual 3.87059020e-03 FAILED'),
        ('hpl', 'hpl-2.3-unchecked', str, 'no residual was checked'),
        ('hpl', 'hpl-intel-2019-unended', str, 'no line "End of Tests."'),
        ('hpcg', 'hpcg-3.1-invalid', str, 'its result is INVALID'),
        ('hpl', 'hpl-2.3-no-memory', str, 'Memory allocation failed'),
        ('babelstream', 'babelstream-5.0-float', with_stderr, 'Validation failed on sum'),
        ('osu', 'osu_bw-7.4', lambda of: of[: of.index('65536')], 'up to 4194304 bytes, found up to 32768'),
        ('osu', 'osu_bw-7.4-validated', lambda of: f'+ osu_bw -m 64\n{of}'.replace('Pass', 'Fail', 1), 'failed for'),
        ('nccl-tests', 'rccl-tests-all_reduce-8-ranks', lambda of: of.replace('0 OK', '3 FAILED'), 'Out of bounds'),
        ('mdtest', 'mdtest-4.0.0-files-unique', lambda of: of[: of.index('-- finished')], 'did not finish'),
        (
            'nccl-tests', 'rccl-tests-all_reduce-8-ranks', lambda of: of.replace('313.66      0', '313.66    N/A'),
            'of 1 of 31 sizes were not checked',
        ),
    ],
)  # fmt: skip
def test_an_output_that_is_not_valid_is_stored_as_failed(work, tmp_path, name, file, change, said):
    path = tmp_path / f'{file}.all_reduce_perf.txt'
    path.write_text(change((OUTPUTS / f'{file}.txt').read_text()))
    found, failed = series(name, path)
    assert found and said in failed[0]
    if file == 'hpl-2.3-failed-residual':
        answer = work.run('ingest', '--format', name, '--site', 'box', path)
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
        series(name, path)
    assert said in str(refused.value) and str(path) in str(refused.value) and '\n' not in str(refused.value)


def test_the_command_above_an_output_says_which_sizes_were_asked_for(tmp_path):
    path, text = tmp_path / 'job.out', (OUTPUTS / 'osu_bw-7.4-validated.txt').read_text()
    path.write_text(f'+ mpirun -np 2 osu_bw -c -m 1:64\n{text}')
    found, failed = series('osu', path)
    assert not failed and len(found) == 7  # 1, 2, 4, ... 64 bytes


def test_of_the_full_output_of_a_collective_the_means_are_read(tmp_path):
    path = tmp_path / 'job.out'
    path.write_text('+ osu_allreduce -f -m 4:64\n' + (OUTPUTS / 'osu_allreduce-7.4-full.txt').read_text())
    found, failed = series('osu', path)
    means = {int(key[3].partition('=')[2]): value[0] for key, value in found.items()}
    assert not failed and means == {4: 0.48, 8: 0.28, 16: 0.31, 32: 0.29, 64: 0.31}


def test_mdtest_1_has_numbers_of_all_ranks(tmp_path):
    text = (OUTPUTS / 'mdtest-4.0.0-files-unique.txt').read_text()
    path, old = tmp_path / 'mdtest.txt', text.replace('mdtest-4.0.0', 'mdtest-1.9.3').replace('SUMMARY rate', 'SUMMARY')
    path.write_text(old.replace('5660.196', '26.390').replace('2 tasks, 400 files', '2 tasks, 2000000000000 files'))
    found, failed = series('mdtest', path)
    key = (
        'mdtest',
        'items=2000000000000,nodes=1,path=data/md,ranks=2',
        'operations',
        'operation=creation,place=easy_unique',
    )
    assert not failed and found[key] == (41276.148, 'ops/s', 'higher')


def test_columns_of_other_versions_of_nccl_tests_are_refused(tmp_path):
    path = tmp_path / 'all_reduce_perf.txt'
    text = (OUTPUTS / 'rccl-tests-all_reduce-8-ranks.txt').read_text()
    path.write_text(text.replace('redop    root', 'redop').replace('#wrong', 'error'))
    with pytest.raises(InputError, match=r'the columns size count type redop root .*, found size count type redop t'):
        series('nccl-tests', path)


def test_several_programs_in_one_output_are_cases_and_trials(tmp_path):
    path, texts = tmp_path / 'job.out', [(OUTPUTS / f'osu_{of}-6.2.txt').read_text() for of in ('bw', 'mbw_mr', 'bw')]
    path.write_text('loading modules\n' + '+ srun\n'.join(texts))
    (report,) = read_measurements(path, 'osu', 'box')
    assert {case.check: case.trials for case in report.cases} == {'osu_bw': 2, 'osu_mbw_mr': 1}
    assert all(case.result == 'pass' for case in report.cases)


def test_each_configuration_of_hpl_is_a_case():
    (report,) = read_measurements(OUTPUTS / 'hpl-2.3-eight-configurations.txt', 'hpl', 'box')
    assert len({case.params for case in report.cases}) == 8 and len(report.samples) == 16
