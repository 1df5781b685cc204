# SPDX-License-Identifier: BSD-3-Clause
"""The jobs of the 13 sites of the US DOE study, written by dry runs: no scheduler is asked for anything."""

import re
import shutil

import pytest
from scratch import ScratchClone

from plumbline.site.sites import load_site

# OMP_NUM_THREADS (n cores, t hardware threads), OMP_PROC_BIND, OMP_PLACES: Table 1 of 003
BINDINGS = {
    'one': ('1', None, None),
    'one-true': ('1', 'true', None),
    'cores': ('n', None, None),
    'cores-true': ('n', 'true', None),
    'cores-spread': ('n', 'spread', 'cores'),
    'threads': ('t', None, None),
    'threads-true': ('t', 'true', None),
    'threads-close': ('t', 'close', 'threads'),
}


@pytest.fixture(scope='module')
def doe(tmp_path_factory):
    """A clone that no test of this file changes but for the features of its sites."""
    return ScratchClone(tmp_path_factory.mktemp('doe'))


@pytest.fixture(scope='module')
def jobs(doe):
    """What a site would run of the memory checks: display name -> job script; each site is run dry once."""
    known = {}

    def jobs(site: str) -> dict[str, str]:
        if site not in known:
            known[site] = dry_run(doe, site, 'checks/memory')
        return known[site]

    return jobs


def dry_run(clone, site: str, checks: str, *options: str) -> dict[str, str]:
    stage = clone.results / 'stage' / site
    shutil.rmtree(stage, ignore_errors=True)
    answer = clone.reframe('--dry-run', f'--system={site}', *options, checks=checks, PLUMBLINE_SITE=site)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    cases = dict(re.findall(r'OK\S* ?\] \(.+?\) (.+) /([0-9a-f]{8}) @', answer.stdout))
    folders = {path.parent.name: path.read_text() for path in stage.glob('*/*/*/rfm_job.sh')}
    scripts = {
        case: next(text for folder, text in folders.items() if folder in (f'{case.split()[0]}_{digest}', case))
        for case, digest in cases.items()
    }
    assert scripts and 'WARNING' not in answer.stdout
    return scripts


def exported(script: str) -> dict[str, str]:
    return dict(re.findall(r'^export (\w+)=(.*)$', script, re.MULTILINE))


def directives(script: str, mark: str) -> list[str]:
    return re.findall(rf'^#{mark} (.+)$', script, re.MULTILINE)


@pytest.mark.parametrize(('site', 'cores', 'threads'), [('trinity', 68, 272), ('sawtooth', 48, 48)])
def test_a_cpu_machine_has_the_bindings_of_the_study_that_its_cores_admit_and_no_device(jobs, site, cores, threads):
    scripts = jobs(site)
    bindings = [name for name in BINDINGS if threads > cores or name not in ('threads', 'threads-true')]
    assert set(scripts) == {f'BabelStreamHost %binding={name}' for name in bindings} | {
        'BabelStreamBest', 'BabelStreamThreads', 'BabelStreamSizes',
    }  # fmt: skip
    for name in bindings:
        count, proc_bind, places = BINDINGS[name]
        script = scripts[f'BabelStreamHost %binding={name}']
        variables = exported(script)
        assert variables['OMP_NUM_THREADS'] == {'1': '1', 'n': str(cores), 't': str(threads)}[count]
        for variable, value in (('OMP_PROC_BIND', proc_bind), ('OMP_PLACES', places)):
            assert variables.get(variable) == value
            assert bool(re.search(rf'^unset .*\b{variable}\b', script, re.MULTILINE)) is (value is None)
        assert variables['PLUMBLINE_CPUS'] == ','.join(map(str, range(threads)))
        elements = 36 * 2**20 if site == 'sawtooth' else 2**25  # four times 71.5 MiB of caches; else the least there is
        times = 90 if site == 'sawtooth' and count == '1' else 100  # what one core does in the time of a trial
        assert f'options=(--arraysize {elements} --numtimes {times})' in script
        assert 'bash ../../rank.sh omp-stream' in script


