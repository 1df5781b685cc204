# SPDX-License-Identifier: BSD-3-Clause
"""Comm|Scope through real jobs on described nodes with GPUs, where a stand-in of its name writes the JSON."""

import os
import re
import shlex
import sys

import pytest
from scratch import ROOT, ScratchClone

from plumbline.site.sites import load_site

STAND_IN = ROOT / 'tests/data/comm_scope_stand_in.py'
CHECK = 'checks/gpu'
NODE = """\
processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 2}
devices: [{type: gpu, arch: sm_90, num_devices: 4}]
link_classes:
  A: {pairs: [[0, 1], [2, 3]], peak: 400 GB/s}
  B: {pairs: [[0, 3]]}
  C: {pairs: [[1, 2], [1, 3]], both_directions: true}
"""
needs_two_cpus = pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason='binds to CPU 0 and 1')


@pytest.fixture
def node(clone):
    """A clone whose site has the described node; `node.stand_in(...)` puts the program there."""

    def stand_in(model: str = 'cuda', fault: str = '', description: str = NODE, gpus: int = 4, after: str = ''):
        clone.describe(description, f'comm-scope-{model}')
        words = shlex.join([sys.executable, str(STAND_IN), model, str(gpus), fault])
        clone.program(f'{words} "$@"\n{after}', 'comm_scope')
        return clone

    clone.stand_in = stand_in
    return clone


def run(clone, name: str, *options: str):
    return clone.run_case(name, '-S', 'trials=2', '-S', 'as_root=true', *options, checks=CHECK)


def values(case) -> dict[str, float]:
    """Of the second trial."""
    assert case['result'] == 'pass', case['fail_reason']
    return {name: metric['samples'][1][2] for name, metric in case['record']['metrics'].items()}


@needs_two_cpus
def test_stand_in_kernels_from_each_socket(node):
    node.stand_in()
    case = run(node, 'CommScopeKernel.*device=2')
    assert case['record']['params'] == 'device=2,model=cuda'
    assert values(case) == pytest.approx(
        {'launch domain=0': 2, 'wait domain=0': 1, 'launch domain=1': 3, 'wait domain=1': 2, 'launch': 2, 'wait': 1}
    )
    assert {metric['unit'] for metric in case['record']['metrics'].values()} == {'us'}
    assert case['record']['provenance']['nearest_numa_domain'] == 'not stated by the site'
    assert case['record']['placement']['actual'].popitem()[1].startswith('0,1; GPU 0 GPU-0000; GPU 1')


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can change clocks')
def test_it_does_not_run_as_root_unless_told_to(node, tmp_path):
    node.stand_in(after=f'touch {tmp_path}/ran')
    case = run(node, 'CommScopeKernel.*device=2', '-S', 'as_root=false')
    assert case['result'] == 'fail' and 'would set governor and turbo of the CPUs' in case['fail_reason']
    assert not (tmp_path / 'ran').exists()


@needs_two_cpus
@pytest.mark.parametrize('code', [0, 3])
def test_a_setting_of_the_node_that_it_changed_is_a_finding_of_that_node(node, tmp_path, code):
    """Here a file stands for the kernel's: as if it had held another value at the first look."""
    setting = tmp_path / 'scaling_governor'
    setting.write_text('performance\n')
    # and as if fewer processes had been killed for lack of memory
    killed = 'sed --in-place "s/oom_kill .*/oom_kill -1/" ../../counts.*'
    planted = f'echo "{setting} powersave" >> ../../load.txt; {killed}'
    node.stand_in(after=f'{planted}; exit {code}')
    case = run(node, 'CommScopeKernel.*device=2')
    assert case['result'] == 'fail'
    changed = f'{os.uname().nodename}: {setting} changed from powersave to performance while the job ran'
    settings = [cause['what'] for cause in case['record']['causes'] if cause['code'] == 'settings']
    assert any(what.startswith(changed) for what in settings)
    assert f'{os.uname().nodename}: OOM kills +' in case['fail_reason']
    assert int(case['record']['provenance']['health_OOM_kills']) >= 1
    assert setting.read_text() == ('powersave\n' if os.geteuid() == 0 else 'performance\n')


