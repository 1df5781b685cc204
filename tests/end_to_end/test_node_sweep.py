# SPDX-License-Identifier: BSD-3-Clause
"""Node sweeps over sixteen virtual nodes of a real Slurm."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from itertools import combinations

import pytest
from scratch import ROOT, cases_in, wait_for
from storage_stand_in import DISK, NODE, install
from test_slurm_faults import Night

from plumbline.stacks.manifest import Installed

FLEET = [f'n{number}' for number in range(5, 21)]
REFERENCE = """\
partition,environ,check,params,metric,dims,unit,better,mean,std,n,kind,source,recorded_at,mode,note
fleet,*,Fault,*,rate,-,GB/s,higher,50,,,published,made up,,,
"""
GOOD = 'echo "rate: 50.$RANDOM"; echo "delay: 1.20$RANDOM"'


@pytest.fixture
def fleet(clone, slurm, tmp_path):
    one = Night(clone, slurm, tmp_path / 'faults')
    path = one.clone.site_file
    path.write_text(path.read_text().replace('name: compute', 'name: fleet').replace('-p compute', '-p fleet'))
    one.prepare('none')
    empty(one)  # of the jobs of other tests, too
    yield one
    one.tell('scancel', '--user=root', '--full')


def empty(fleet):
    """End all jobs, and wait until every node is free, and still so a moment later."""

    def all_free() -> bool:
        fleet.tell('scontrol', 'update', 'NodeName=n[5-20]', 'State=resume')
        states = fleet.tell('sinfo', '-h', '-N', '-p', 'fleet', '-o', '%N %T').stdout.split('\n')[:-1]
        return len(states) == 16 and all(state.endswith(' idle') for state in states) and not fleet.queue().strip()

    fleet.tell('scancel', '--user=root', '--full')
    wait_for(all_free)
    time.sleep(1)
    wait_for(all_free)


def sweep(fleet, *options: str, selection: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    return fleet.clone.fork('ci.node_sweep', *options, '--', '-S', 'trials=2', *selection, **fleet.slurm)


def only(fleet, first: int, last: int):
    """Drain all other nodes."""
    others = ','.join(node for node in FLEET if not first <= int(node[1:]) <= last)
    fleet.tell('scontrol', 'update', f'NodeName={others}', 'State=drain', 'Reason=away')


def swept(fleet) -> dict[str, dict]:
    """Return the cases of the last node sweep by node."""
    (path,) = fleet.clone.results.glob('reports/*Z.json')
    cases = [case for number in range(len(json.loads(path.read_text())['runs'])) for case in cases_in(path, number)]
    assert len({case['display_name'] for case in cases}) == len(cases)
    return {','.join(case['job_nodelist']): case for case in cases}


def verdicts(document: dict) -> Counter:
    """Return how often each verdict was given, to any place."""
    return Counter(row['verdict'] for row in document['verdicts'])


def test_each_of_sixteen_nodes_is_judged_by_itself(fleet):
    """One exits with an error, one has half of its output, one goes down, one is slow, one is faster than its peak."""
    path = fleet.clone.root / 'checks/fault.py'
    path.write_text(path.read_text().replace(r"r'^rate: (\S+)$'", r"r'^rate: (\S+)$', peak='memory_bandwidth'"))
    fleet.clone.site_file.with_name('published.csv').write_text(REFERENCE)
    fleet.clone.program(
        'case $SLURMD_NODENAME in n5) echo "rate: 10.5"; echo "delay: 1.25"; exit ;;\n'
        'n6) echo "rate: 200.5"; echo "delay: 1.25"; exit ;;\n'
        'n7) echo "no licence" >&2; exit 3 ;; n9) echo "rate: 50.5"; exit ;;\n'
        f'n11) echo "x n11" > {fleet.folder}/down; sleep 300 ;; esac\n{GOOD}'
    )
    fleet.after('down', 'scontrol', 'update', 'NodeName=n11', 'State=down', 'Reason=test')
    answer = sweep(fleet)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert 'Traceback' not in answer.stderr
    cases = swept(fleet)
    assert sorted(cases) == sorted(FLEET)
    wrong = {
        'n5': 'failed to meet reference: rate=10.5 GB/s, limit 24.8', 'n6': '200.5 GB/s is above the physical peak',
        'n7': 'exit code 3', 'n9': 'delay not measured', 'n11': 'a node failed|was killed',
    }  # fmt: skip
    phases = {node: case['fail_phase'] for node, case in cases.items() if case['result'] != 'pass'}
    assert phases.keys() == wrong.keys() and phases['n5'] == phases['n6'] == 'performance', phases
    for node, words in wrong.items():
        assert re.search(words, cases[node]['fail_reason']), cases[node]['fail_reason']
        assert f'%.nid={node}: {node}: ' in answer.stdout or phases[node] == 'performance', answer.stdout
    good = cases['n8']['record']
    assert [sample[:2] for sample in good['metrics']['rate']['samples']] == [[1, 'n8'], [2, 'n8']]
    assert good['placement']['actual'] == {'n8.0': '0'}
    assert [sample[:2] for sample in cases['n9']['record']['metrics']['rate']['samples']] == [[1, 'n9'], [2, 'n9']]
    found = json.loads(fleet.clone.plumbline('compare', '--format=json').stdout)
    told = verdicts(found)
    lost = told.pop('failed') + told.pop('missing', 0)  # of n11, whatever its job still said
    assert lost == 6 and told == {'regressed': 1, 'invalid': 1, 'ok': 11, 'no_reference': 13}
    assert not found['problems']
    assert fleet.queue() == ''


def start(fleet, *options: str, within: tuple[str, ...] = ()) -> subprocess.Popen:
    return fleet.clone.start('ci.node_sweep', *options, '--', '-S', 'trials=2', within=within, **fleet.slurm)


def start_and_hang(fleet, done: str, *options: str) -> subprocess.Popen:
    """A node sweep of n5 to n8 whose n7 hangs, once it does and the nodes `done` have ended."""
    only(fleet, 5, 8)
    mark = fleet.folder / 'hangs'
    hangs = f'[ $SLURMD_NODENAME = n7 ] && [ ! -e {fleet.folder}/on ] && echo $SLURM_JOB_ID > {mark} && sleep 300'
    slow = f'[ $SLURMD_NODENAME = n6 ] && [ -e {fleet.folder}/slow ] && echo "rate: 10.5" && echo "delay: 1" && exit'
    fleet.clone.program(f'{hangs}\n{slow}\n{GOOD}')
    running = start(fleet, *options)
    places = 'nightly-stage/*/*/*/*/Fault*/places'
    wait_for(lambda: all([*fleet.clone.results.glob(f'{places}/{node}.tar')] for node in done.split()))
    # by the job of this sweep: the next trial of a cancelled job may begin before that job is killed
    wait_for(lambda: mark.exists() and {*mark.read_text().split()} & {*fleet.queue().split()})
    return running


def test_a_node_sweep_that_is_killed_is_resumed(fleet):
    running = start_and_hang(fleet, 'n8', '--max-nodes=2')
    running.send_signal(signal.SIGKILL)
    running.communicate()
    (fleet.folder / 'on').touch()
    assert fleet.queue().count('\n') == 1, 'the kill left no allocation behind, so this test shows nothing'
    answer = sweep(fleet, '--max-nodes=2')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert 'cancelled 1 job of it in the queue' in answer.stdout
    assert 'resumes a node sweep: 2 nodes done, 2 not yet' in answer.stdout
    assert answer.stdout.count('holds 2 nodes') == 1
    assert 'left out: n9 of fleet is drained (away)' in answer.stdout
    results = {node: case['result'] for node, case in swept(fleet).items()}
    assert results == dict.fromkeys(['n5', 'n6', 'n7', 'n8'], 'pass')
    assert fleet.queue() == ''


def test_a_node_sweep_that_is_interrupted_names_every_node_and_resumes_the_missing_ones(fleet):
    """First its job is cancelled under it, then it is interrupted itself; what was measured is kept each time."""
    fleet.clone.site_file.with_name('published.csv').write_text(REFERENCE)
    (fleet.folder / 'slow').touch()

    def ended(running: subprocess.Popen) -> tuple[str, dict[tuple[str, str], dict]]:
        output, _ = running.communicate(timeout=120)
        assert running.returncode == 1, output
        assert fleet.queue() == ''
        assert sorted(swept(fleet)) == ['n5', 'n6', 'n7', 'n8'], output
        found = json.loads(fleet.clone.plumbline('compare', '--format=json').stdout)['verdicts']
        return output, {(row['nodes'][0], row['metric']): row for row in found}

    first = start_and_hang(fleet, 'n5 n6', '--max-nodes=3')
    fleet.tell('scancel', '--name=plumbline-node-sweep')
    output, verdicts = ended(first)
    assert re.search('case did not run, on n7; the same command resumes', output)
    assert verdicts['n7', 'rate']['verdict'] == 'missing' and verdicts['n8', 'rate']['verdict'] == 'ok'
    assert re.search(r'job \d+ ended in state CANCELLED', verdicts['n7', 'rate']['cause'])
    second = start_and_hang(fleet, 'n5 n6', '--max-nodes=3')
    second.send_signal(signal.SIGINT)
    output, verdicts = ended(second)
    assert 'resumes a node sweep: 3 nodes done, 1 not yet' in output and 'holds 1 node' in output
    assert (verdicts['n7', 'rate']['verdict'], verdicts['n7', 'rate']['cause']) == ('missing', 'interrupted by Ctrl-C')
    (fleet.folder / 'on').touch()
    output, verdicts = ended(start(fleet, '--max-nodes=3'))
    assert {node: row['verdict'] for (node, metric), row in verdicts.items() if metric == 'rate'} == {
        'n5': 'ok', 'n6': 'regressed', 'n7': 'ok', 'n8': 'ok',
    }  # fmt: skip
    assert re.search(r'NODE n6: 7\d', output), 'the slow node is not in the summary'


def test_a_node_that_hangs_costs_the_others_nothing(fleet):
    """It ends in time for the allocation, and what would begin after that is named."""
    only(fleet, 5, 6)
    fleet.prepare('one', 'two')
    fleet.clone.program(f'[ $SLURMD_NODENAME = n5 ] && sleep 300\n{GOOD}')
    answer = sweep(fleet, '--time-limit=1m')
    assert answer.returncode == 1
    (path,) = fleet.clone.results.glob('reports/*Z.json')
    cases = cases_in(path)
    said = {(case['fault'], *case['job_nodelist']): case['fail_reason'] for case in cases}
    (first,) = {fault for fault, node in said if said[fault, node] is None}
    (second,) = {'one', 'two'} - {first}
    assert re.search('cancelled .* while demo ran .*; the time of the allocation was used up', said[first, 'n5']), said
    states = {(case['fault'], *case['job_nodelist']): case['record']['job']['state'] for case in cases}
    assert states == {
        (first, 'n5'): 'CANCELLED', (first, 'n6'): 'COMPLETED',
        (second, 'n5'): 'CANCELLED', (second, 'n6'): 'CANCELLED',
    }  # fmt: skip
    assert all('the time of the allocation was used up' in said[second, node] for node in ('n5', 'n6')), said
    assert fleet.queue() == ''


@pytest.fixture
def pairs(fleet):
    """The check on two nodes, each pair an MPI job of its own, with a hook that its program needs."""
    path = fleet.clone.root / 'checks/fault.py'
    text = path.read_text().replace('    fault = ', '    num_nodes = 2\n    mpi = True\n    fault = ')
    hook = "    @run_before('run')\n    def add(self):\n        self.executable_opts.insert(0, 'x')\n"
    path.write_text(f'{text}\n{hook}')
    fleet.clone.program(f'[ $1 = x ] || exit 3\n[ $SLURM_PROCID = 1 ] || {{ {GOOD}; }}')
    return fleet


def test_every_pair_of_nodes_from_within_a_job(pairs):
    only(pairs, 5, 7)
    job = ('srun', '--partition=compute', '--nodes=1', '--ntasks=2', '--ntasks-per-node=2', '--mpi=none', 'sh', '-c',
           '[ $SLURM_PROCID = 1 ] || exec "$@"', 'sh')  # fmt: skip
    running = start(pairs, within=job)
    output, _ = running.communicate(timeout=300)
    assert running.returncode == 0, output
    cases = swept(pairs)
    every = map(','.join, combinations(['n5', 'n6', 'n7'], 2))
    assert {pair: case['fail_reason'] for pair, case in cases.items()} == dict.fromkeys(every), output
    assert set(cases['n5,n7']['record']['placement']['actual']) == {'n5.0', 'n7.0'}
    assert set(cases['n5,n7']['record']['health']) == {'n7'}  # what it counted, beside the first node


def test_a_sample_of_pairs_at_the_same_time(pairs):
    only(pairs, 5, 8)
    answer = sweep(pairs, '--rounds=1')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert sorted(node for pair in swept(pairs) for node in pair.split(',')) == ['n5', 'n6', 'n7', 'n8']


def test_a_node_without_a_partner_is_named(fleet):
    only(fleet, 5, 7)
    with (fleet.clone.root / 'checks/fault.py').open('a') as stream:
        stream.write('\n\n@rfm.simple_test\nclass Pair(Fault):\n    num_nodes = 2\n    mpi = True\n')
    fleet.clone.program(f'[ "$PMIX_RANK" = 1 ] || {{ {GOOD}; }}')
    answer = sweep(fleet, '--max-nodes=2')
    assert answer.returncode == 1
    assert sorted(swept(fleet)) == ['n5', 'n5,n6', 'n6', 'n7']
    found = json.loads(fleet.clone.plumbline('compare', '--format=json').stdout)
    assert found['problems'] == ['Pair %fault=none: not run on n7']
    assert verdicts(found) == {'no_reference': 8}


def test_real_osu_on_pairs_of_all_nodes(fleet):
    """The virtual nodes share the cores of this host: the latencies are no machine's, but they are there."""
    installed = Installed('localhost', 'node', 'cpu').activation
    find = f'{f". {installed};" if installed.exists() else ""} type -P osu_latency'
    real = subprocess.run(['bash', '-c', find], capture_output=True, text=True, check=False).stdout.strip()
    if not real:
        pytest.skip('no OSU Micro-Benchmarks: neither on PATH nor in an installed stack of localhost')
    clone = fleet.clone
    shutil.copytree(ROOT / 'checks/ladder', clone.root / 'checks/ladder', dirs_exist_ok=True)
    (clone.root / 'checks/fault.py').unlink()
    text = clone.site_file.read_text().replace('features: [demo]', 'features: [osu]')
    more = 'num_nodes: 16\n    env_vars: [[OMPI_MCA_mpi_yield_when_idle, 1], [OMPI_MCA_btl, ^openib]]\n    max_jobs:'
    clone.site_file.write_text(text.replace('max_jobs:', more))
    clone.program(f'exec {real} -i 20 -x 2 "$@"', 'osu_latency')  # with fewer repetitions
    step = ['srun', '--partition=fleet', '--nodes=2', '--ntasks=2', clone.binary.with_name('osu_latency'), '-m', '1:1']
    if (probe := fleet.tell(*map(str, step))).returncode:
        pytest.skip(f'srun does not start the MPI of {real} here: {probe.stderr.strip()[-300:]}')
    two_nodes = ('-n', 'OsuLatency.*two_nodes', '-S', 'trials=1')
    answer = sweep(fleet, '--mode=nightly', '--rounds=2', selection=two_nodes)
    cases = swept(fleet)
    assert {pair: case['fail_reason'] for pair, case in cases.items()} == dict.fromkeys(cases), answer.stdout
    assert answer.returncode == 0
    met = [node for pair in cases for node in pair.split(',')]
    assert len(cases) == 16 and {node: met.count(node) for node in met} == dict.fromkeys(FLEET, 2)
    for pair, case in cases.items():
        metrics = case['record']['metrics']
        assert len(metrics) == 24 and all(metric['samples'][0][:2] == [1, pair] for metric in metrics.values())
        assert set(case['record']['placement']['actual']) == {f'{node}.0' for node in pair.split(',')}


