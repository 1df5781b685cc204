# SPDX-License-Identifier: BSD-3-Clause
"""Matrices between NUMA domains through real jobs: replayed on described nodes, and real on this machine."""

import os
from statistics import fmean, stdev

import pytest
from scratch import OUTPUTS

CHECK = 'checks/memory/numa_matrix.py'
# Two sockets with two NUMA domains each, two cores a domain
NODE = """\
processor:
  num_cpus: 8
  num_cpus_per_core: 1
  num_sockets: 2
  num_numa_domains: 4
  numa_distances: [[10, 12, 32, 32], [12, 10, 32, 32], [32, 32, 10, 12], [32, 32, 12, 10]]
  caches: {L3: {size: 1 MiB, num_cpus: 2}}
peaks: {memory_bandwidth: 440 GB/s}
"""
# Prints the recorded output with the threads and the memory domain asked for, and the rate of that pair in MB/s: 100000
# on a domain's own memory, 50000 in its socket and 20000 elsewhere, plus 1000 times the domain of the cores.
REPLAY = r"""
IFS=M:-, read -r _ cores size threads _ _ _ _ memory _ <<< "${@: -1}"
[ $((cores / 2)) = $((memory / 2)) ] && rate=50000 || rate=20000
[ $cores = $memory ] && rate=100000
microseconds=$(sed -nE 's/^Time:\s+([0-9])\.([0-9]{6})e\+00 sec$/\1\2/p' RECORDED)
first=$((cores * 2)) second=$((cores * 2 + 1)) allocated=$((memory * 2))
FAULT
sed -E -e "s/^(Allocate: .* on hwthread) .* \(Domain .*\)/\1 $allocated (Domain M$memory)/" \
    -e "s/^(Group: 0 Thread 0 .* on hwthread) 0/\1 $first/;s/^(Group: 0 Thread 1 .* on hwthread) 1/\1 $second/" \
    -e "s/^(Data volume.*:\s+).*/\1$(((rate + 1000 * cores) * microseconds))/" \
    -e "s/^(MByte\/s:\s+).*/\1$((rate + 1000 * cores)).00/" RECORDED
"""
# Two sockets of one core, the second of which the operating system calls domain 8
LATENCY_NODE = """\
processor:
  num_cpus: 2
  num_cpus_per_core: 1
  num_sockets: 2
  numa_ids: [0, 8]
  numa_distances: [[10, 40], [40, 10]]
  caches: {L3: {size: 32 MiB, num_cpus: 1}}
"""
# 80 ns on the own memory, 140 elsewhere; a core of its own for each domain
LATENCY_REPLAY = r"""
memory=${@: -1}
cpu=$(taskset -cp $$); cpu=${cpu##* }
[ $memory = $((cpu * 8)):1 ] && ns=80.5 || ns=140.25
FAULT
sed -E "s/^ 151\.3$/  $ns/; s/^  [0-9.]+  avg=.*/  $ns  avg=$ns/" RECORDED
"""


@pytest.fixture
def node(clone):
    """A clone whose site is the described node; `node.programs(fault)` puts the stand-in for likwid-bench there."""

    def programs(fault: str = '', partition=NODE, name='likwid-bench', script=REPLAY,
                 recorded='likwid-bench-load-stream-placed.txt'):  # fmt: skip
        clone.describe(partition, 'likwid', 'multichase')
        clone.program(script.replace('FAULT', fault).replace('RECORDED', str(OUTPUTS / recorded)), name)

    clone.programs = programs
    return clone


def run(clone, name: str, *options: str, trials: int = 2, **kwargs):
    """The one case of the check `name`, from the run report."""
    return clone.run_case(f'{name}$', '-S', f'trials={trials}', *options, **{'checks': CHECK} | kwargs)


def values(case) -> dict[str, set[float]]:
    return {name: {value for *_, value in metric['samples']} for name, metric in case['record']['metrics'].items()}


