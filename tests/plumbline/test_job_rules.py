# SPDX-License-Identifier: BSD-3-Clause
"""The check of job scripts: what they ask for beyond their node and queue, with its line, and what sbatch says."""

from dataclasses import replace

import pytest
from rows import each_row
from scratch import OUTPUTS

from plumbline.site.job_rules import faults_of_script, may_be_submitted, missing_words, refusals_of_sbatch
from plumbline.site.sites import load_site

SLURM = """\
#!/bin/bash
#SBATCH --job-name="rfm_job"
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --time=1:30:0
#SBATCH --exclusive
#SBATCH --no-requeue
#SBATCH --gpus-per-node=8
#SBATCH --threads-per-core=2
export PLUMBLINE_CPUS=1-7
export PLUMBLINE_CPUS=1,65:2,127
srun bash ../../rank.sh
"""
KNL = SLURM.replace('--gpus-per-node=8', '-C knl')
PBS = """\
#!/bin/bash
#PBS -N rfm_job
#PBS -l walltime=0:31:0
#PBS -l select=2:mpiprocs=2:ncpus=64
#PBS -l filesystems=home
#PBS -l place=scatter:excl
export PLUMBLINE_CPUS=0:24
mpiexec -n 4 --ppn 2 --cpu-bind none bash ../../rank.sh
"""
LSF = """\
#!/bin/bash
#BSUB -J rfm_job
#BSUB -nnodes 2
#BSUB -W 31
#BSUB -x
export PLUMBLINE_CPUS=0:4
jsrun --nrs 2 --rs_per_host 1 --tasks_per_rs 2 --cpu_per_rs ALL_CPUS bash ../../rank.sh
"""
#: Site, its script, what is right, the mistake, line, option, words of the reason.
MISTAKES = [
    ('frontier', SLURM, '1:30:0', '1-0', 5, 'time limit', '86400 s'),
    ('frontier', SLURM, '1:30:0', 'soon', 5, 'time limit', 'expected one in days, hours'),
    ('frontier', SLURM, '2,127', '2,128', 11, 'PLUMBLINE_CPUS', 'CPU 128, and a node has 128'),
    ('frontier', SLURM, '#SBATCH --time=1:30:0\n', '', 1, 'time limit', 'none is stated'),
    ('frontier', SLURM, '--no-requeue', '--cpus-per-task=57', 7, 'cpus', '114 of a node, and the job gets 112'),
    ('frontier', SLURM, '--threads-per-core=2', '-c 64', 9, 'cpus', 'the job gets 56'),
    ('frontier', SLURM, '#SBATCH --threads-per-core=2\n', '', 10, 'PLUMBLINE_CPUS', '--threads-per-core=2'),
    ('frontier', SLURM, '=1,65', '=0,65', 11, 'PLUMBLINE_CPUS', 'CPU 0 is of a core that is kept for the system'),
    ('frontier', SLURM, '--gpus-per-node=8', '-S 0', 1, 'gpus', 'gpu needs one'),
    ('frontier', SLURM, '=2\nexport', '=4\nexport', 9, 'threads-per-core', '4, and a core has 2'),
    ('frontier', SLURM, '--gpus-per-node=8', '--gpus-per-node=9', 8, 'gpus', '9 of a node, and it has 8'),
    ('frontier', SLURM, '#SBATCH --exclusive\n', '', 1, 'exclusive', 'whole nodes'),
    ('frontier', SLURM, '--ntasks=4', '--ntasks=4 -N 9473', 3, 'nodes', '9473, and gpu has 9472'),
    ('trinity', KNL, '-C knl', '--comment=x', 1, 'constraint', 'knl needs'),
    ('polaris', PBS, 'ncpus=64', 'ncpus=2', 4, 'cpus', '2 of a node, and a rank is bound to CPU 24: ask for all 64'),
    ('polaris', PBS, '0:31:0', '1:31:0', 3, 'time limit', 'allows 3600 s'),
    ('summit', LSF, '-W 31', '-W 3:01', 4, 'time limit', '10860 s'),
    ('summit', LSF, '-nnodes 2\n#BSUB -W 31\n#BSUB -x', '-J 2\n#BSUB -W 31', 1, 'exclusive', 'whole nodes'),
]  # fmt: skip


#: What PBS accepts, and puts on no node, or beside other jobs.
BEYOND_QSUB = {'ncpus=65', 'ncpus=64:ngpus=5', 'scatter'}
#: Slips of names and old syntax, which qsub itself names when the first job is submitted.
LEFT_TO_QSUB = {'mpiproc=2', 'scater:excl', 'filesystem=home', 'nodes=2', 'ncpus=4', '-Q rfm_job'}