@pytest.mark.parametrize(
    ('site', 'model', 'devices', 'threads'),
    [('frontier', 'hip', 8, 128), ('perlmutter', 'cuda', 4, 128), ('summit', 'cuda', 6, 176)],
)
def test_a_gpu_machine_has_a_case_for_each_device_and_one_for_all(jobs, site, model, devices, threads):
    scripts = jobs(site)
    assert set(scripts) == {f'BabelStreamDevice %model={model} %device={device}' for device in range(devices)} | {
        f'BabelStreamAllDevices %model={model}', f'BabelStreamDeviceSizes %model={model}',
    }  # fmt: skip
    options = '--arraysize 134217728 --numtimes 100 --device 0'  # 1 GiB; of the only GPU that it sees
    for device in range(devices):
        script = scripts[f'BabelStreamDevice %model={model} %device={device}']
        assert f'run) options=({options}) ;;' in script
        assert exported(script)['PLUMBLINE_DEVICES'] == str(device)
        assert f'bash ../../rank.sh {model}-stream' in script
        kept = range(0, 64, 8) if site == 'frontier' else ()  # the first core of each L3 cache is the system's
        taken = [thread for thread in range(threads) if thread % 64 not in kept]
        assert exported(script)['PLUMBLINE_CPUS'] == ','.join(map(str, taken))
    everywhere = scripts[f'BabelStreamAllDevices %model={model}']
    runs = re.findall(r'^device_\d\).* PLUMBLINE_DEVICES=(\d); options=\((.*)\) ;;$', everywhere, re.MULTILINE)
    assert runs == [(str(device), options) for device in range(devices)]


def test_the_directives_of_each_scheduler(jobs):
    def any_script(site):
        return next(script for case, script in jobs(site).items() if case != 'BabelStreamBest')

    slurm = ['--ntasks=1', '--ntasks-per-node=1', '--exclusive']
    trinity, frontier, perlmutter = (directives(any_script(site), 'SBATCH') for site in
                                     ('trinity', 'frontier', 'perlmutter'))  # fmt: skip
    for options in (trinity, frontier, perlmutter):
        assert set(slurm) <= set(options) and any(re.fullmatch(r'--time=0:\d+:\d+', one) for one in options)
    assert {'--gpus-per-node=8', '--threads-per-core=2'} <= set(frontier) and '-S 0' not in frontier
    assert {'-C gpu&hbm40g', '--gpus-per-node=4'} <= set(perlmutter)
    sawtooth = directives(any_script('sawtooth'), 'PBS')
    assert {'-l select=1:mpiprocs=1:ncpus=48', '-l place=scatter:excl'} <= set(sawtooth)
    assert any(re.fullmatch(r'-l walltime=0:\d+:\d+', one) for one in sawtooth)
    summit = directives(any_script('summit'), 'BSUB')
    assert {'-nnodes 1', '-x'} <= set(summit) and any(re.fullmatch(r'-W \d+', one) for one in summit)
    for site, mark in (('trinity', 'SBATCH'), ('sawtooth', 'PBS'), ('summit', 'BSUB')):
        assert {mark} == set(re.findall(r'^#([A-Z]+) ', any_script(site), re.MULTILINE))


@pytest.mark.parametrize(
    ('site', 'cpus', 'launch'),
    [
        ('trinity', range(68), r'srun'),
        ('theta', range(64), r'aprun -n 64 -N 64 -d 4 -j 0 -cc none'),
        ('sawtooth', range(48), r'mpiexec -n 48'),
        (
            'summit', range(0, 176, 4),  # of POWER: the four threads of a core have consecutive numbers
            r'jsrun --nrs 1 --rs_per_host 1 --tasks_per_rs 44 --cpu_per_rs ALL_CPUS --gpu_per_rs ALL_GPUS --bind none',
        ),
    ],
)  # fmt: skip
def test_ranks_are_started_by_the_launcher_of_the_site(doe, site, cpus, launch):
    """With a stack that holds HPL and HPCG, which those of the study do not."""
    assert not {'hpl', 'hpcg'} & {feature for stack in load_site(site).environs.values() for feature in stack.features}
    file = doe.root / 'site_configs' / site / 'site.yaml'
    file.write_text(file.read_text().replace('features: [', 'features: [hpl, hpcg, '))
    scripts = dry_run(doe, site, 'checks/compute', '-n', 'HP(L|CG).*size=quick')
    hpl = next(script for case, script in scripts.items() if case.startswith('HPL '))
    assert any(case.startswith('HPCG ') for case in scripts)
    assert re.search(rf'^timeout .* {launch} bash ../../rank.sh xhpl', hpl, re.MULTILINE), hpl
    assert exported(hpl)['OMP_NUM_THREADS'] == '1'
    assert exported(hpl)['PLUMBLINE_CPUS'] == ':'.join(map(str, cpus))


@pytest.mark.parametrize(
    ('options', 'environment'),
    [(['--system=frontier:gpu'], {}), ([], {'RFM_SYSTEM': 'frontier'})],
)
def test_another_site_than_that_of_this_host_can_be_asked_for(doe, options, environment):
    answer = doe.reframe('-l', *options, checks='checks/memory', PLUMBLINE_SITE='', **environment)
    assert answer.returncode == 0 and 'Found 10 check(s)' in answer.stdout, answer.stdout
    assert re.search(r"selected system: +'frontier'", answer.stdout)
