# SPDX-License-Identifier: BSD-3-Clause
"""OSU Micro-Benchmarks through real jobs: replayed by stand-ins on described nodes, and real on this machine."""

import os
from pathlib import Path

import pytest
from scratch import OUTPUTS

from plumbline.paths import software_directory

CHECK = 'checks/mpi/osu.py'
SITE = """\
descr: two nodes of two cores
hostnames: [nowhere]
partitions:
  - name: node
    scheduler: local
    launcher: mpirun
    environs: [system]
    max_jobs: 1
    processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}
    num_nodes: 2
environments:
  - {name: system, provider: system, prefix: PREFIX, features: [osu]}
"""
# Stands for several nodes: as many ranks a node as PLUMBLINE_CPUS has lists, in the order of the nodes.
MPIRUN = r"""#!/bin/bash
[ "$1" = -np ] || exit 64
IFS=: read -r -a lists <<< "$PLUMBLINE_CPUS"
ranks=$2 each=${#lists[@]} code=0
shift 2
for ((rank = 0; rank < ranks; rank++)); do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$((rank % each)) SLURMD_NODENAME=n$((rank / each)) "$@" &
    started+=($!)
done
for pid in "${started[@]}"; do wait $pid || code=$?; done
exit $code
"""
# Replays what the program of its name once printed.
REPLAY = r"""#!/bin/bash
name=${0##*/} filter=cat
FAULT
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
case $name in
    osu_latency) cat OUTPUTS/osu_latency-7.4-all-sizes.txt ;;
    osu_mbw_mr) sed "s/pairs: 1 /pairs: ${pairs:-1} /" OUTPUTS/osu_mbw_mr-7.4.txt ;;
    *) cat OUTPUTS/$name-7.4.txt ;;
esac | eval "$filter"
"""
PROGRAMS = (
    'latency', 'bw', 'bibw', 'put_latency', 'get_latency', 'put_bw', 'get_bw', 'multi_lat', 'mbw_mr', 'barrier',
    'bcast', 'reduce', 'allreduce', 'reduce_scatter', 'allgather', 'alltoall',
)  # fmt: skip
needs_two_cpus = pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason='binds to CPU 0 and 1')


@pytest.fixture
def nodes(clone):
    """A clone whose site has the described nodes; `nodes.programs(fault)` puts the stand-ins there."""

    def programs(fault: str = '', site: str = SITE):
        folder = clone.binary.parent
        clone.site_file.write_text(site.replace('PREFIX', str(folder.parent)))
        replay = REPLAY.replace('FAULT', fault).replace('OUTPUTS', str(OUTPUTS))
        for name, script in [('mpirun', MPIRUN), *((f'osu_{program}', replay) for program in PROGRAMS)]:
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        return clone

    clone.programs = programs
    return clone


def run(clone, name: str, *options: str, check: str = CHECK, **kwargs):
    return clone.run_case(name, '-S', 'trials=1', *options, checks=check, **kwargs)


def values(case) -> dict[str, float]:
    return {name: value for name, metric in case['record']['metrics'].items() for *_, value in metric['samples']}


def listed(clone, *options) -> set[str]:
    lines = clone.reframe('-l', *options, checks=CHECK).stdout.splitlines()
    return {line.split('/')[0].removeprefix('- ').strip() for line in lines if line.startswith('- Osu')}


def test_collectives_of_more_than_16_nodes_are_not_of_every_night(nodes):
    nodes.programs(site=SITE.replace('num_nodes: 2', 'num_nodes: 100'))

    def counts(mode):
        cases = listed(nodes, '-t', mode, '-n', 'OsuCollectives.*layout=node')
        return {int(case.rpartition('=')[2]) for case in cases}

    assert counts('nightly') == {2, 4, 8, 16}
    assert counts('acceptance') == {2, 4, 8, 16, 32, 64}


def sockets_of(*cpus: int) -> list[str]:
    return [Path(f'/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id').read_text() for cpu in cpus]