LADDER = """\
[ $SLURM_PROCID = 0 ] || exit 0
case $SLURM_STEP_NODELIST in n[0-9]*) rate=90 ;; *7*) sleep 0.4; rate=10 ;; *) rate=50 ;; esac
echo "# OSU MPI Bandwidth Test v7.4"
echo "1048576                $rate.00"
"""


def test_a_ladder_names_the_slow_node_and_grows_a_group_of_the_others(fleet):
    """Steps of a real Slurm, whose programs are stand-ins."""
    only(fleet, 5, 8)
    clone = fleet.clone
    shutil.copytree(ROOT / 'checks/ladder', clone.root / 'checks/ladder', dirs_exist_ok=True)
    (clone.root / 'checks/fault.py').unlink()
    text = clone.site_file.read_text().replace('features: [demo]', 'features: [osu]')
    clone.site_file.write_text(text.replace('max_jobs:', 'num_nodes: 4\n    max_jobs:'))
    clone.program(LADDER, 'osu_bw')
    clone.program('[ $SLURM_PROCID = 0 ] || exit 0; echo "16777216    4000.00"', 'osu_allreduce')
    report = fleet.folder / 'report.json'
    words = [
        '-C',
        'reframe_settings/settings.py',
        '-c',
        'checks/ladder',
        '--system=demo:fleet',
        '-n',
        'NodeLadder',
        '-r',
    ]
    answer = clone.fork('reframe', *words, f'--report-file={report}', **fleet.slurm)
    (case,) = cases_in(report)
    assert answer.returncode == 1 and case['fail_phase'] == 'sanity', answer.stdout + answer.stderr
    assert case['fail_reason'].startswith('sanity error: node n7: 10 MB/s, expected 50 (-80%) in 3 of 3 pairs')
    assert 'also:' not in case['fail_reason'], 'something else is wrong, too'
    assert [words[:3] for words in json.loads(case['record']['provenance']['named'])] == [['node', 'node n7', ['n7']]]
    metrics = case['record']['metrics']
    assert {tuple(sample[:2]) for sample in metrics['loopback_bandwidth']['samples']} == {
        (1, node) for node in ('n5', 'n6', 'n7', 'n8')
    }
    assert len(metrics['pair_bandwidth rail=0']['samples']) == 12 + 2
    assert [sample[2] for sample in metrics['good_nodes']['samples']] == [3 / 4]
    assert metrics['group_bandwidth']['samples'][0][2] == pytest.approx(2 * 2 / 3 * 16777216 / 4000, rel=1e-3)
    assert fleet.queue() == ''


