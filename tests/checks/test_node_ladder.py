# SPDX-License-Identifier: BSD-3-Clause
"""The check of the node ladder: its rails and rounds on each site, its steps, and what it reads of an output."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from described_nodes import GPUS, TWO
from reading import plan_of
from rows import each_row
from scratch import ROOT

from checks.core.placement import Placement, one_rank_on
from checks.core.reading.metrics import mark_impossible
from checks.core.topology import topology_of
from checks.ladder import check, on_node
from checks.ladder.judge import rounds_within
from plumbline.causes import Cause

# Site and partition -> nodes at night and at an acceptance, rails of host buffers, of devices, rounds of devices
PLANNED = {
    'daint:gh200': ([16, 1022], 4, 4, [30, 35]),
    'frontier:gpu': ([16, 2048], 4, 8, [45, 18]),
    'leonardo:booster': ([16, 64], 1, 4, [30, 63]),
    'polaris:gpu': ([16, 496], 2, 4, [30, 60]),
    'summit:gpu': ([16, 2048], 1, 6, [30, 18]),
}


@each_row('partition', list(PLANNED))
def test_rails_and_rounds_of_a_site_of_gpus(partition):
    topology = topology_of(*partition.split(':'))
    nodes, (host, _), (device, within) = (
        check.node_counts_of(topology), check.rails_of(topology, 'host'), check.rails_of(topology, 'device')
    )  # fmt: skip
    rounds = [rounds_within(number, len(device), 840) for number in nodes]
    assert (nodes, len(host), len(device), rounds) == PLANNED[partition]
    assert [rail.devices for rail in device] == [((number,),) for number in range(len(topology.gpus))]
    assert [rail.nics for rail in host] == [((nic,),) for nic in topology.nics] or [host[0].nics] == [None]
    assert within.devices == ((0,), (1,))


def test_each_start_names_its_nodes():
    values = {'nodes': 'n1,n2', 'count': 2, 'ranks': 2, 'each': 1, 'slots': 'n1:1,n2:1'}
    for launcher, words in check.STARTS.items():
        if launcher != 'jsrun':  # which has a file of them
            assert 'n1' in words.format(**values) and 'n2' in words.format(**values), launcher


PRINTED = """\
rails 1, rounds 1 of 1 pairs
nodes 3
loopback n1 9000.00
loopback n2 0.00
pair 1 0 n1,n3 4000.00
pair 2 0 n1,n3 0.00
why n2 ended with exit code 1: no memory
group 2 3500.00 n1,n3
named ["loopback", "node n2", ["n2"], "node n2: no result within the node"]
largest 2 3500.00
took 3.2 s
"""


START = """\
#!/bin/bash
nodes=$1
if [ -e "$1" ]; then
    [ $(sed 1,5p -n "$1" | grep -c -e '^cpu_index_using: logical$' -e ': allow$') = 5 ] || exit 9
    sed 1,5d "$1" | grep -qvx 'rank: [0-3]: { hostname: n[1-4]; cpu: {0-7}; gpu: [*]; mem: [*] }' && exit 9
    nodes=$(sed -n 's/.*hostname: \\([^;]*\\).*/\\1/p' "$1" | paste -s -d ,)
