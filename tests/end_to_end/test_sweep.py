"""Sweeps over sixteen virtual nodes of a real Slurm."""

import json
import signal
import subprocess
import sys

import pytest
from test_slurm_faults import Night, wait_for

pytestmark = pytest.mark.whole_machine

FLEET = [f'n{number}' for number in range(5, 21)]
GOOD = 'echo "rate: 50.$RANDOM"; echo "delay: 1.20$RANDOM"'


@pytest.fixture
def fleet(clone, slurm, tmp_path):
    one = Night(clone, slurm, tmp_path / 'faults')
    path = one.clone.site_file
    path.write_text(path.read_text().replace('name: compute', 'name: fleet').replace('-p compute', '-p fleet'))
    one.prepare('none')
    yield one
    one.tell('scancel', '--user=root', '--full')
    one.tell('scontrol', 'update', 'NodeName=n[5-20]', 'State=resume')
    wait_for(lambda: not one.queue().strip())
    wait_for(lambda: one.tell('sinfo', '-h', '-p', 'fleet', '-t', 'idle', '-o', '%D').stdout.strip() == '16')


def command(*options: str) -> list[str]:
    return [sys.executable, '-m', 'ci.sweep', *options, '--', '-S', 'trials=2']


def swept(fleet) -> dict[str, dict]:
    """The cases of the last sweep by node."""
    (path,) = fleet.clone.results.glob('reports/*Z.json')
    cases = [case for case in json.loads(path.read_text())['runs'][0]['testcases'] if not case['fixture']]
    return {','.join(case['job_nodelist']): case for case in cases}


def jobs_since(fleet, before: set[str]) -> set[str]:
    return set(fleet.tell('sacct', '-n', '-X', '-o', 'jobid').stdout.split()) - before


def test_a_sweep_in_which_three_of_sixteen_nodes_fail(fleet):
    """One that exits with an error, one with half of its output, one that goes down; the others count."""
    fleet.clone.program(
        'case $SLURMD_NODENAME in n7) echo "no licence" >&2; exit 3 ;; n9) echo "rate: 50.5"; exit ;;\n'
        f'n11) echo "x n11" > {fleet.folder}/down; sleep 60 ;; esac\n{GOOD}'
    )
    fleet.after('down', 'scontrol', 'update', 'NodeName=n11', 'State=down', 'Reason=test')
    answer = fleet.clone.run(*command(), **fleet.slurm)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert 'Traceback' not in answer.stderr
    cases = swept(fleet)
    assert sorted(cases) == sorted(FLEET)
    assert {node for node, case in cases.items() if case['result'] != 'pass'} == {'n7', 'n9', 'n11'}
    for node, words in {'n7': 'exit code 3', 'n9': 'delay not measured', 'n11': 'did not come to its end'}.items():
        assert f'{node}: ' in cases[node]['fail_reason'] and words in cases[node]['fail_reason']
        assert f'%.nid={node}: {node}: ' in answer.stdout
    good = cases['n5']['record']
    assert [sample[:2] for sample in good['metrics']['rate']['samples']] == [[1, 'n5'], [2, 'n5']]
    assert good['binding']['got'] == {'n5.0': '0'}
    assert [sample[:2] for sample in cases['n9']['record']['metrics']['rate']['samples']] == [[1, 'n9'], [2, 'n9']]
    found = json.loads(fleet.clone.plumbline('compare', '--format=json').stdout)
    assert found['counts'] == {'failed': 6, 'no_reference': 26}
    assert fleet.queue() == ''


def test_a_sweep_that_is_killed_is_carried_on(fleet):
    fleet.tell('scontrol', 'update', 'NodeName=n[9-20]', 'State=drain', 'Reason=away')
    fleet.clone.program(f'[ $SLURMD_NODENAME = n7 ] && [ ! -e {fleet.folder}/on ] && sleep 300\n{GOOD}')
    running = subprocess.Popen(
        command('--max-nodes=2'), cwd=fleet.clone.root, env=fleet.clone.environment(**fleet.slurm), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    wait_for(lambda: list(fleet.clone.results.glob('nightly-stage/*/*/*/*/Fault*/places/n7/trial_1/run/binding*')))
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert fleet.queue().count('\n') == 1, 'the kill left no allocation behind, so this test shows nothing'
    (fleet.folder / 'on').touch()
    answer = fleet.clone.run(*command('--max-nodes=2'), **fleet.slurm)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert 'cancelled 1 jobs of it in the queue' in answer.stdout
    assert 'carries on a sweep: 2 nodes are done' in answer.stdout
    assert answer.stdout.count('holds 2 nodes') == 1
    assert 'left out: n9 of fleet is drained (away)' in answer.stdout
    results = {node: case['result'] for node, case in swept(fleet).items()}
    assert results == dict.fromkeys(['n5', 'n6', 'n7', 'n8'], 'pass')
    assert fleet.queue() == ''


def test_pairs_of_nodes(fleet):
    """Every pair of four nodes, each an MPI job of its own; two pairs at the same time."""
    fleet.tell('scontrol', 'update', 'NodeName=n[9-20]', 'State=drain', 'Reason=away')
    path = fleet.clone.root / 'checks/fault.py'
    path.write_text(path.read_text().replace('    fault = ', '    num_nodes = 2\n    mpi = True\n    fault = '))
    fleet.clone.program(f'[ $SLURM_PROCID = 1 ] || {{ {GOOD}; }}')
    answer = fleet.clone.run(*command(), **fleet.slurm)
    cases = swept(fleet)
    assert {pair: case['fail_reason'] for pair, case in cases.items()} == dict.fromkeys(
        ['n5,n8', 'n6,n7', 'n5,n7', 'n8,n6', 'n5,n6', 'n7,n8']
    ), answer.stdout
    assert answer.returncode == 0
    assert set(cases['n8,n6']['record']['binding']['got']) == {'n8.0', 'n6.0'}


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (['--partition=nosuch'], 'expected one of site demo: fleet; found nosuch'),
        (['--max-nodes=0'], 'expected 1 or more'),
        (['--time-limit=soon'], "expected a time such as 8h, 90m or 1h30m, found 'soon'"),
    ],
)
def test_usage_errors(fleet, options, words):
    answer = fleet.clone.run(sys.executable, '-m', 'ci.sweep', *options, **fleet.slurm)
    assert answer.returncode == 2
    assert words in answer.stderr and 'Traceback' not in answer.stderr