def test_replayed_bandwidth_of_every_pair_and_class(node):
    node.programs()
    case = run(node, 'NumaBandwidth')
    assert case['result'] == 'pass', case['fail_reason']
    found = values(case)
    assert {name for name in found if 'pair' in name} == {f'bandwidth pair={i}-{j}' for i in range(4) for j in range(4)}
    assert found['bandwidth pair=0-0'] == {100.0}
    assert found['bandwidth pair=2-3'] == {52.0}
    assert found['bandwidth pair=3-0'] == {23.0}
    means = {'local': {101.5}, 'same_group': {51.5}, 'other_group': {21.5}}
    assert {name: found[f'bandwidth distance={name}'] for name in means} == means
    provenance = case['record']['provenance']
    assert provenance['numa_distances'].startswith('10 12 32 32; 12 10 32 32; ')
    assert provenance['bandwidth_same_group'] == '0-1 1-0 2-3 3-2'


def test_replayed_triad_of_all_domains_runs_at_the_same_time(node, tmp_path):
    """No stand-in ends before all four have started: in turn, the first would wait for ever."""
    node.programs(
        f'touch {tmp_path}/$cores.$(basename $(dirname $PWD)); until [ $(ls {tmp_path}/?.$(basename $(dirname $PWD)) | '
        'wc -l) = 4 ]; do sleep 0.05; done; rate=$((90000 - 3000 * cores))',
        recorded='likwid-bench-stream-stream-placed.txt',
    )
    case = run(node, 'NumaStream', '-S', 'NumaStream.time_limit=60s')
    assert case['result'] == 'pass', case['fail_reason']
    rates = [90.0, 88.0, 86.0, 84.0]
    found = values(case)
    assert [found[f'triad domain={i}'] for i in range(4)] == [{rate} for rate in rates]
    assert found['triad_total'] == {sum(rates)}
    times = [1 / rate for rate in rates]
    assert found['triad_cv'].pop() == pytest.approx(stdev(times) / fmean(times))
    assert found['triad_range'].pop() == pytest.approx(90 / 84 - 1)


def test_replayed_triad_of_one_domain_that_fails_is_named_when_the_others_have_ended(node):
    node.programs(
        '[ $cores = 2 ] && exit 3; sleep 1; touch ../all_ended.$cores',
        recorded='likwid-bench-stream-stream-placed.txt',
    )
    case = run(node, 'NumaStream', trials=1)
    assert case['result'] == 'fail' and 'exit code 3' in case['fail_reason']
    assert {'triad domain=2', 'triad_total', 'triad_cv', 'triad_range'} >= set(case['record']['missing'])
    assert len(list(node.results.glob('stage/demo/node/system/NumaStream*/trial_1/all_ended.*'))) == 3


@pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason='binds to CPU 0 and 1')
def test_replayed_latency_binds_each_run_to_a_core_of_its_domain(node):
    latency = {'partition': LATENCY_NODE, 'name': 'multichase', 'script': LATENCY_REPLAY,
               'recorded': 'multichase-20250815.txt'}  # fmt: skip
    node.programs(**latency)
    case = run(node, 'NumaLatency')
    assert case['result'] == 'pass', case['fail_reason']
    expected = {'pair=0-0': 80.5, 'pair=0-1': 140.25, 'pair=1-0': 140.25, 'pair=1-1': 80.5}
    expected |= {'distance=local': 80.5, 'distance=remote': 140.25}
    assert values(case) == {f'latency {name}': {value} for name, value in expected.items()}
    node.programs('[ $cpu = 1 ] && echo 0 > binding.$HOSTNAME.0', **latency)
    case = run(node, 'NumaLatency', trials=1)
    assert 'was requested to run on CPUs [1] and got [0]' in case['fail_reason']


@pytest.mark.parametrize(('name', 'binary', 'metric'), [
    ('NumaBandwidth', 'likwid-bench', 'bandwidth pair=0-0'),
    ('NumaStream', 'likwid-bench', 'triad domain=0'),
    ('NumaLatency', 'multichase', 'latency pair=0-0'),
    ('CacheLatency', 'multichase', 'latency level=L1'),
])  # fmt: skip
def test_real_programs_of_this_machine_measure_their_first_pair(clone, program, name, binary, metric):
    program(binary)
    module = 'cache_latency' if name == 'CacheLatency' else 'numa_matrix'
    case = run(
        clone, name, '-S', 'loop_seconds=0', trials=1, checks=f'checks/memory/{module}.py', PLUMBLINE_SITE='localhost'
    )
    assert case['result'] == 'pass', case['fail_reason']
    assert len(case['record']['metrics'][metric]['samples']) == 1
