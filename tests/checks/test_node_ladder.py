# SPDX-License-Identifier: BSD-3-Clause
"""The check of the node ladder: its rails and rounds on each site, its steps, and what it reads of an output."""

import json
import subprocess
import sys

import pytest
from rows import each_row
from scratch import ROOT

from checks.core.reading.trials import Plan
from checks.core.topology import topology_of
from checks.ladder.judge import rounds_within
from plumbline.record import Dim

# Site and partition -> nodes at night and at an acceptance, rails of host buffers, of devices, rounds of devices
PLANNED = {
    'daint:gh200': ([16, 1022], 4, 4, [30, 35]),
    'frontier:gpu': ([16, 2048], 4, 8, [45, 18]),
    'lassen:gpu': ([16, 792], 1, 4, [30, 44]),
    'leonardo:booster': ([16, 64], 1, 4, [30, 63]),
    'lumi:lumi-g': ([16, 1024], 4, 8, [45, 35]),
    'marenostrum5:acc': ([16, 1120], 1, 4, [30, 33]),
    'perlmutter:gpu': ([16, 1536], 4, 4, [30, 24]),
    'polaris:gpu': ([16, 496], 2, 4, [30, 60]),
    'sierra:gpu': ([16, 2048], 1, 4, [30, 18]),
    'summit:gpu': ([16, 2048], 1, 6, [30, 18]),
    'tuolumne:apu': ([16, 1152], 4, 4, [30, 32]),
}


@pytest.fixture(scope='module')
def ladder(reframe_runtime):
    from checks.ladder import check

    return check


@each_row('partition', list(PLANNED))
def test_rails_and_rounds_of_a_site_of_gpus(ladder, partition):
    topology = topology_of(*partition.split(':'))
    nodes, (host, _), (device, within) = (
        ladder.node_counts_of(topology), ladder.rails_of(topology, 'host'), ladder.rails_of(topology, 'device')
    )  # fmt: skip
    rounds = [rounds_within(number, len(device), 840) for number in nodes]
    assert (nodes, len(host), len(device), rounds) == PLANNED[partition]
    assert [rail.devices for rail in device] == [((number,),) for number in range(len(topology.gpus))]
    assert [rail.nics for rail in host] == [((nic,),) for nic in topology.nics] or [host[0].nics] == [None]
    assert within.devices == ((0,), (1,))


def test_each_start_names_its_nodes(ladder):
    values = {'nodes': 'n1,n2', 'count': 2, 'ranks': 2, 'each': 1, 'slots': 'n1:1,n2:1'}
    for launcher, words in ladder.STARTS.items():
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


def test_samples_are_of_pairs_and_nodes_that_have_a_result(ladder):
    metrics = ladder.metrics_of([0], within=True)
    record = Plan('NodeLadder', (), metrics, dims={'rail': Dim('name')}).empty_record()
    ladder.add_samples(record, PRINTED, 'n1,n2,n3', 3)
    found = {name: series.samples for name, _, series in record.series()}
    assert found == {
        'loopback_bandwidth': [(1, 'n1', 9000.0)], 'pair_bandwidth': [(1, 'n1,n3', 4000.0)],
        'group_bandwidth': [(1, 'n1,n2,n3', 3500.0)], 'good_nodes': [(1, 'n1,n2,n3', 2 / 3)],
    }  # fmt: skip


def test_an_output_is_whole_only_with_its_last_line(ladder):
    assert ladder.ENDED.search(PRINTED)
    assert not any(ladder.ENDED.search(PRINTED[:length]) for length in range(len(PRINTED)))


START = """\
#!/bin/bash
nodes=$1
if [ -e "$1" ]; then
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
        'tolerance': 0.1, 'sustain': 0.7,
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
    assert lines[-2].split()[:2] == ['largest', '3']
