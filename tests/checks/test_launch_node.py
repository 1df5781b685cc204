# SPDX-License-Identifier: BSD-3-Clause
"""Machines that run job scripts on a launch node: that of one plain process goes on on a compute node."""

import os
import subprocess

from rows import each_row


@each_row('launcher, program', [('jsrun', 'jsrun'), ('alps', 'aprun')])
def test_the_script_of_a_plain_process_starts_itself_once_by_the_launcher(tmp_path, launcher, program, reframe_runtime):
    from checks.core.job.script import prerun
    from checks.core.job.spec import Execution, JobSpec

    start = {'jsrun': 'jsrun --nrs 1', 'alps': 'aprun -n 1'}[launcher]
    lines = prerun(JobSpec('x', {'run': Execution(())}, 1, 9, restart=f'{start} bash ./rfm_job.sh'))[1:6]
    for name, text in (
        ('rfm_job.sh', '\n'.join(['echo begin', *lines, 'echo measured', 'exit 3'])),
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
