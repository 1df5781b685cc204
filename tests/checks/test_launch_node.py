# SPDX-License-Identifier: BSD-3-Clause
"""Machines that run job scripts on a launch node: that of one plain process goes on on a compute node."""

import os
import subprocess
from types import SimpleNamespace

from rows import each_row


def check_of(launcher: str, **other) -> SimpleNamespace:
    words = {'jsrun': ['jsrun', '--nrs 1'], 'alps': ['aprun', '-n 1'], 'srun': ['srun']}[launcher]
    job = SimpleNamespace(launcher=SimpleNamespace(run_command=lambda job: ' '.join(words)))
    partition = SimpleNamespace(entry={'launcher': launcher})
    facts = {'mpi': False, 'is_local': lambda: False, 'num_tasks': 1, 'num_tasks_per_node': 1}
    return SimpleNamespace(job=job, partition=partition, **facts | other)


@each_row('launcher, program', [('jsrun', 'jsrun'), ('alps', 'aprun')])
def test_the_script_of_a_plain_process_starts_itself_once_by_the_launcher(tmp_path, launcher, program, reframe_runtime):
    from checks.core.job.script import _to_compute_node

    for name, text in (
        ('rfm_job.sh', '\n'.join(['echo begin', *_to_compute_node(check_of(launcher)), 'echo measured', 'exit 3'])),
        (program, f'#!/bin/bash\necho {program}; while [ "$1" != bash ]; do shift; done; exec "$@"'),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {'PATH': f'{tmp_path}:{os.environ["PATH"]}'}
    ran = subprocess.run(
        ['bash', 'rfm_job.sh'], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout.split(), ran.stderr) == (['begin', program, 'begin', 'measured'], '')
    assert ran.returncode == 3


@each_row('launcher, other', [('srun', {}), ('jsrun', {'mpi': True}), ('alps', {'is_local': lambda: True})])
def test_no_other_script_does(launcher, other, reframe_runtime):
    from checks.core.job.script import _to_compute_node

    assert _to_compute_node(check_of(launcher, **other)) == []
