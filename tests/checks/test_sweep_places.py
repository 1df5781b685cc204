# SPDX-License-Identifier: BSD-3-Clause
"""How the job of one place of a node sweep ended, by what job/sweep.sh wrote of it."""

import io
import os
import shutil
import subprocess
import tarfile
import time

import pytest
from reading import plan_of
from rows import each_row

from checks.core.job.node_sweep import Round, breaches_of, read_place, worst_of
from checks.core.reading.metrics import Metric
from plumbline.paths import ROOT
from plumbline.record import Record

PARTS = ROOT / 'checks/core/job/parts'
RATES = plan_of('HPL', (), [Metric('rate', 'GB/s', 'higher', 'x'), Metric('delay', 'us', 'lower', 'x')])


@pytest.mark.parametrize(
    ('job', 'seconds', 'state', 'said'),
    [
        ('exit 0', 60, 'COMPLETED', None),
        ('exit 3', 60, 'FAILED', 'exit code 3'),
        ('kill -KILL $$', 60, 'FAILED', 'was killed by SIGKILL'),  # as Slurm does where the node goes down
        ('sleep 60', 1, 'TIMEOUT', 'the time limit was reached'),
        ('sleep 1.5', 60, 'COMPLETED', None),  # the clock of the node is ahead: the end of the allocation is over there
    ],
)
def test_a_place_that_was_killed_before_its_limit_did_not_reach_it(tmp_path, job, seconds, state, said):
    (tmp_path / 'rounds').mkdir()
    (tmp_path / 'rounds/1').write_text('n1 n1,n2\nn3 n3,n4\n')
    (tmp_path / 'place.sh').write_text(f'{job}\n')
    script = ['bash', PARTS / 'sweep.sh', '1', f'{seconds}', '60']
    environment = {'SLURMD_NODENAME': 'n3', 'PATH': '/usr/bin:/bin', 'PLUMBLINE_NODE_SWEEP_UNTIL': '1'}
    subprocess.run(script, cwd=tmp_path, env=environment, check=True)
    record = read_place(tmp_path / 'places', ('n3', 'n4'), plan_of('HPL', (), []), Round())
    faults = [*map(str, record.causes)]
    assert record.job['state'] == state
    assert said is None or said in faults[0]


STEP = 'while [ "$1" != bash ]; do shift; done'  # leaves the command of the step


@pytest.fixture
def ran_round(tmp_path):
    """A call runs a round of the places n1 and n2, with stand-ins of Slurm, and returns the record of each."""

    def run(job: str = 'exit 0', srun: str = '', down: str = '', ends_in: float = 60) -> list[Record]:
        for below in ('bin', 'rounds'):
            (tmp_path / below).mkdir()
        (tmp_path / 'rounds/1').write_text('n1 n1\nn2 n2\n')
        (tmp_path / 'place.sh').write_text(f'{job}\n')
        shutil.copy(PARTS / 'sweep.sh', tmp_path)
        every = f'{STEP}; for SLURMD_NODENAME in n1 n2; do export SLURMD_NODENAME'
        programs = {'srun': srun or f'{every}; "$@"; done', 'sinfo': f'[ ! -e down ] || echo {down}'}
        for name, text in programs.items():
            (tmp_path / 'bin' / name).write_text(f'#!/bin/bash\n{text}\n')
            (tmp_path / 'bin' / name).chmod(0o755)
        environment = {'PATH': f'{tmp_path / "bin"}:/usr/bin:/bin'}
        environment['PLUMBLINE_NODE_SWEEP_UNTIL'] = f'{int(time.time() + ends_in)}'
        subprocess.run(['bash', PARTS / 'sweep_round.sh', '1', '60'], cwd=tmp_path, env=environment, check=False)
        of_round = Round.of(tmp_path, 1, [('n1',), ('n2',)])
        return [read_place(tmp_path / 'places', (node,), RATES, of_round) for node in ('n1', 'n2')]

    return run


def endings(records: list[Record]) -> list[tuple[str, str]]:
    return [(record.job['state'], str(record.causes[0]) if record.causes else '') for record in records]


def test_a_round_whose_step_slurm_did_not_start_did_not_run_and_accuses_no_node(ran_round):
    timed_out = 'echo "srun: error: Socket timed out on send/recv operation" >&2; exit 1'
    for state, said in endings(ran_round(srun=timed_out)):
        assert state == 'CANCELLED' and 'ended with exit code 1: "srun: error: Socket timed out' in said


