# SPDX-License-Identifier: BSD-3-Clause
"""The lines of a job around its program, and what they do in a shell."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row
from scratch import ROOT, wait_for

from checks.core.job import again, assembly, node_sweep
from checks.core.job import script as jobscript
from checks.core.job.script import ShellText
from checks.core.job.spec import JobSpec, MeterLines
from checks.core.placement import Execution, Placement
from plumbline.site.sites import Environ

PARTS = ROOT / 'checks/core/job/parts'


@pytest.fixture
def run_job(tmp_path):
    """Run the script of a job, whose programs are shell scripts; return its exit code and the files that it left."""
    shutil.copytree(PARTS, tmp_path / 'job')

    def run(programs: dict[str, str], variables=(), **fields):
        for name, text in programs.items():
            (path := tmp_path / name).write_text(f'#!/bin/bash\n{text}\n')
            path.chmod(0o755)
        first = str(tmp_path / next(iter(programs)))
        spec = JobSpec(**{'program': first, 'trial_limit': 100, 'placement': Placement(1, ((0,),))} | fields)
        program, options = jobscript.command(spec)
        lines = [*jobscript.prerun(spec), f'{program} {" ".join(options)}', *jobscript.postrun(spec)]
        script = '\n'.join(["trap 'exit $?' ERR", *lines])  # as ReFrame begins it
        environment = {'PATH': '/usr/bin:/bin', 'OMP_PLACES': 'cores', 'SLURM_CPU_BIND': 'verbose', **dict(variables)}
        folder = tmp_path / 'job'
        done = subprocess.run(['bash', '-c', script], cwd=folder, env=environment, capture_output=True, check=False)
        files = (path for path in folder.rglob('*') if path.is_file())
        return done.returncode, {f'{path.relative_to(folder)}': path.read_text() for path in files}

    return run


def test_each_trial_has_the_files_of_its_run(run_job, tmp_path):
    for name in ('HPL.dat', 'a b'):
        (tmp_path / 'job').joinpath(name).write_text(name)
    show = (
        'printf "%s|" "$@" "$STACK" "$OMP_PLACES" "$SLURM_CPU_BIND$SLURM_DISTRIBUTION" "$(cat HPL.dat)" "$(cat "a b")"'
    )
    code, files = run_job(
        {'my program': show}, {'SLURM_DISTRIBUTION': 'cyclic'},
        runs={'run': Execution(['-n', '5 x'])}, trials=2, mpi=True, inputs=['HPL.dat', 'a b'],
        stack=Environ('gnu', 'system', env_vars=(('STACK', 'gnu'),)),
        before=['echo $STACK > before'], after=['ls -d trial_* > after', '[ ! -e job_ended ]'],
        meters=MeterLines(['echo > metered'], ['echo > trial_$trial/began'], ['echo > trial_$trial/over']),
    )  # fmt: skip
    assert code == 0 and {'metered', 'job_ended'} <= files.keys()
    assert files['before'] == 'gnu\n' and files['after'] == 'trial_1\ntrial_2\n'
    assert f'binary={tmp_path}/my program\n' in files['provenance.txt'] and 'load_beside=' in files['provenance.txt']
    booted = int(re.search(r'^boot_time=(\d+)$', files['provenance.txt'], re.MULTILINE)[1])
    assert booted == pytest.approx(float(re.search(r'btime (\d+)', Path('/proc/stat').read_text())[1]), abs=60)
    for trial in ('trial_1', 'trial_2'):
        found = {name.removeprefix(f'{trial}/') for name in files if name.startswith(trial)}
        assert found >= {'started', 'ended', 'began', 'over', 'run/stderr'}
        assert files[f'{trial}/run/stdout'] == '-n|5 x|gnu||none|HPL.dat|a b|'
        assert files[f'{trial}/run/exit_code'] == '0\n'
        assert [name for name in found if name.startswith('run/binding.')], 'it ran through rank.sh'


@pytest.fixture(scope='module')
def german(tmp_path_factory):
    """Variables with which a shell writes a decimal comma."""
    if not (shutil.which('localedef') and Path('/usr/share/i18n/locales/de_DE').exists()):
        pytest.skip('no locale can be made')
    folder = tmp_path_factory.mktemp('locales')
    subprocess.run(['localedef', '-i', 'de_DE', '-f', 'UTF-8', folder / 'de_DE.UTF-8'], check=False)
    return {'LOCPATH': str(folder), 'LC_ALL': 'de_DE.UTF-8', 'LC_NUMERIC': 'de_DE.UTF-8'}


def test_a_decimal_comma_of_the_user_reaches_neither_stamps_nor_looks_nor_the_program(run_job, german, tmp_path):
    code, files = run_job({'demo': 'printf %.1f 0.5'}, german, runs={'run': Execution([])}, trials=1)
    assert code == 0 and ',' not in files['trial_1/started'] + files['trial_1/ended']
    assert files['trial_1/run/stdout'] == '0.5'
    run = tmp_path / 'job/other/run'  # on a node to which the launcher takes no variable of the job
    run.mkdir(parents=True)
    rank = ['bash', PARTS / 'rank.sh', 'bash', '-c', 'printf %.1f 0.5']
    said = subprocess.run(rank, cwd=run, env={'PATH': '/usr/bin:/bin', **german}, capture_output=True, check=True)
    assert said.stdout == b'0.5'
    wait_for(lambda: 'end ' in next(run.glob('binding.*')).read_text())
    assert int(re.search(r'^end (\d+)', next(run.glob('binding.*')).read_text(), re.MULTILINE)[1]) < 60e6


def test_a_program_that_fails_ends_the_job_with_its_exit_code(run_job):
    runs = {'first': Execution(['3']), 'second': Execution(['0'])}
    code, files = run_job({'demo': 'exit $1'}, runs=runs, trials=2)
    assert code == 3 and not any(name.startswith('trial_2') or name == 'job_ended' for name in files)
    assert files['trial_1/first/exit_code'] == '3\n' and 'trial_1/second/exit_code' not in files


def test_a_run_that_reached_the_time_limit_ends_its_trial_and_the_next_one_begins(run_job):
    runs = {'first': Execution([]), 'second': Execution([])}
    code, files = run_job({'demo': 'sleep 1.1; exit 124'}, runs=runs, trials=2, trial_limit=1)
    assert code == 0
    for trial in ('trial_1', 'trial_2'):
        assert files[f'{trial}/first/time_limit'] == '1\n' and f'{trial}/second/exit_code' not in files


def test_processes_at_the_same_time_have_variables_programs_and_exit_codes_of_their_own(run_job, tmp_path):
    meet = 'echo "$* $CPUS $WRAPPED" > {0}; until [ -e {1} ]; do sleep 0.01; done; exit {2}'
    here = tmp_path.as_posix()
    programs = {name: meet.format(f'{here}/is_{name}', f'{here}/is_{other}', code)
                for name, other, code in (('one', 'two', 0), ('two', 'one', 5))}  # fmt: skip
    runs = {
        'a': Execution([ShellText('$(basename $(pwd))')], {'CPUS': '0 1'}, program=f'{here}/one'),
        'b': Execution(['y'], {'CPUS': '2'}, before=f'echo > {here}/looked', program=f'{here}/two'),
    }
    wrapped = Placement(1, ((0,),), wrapper=('env', 'WRAPPED=yes'))
    code, files = run_job(programs, runs=runs, trials=1, concurrent=True, placement=wrapped)
    assert (code, files['trial_1/a/exit_code'], files['trial_1/b/exit_code']) == (5, '0\n', '5\n')
    assert [(tmp_path / f'is_{name}').read_text() for name in ('one', 'two')] == ['a 0 1 yes\n', 'y 2 yes\n']
    assert (tmp_path / 'looked').exists()


def test_a_variable_of_one_run_does_not_reach_the_others(run_job):
    """TF32 of one multiplication would make that in single precision faster than it is."""
    runs = {'single': Execution([]), 'tf32': Execution([], {'TF32': '1', 'CPUS': '2'}), 'half': Execution([])}
    program = {'demo': 'echo "${TF32-unset} $CPUS"'}
    code, files = run_job(program, runs=runs, trials=2, stack=Environ('gnu', 'system', env_vars=(('CPUS', '0 "1'),)))
    assert code == 0
    for trial in ('trial_1', 'trial_2'):
        found = [files[f'{trial}/{run}/stdout'] for run in runs]
        assert found == ['unset 0 "1\n', '1 2\n', 'unset 0 "1\n']


def test_no_trial_begins_for_which_the_job_has_no_time(run_job):
    code, files = run_job({'demo': 'true'}, runs={'run': Execution([])}, trials=3, seconds=30, hurries=True)
    assert code == 0 and 'trials_run=1\n' in files['provenance.txt']
    assert 'trial_1/ended' in files and 'trial_2/started' not in files


@each_row(('size', 'cut'), [(100_000, False), (100_001, True)])
def test_a_long_output_is_shown_in_part_and_says_so(tmp_path, size, cut):
    """Its size is that in bytes: each of these letters has two of them."""
    (run := tmp_path / 'trial_1/run').mkdir(parents=True, exist_ok=True)
    text = ('a' * (size % 2) + '\u00e9' * (size // 2)).encode()
    (run / 'stdout').write_bytes(text)
    words = ['bash', PARTS / 'show.sh', '3', 'trial_1', 'stdout']
    answer = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    more = b'== cut after 100000 of 100001 bytes; the evidence of the case has more\n' if cut else b''
    assert (answer.returncode, answer.stderr) == (3, b'')
    assert answer.stdout == b'== trial_1, run: stdout\n' + text[:100_000] + more


@each_row(
    ('module', 'folder', 'said'),
    [
        ('true', 'bin', ''),
        ('false', 'bin', 'stack gnu: module load a b failed'),
        ('true', 'lib', 'has no folder bin on this node'),
    ],
)
def test_a_stack_is_on_path_or_ends_the_job_with_a_sentence(tmp_path, module, folder, said):
    prefix = tmp_path / f'{module} {said}' / folder
    prefix.mkdir(parents=True)
    (tmp_path / 'a b.sh').write_text('SOURCED=yes\n')
    stack = Environ('gnu', 'system', modules=('a b',), prefix=str(prefix.parent), env_vars=(('A', '1 2'),))
    lines = jobscript.activation(stack, SimpleNamespace(activation=Path(tmp_path / 'a b.sh')))
    script = [f'module() {{ {module}; }}', *lines, 'echo "${PATH%%:*} $SOURCED $A"']
    answer = subprocess.run(['bash', '-c', '\n'.join(script)], capture_output=True, text=True, check=False)
    assert (answer.returncode, bool(answer.stdout)) == ((1, False) if said else (0, True))
    assert said in answer.stderr and (said or answer.stdout == f'{prefix} yes 1 2\n')


@each_row(
    ('family', 'buffers', 'gpu', 'variables'),
    [
        (None, True, 'cuda', {}),
        ('cray-mpich', None, 'cuda', {}),
        ('cray-mpich', True, 'cuda', {'MPICH_GPU_SUPPORT_ENABLED': '1'}),
        ('cray-mpich', False, None, {'MPICH_GPU_SUPPORT_ENABLED': '0'}),
    ],
)
def test_mpi_passes_buffers_of_gpus_where_a_check_has_them(family, buffers, gpu, variables):
    placement = Placement(1, None, gpu=gpu, gpu_buffers=buffers)
    assert assembly.gpu_buffers(family, placement, 'srun') == (variables, [])


# Node sweeps, and what runs again


@pytest.fixture
def swept(tmp_path, monkeypatch):
    def swept(*nodes):
        (path := tmp_path / f'nodes{len(nodes)}').write_text(' '.join(nodes))
        monkeypatch.setenv('PLUMBLINE_NODE_SWEEP', str(path))

    monkeypatch.delenv('PLUMBLINE_NODE_SWEEP_ROUNDS', raising=False)
    return swept


def test_a_sweep_has_cases_of_one_node_and_of_pairs(swept, monkeypatch):
    swept('n1')
    assert [node_sweep.fits(nodes) for nodes in (1, 2)] == [True, False]
    swept('n1', 'n2', 'n3')
    assert [node_sweep.fits(nodes) for nodes in (1, 2, 3)] == [True, True, False]
    monkeypatch.setenv('PLUMBLINE_NODE_SWEEP_ROUNDS', '0')
    assert [node_sweep.fits(nodes) for nodes in (1, 2)] == [True, False]


def test_the_places_and_rounds_of_a_sweep(swept, tmp_path):
    swept('n1', 'n2', 'n3', 'n4')
    pairs, alone = tmp_path / 'pairs', tmp_path / 'alone'
    for folder, num_nodes, rounds in ((pairs, 2, 3), (alone, 1, 1)):
        folder.mkdir()
        lines = node_sweep.write_places(folder, num_nodes, ['first', 'second'], 90, mpi=num_nodes > 1)
        assert f'round <= {rounds};' in lines[-1] and len([*folder.glob('rounds/*')]) == rounds
    of_step = 'unset $(compgen -v SLURM_ | grep -vx SLURM_JWT) ${!PMI*}; . ./slurm.env'
    assert (pairs / 'place.sh').read_text().splitlines() == ["trap 'exit $?' ERR", of_step, 'first', 'second']
    assert (alone / 'place.sh').read_text().splitlines() == ["trap 'exit $?' ERR", 'first', 'second']
    assert (alone / 'rounds/1').read_text() == 'n1 n1\nn2 n2\nn3 n3\nn4 n4\n'
    node, place = (pairs / 'rounds/1').read_text().splitlines()[0].split()
    assert place.split(',')[0] == node and len(place.split(',')) == 2
    assert '--nodelist=$PLUMBLINE_PLACE --ntasks=8 --ntasks-per-node=4 ' in node_sweep.step(2, 8, 4)
    assert node_sweep.began(str(alone)) and not node_sweep.began(str(tmp_path / 'none')) and not node_sweep.began(None)


def test_only_the_chosen_cases_run_again(monkeypatch, tmp_path):
    assert again.chosen('abc', 0) is None
    for generated, expected in ((0, ({'p+e': ['-w n1']},) * 2), (1, (None, {'p+e': ['-w n1']}))):
        path = tmp_path / f'cases{generated}.json'
        content = {'generated': generated, 'cases': {'abc': {'p+e': ['-w n1']}}, 'trials': {'abc': {'p+e': 3}}}
        path.write_text(json.dumps(content))
        monkeypatch.setenv('PLUMBLINE_CASES', str(path))
        assert (again.chosen('abc', 0), again.chosen('abc', 1)) == expected
        assert (again.trials_left('abc', 'p+e'), again.trials_left('abc', 'q+e')) == (3, None)
    assert again.chosen('other', 1) == {} and again.trials_left('other', 'p+e') is None


def test_a_sweep_says_the_first_two_faults_of_each_place():
    faults = {'n1': [], 'n2': ['a', 'b', 'c']}
    places = [{'job': {'nodes': [node]}, 'faults': of} for node, of in faults.items()]
    assert node_sweep.summary(places, 'faults') == ['n2: a; b']
