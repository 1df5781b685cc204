# SPDX-License-Identifier: BSD-3-Clause
"""The lines of a job around its program, without a job."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row

from checks.core.job import again, node_sweep
from checks.core.job import script as jobscript
from checks.core.job.script import COMPARE_AT_EXIT, ShellText
from checks.core.job.spec import Execution, JobSpec
from checks.core.placement import Placement
from checks.core.reading.outputs import CLOCKS
from plumbline.site.sites import Environ


def spec(**fields):
    """A job of two trials of ranks of `my program`."""
    defaults = {'program': 'my program', 'runs': {'run': Execution(['-n', '5 x'])}, 'trials': 2, 'trial_limit': 100,
                'unset': Placement(2, ((0,), (1,))).unset, 'mpi': True}  # fmt: skip
    return JobSpec(**defaults | fields)


UNSET = 'unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK'
UNBOUND = (
    'export SLURM_CPU_BIND=none OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none '
    'HYDRA_BINDING=none I_MPI_PIN=0 MV2_ENABLE_AFFINITY=0 MVP_ENABLE_AFFINITY=0 PALS_CPU_BIND=none'
)


def test_the_lines_of_a_job_with_one_run_of_ranks():
    one = spec(inputs=['HPL.dat', 'a b'], activation=['module load gcc'], before=['before'], after=['after'])
    assert jobscript.prerun(one) == [
        UNSET, 'module load gcc', UNBOUND, "(. ./provenance.sh 'my program') > provenance.txt", COMPARE_AT_EXIT,
        'before', '(. ./load.sh before) > load.txt', 'for trial in 1 2; do', 'until=$((SECONDS + 100))',
        'mkdir trial_$trial trial_$trial/run', f'{CLOCKS} > trial_$trial/started', 'for run in run; do',
        "cp HPL.dat 'a b' trial_$trial/$run/", 'cd trial_$trial/$run', 'case $run in',
        "run) options=(-n '5 x') ;;", 'esac', 'code=0',
    ]  # fmt: skip
    assert jobscript.command(one) == (
        "bash ../../rank.sh 'my program'", ['"${options[@]}"', '> stdout', '2> stderr', '|| code=$?'],
    )  # fmt: skip
    assert jobscript.postrun(one) == [
        'echo $code > exit_code', 'cd ../..',
        '((SECONDS < until)) || (. ./time_limit.sh 100 "trial_$trial/$run" $code)',
        '[ $code = 0 ] || [ -e "trial_$trial/$run/time_limit" ] || (. ./show.sh $code trial_$trial stdout)', 'done',
        f'{CLOCKS} > trial_$trial/ended', '(. ./show.sh 0 trial_$trial stdout)', 'done',
        '(. ./load.sh after load.txt) >> provenance.txt', 'after',
    ]  # fmt: skip


def test_the_lines_of_a_job_with_processes_at_the_same_time():
    several = spec(
        mpi=False, concurrent=True, late_after=1800, trials=3, wrapper=['numactl', '-m 1'], output='*.txt',
        runs={
            'a': Execution([ShellText('$(pwd)/x')], {'CPUS': '0 1'}, program='./one'),
            'b': Execution([], before='look &', program='two'),
        },
    )  # fmt: skip
    lines = jobscript.prerun(several)
    assert UNBOUND not in lines
    assert lines[4:] == [
        'declare -A started', 'for trial in 1 2 3; do',
        '(. ./time_left.sh $trial 3 1800 $SECONDS) >> provenance.txt || break',
        'until=$((SECONDS + 100))', 'mkdir trial_$trial trial_$trial/a', f'{CLOCKS} > trial_$trial/started',
        'for run in a b; do',
        '[ -d trial_$trial/$run ] || mkdir trial_$trial/$run', 'cd trial_$trial/$run', 'case $run in',
        "a) export CPUS='0 1'; options=(./one $(pwd)/x) ;;", 'b) options=(two) ; look & ;;', 'esac', 'code=0',
    ]  # fmt: skip
    assert jobscript.command(several) == (
        "bash ../../rank.sh numactl '-m 1'", ['"${options[@]}"', '> stdout', '2> stderr', '& started[$run]=$!'],
    )  # fmt: skip
    assert jobscript.postrun(several)[:11] == [
        'cd ../..', 'done', 'failed=0', 'for run in "${!started[@]}"; do', 'code=0',
        'wait "${started[$run]}" || code=$?', 'echo $code > "trial_$trial/$run/exit_code"',
        '((SECONDS < until)) || (. ./time_limit.sh 100 "trial_$trial/$run" $code)',
        '[ $code = 0 ] || [ -e "trial_$trial/$run/time_limit" ] || failed=$code', 'done; started=()',
        "[ $failed = 0 ] || (. ./show.sh $failed trial_$trial '*.txt')",
    ]  # fmt: skip
    assert several.programs == {'a': './one', 'b': 'two'}
    assert jobscript.command(spec(through_rank=False, program='python3'))[0] == 'python3'


def test_a_script_goes_to_its_compute_node_where_jobs_begin_on_another():
    lines = jobscript.prerun(spec(restart='launch 4 2 bash ./rfm_job.sh'))
    assert lines[1:6] == [
        'if [ -z "$PLUMBLINE_ON_NODE" ]; then', 'export PLUMBLINE_ON_NODE=1', 'launch 4 2 bash ./rfm_job.sh', 'exit',
        'fi',
    ]  # fmt: skip


@each_row(
    ('stack', 'installed', 'lines'),
    [
        (Environ('gnu', 'system'), None, ['# stack gnu, provider system']),
        (
            Environ('gnu', 'system', modules=('gcc/13', 'a b'), prefix='/opt/my gnu', env_vars=(('A', '1 2'),)),
            SimpleNamespace(activation=Path('/sw/a b.sh')),
            [
                '# stack gnu, provider system',
                "module load gcc/13 || { echo 'plumbline: stack gnu: module load gcc/13 failed' >&2; exit 1; }",
                "module load 'a b' || { echo 'plumbline: stack gnu: module load a b failed' >&2; exit 1; }",
                "[ -d '/opt/my gnu/bin' ] || { echo 'plumbline: stack gnu: its prefix /opt/my gnu has no folder bin on "
                "this node' >&2; exit 1; }",
                """export PATH='/opt/my gnu/bin':"$PATH\"""",
                "source '/sw/a b.sh' || exit 1",
                "export A='1 2'",
            ],
        ),
    ],
)
def test_the_lines_that_put_a_stack_on_path(stack, installed, lines):
    assert jobscript.activation(stack, installed) == lines