def test_each_node_of_a_sweep_measures_and_empties_its_own_folder(fleet, tmp_path):
    """All nodes share one disk; each makes and removes its own directory on it."""
    only(fleet, 5, 6)
    disk = tmp_path / 'disk'
    disk.mkdir()
    of = subprocess.run(['stat', '-f', '-c', '%T', disk], capture_output=True, text=True, check=True).stdout.strip()
    file_system = DISK.replace('kind: any', f'kind: {"tmpfs" if of == "tmpfs" else "local"}')
    shutil.copytree(ROOT / 'checks/storage', fleet.clone.root / 'checks/storage', dirs_exist_ok=True)
    install(fleet.clone, disk, file_systems=file_system, node=f'num_nodes: 2\n{NODE}')
    path, local = fleet.clone.site_file, 'scheduler: local\n    launcher: local\n'
    assert local in path.read_text()
    on_slurm = 'scheduler: slurm\n    launcher: srun\n    access: [-p fleet]\n'
    path.write_text(path.read_text().replace(local, on_slurm))
    answer = sweep(fleet, '--mode=quick', selection=('-n', '^IOR%'))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = swept(fleet)
    assert sorted(found) == ['n5', 'n6']
    for node, case in found.items():
        assert case['record']['provenance']['file_system_path'] == str(disk)
        assert {
            sample[1] for sample in case['record']['metrics']['bandwidth access=read,pattern=easy_1m']['samples']
        } == {node}
    assert os.listdir(disk) == []


