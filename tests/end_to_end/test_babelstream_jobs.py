# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream through real jobs: replayed from a recorded output on a described node, and real where installed."""

import os

import pytest
from scratch import OUTPUTS, cases_in

from plumbline.stacks.manifest import Installed

# One core with two hardware threads, two kinds of memory and four GPUs
NODE = """\
processor: {num_cpus: 2, num_cpus_per_core: 2, num_sockets: 1, caches: {L3: {size: 1 MiB, num_cpus: 2}}}
memory_per_node: 64 GiB
memory_kinds: {ddr: [0, 1], hbm: [2, 3]}
devices: [{type: gpu, arch: sm_90, num_devices: 4}]
peaks: {memory_bandwidth: 100 GB/s, device_memory_bandwidth: 4 TB/s}
"""
# Prints the recorded table, with the size and repetitions asked for, each rate plus 100 times the threads in MB/s.
REPLAY = r"""
echo "$OMP_NUM_THREADS ${OMP_PROC_BIND-unset} ${OMP_PLACES-unset} ${KMP_AFFINITY-unset} $*" >> LOG
while [ $# -gt 0 ]; do
    case $1 in --arraysize) elements=$2 ;; --numtimes) times=$2 ;; esac
    shift
done
awk -v elements="$elements" -v times="$times" -v threads="$OMP_NUM_THREADS" '
    /^Running/ { sub(/[0-9]+ times/, times " times") }
    /^Array size/ { sub(/[0-9.]+ MB/, sprintf("%.1f MB", elements * 8e-6)) }
    /^(Copy|Mul|Add|Triad|Dot)/ {
        $2 = sprintf("%.3f", $2 + 100 * threads); least = (/^(Add|Triad)/ ? 3 : 2) * elements * 8e-6 / $2
        $3 = sprintf("%.5f", least); $4 = sprintf("%.5f", 1.1 * least); $5 = sprintf("%.5f", 1.02 * least)
    }
    { print }' RECORDED
"""


@pytest.fixture
def node(clone, tmp_path):
    clone.describe(NODE, 'babelstream-omp', 'babelstream-cuda')
    clone.log = tmp_path / 'calls'
    recorded = str(OUTPUTS / 'babelstream-5.0-omp-100.txt')
    clone.replay = REPLAY.replace('LOG', str(clone.log)).replace('RECORDED', recorded)
    for name in ('omp-stream', 'cuda-stream'):
        clone.program(clone.replay, name)
    clone.program(f'echo "numactl $1" >> {clone.log}\nshift\nexec "$@"', 'numactl')
    return clone


def run(node, *options: str, **environment: str) -> tuple[str, dict]:
    """What ReFrame printed, and the records of the cases by their names."""
    answer = node.reframe('-r', '-S', 'trials=2', *options, checks='checks/memory', **environment)
    cases = cases_in(max(node.results.glob('reports/*.json')))
    return answer.stdout, {case['display_name']: case for case in cases}


def test_replayed_bindings_reach_the_program_and_the_best_is_joined(node):
    account = {'KMP_AFFINITY': 'compact', 'OMP_PLACES': 'sockets'}
    said, cases = run(node, '-n', 'BabelStreamBest', '-S', 'BabelStreamHost.trial_seconds=300', **account)
    assert len(cases) == 9 and {case['result'] for case in cases.values()} == {'pass'}, said
    size = '--arraysize 33554432 --numtimes 100'
    assert sorted(set(node.log.read_text().splitlines())) == sorted(
        f'{binding} unset {size}'
        for binding in (
            '1 unset unset', '1 true unset', '1 spread cores', '2 unset unset', '2 true unset', '2 close threads',
        )
    )  # fmt: skip
    assert len(node.log.read_text().splitlines()) == 2 * 8
    best = cases['BabelStreamBest']['record']
    assert [value for *_, value in best['metrics']['single_best']['samples']] == pytest.approx([45.744122] * 2)
    assert [value for *_, value in best['metrics']['all_best']['samples']] == pytest.approx([45.844122] * 2)
    assert best['provenance']['single_best'].startswith('triad with binding one')
    assert best['provenance']['all_best'].startswith('triad with binding threads')
    assert best['trials'] == 2


def test_replayed_sweeps_have_a_metric_for_each_point(node):
    said, cases = run(node, '-n', 'BabelStreamThreads|BabelStreamSizes', '-S', 'trials=1')
    assert {case['result'] for case in cases.values()} == {'pass'}, said
    threads, sizes = (cases[name]['record']['metrics'] for name in ('BabelStreamThreads', 'BabelStreamSizes'))
    assert {f'bandwidth kernel=triad,proc_bind={how},threads=1' for how in ('close', 'spread')} <= set(threads) and len(
        threads
    ) == 2 * 5
    assert len(sizes) == 14 * 5 and {
        'bandwidth elements=16384,kernel=dot',
        'bandwidth elements=134217728,kernel=copy',
    } <= set(sizes)