def test_a_place_that_could_not_write_its_exit_code_is_no_failed_node(ran_round):
    for state, said in endings(ran_round(job='mkdir place.exit')):  # as on a full disk
        assert state == 'FAILED' and 'wrote no exit code' in said and 'node failed' not in said


def test_a_node_that_slurm_says_is_down_has_failed(ran_round):
    """It goes down while its job runs."""
    goes_down = f'{STEP}; SLURMD_NODENAME=n1 "$@"; mkdir places/n2; touch down'
    (first, _), (second, said) = endings(ran_round(srun=goes_down, down='n2'))
    assert (first, second) == ('COMPLETED', 'NODE_FAIL') and 'a node failed' in said


def test_a_place_of_a_round_that_was_killed_did_not_come_to_its_end(ran_round):
    """As with its allocation: nobody wrote how the step of the round ended."""
    for state, said in endings(ran_round(srun='kill -KILL $PPID')):
        assert state == 'CANCELLED' and 'there is no exit code of the srun of its round' in said


def test_a_place_that_the_end_of_the_allocation_cut_did_not_reach_its_own_limit(ran_round):
    (state, said), _ = endings(ran_round(job='sleep 10', ends_in=2))
    assert state == 'CANCELLED' and 'the time of the allocation was used up' in said


def place(rate: float, delay: float):
    """The record of a place whose two trials have these means."""
    record = RATES.empty_record()
    for (_, _, series), value in zip(record.series(), (rate, delay), strict=True):
        series.samples = [(1, 'n1', value - 1), (2, 'n1', value + 1)]
    return record


@each_row(
    ('rate', 'delay', 'said'),
    [
        (100, 5, []),
        (90, 10, []),
        (89, 5, ['failed to meet reference: rate=89 GB/s, limit 90']),
        (100, 11, ['failed to meet reference: delay=11 us, limit 10']),
    ],
)
def test_what_is_beyond_its_limit_in_its_direction_is_a_breach(rate, delay, said):
    assert breaches_of(place(rate, delay), {'rate': 90.0, 'delay': 10.0}) == said
    assert breaches_of(place(rate, delay), {}) == []


def test_the_worst_place_is_the_one_with_the_lowest_rate_and_the_highest_delay():
    worst = worst_of([place(100, 5), place(80, 4), place(90, 9)], RATES)
    assert [[value for _, _, value in series.samples] for _, _, series in worst.series()] == [[79, 81], [8, 10]]
    nothing = worst_of([RATES.empty_record()], RATES)
    assert [series.missing for _, _, series in nothing.series()] == ['no place measured it'] * 2


def packed(folder, **members):
    """An archive of a place; a member is its text, or the target of a symbolic link."""
    with tarfile.open(folder / 'n1.tar', 'w') as archive:
        for name, content in ({'place.exit': '0\n'} | members).items():
            member = tarfile.TarInfo(name)
            if content.startswith('-> '):
                member.type, member.linkname = tarfile.SYMTYPE, content[3:]
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))


@each_row(
    'members',
    [
        {'../../written': 'x'},
        {'/tmp/plumbline-was-here': 'x'},
        {'trial_1': '-> ../..', 'trial_1/written': 'x'},
        {'trial_1/../../../written': 'x'},
    ],
)
def test_an_archive_that_somebody_else_changed_writes_nothing_and_fails_its_place(tmp_path, members):
    packed(tmp_path, **members)
    before = set(tmp_path.rglob('*'))
    record = read_place(tmp_path, ('n1',), RATES, Round())
    faults = [*map(str, record.causes)]
    assert 'somebody else changed the archive' in faults[0] and record.job['state'] == 'FAILED'
    assert all(series.missing for _, _, series in record.series())
    assert set(tmp_path.rglob('*')) == before and not os.path.exists('/tmp/plumbline-was-here')


def test_an_archive_of_plain_files_is_read_and_one_that_was_cut_fails_its_place(tmp_path):
    packed(tmp_path, **{'./provenance.txt': 'load_beside=0.5\n', 'stdout': 'x' * 5000})
    record = read_place(tmp_path, ('n1',), RATES, Round())
    assert (record.job['state'], record.provenance['load_beside']) == ('COMPLETED', '0.5')
    text = (tmp_path / 'n1.tar').read_bytes()
    (tmp_path / 'n1.tar').write_bytes(text[:4000])
    record = read_place(tmp_path, ('n1',), RATES, Round())
    faults = [*map(str, record.causes)]
    assert 'its files cannot be read' in faults[0]