fi
shift 3  # bash rank.sh
[ $nodes = n4 ] && echo "plumbline: local rank 0: gpus: expected 8, found 7" >&2 && exit 125
[ "$1" = true ] && exit
[ $nodes = n2,n3 ] && echo "error: no route" >&2 && exit 7
echo "${1/x/ }"
"""


@each_row(('nodes', 'scheduler'), [
    ('{nodes}', {'SLURM_JOB_NODELIST': 'n[1-4]'}), ('{resources}', {'LSB_DJOB_HOSTFILE': 'hosts'}),
])  # fmt: skip
def test_why_a_step_has_no_result_is_told(tmp_path, nodes, scheduler):
    """The job's script with stand-ins for its launcher: preflight, a pair that fails, and the group without it."""
    (tmp_path / 'hosts').write_text('batch1\n' + ''.join(f'n{number}\n' * 4 for number in range(1, 5)))
    for name, script in {'scontrol': '#!/bin/bash\nprintf "%s\\n" n1 n2 n3 n4', 'start': START}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    (tmp_path / 'plan.json').write_text(json.dumps({
        'start': [str(tmp_path / 'start'), nodes], 'cpus': 8, 'pair': ['1024x100.00'], 'group': ['1024x20.00'],
        'rails': [{}], 'within': None, 'lists': [], 'places': {}, 'rounds': 6, 'seconds': 60, 'limit': 20,
        'tolerance': 0.1,
    }))  # fmt: skip
    answer = subprocess.run(
        [sys.executable, ROOT / 'checks/ladder/on_node.py', 'plan.json', 'rails 1'], cwd=tmp_path, text=True,
        env={'PATH': f'{tmp_path}:/usr/bin:/bin', 'PYTHONPATH': str(ROOT)} | scheduler,
        capture_output=True, check=False,
    )  # fmt: skip
    lines = answer.stdout.splitlines()
    assert answer.returncode == 0 and lines[0].startswith('nodes 4'), answer.stderr
    assert 'why n2,n3 ended with exit code 7: error: no route' in lines
    named = [json.loads(line.removeprefix('named ')) for line in lines if line.startswith('named ')]
    assert ['settings', 'node n4', ['n4'], 'node n4: gpus: expected 8, found 7', None] in named
    assert ['pair', 'pair n2,n3', ['n2', 'n3'], 'pair n2,n3: no result in 1 of 1 pairs', None] in named
    assert lines[-2] == 'largest 3 68.27'  # MB/s: 2 x 2 / 3 of 1024 bytes in the 20 us of the allreduce


# What a case asks for, and what it makes of an output

HOSTS, DEVICES = replace(TWO, launcher='srun', nodes_of_partition=16), replace(GPUS, launcher='srun')


@each_row(
    ('nodes', 'launcher', 'counts'),
    [(1, 'srun', []), (4, 'srun', [4]), (17, 'jsrun', [16, 17]), (5000, 'srun', [16, 2048]), (4, 'local', [])],
)  # fmt: skip
def test_the_nodes_of_a_night_and_of_an_acceptance(nodes, launcher, counts):
    assert check.node_counts_of(replace(TWO, launcher=launcher, nodes_of_partition=nodes)) == counts


@each_row(
    ('node', 'buffers', 'nodes', 'supported'),
    [(HOSTS, 'host', 16, True), (HOSTS, 'host', 4, False), (HOSTS, 'device', 16, False), (DEVICES, 'device', 4, True),
     (DEVICES, 'host', 4, True), (replace(DEVICES, cores=TWO.cores[:3], gpu_numa_ids=()), 'device', 4, False)],
)  # fmt: skip
def test_a_ladder_is_of_all_nodes_and_of_gpus_that_mpi_reaches(case_on, node, buffers, nodes, supported):
    assert case_on('NodeLadder', TWO, nodes=nodes, buffers=buffers).supports(node) is supported


@each_row(
    ('fields', 'ladder', 'seconds', 'nodes', 'tags'),
    [
        # two rungs of 4.32 s, 15 + 2 rounds of 4.16 s, 3 x 4 groups of 4.08 s
        ({}, 'rails 2, rounds 15 of 8 pairs', 128.32, 16, {'mpi', 'acceptance', 'nightly'}),
        # eight meetings of each node: two tournaments of 5 rounds. 8.24 s, 10 + 2 rounds of 4.06 s, 9 groups of 4.03 s
        ({'most_nodes': 6}, 'rails 2, rounds 10 of 3 pairs', 93.23, 6, {'mpi', 'acceptance', 'nightly'}),
        # 4.34 s, 17 + 2 rounds of 4.16 s, 15 groups of 4.085 s
        ({'nodes': 17}, 'rails 2, rounds 17 of 8 pairs', 148.995, 17, {'mpi', 'acceptance'}),
    ],
)
def test_rounds_and_seconds_of_a_ladder_over_hosts(case_on, fields, ladder, seconds, nodes, tags):
    case = case_on('NodeLadder', HOSTS, 'choose choose_budget place', **{'nodes': 16, 'buffers': 'host'} | fields)
    assert (case.provenance['ladder'], case.estimates) == (ladder, [pytest.approx(seconds)])
    assert (case.num_nodes, case.tags) == (nodes, tags)


