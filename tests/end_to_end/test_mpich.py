# SPDX-License-Identifier: BSD-3-Clause
"""The real OSU Micro-Benchmarks of other MPI libraries than that of the localhost stack, through real jobs.

Debian has no package of them. $OSU_MPICH and $OSU_OPENMPI are prefixes whose `bin` holds the programs, built with each
library of Debian; what is not set is skipped.
"""

import os
from pathlib import Path

import pytest
from test_osu_jobs import CHECK, SITE, needs_two_cpus, run, values


def put_programs(clone, library: str):
    """Of one MPI library into the prefix of the stack."""
    variable = f'OSU_{library.upper()}'
    if variable not in os.environ:
        pytest.skip(f'${variable} names no prefix of OSU Micro-Benchmarks')
    for path in (Path(os.environ[variable]) / 'bin').glob('osu_*'):
        (clone.binary.parent / path.name).symlink_to(path.resolve())


@pytest.fixture(params=['mpich', 'openmpi'])
def real(request, clone, program):
    """A clone whose stack has the real programs, and `mpirun` of their library."""
    library = request.param
    launcher, folder = program(f'mpirun.{library}'), clone.binary.parent
    put_programs(clone, library)
    clone.program(f'exec {launcher} "$@"', 'mpirun')  # no link: MPICH's looks beside itself for its other half
    root = '    env_vars: [[OMPI_ALLOW_RUN_AS_ROOT, 1], [OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, 1]]\n    num_nodes: 1\n'
    site = SITE.replace('    num_nodes: 2\n', root).replace('PREFIX', str(folder.parent))
    clone.site_file.write_text(site)
    clone.library = {'mpich': 'library_libmpich', 'openmpi': 'library_libmpi'}[library]
    return clone


@needs_two_cpus
@pytest.mark.whole_machine
@pytest.mark.parametrize(
    ('case', 'metric'),
    [
        ('OsuLatency', 'mpi_latency'),
        ('OsuBandwidth', 'bidirectional_bandwidth_4194304'),
        ('OsuOneSided', 'put_latency_8'),
        ('OsuMultiPair', 'message_rate_8'),
        ('OsuCollectives', 'barrier'),
    ],
)
def test_programs_built_with_mpich_pass(real, case, metric):
    found = run(real, case, check=CHECK)
    assert found['result'] == 'pass', found['fail_reason']
    assert values(found)[metric] > 0
    assert sorted(found['record']['placement']['actual'].values()) == ['0', '1']
    assert real.library in found['record']['provenance']


@needs_two_cpus
def test_real_programs_without_gpu_support_say_so(real):
    text = real.site_file.read_text()
    gpus = 'devices: [{type: gpu, arch: sm_80, num_devices: 2}]\n    link_classes: {A: {pairs: [[0, 1]]}}'
    text = text.replace('num_nodes: 1', f'num_nodes: 1\n    {gpus}')
    real.site_file.write_text(text.replace('features: [osu]', 'features: [osu-cuda]'))
    real.program(
        'echo "0, GPU-aa, 00000000:07:00.0, NVIDIA A100"; echo "1, GPU-bb, 00000000:46:00.0, NVIDIA A100"', 'nvidia-smi'
    )
    found = run(real, 'OsuDeviceLatency.*device-device', check='checks/mpi/osu_devices.py')
    assert found['result'] == 'fail'
    assert 'the programs were built without support for such buffers: Invalid option [-d]' in found['fail_reason']


@needs_two_cpus
@pytest.mark.whole_machine
def test_real_programs_under_srun(clone, request):
    """Open MPI's, whose ranks Slurm starts by PMIx; Debian's MPICH has none of Slurm's ways built in."""
    put_programs(clone, 'openmpi')  # or skip, before a cluster starts
    slurm = request.getfixturevalue('slurm')
    site = SITE.replace('scheduler: local\n    launcher: mpirun', 'scheduler: slurm\n    launcher: srun')
    site = site.replace('num_nodes: 2', 'access: [-p compute]')
    clone.site_file.write_text(site.replace('PREFIX', str(clone.binary.parent.parent)))
    environment = slurm | {'PATH': f'{clone.environment()["PATH"]}:{slurm["PATH"]}'}
    found = run(clone, 'OsuLatency', check=CHECK, **environment)
    assert found['result'] == 'pass', found['fail_reason']
    assert values(found)['mpi_latency'] > 0
    (node,) = found['record']['job']['nodes']
    assert found['record']['placement']['actual'] == {f'{node}.0': '0', f'{node}.1': '1'}