# Idle nodes

HOLDS = ('--exclusive', '--output=/dev/null')  # a job of a user, whose output must not lie in the checkout


@pytest.fixture
def users(fleet):
    """A partition of the same nodes, whose jobs preempt those of the fleet."""
    made = ('Nodes=n[5-20]', 'MaxTime=60', 'PriorityTier=10')
    assert fleet.tell('scontrol', 'create', 'PartitionName=users', *made).returncode == 0
    yield
    empty(fleet)
    assert fleet.tell('scontrol', 'delete', 'PartitionName=users').returncode == 0


def idle_sweep(fleet, *options: str) -> subprocess.CompletedProcess:
    return fleet.clone.fork(
        'ci.extras.sweep_idle', '--partition=fleet', *options, '--', '-S', 'trials=2', **fleet.slurm
    )


def last_swept(fleet) -> set[str]:
    """Return the nodes of the last session."""
    path = max(fleet.clone.results.glob('reports/*Z.json'))
    return {node for case in cases_in(path) for node in case['job_nodelist']}


def test_idle_nodes_are_measured_the_longest_unseen_first_and_busy_ones_left_alone(fleet, users):
    fleet.clone.program(GOOD)
    fleet.tell('sbatch', '-p', 'users', '-w', 'n[5-16]', '-N12', *HOLDS, '--wrap', 'sleep 300')
    wait_for(lambda: 'n[5-16]' in fleet.queue())
    for options, nodes in (['--max-nodes=3'], {'n17', 'n18', 'n19'}), (['--max-nodes=2'], {'n20', 'n17'}):
        answer = idle_sweep(fleet, *options)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert last_swept(fleet) == nodes
    assert re.search(r'on n20, n17 \(last seen 20\d\d-\d\d-\d\d \d\d:\d\d\)', answer.stdout)
    assert fleet.queue().count('\n') == 1 and 'n[5-16]' in fleet.queue(), 'the job of the user goes on'
    fleet.tell('sbatch', '-p', 'users', '-w', 'n[17-20]', '-N4', *HOLDS, '--wrap', 'sleep 300')
    wait_for(lambda: 'n[17-20]' in fleet.queue())
    assert idle_sweep(fleet).stdout == 'plumbline: demo:fleet: no node is idle\n'


