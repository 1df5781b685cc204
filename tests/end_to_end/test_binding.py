# SPDX-License-Identifier: BSD-3-Clause
"""What a rank was given, kept and where it was, through real ReFrame, srun and Slurm."""

import os

import pytest
from cheats import compiled
from scratch import cases_in

CHECK = r'''import reframe as rfm

from checks.core.benchmark import Benchmark
from checks.core.reading.metrics import Metric
from checks.core.placement import Execution, Placement


@rfm.simple_test
class Bound(Benchmark):
    """A benchmark with a parameter for what becomes of its binding."""

    valid_prog_environs = ['+demo']
    executable = 'demo'
    tags = {'quick'}
    how = parameter(['honest', 'moves', 'refused', 'elsewhere', 'short'], loggable=True)
    metrics = [Metric('rate', 'GB/s', 'higher', r'^rate: (\S+)$')]

    @run_after('setup')
    def place(self):
        self.mpi = self.how != 'elsewhere'
        self.placement = Placement(1, ((4095 if self.how == 'refused' else 0,),))
        self.executable_opts = [self.how]
        if self.mpi:
            self.job.launcher.options = ['--cpu-bind=map_cpu:0']
        else:
            self.runs['run'] = Execution(self.executable_opts, {'SLURMD_NODENAME': 'n9'})
'''
PARTITION = 'scheduler: slurm\n    launcher: srun\n    access: [-p compute]\n'


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason='needs CPU 0 and 1')
def test_each_fault_of_a_binding_on_slurm_names_rank_and_cause(clone, slurm, tmp_path, subtests):
    cheat = compiled(tmp_path)
    text = clone.site_file.read_text().replace('max_jobs: 1', 'max_jobs: 8')
    clone.site_file.write_text(text.replace('scheduler: local\n    launcher: local\n', PARTITION))
    (clone.root / 'checks/demo.py').write_text(CHECK)
    clone.program(
        f'echo "rate: 50.5"\ncase $1 in moves) exec {cheat} start 1 1 0 ;; honest) exec {cheat} honest 1 1 0 ;; esac\n'
    )
    environment = slurm | {'PATH': f'{clone.environment()["PATH"]}:{slurm["PATH"]}', 'KMP_AFFINITY': 'compact'}
    environment['HSA_OVERRIDE_CPU_AFFINITY_DEBUG'] = '1'
    clone.reframe('-r', '-n', 'Bound', '-S', 'trials=1', **environment)
    (report,) = clone.results.glob('reports/*[0-9].json')
    cases = {case['how']: case for case in cases_in(report)}
    node = {how: ','.join(case['record']['job']['nodes']) for how, case in cases.items()}
    reason = {how: str(case['fail_reason']) for how, case in cases.items()}
    watched = {how: case['record']['placement'].get('watched', {}) for how, case in cases.items()}
    with subtests.test('honest'):
        assert cases['honest']['result'] == 'pass', reason['honest']
        assert ', the last after ' in watched['honest'][f'{node["honest"]}.0']
    with subtests.test('moves'):
        assert f'rank {node["moves"]}.0: thread 1 of 1 (cheat) may run on CPU 1 ' in reason['moves']
        assert 'the rank was bound to CPU 0 (set in its environment: ' in reason['moves']
        assert 'HSA_OVERRIDE_CPU_AFFINITY_DEBUG=1' in reason['moves'] and 'KMP' not in reason['moves']  # that is unset
    with subtests.test('refused'):
        refusal = 'local rank 0: taskset --cpu-list 4095 was requested; it says: '
        (cause,) = cases['refused']['record']['causes']
        assert refusal in reason['refused'] and refusal in cause['detail'] and cause['code'] == 'refused'
    with subtests.test('elsewhere'):
        assert 'rank n9.0 says that it ran on n9; its host is ' in reason['elsewhere']
        assert f'the job had {node["elsewhere"]}' in reason['elsewhere']
    with subtests.test('short'):
        assert cases['short']['result'] == 'pass', reason['short']
        assert watched['short'][f'{node["short"]}.0'].startswith('too short to look at')