@each_row(
    ('family', 'device_buffers', 'gpu', 'variables'),
    [
        (None, True, 'cuda', {}),
        ('cray-mpich', None, 'cuda', {}),
        ('cray-mpich', True, 'cuda', {'MPICH_GPU_SUPPORT_ENABLED': '1'}),
        ('cray-mpich', False, None, {'MPICH_GPU_SUPPORT_ENABLED': '0'}),
    ],
)
def test_mpi_passes_buffers_of_gpus_where_a_check_has_them(family, device_buffers, gpu, variables):
    assert jobscript.gpu_buffers(family, device_buffers, gpu, 'srun') == (variables, [])


# Node sweeps, and what runs again


@pytest.fixture
def swept(tmp_path, monkeypatch):
    def swept(*nodes):
        (path := tmp_path / f'nodes{len(nodes)}').write_text(' '.join(nodes))
        monkeypatch.setenv('PLUMBLINE_NODE_SWEEP', str(path))

    monkeypatch.delenv('PLUMBLINE_NODE_SWEEP_ROUNDS', raising=False)
    return swept


def test_a_sweep_has_cases_of_one_node_and_of_pairs(swept, monkeypatch):
    swept('n1', 'n2', 'n3')
    assert node_sweep.swept_nodes() == ['n1', 'n2', 'n3']
    assert [node_sweep.fits(nodes) for nodes in (1, 2, 3)] == [True, True, False]
    monkeypatch.setenv('PLUMBLINE_NODE_SWEEP_ROUNDS', '0')
    assert [node_sweep.fits(nodes) for nodes in (1, 2)] == [True, False]
    monkeypatch.delenv('PLUMBLINE_NODE_SWEEP_ROUNDS')
    swept('n1')
    assert [node_sweep.fits(nodes) for nodes in (1, 2)] == [True, False]