@each_row(
    ('right', 'mistake', 'answer'),
    [line.split('\t') for line in (OUTPUTS / 'openpbs-23.06-qsub.txt').read_text().splitlines()],
)
def test_a_job_that_openpbs_rejects_or_that_is_not_what_it_should_be_is_named(right, mistake, answer):
    (partition,) = load_site('polaris').partitions.values()
    faults = list(faults_of_script(PBS.replace(right, mistake.replace('\\n', '\n'), 1) if right else PBS, partition))
    expected = not answer.startswith('accepted') or mistake in BEYOND_QSUB
    assert bool(faults) == (expected and mistake not in LEFT_TO_QSUB), faults


@pytest.mark.parametrize(('site', 'script', 'right', 'mistake', 'line', 'option', 'words'), MISTAKES)
def test_a_mistake_is_named_with_its_line_and_option(site, script, right, mistake, line, option, words):
    (partition,) = load_site(site).partitions.values()
    assert list(faults_of_script(script, partition)) == []
    assert script.count(right) == 1
    found = list(faults_of_script(script.replace(right, mistake), partition))
    assert any((n, name) == (line, option) and words in why for n, name, why in found), found


@each_row(('site', 'script', 'stated', 'other'), [
    ('polaris', PBS, '#PBS -l walltime=0:31:0\n', '#PBS -l walltime=1860,filesystems=home\n'),
    ('summit', LSF, '-W 31', '-W 0:31/hostA'), ('summit', LSF, '#BSUB -W 31\n', '#BSUB -W 31\n#BSUB -We 10\n'),
])  # fmt: skip
def test_a_time_that_is_stated_in_another_way_is_read(site, script, stated, other):
    (partition,) = load_site(site).partitions.values()
    assert stated in script
    assert list(faults_of_script(script.replace(stated, other), partition)) == []


def test_cores_that_slurm_keeps_and_nobody_names():
    (partition,) = load_site('frontier').partitions.values()
    entry = partition.entry | {'processor': partition.processor | {'reserved_cores': []}}
    ((_, option, why),) = faults_of_script(SLURM, replace(partition, entry=entry))
    assert option == 'PLUMBLINE_CPUS' and '8 cores are kept for the system: -S 0 gives the job all' in why
    assert list(faults_of_script(SLURM.replace('--no-requeue', '-S 0'), replace(partition, entry=entry))) == []


def test_what_only_a_user_can_state_is_told_and_no_mistake():
    (partition,) = load_site('frontier').partitions.values()
    assert missing_words(SLURM, partition) == ['account']
    assert missing_words(SLURM.replace('--no-requeue', '-A x'), partition) == []
    (partition,) = load_site('castorc').partitions.values()  # whose scheduler has no rules
    assert list(faults_of_script('#!/bin/bash\n', partition)) == []


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """A stand-in for sbatch that refuses scripts with the word ``fast``, as Slurm does, and notes what it is asked."""
    program = tmp_path / 'bin/sbatch'
    program.parent.mkdir()
    refusal = 'sbatch: error: invalid partition specified: fast\nallocation failure: Invalid partition name specified'
    refuses = f'grep -q fast "$2" && {{ echo "{refusal}" >&2; exit 1; }}'
    program.write_text(f'#!/bin/sh\necho "$1" "$2" >> {tmp_path}/asked\n{refuses}\necho starts now >&2\n')
    program.chmod(0o755)
    monkeypatch.setenv('PATH', f'{program.parent}:/usr/bin:/bin')
    return tmp_path


def test_sbatch_is_asked_once_about_scripts_that_ask_for_the_same(sbatch):
    scripts = {}
    for number, partition in enumerate(('slow', 'fast', 'slow', 'fast')):
        scripts[path := sbatch / f'{number}.sh'] = (
            f'#!/bin/bash\n#SBATCH --output=rfm_{number}.out\n#SBATCH -p {partition}\necho {number}\n'
        )
        path.write_text(scripts[path])
    ((path, why),) = refusals_of_sbatch(scripts)
    assert path == sbatch / '1.sh' and why.startswith('sbatch: error: invalid partition specified: fast allocation')
    assert (sbatch / 'asked').read_text().splitlines() == [f'--test-only {sbatch}/{n}.sh' for n in (0, 1)]


@each_row('missing, variables, may', [
    ((), (), True), (('account',), (), False), (('account',), ('SBATCH_ACCOUNT',), True),
    (('account', 'queue'), ('SBATCH_ACCOUNT',), False), (('queue', 'qos'), ('SBATCH_PARTITION', 'SBATCH_QOS'), True),
])  # fmt: skip
def test_a_job_without_what_only_a_user_can_state_is_not_asked_about(missing, variables, may, monkeypatch):
    with monkeypatch.context() as environment:
        for name in variables:
            environment.setenv(name, 'x')
        assert may_be_submitted(set(missing)) is may