def test_an_idle_sweep_gives_way_to_a_job_and_blames_no_node(fleet, users):
    """n8 has ended when a job takes both nodes; what hangs on n7 is neither stored nor resumed."""
    only(fleet, 7, 8)
    fleet.clone.program(f'[ $SLURMD_NODENAME = n7 ] && touch {fleet.folder}/hangs && sleep 300\n{GOOD}')
    words = ('--partition=fleet', '--max-nodes=2', '--', '-S', 'trials=1')
    running = fleet.clone.start('ci.extras.sweep_idle', *words, **fleet.slurm)
    wait_for(lambda: [*fleet.clone.results.glob('nightly-stage/*/*/*/*/Fault*/places/n8.tar')])
    wait_for((fleet.folder / 'hangs').exists)
    mark = fleet.folder / 'user'
    fleet.tell('sbatch', '-p', 'users', '-w', 'n[7-8]', '-N2', *HOLDS, '--wrap', f'date > {mark}')
    wait_for(mark.exists)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    assert re.search(r'the nodes were wanted: job \d+ ended in state PREEMPTED', said)
    assert last_swept(fleet) == {'n8'}
    found = json.loads(fleet.clone.plumbline('compare', '--format=json').stdout)
    assert found['incidents'] == [] and verdicts(found) == {'no_reference': 2}
    (fleet.folder / 'hangs').unlink()
    fleet.clone.program(GOOD)
    states = ('sinfo', '-h', '-N', '-p', 'fleet', '-n', 'n7,n8', '-o', '%T')
    wait_for(lambda: fleet.tell(*states).stdout.split() == ['idle', 'idle'])  # the job of the user has ended
    assert idle_sweep(fleet).returncode == 0
    assert last_swept(fleet) == {'n7'}, 'nothing was left to be resumed'


def test_a_node_that_goes_down_under_an_idle_sweep_is_a_failure(fleet):
    only(fleet, 7, 7)
    fleet.clone.program(f'echo "x n7" > {fleet.folder}/down; sleep 300')
    fleet.after('down', 'scontrol', 'update', 'NodeName=n7', 'State=down', 'Reason=test')
    answer = idle_sweep(fleet)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert re.search(r'the job of the idle nodes failed: job \d+ ended in state NODE_FAIL', answer.stderr)
    assert last_swept(fleet) == {'n7'}
    found = json.loads(fleet.clone.plumbline('compare', '--format=json').stdout)
    assert found['exit_code'] == 1 and verdicts(found).keys() <= {'failed', 'missing'}


def test_an_idle_sweep_leaves_a_node_sweep_that_is_to_be_resumed_alone(fleet):
    state = fleet.clone.results / 'node-sweep-unfinished.json'
    running = start_and_hang(fleet, 'n8', '--max-nodes=2')
    running.send_signal(signal.SIGKILL)
    running.communicate()
    before = state.read_bytes()
    answer = idle_sweep(fleet)
    assert answer.returncode == 2 and 'let ci/node-sweep resume it first' in answer.stderr
    assert state.read_bytes() == before