def test_the_places_and_rounds_of_a_sweep(swept, tmp_path):
    swept('n1', 'n2', 'n3', 'n4')
    lines = node_sweep.write_places(tmp_path, 2, ['first', 'second'], 90, mpi=True)
    assert lines[-1] == 'for ((round = 1; round <= 3; round++)); do bash ./sweep_round.sh $round 90; done'
    assert (tmp_path / 'place.sh').read_text().splitlines() == [
        "trap 'exit $?' ERR", 'unset $(compgen -v SLURM_ | grep -vx SLURM_JWT) ${!PMI*}; . ./slurm.env', 'first',
        'second',
    ]  # fmt: skip
    rounds = [(tmp_path / f'rounds/{number}').read_text().split() for number in (1, 2, 3)]
    assert not (tmp_path / 'rounds/4').exists() and all(len(words) == 4 for words in rounds)
    pairs = {frozenset(words[i].split(',')) for words in rounds for i in (1, 3)}
    assert len(pairs) == 6 and all(words[i] == words[i + 1].split(',')[0] for words in rounds for i in (0, 2))
    (alone := tmp_path / 'alone').mkdir()
    lines = node_sweep.write_places(alone, 1, ['first'], 5, mpi=False)
    assert (alone / 'place.sh').read_text().splitlines() == ["trap 'exit $?' ERR", 'first']
    assert (alone / 'rounds/1').read_text() == 'n1 n1\nn2 n2\nn3 n3\nn4 n4\n' and 'round <= 1;' in lines[-1]
    assert node_sweep.began(str(alone)) and not node_sweep.began(str(tmp_path / 'none')) and not node_sweep.began(None)
    assert '--nodelist=$PLUMBLINE_PLACE' in node_sweep.on_each_node(2)
    assert node_sweep.step(2, 8, 4) == (
        'srun --overlap --nodes=2 --nodelist=$PLUMBLINE_PLACE --ntasks=8 --ntasks-per-node=4 --kill-on-bad-exit=1 '
    )


def test_only_the_chosen_cases_run_again(monkeypatch, tmp_path):
    class Osu:
        hashcode = 'abc'

    class Generated(Osu):
        pass

    Generated.__name__ = 'Osu'  # as ReFrame names a test that it makes of another one
    assert again.chosen(Osu, Osu.hashcode) is None
    for generated, expected in ((0, ({'p+e': ['-w n1']},) * 2), (1, (None, {'p+e': ['-w n1']}))):
        path = tmp_path / f'cases{generated}.json'
        path.write_text(
            f'{{"generated": {generated}, "cases": {{"abc": {{"p+e": ["-w n1"]}}}}, "trials": {{"abc": {{"p+e": 3}}}}}}'
        )
        monkeypatch.setenv('PLUMBLINE_CASES', str(path))
        assert (again.chosen(Osu, Osu.hashcode), again.chosen(Generated, Osu.hashcode)) == expected
        assert (again.trials_left(Osu.hashcode, 'p+e'), again.trials_left(Osu.hashcode, 'q+e')) == (3, None)
    Osu.hashcode = 'other'
    assert again.chosen(Generated, Osu.hashcode) == {} and again.trials_left(Osu.hashcode, 'p+e') is None


def test_a_sweep_says_the_first_two_faults_of_each_place_and_may_take_a_week():
    places = [{'job': {'nodes': nodes}, 'faults': faults} for nodes, faults in (
        (['n1'], []), (['n2', 'n3'], ['a', 'b', 'c']), (['n4'], ['d']),
    )]  # fmt: skip
    assert node_sweep.summary(places, 'faults') == ['n2,n3: a; b', 'n4: d']
    assert node_sweep.WEEK == 604_800