@needs_two_cpus
def test_stand_in_pairs_of_a_class_and_their_mean(node):
    node.stand_in()
    case = run(node, 'CommScopeDevicePair.*link_class=A.*pairs=all')
    assert case['record']['params'] == 'link_class=A,model=cuda,pairs=all'
    assert values(case) == pytest.approx({
        'latency pair=0-1': 10.1, 'bandwidth pair=0-1': 20.1, 'latency pair=2-3': 12.3, 'bandwidth pair=2-3': 22.3,
        'latency': 11.2, 'bandwidth': 21.2,
    })  # fmt: skip
    first = values(run(node, 'CommScopeDevicePair.*link_class=A.*pairs=first'))
    expected = {'latency': 10.1, 'bandwidth': 20.1}
    assert first == pytest.approx(expected | {f'{name} pair=0-1': value for name, value in expected.items()})


@needs_two_cpus
def test_stand_in_pairs_in_both_directions(node):
    node.stand_in()
    found = values(run(node, 'CommScopeDevicePair.*link_class=C.*pairs=all'))
    assert {name for name in found if name.startswith('latency pair')} == {
        'latency pair=1-2', 'latency pair=2-1', 'latency pair=1-3', 'latency pair=3-1'
    }  # fmt: skip
    assert found['latency pair=1-3'] == pytest.approx(11.3) and found['latency pair=3-1'] == pytest.approx(13.1)


# The machines of 003, by dry runs


@pytest.fixture(scope='module')
def doe(tmp_path_factory):
    return ScratchClone(tmp_path_factory.mktemp('doe'))


# The NUMA domain near each device: of an MI250X node as LUMI's guide prints it, of Polaris as its own does; Summit's
# guide has three GPUs a socket. test_osu_device_jobs.py runs the other machines dry, on CPUs of the same domains
MI250X = (3, 3, 1, 1, 0, 0, 2, 2)


@pytest.mark.parametrize(
    ('site', 'model', 'near', 'classes'),
    [
        ('frontier', 'hip', MI250X, 'ABCD'), ('summit', 'cuda', (0, 0, 0, 8, 8, 8), 'AB'),
        ('polaris', 'cuda', (3, 2, 1, 0), 'A'),
    ],
)  # fmt: skip
def test_a_machine_of_table_6_has_its_devices_classes_and_pairs(doe, site, model, near, classes):
    answer = doe.reframe('--dry-run', f'--system={site}', checks=CHECK, PLUMBLINE_SITE=site)
    assert answer.returncode == 0 and 'WARNING' not in answer.stdout, answer.stdout + answer.stderr
    scripts = {path.parent.name: path.read_text() for path in doe.results.glob(f'stage/{site}/*/*/*/rfm_job.sh')}
    chosen = {re.search(r"options=\('--benchmark_filter=(.*?)' --benchmark_min_time=0.05", text)[1]
              for name, text in scripts.items() if name.startswith('CommScope')}  # fmt: skip
    links = load_site(site).partitions['gpu'].link_classes
    assert ''.join(links) == classes and not any(link.both_directions for link in links.values())
    expected = set()
    for pairs in (some for link in links.values() for some in (link.pairs[:1], link.pairs)):
        ids = [f'{a}/{b}' if model == 'hip' else f'{near[a]}/{a}/{b}' for a, b in pairs]
        names = '|'.join(rf'{each}/log2\(N\):{size}/manual_time' for each in ids for size in (8, 30))
        expected.add(f'^Comm_{model}MemcpyAsync_GPUToGPU/({names})$')
    assert {text for text in chosen if 'GPUToGPU' in text} == expected
    for word in ('DeviceSynchronize', 'PinnedToGPU'):
        places = {re.search(rf'{word}/\(([0-9]+)/([0-9]+)/', text).groups() for text in chosen if word in text}
        assert places == {(str(numa), str(device)) for device, numa in enumerate(near)}
    assert all('rank.sh comm_scope' in text for name, text in scripts.items() if name.startswith('CommScope'))