def test_rails_and_metrics_of_a_ladder_over_hosts(case_on):
    case = case_on('NodeLadder', HOSTS, 'choose choose_budget place', nodes=16, buffers='host')
    assert (case.valid_prog_environs, case.placement.gpu_buffers) == (['+osu'], False)
    # mlx5_0 is near the second domain, mlx5_1 near the first; within a node, its first and its last core
    assert case.ladder.rails == [Placement(1, ((4,),), nics=(('mlx5_0',),)), Placement(1, ((0,),), nics=(('mlx5_1',),))]
    assert case.ladder.within == one_rank_on((0, 7)) and case.placement is case.ladder.rails[0]
    assert [(one.name, one.unit, one.better, one.judged) for one in case.metrics] == [
        ('loopback_bandwidth', 'MB/s', 'higher', True), ('pair_bandwidth', 'MB/s', 'higher', True),
        ('group_bandwidth', 'MB/s', 'higher', True), ('good_nodes', '1', 'higher', False),
    ]  # fmt: skip
    assert len(case.metrics[1].points()) == 2


def test_the_plan_of_a_ladder_over_gpus(case_on):
    case = case_on('NodeLadder', DEVICES, 'choose choose_budget place', nodes=4, buffers='device')
    visible = {'PLUMBLINE_GPU': 'cuda', 'PLUMBLINE_VISIBLE': 'CUDA_DEVICE_ORDER=PCI_BUS_ID,CUDA_VISIBLE_DEVICES'}
    rails = [
        {'OMP_NUM_THREADS': '1', **visible, 'PLUMBLINE_CPUS': cpus, 'PLUMBLINE_DEVICES': f'{device}'}
        for device, cpus in enumerate(['0,1', '2,3', '4,5', '6,7'])
    ]
    assert case.ladder.plan(DEVICES, ['--mpi=pmix'], {'n2': {'rack r1', 'switch s1'}}, case.tolerance) == {
        'start': [
            'srun', '--overlap', '--nodes={count}', '--nodelist={nodes}', '--ntasks={ranks}',
            '--ntasks-per-node={each}', '--kill-on-bad-exit=1', '--mpi=pmix',
        ],
        'cpus': 16,
        'pair': ['osu_bw', '-m', '1048576:1048576', '-i', '20', '-x', '2', '-d', 'cuda', 'D', 'D'],
        'group': ['osu_allreduce', '-m', '16777216:16777216', '-i', '20', '-x', '2', '-d', 'cuda'],
        'rails': rails,
        'within': rails[0] | {'PLUMBLINE_CPUS': '0,1:2,3', 'PLUMBLINE_DEVICES': '0:1'},
        'lists': ['PLUMBLINE_CPUS', 'PLUMBLINE_MEMORY', 'PLUMBLINE_DEVICES', 'PLUMBLINE_NICS'],
        'rounds': 18,  # sixteen meetings of each node: six tournaments of three rounds
        'seconds': 840, 'places': {'n2': ['rack r1', 'switch s1']}, 'limit': 30, 'tolerance': 0.1,
    }  # fmt: skip


