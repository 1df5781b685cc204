# SPDX-License-Identifier: BSD-3-Clause
"""Launchers that ReFrame lacks, and variants of its srun and aprun for jobs that place their ranks themselves."""

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher
from reframe.core.launchers.mpi import SrunLauncher


@register_launcher('jsrun')
class Jsrun(JobLauncher):
    """Launch with IBM's jsrun, one resource set per node; the job itself binds the ranks."""

    def command(self, job):
        ranks = job.num_tasks_per_node or 1
        return [
            'jsrun', f'--nrs {job.num_tasks // ranks}', '--rs_per_host 1', f'--tasks_per_rs {ranks}',
            '--cpu_per_rs ALL_CPUS', '--gpu_per_rs ALL_GPUS', '--bind none',
        ]  # fmt: skip


@register_launcher('srun-on-whole-nodes')
class SrunOnWholeNodes(SrunLauncher):
    """Launch with srun without ``--cpus-per-task``, so that a rank may be bound to any CPU of its node.

    From Slurm 22.05 on, ``--cpus-per-task`` implies ``--exact``: the step would have these CPUs only.
    """

    def __init__(self):
        JobLauncher.__init__(self)  # SrunLauncher.__init__ only starts srun to learn whether it has this option
        self.use_cpus_per_task = False


@register_launcher('aprun-on-whole-nodes')
class AprunOnWholeNodes(JobLauncher):
    """Launch with Cray's aprun, with all hardware threads of a node and without binding the ranks."""

    def command(self, job):
        ranks = job.num_tasks_per_node or 1
        return ['aprun', f'-n {job.num_tasks}', f'-N {ranks}', f'-d {job.cpus_of_node // ranks}', '-j 0', '-cc none']


@register_launcher('pals')
class Pals(JobLauncher):
    """Launch with HPE's mpiexec under PBS, which needs the number of ranks per node; the job itself binds the ranks."""

    def command(self, job):
        return ['mpiexec', f'-n {job.num_tasks}', f'--ppn {job.num_tasks_per_node or 1}', '--cpu-bind none']