@needs_two_cpus
def test_a_site_that_describes_other_sockets_than_the_node_has_fails_and_shows_where_both_ranks_are(nodes):
    if len(set(sockets_of(0, 1))) > 1:
        pytest.skip('CPU 0 and 1 are in two sockets here')
    nodes.programs(site=SITE.replace('num_sockets: 1', 'num_sockets: 2'))
    case = run(nodes, 'OsuLatency.*different_socket')
    assert case['result'] == 'fail'
    words = 'different_socket was requested, and the kernel has rank n0.0 on CPU 0 of socket {0}, NUMA domain'
    assert words.format(*map(str.strip, sockets_of(0))) in case['fail_reason']
    assert 'and rank n0.1 on CPU 1 of socket' in case['fail_reason']


def test_two_nodes_talk_through_the_network_device_that_the_site_names(nodes):
    nodes.programs(
        '[ "$UCX_NET_DEVICES" = lo ] || exit 9', site=SITE.replace('num_nodes: 2', 'num_nodes: 2\n    nics: [lo]')
    )
    case = run(nodes, 'OsuLatency.*two_nodes')
    assert case['result'] == 'pass', case['fail_reason']
    assert case['record']['placement']['actual'] == {'n0.0': '0; lo', 'n1.0': '0; lo'}
    nodes.programs(site=SITE.replace('num_nodes: 2', 'num_nodes: 2\n    nics: [mlx5_77, lo]'))
    case = run(nodes, 'OsuLatency.*two_nodes')
    assert case['result'] == 'fail'
    assert 'network device mlx5_77 was requested; there is none in /sys/class/' in case['fail_reason']


@needs_two_cpus
def test_replayed_latency_of_two_cores(nodes):
    nodes.programs('[ "$*" = "-m 1:4194304" ] || exit 9')
    case = run(nodes, 'OsuLatency.*same_numa')
    assert case['result'] == 'pass', case['fail_reason']
    found, record = values(case), case['record']
    assert len(found) == 24 and found['mpi_latency'] == found['latency message_bytes=1'] == 0.18
    assert record['params'] == 'pair=same_numa'
    assert record['placement']['actual'] == {'n0.0': '0', 'n0.1': '1'}
    assert record['provenance']['osu_version'] == '7.4'
    assert record['provenance']['binary'].endswith('bin/osu_latency')


def test_replayed_programs_of_a_case_each_have_their_words_and_metrics(nodes):
    nodes.programs('[[ "$name $*" =~ ^osu_(put|get)_(latency|bw)" -m 1:4194304 -w allocate -s flush"$ ]] || exit 9')
    case = run(nodes, 'OsuOneSided.*two_nodes')
    assert case['result'] == 'pass', case['fail_reason']
    found = values(case)
    assert len(found) == 4 * 23
    assert {metric['unit'] for metric in case['record']['metrics'].values()} == {'us', 'MB/s'}
    lines = (OUTPUTS / 'osu_get_bw-7.4.txt').read_text().splitlines()
    assert found['get_bandwidth message_bytes=4194304'] == float(lines[-1].split()[1])


@needs_two_cpus
def test_replayed_collectives_of_all_cores_of_two_nodes(nodes):
    nodes.programs()
    case = run(nodes, 'OsuCollectives.*core.*nodes=2')
    assert case['result'] == 'pass', case['fail_reason']
    assert len(case['record']['placement']['actual']) == 4
    assert len(values(case)) == 1 + 3 * 19 + 3 * 21
    assert case['record']['params'] == 'layout=core,num_nodes=2'


def test_replay_of_a_bad_run_fails_with_its_cause(nodes):
    nodes.programs('filter="grep -v \\"^1024 \\""')
    case = run(nodes, 'OsuLatency.*two_nodes')
    assert case['result'] == 'fail'
    assert 'metric latency message_bytes=1024 not measured' in case['fail_reason']


def test_real_latency_on_this_machine(clone):
    environment = {'PLUMBLINE_SITE': 'localhost', 'PLUMBLINE_SOFTWARE': str(software_directory())}
    if 'OsuLatency %pair=same_numa' not in clone.reframe('-l', checks=CHECK, **environment).stdout:
        pytest.skip('no OSU Micro-Benchmarks: neither on PATH nor in an installed stack of localhost; or one core')
    case = run(clone, 'OsuLatency.*same_numa', **environment)
    assert case['result'] == 'pass', case['fail_reason']
    found = values(case)
    assert len(found) == 24 and found['mpi_latency'] < found['latency message_bytes=4194304']