def test_what_a_ladder_names_comes_first_and_what_cannot_be_is_invalid(case_on):
    site = {'network_peak': lambda nics=(): 3.9e9}
    case = case_on('NodeLadder', HOSTS, 'choose choose_budget place', site, nodes=16, buffers='host', most_nodes=3)
    assert all(case.sanity_faults(SimpleNamespace(output=PRINTED[:length])) for length in range(len(PRINTED)))
    assert case.sanity_faults(SimpleNamespace(output=PRINTED)) == []
    case.faults, case.result = ['another'], plan_of('NodeLadder', (), case.metrics).empty_record()
    case._job = SimpleNamespace(nodelist=['n1', 'n2', 'n3'])
    case.put_names_first()
    assert case.faults == [Cause('named', 'node n2: no result within the node'), 'another']
    (named,) = json.loads(case.result.provenance['named'])
    assert named == ['loopback', 'node n2', ['n2'], 'node n2: no result within the node']
    case.derive(case.result)
    mark_impossible(case.result, case.metrics, 'n1,n2,n3')
    found = {(name, *series.dims): (series.samples, series.invalid) for name, _, series in case.result.series()}
    assert found['pair_bandwidth', ('rail', '0')] == (
        [(1, 'n1,n3', 4000.0)], 'n1,n3: 4000 MB/s is above the physical peak of 3900',
    )  # fmt: skip
    assert found['loopback_bandwidth',] == ([(1, 'n1', 9000.0)], None)  # n2 has no result
    assert found['group_bandwidth',] == ([(1, 'n1,n2,n3', 3500.0)], None)  # at most 2 x 2 / 3 of 3900
    assert found['good_nodes',] == ([(1, 'n1,n2,n3', 2 / 3)], None)
    case.printed, case.result = '', plan_of('NodeLadder', (), case.metrics).empty_record()
    case.put_names_first()
    assert len(case.faults) == 2 and 'named' not in case.result.provenance


# In the job


@each_row(
    ('variables', 'nodes'),
    [
        ({'PBS_NODEFILE': 'n1 n1 n2 n1'}, ['n1', 'n2']),
        ({'LSB_DJOB_HOSTFILE': 'n1 n2'}, ['n1', 'n2']),
        ({}, None),
    ],
)
def test_the_nodes_of_a_job_by_its_scheduler(tmp_path, monkeypatch, variables, nodes):
    for name in ('SLURM_JOB_NODELIST', 'PBS_NODEFILE', 'LSB_DJOB_HOSTFILE'):
        monkeypatch.delenv(name, raising=False)
    for name, hosts in variables.items():
        (tmp_path / name).write_text(hosts.replace(' ', '\n'))
        monkeypatch.setenv(name, str(tmp_path / name))
    if nodes:
        assert on_node.nodes_of_job() == nodes
    else:
        with pytest.raises(SystemExit, match='the scheduler does not name the nodes'):
            on_node.nodes_of_job()


@each_row(
    ('answer', 'row', 'said'),
    [
        (('# OSU\n1024 1.00\n2048 2.50 Pass\n', ''), (2048, 2.5), ''),
        (('', ''), (0, 0.0), 'why n1,n2 printed no row\n'),
        (('1024 1.00\n', 'had not ended'), (0, 0.0), 'why n1,n2 had not ended\n'),
    ],
)
def test_the_last_row_counts_or_it_is_said_why_there_is_none(capsys, answer, row, said):
    assert on_node.LadderJob.last_row(('n1', 'n2'), answer) == row
    assert capsys.readouterr().out == said


@each_row(
    ('script', 'answer'),
    [
        ('echo first >&2; echo; echo "An ERROR" >&2; exit 7', ('', 'ended with exit code 7: An ERROR')),
        ('printf "\\n\\nfirst\\nlast\\n" >&2; exit 7', ('', 'ended with exit code 7: first')),
        ('exit 7', ('', 'ended with exit code 7: it printed no error')),
        ('sleep 30', ('', 'had not ended after 20 s')),
    ],
)
def test_what_a_step_printed_or_why_it_has_no_result(tmp_path, script, answer):
    job = on_node.LadderJob({'limit': 20}, tmp_path)
    out, err = tmp_path / 'out', tmp_path / 'err'
    with out.open('w') as stdout, err.open('w') as stderr:
        started = subprocess.Popen(['bash', '-c', f'exec 2>&2; {script}'], stdout=stdout, stderr=stderr)
    assert job.answer(started, out, err, time.monotonic() + (0.2 if 'sleep' in script else 30)) == answer
