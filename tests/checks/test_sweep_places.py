"""How the job of one place of a node sweep ended, by what job/sweep.sh wrote of it."""

import subprocess

import pytest

from checks.core.job.node_sweep import read_place
from checks.core.reading.trials import Plan
from plumbline.paths import ROOT


@pytest.mark.parametrize(
    ('job', 'seconds', 'state', 'said'),
    [
        ('exit 0', 60, 'COMPLETED', None),
        ('exit 3', 60, 'FAILED', 'exit code 3'),
        ('kill -KILL $$', 60, 'FAILED', 'was killed by SIGKILL'),  # as Slurm does where the node goes down
        ('kill -TERM $$', 60, 'FAILED', 'was killed by SIGTERM'),
        ('sleep 60', 1, 'TIMEOUT', 'the time limit was reached'),
    ],
)
def test_a_place_that_was_killed_before_its_limit_did_not_reach_it(tmp_path, job, seconds, state, said):
    (tmp_path / 'rounds').mkdir()
    (tmp_path / 'rounds/1').write_text('n1 n1,n2\nn3 n3,n4\n')
    (tmp_path / 'place.sh').write_text(f'{job}\n')
    script = ['bash', ROOT / 'checks/core/job/parts/sweep.sh', '1', f'{seconds}']
    subprocess.run(script, cwd=tmp_path, env={'SLURMD_NODENAME': 'n3', 'PATH': '/usr/bin:/bin'}, check=True)
    record, faults = read_place(tmp_path / 'places', ('n3', 'n4'), Plan('HPL', (), []), late=False)
    assert record.job['state'] == state
    assert said is None or said in faults[0]