def test_replayed_memory_kinds_and_devices(node):
    said, cases = run(node, '-n', 'BabelStreamMemory|BabelStream.*Device', '-S', 'trials=1')
    assert {case['result'] for case in cases.values()} == {'pass'}, said
    assert len(cases) == 2 + 4 + 1 + 1
    called = node.log.read_text()
    assert 'numactl --membind=0,1' in called and 'numactl --membind=2,3' in called
    assert called.count('--arraysize 134217728 --numtimes 100 --device 0\n') == 2 * 4 + 1, 'each sees one GPU alone'
    device = cases['BabelStreamDevice %model=cuda %device=3']['record']
    assert device['params'] == 'device=3,model=cuda'
    assert device['placement']['actual'].popitem()[1].endswith('; GPU 3 GPU-0003')
    assert device['metrics']['best']['samples'] == device['metrics']['bandwidth kernel=triad']['samples']
    everywhere = cases['BabelStreamAllDevices %model=cuda']['record']['metrics']
    (triad,) = (value for *_, value in everywhere['bandwidth device=3,kernel=triad']['samples'])
    assert everywhere['all']['samples'][0][2] == pytest.approx(4 * triad)
    assert everywhere['slowest']['samples'][0][2] == pytest.approx(triad)


def test_a_rate_above_the_peak_is_void_a_meter_tells_the_energy_and_a_cap_is_restored(node, tmp_path):
    """The meter counts 1 MJ for each second of uptime; the cap is kept in a file."""
    text = node.site_file.read_text().replace('bandwidth: 100 GB/s', 'bandwidth: 40 GB/s')
    counter = '"read -r up _ < /proc/uptime; echo ${up/./}0000"'
    meter = f'{{command: {counter}, prints: J, boundary: node, accuracy: 0.99, interval: 1 us}}'
    caps = tmp_path / 'caps'
    caps.write_text('200\n')
    node.program(f'[ $# = 0 ] && exec tail -n 1 {caps}\necho $1 >> {caps}', 'cap')
    # a thousand times as fast: the trials take no longer than they do, by which the meter counts
    fast = node.replay.replace('$2 + 100 * threads', '1000 * $2')
    node.program(fast, 'omp-stream')
    cap = 'power_cap: {command: cap, caps: [100 W], normal: 200 W}'
    node.site_file.write_text(
        text.replace('memory_per_node:', f'energy: {{pdu: {meter}}}\n    {cap}\n    memory_per_node:')
    )
    said, cases = run(node, '-n', 'BabelStreamHost.*cores-spread|BabelStreamPowerCap.*cap=100')
    assert {case['result'] for case in cases.values()} == {'fail'} and len(cases) == 2
    assert 'invalid: bandwidth kernel=triad' in said and 'above the physical peak of 40' in said
    case = cases['BabelStreamPowerCap %cap=100 %binding=cores-spread']
    assert case['record']['params'] == 'binding=cores-spread,cap=100' and caps.read_text().split() == [
        '200',
        '100',
        '200',
    ]
    of_meter = {name: values['samples'] for name, values in case['record']['metrics'].items() if 'pdu:node' in name}
    assert all(0.5e6 < watts < 2e6 for *_, watts in of_meter['power meter=pdu:node']), of_meter
    assert len(of_meter['efficiency kernel=triad,meter=pdu:node']) == 2
    assert len(of_meter['idle_power meter=pdu:node,when=after']) == 1


def test_a_real_babelstream_passes_with_its_rates(clone):
    installed = Installed('localhost', 'node', 'cpu')
    if not installed.activation.exists():
        pytest.skip('BabelStream is not installed: no stack of localhost (ci/provision needs Spack)')
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip('takes two cores')
    answer = clone.reframe(
        '-r', '-S', 'trials=1', '-n', 'BabelStreamHost.*cores-spread', checks='checks/memory',
        PLUMBLINE_SITE='localhost', PLUMBLINE_SOFTWARE=str(installed.folder.parent.parent.parent),
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout
    (case,) = cases_in(max(clone.results.glob('reports/*.json')))
    metrics = case['record']['metrics']
    assert set(metrics) == {f'bandwidth kernel={kernel}' for kernel in ('copy', 'mul', 'add', 'triad', 'dot')}
    assert all(metric['samples'][0][2] > 1 for metric in metrics.values())  # GB/s: less than any machine's
