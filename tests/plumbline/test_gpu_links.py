# SPDX-License-Identifier: BSD-3-Clause
"""Link classes of a machine as the vendors' programs tell them, on what they printed, and of known sites."""

import itertools
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scratch import OUTPUTS

from plumbline.machine import detect
from plumbline.machine.gpu_links import find_link_classes, link_classes, near_numa_domains
from plumbline.machine.gpu_tables import amd_links, nvidia_links
from plumbline.machine.node import Node
from plumbline.site.sites import load_site, read_site

ALL_PAIRS = {n: [list(pair) for pair in itertools.combinations(range(n), 2)] for n in (2, 4, 8)}


# What a file says: its parser, and for each class the words for it and how many pairs, or which.
SUMMIT_A = [[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5]]
ONE_BRIDGE, HOST_BRIDGE = 'PCIe, at most one bridge', 'PCIe, through a host bridge'
SAME_DOMAIN, OTHER_DOMAIN = 'PCIe, between host bridges of a NUMA domain', 'PCIe and the link between NUMA domains'
HIVE = 'Infinity Fabric, 1 hop, weight 15'
PARTS = ('link type', 'hops', 'weight')


def amd(*parts: str):
    return lambda text: amd_links(text, parts)


RECORDED = {
    'nvidia-smi-topo-1-gpu': (nvidia_links, []),
    'nvidia-smi-topo-5-gpus': (nvidia_links, [
        (HOST_BRIDGE, [[1, 2], [3, 4]]), (SAME_DOMAIN, [[1, 3], [1, 4], [2, 3], [2, 4]]),
        (OTHER_DOMAIN, [[0, 1], [0, 2], [0, 3], [0, 4]]),
    ]),
    'nvidia-smi-topo-4-gpus-node': (nvidia_links, [(SAME_DOMAIN, [[0, 1], [2, 3]]), (OTHER_DOMAIN, 4)]),
    'nvidia-smi-topo-6-gpus': (nvidia_links, [
        (ONE_BRIDGE, [[0, 1], [2, 3], [4, 5]]), (SAME_DOMAIN, [[0, 2], [0, 3], [1, 2], [1, 3]]), (OTHER_DOMAIN, 8),
    ]),
    'nvidia-smi-topo-gb200': (nvidia_links, [('18 NVLinks', ALL_PAIRS[4])]),
    'nvidia-smi-topo-8-gpus-nics': (nvidia_links, [(OTHER_DOMAIN, ALL_PAIRS[8])]),
    'nvidia-smi-topo-8-gpus-nvswitch': (nvidia_links, [('18 NVLinks', ALL_PAIRS[8])]),
    'nvidia-smi-topo-8-gpus-pcie': (nvidia_links, [
        (ONE_BRIDGE, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ('PCIe, several bridges', [[0, 2], [0, 3], [1, 2], [1, 3], [4, 6], [4, 7], [5, 6], [5, 7]]), (OTHER_DOMAIN, 16),
    ]),
    'nvidia-smi-topo-polaris': (nvidia_links, [('4 NVLinks', ALL_PAIRS[4])]),
    'nvidia-smi-topo-summit': (nvidia_links, [('2 NVLinks', SUMMIT_A), (OTHER_DOMAIN, 9)]),
    'rocm-smi-shownodesbw-mi250': (amd('bandwidth'), [
        ('link, 200 GB/s by the driver', [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ('link, 100 GB/s by the driver', [[0, 6], [2, 4]]),
        ('link, 50 GB/s by the driver', [[0, 2], [1, 3], [1, 5], [3, 7], [4, 6], [5, 7]]), ('link, not direct', 16),
    ]),
    'rocm-smi-showtopo-8-gpus': (amd(*PARTS), [(HIVE, ALL_PAIRS[8])]),
    'rocm-smi-showtopo-mi250x': (
        amd('weight'), [('link, weight 15', 12), ('link, weight 30', 14), ('link, weight 45', [[1, 7], [3, 5]])],
    ),
    'rocm-smi-showtopo-mi210': (amd(*PARTS), [(HIVE, ALL_PAIRS[4])]),
    'rocm-smi-showtopo-pcie': (amd(*PARTS), [('PCIe, 3 hops, weight 52', ALL_PAIRS[4])]),
    'rocm-smi-showtopo-4-gpus': (amd(*PARTS), [(HIVE, ALL_PAIRS[4])]),
    'rocm-smi-showtopo-apu': (amd(*PARTS), [(HIVE, ALL_PAIRS[4])]),
    'rocm-smi-showtopotype-1-gpu': (amd('link type'), []),
    'rocm-smi-showtopotype-mi100': (amd('link type'), [('PCIe', [[0, 1]])]),
    'amd-smi-topology-mi300x': (
        amd_links, [('Infinity Fabric, 50 GB/s by the driver, 1 hop, weight 15', ALL_PAIRS[8])],
    ),
}  # fmt: skip


@each_row(('old', 'new', 'says'), [
    ('GPU0\tGPU1', 'GPU1\tGPU0', 'expected the columns GPU0, GPU1, ..., found GPU1, GPU0'),
    ('GPU1\t', 'GPU2\t', 'expected the columns GPU0, GPU1, ..., found GPU0, GPU2'),
    ('\nGPU1', '\nGPU2', 'expected a row GPU1, as the columns are, found GPU2'),
])  # fmt: skip
def test_a_table_of_links_in_another_order_is_refused(old, new, says):
    text = re.sub('\x1b\\[[0-9;]*m', '', (OUTPUTS / 'nvidia-smi-topo-polaris.txt').read_text())
    text = re.sub(r'[ \t]+(?=GPU)', '\t', text)
    assert old in text
    with pytest.raises(ValueError, match=re.escape(says)):
        nvidia_links(text.replace(old, new, 1))


def test_every_recorded_output_is_tested():
    assert {path.stem for path in OUTPUTS.glob('*-smi-[!q]*.txt')} == set(RECORDED)


@each_row('name', RECORDED)
def test_what_the_programs_printed(recorded, name):
    parse, expected = RECORDED[name]
    classes = link_classes(parse(recorded(f'{name}.txt')))
    assert list(classes) == list('ABCD'[: len(expected)])
    for item, (descr, pairs) in zip(classes.values(), expected, strict=True):
        assert item['descr'] == descr
        assert pairs in (item['pairs'], len(item['pairs']))


def test_escapes_in_the_header_do_no_harm(recorded):
    """nvidia-smi underlines the header, on a terminal and for programs that read it through one."""
    header, rest = recorded('nvidia-smi-topo-8-gpus-nics.txt').split('\n', 1)
    assert nvidia_links(f'\t\x1b[4m{header.strip()}\x1b[0m\n{rest}') == nvidia_links(f'{header}\n{rest}')


@each_row('name', RECORDED)
def test_a_truncated_output_gives_the_right_classes_or_none(name):
    parse, _ = RECORDED[name]
    text = (OUTPUTS / f'{name}.txt').read_text()
    for part in range(1, 20):
        with suppress(ValueError):
            assert parse(text[: part * len(text) // 20]) == parse(text)


@given(st.data())
def test_every_symmetric_matrix_is_grouped_by_its_labels(data):
    n = data.draw(st.integers(2, 8))
    best_first = ['NV18', 'NV12', 'NV4', 'NV2', 'NV1', 'PIX', 'PXB', 'PHB', 'NODE', 'SYS']
    label = {pair: data.draw(st.sampled_from(best_first)) for pair in itertools.combinations(range(n), 2)}
    rows = [[f'GPU{i}', *('X' if i == j else label[min(i, j), max(i, j)] for j in range(n)), '0-15'] for i in range(n)]
    text = '\n'.join('\t'.join(row) for row in [['', *(f'GPU{i}' for i in range(n)), 'CPU Affinity'], *rows])
    classes = link_classes(nvidia_links(text))
    used = [kind for kind in best_first if kind in label.values()]
    assert [[tuple(pair) for pair in item['pairs']] for item in classes.values()] == [
        [pair for pair in label if label[pair] == kind] for kind in used
    ]


POLARIS, FOUR = 'nvidia-smi-topo-polaris', 'rocm-smi-showtopo-mi210'


@each_row(
    ('name', 'parse', 'change', 'said'),
    [
        (POLARIS, nvidia_links, lambda text: text.replace('NV4', 'NEW'), 'GPU0 and GPU1: .* found .NEW.$'),
        (POLARIS, nvidia_links, lambda text: text + text, 'expected one table with columns GPU0, .*, found 2'),
        (POLARIS, nvidia_links, lambda text: '', 'expected one table with columns GPU0, .*, found 0'),
        (FOUR, amd('link type'), lambda text: text.replace('XGMI', 'ERROR'), 'GPU0 and GPU1: .* found .ERROR.'),
        (FOUR, amd_links, lambda text: text, '.*table of bandwidth'),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_garbled_table_is_named(recorded, name, parse, change, said):
    with pytest.raises(ValueError, match=f'^{said}'):
        parse(change(recorded(f'{name}.txt')))


def test_bandwidth_that_is_0_everywhere_tells_nothing(recorded):
    """Where the driver has no bandwidths, 0-0 does not mean that no two GPUs are linked."""
    text = recorded('amd-smi-topology-mi300x.txt').replace('50000-50000', '0-0')
    assert link_classes(amd_links(text))['A']['descr'] == 'Infinity Fabric, 1 hop, weight 15'


NVIDIA = [{'type': 'gpu', 'arch': 'sm_80', 'model': 'A100', 'num_devices': 4}]
AMD = [{'type': 'gpu', 'arch': 'gfx942', 'model': 'MI300X', 'num_devices': 8}]


def test_a_machine_with_less_than_two_gpus_has_no_links():
    for few in ([], [NVIDIA[0] | {'num_devices': 1}]):
        assert find_link_classes(few, Node()) == ({}, None)


def test_without_a_direct_link_mi250x_gpus_are_two_or_three_links_apart(recorded):
    """What the study calls one class, D, the driver tells apart; A, B and C are the same."""
    text = recorded('rocm-smi-shownodesbw-mi250.txt') + recorded('rocm-smi-showtopo-mi250x.txt')
    found = {name: item['pairs'] for name, item in link_classes(amd_links(text, ('bandwidth', 'weight'))).items()}
    (partition,) = load_site('frontier').partitions.values()
    study = {name: [list(pair) for pair in links.pairs] for name, links in partition.link_classes.items()}
    assert {name: found[name] for name in 'ABC'} == {name: study[name] for name in 'ABC'}
    assert found['E'] == [[1, 7], [3, 5]] and sorted(found['D'] + found['E']) == study['D'] and len(found) == 5


def test_the_next_program_is_asked_where_one_has_no_answer(programs):
    programs('amd-smi', 'echo "WARNING: old"')
    programs('rocm-smi', f'cat {OUTPUTS}/amd-smi-topology-mi300x.txt')
    assert find_link_classes(AMD, Node())[0]['A']['pairs'] == ALL_PAIRS[8]
    programs('amd-smi', 'echo no driver >&2; exit 4')
    programs('rocm-smi', 'exit 1')
    classes, fault = find_link_classes(AMD, Node())
    assert classes == {}
    assert 'amd-smi topology: ended with 4 and printed: no driver; rocm-smi --showtopo --shownodesbw: ended' in fault


@pytest.mark.parametrize(
    ('devices', 'script', 'expected'),
    [
        (NVIDIA, None, 'nvidia-smi topo -m: cannot be run: No such file or directory'),
        (NVIDIA, 'exit 9', 'nvidia-smi topo -m: ended with 9 and printed: nothing'),
        (NVIDIA, 'exec sleep 60', 'nvidia-smi topo -m: did not end within 0.2 s'),
        (NVIDIA, f'cat {OUTPUTS}/nvidia-smi-topo-summit.txt', 'nvidia-smi topo -m: expected 4 GPUs, found 6'),
        (NVIDIA + AMD, 'exit 0', 'GPUs of two vendors: no program lists both'),
    ],
)  # fmt: skip
def test_why_there_are_no_links_is_said(programs, impatient, devices, script, expected):
    if script:
        programs('nvidia-smi', script)
    assert find_link_classes(devices, Node()) == ({}, expected)


def bound_to(driver: str, root, **domains: int):
    """Devices of a kernel driver: PCI address without colons -> NUMA domain."""
    for address, domain in domains.items():
        device = root / f'sys/bus/pci/drivers/{driver}/0000:{address[1:]}:00.0'
        device.mkdir(parents=True)
        (device / 'numa_node').write_text(f'{domain}\n')


def test_the_numa_domain_near_each_gpu_in_the_order_of_pci_addresses(tmp_path):
    assert near_numa_domains(4, tmp_path) == near_numa_domains(0, tmp_path) == []
    (tmp_path / 'sys/bus/pci/drivers/nvidia').mkdir(parents=True)
    (tmp_path / 'sys/bus/pci/drivers/nvidia/bind').touch()
    bound_to('nvidia', tmp_path, _c7=0, _07=3, _46=2, _85=1)
    assert near_numa_domains(4, tmp_path) == [3, 2, 1, 0]
    assert near_numa_domains(3, tmp_path) == []  # the process sees fewer than the node has
    bound_to('amdgpu', tmp_path, _08=-1)
    # no domains, or firmware that does not say
    assert near_numa_domains(5, tmp_path) == near_numa_domains(4, tmp_path) == []


def test_the_near_numa_domains_of_polaris_are_those_that_its_node_printed(recorded):
    rows = [line.split('\t') for line in recorded('nvidia-smi-topo-polaris.txt').splitlines()]
    printed = [int(row[-1]) for row in rows if row[0].startswith('GPU') and row[-1].isdigit()]
    (devices,) = load_site('polaris').partitions['gpu'].entry['devices']
    assert devices['numa_domains'] == printed == [3, 2, 1, 0]


@pytest.fixture
def detected(programs, tmp_path, monkeypatch):
    """The site of this machine, whose four GPUs nvidia-smi lists; `topology`: what it does for the links."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    query = 'case "$*" in *query*) for i in 1 2 3 4; do echo "NVIDIA A100-SXM4-40GB, 8.0"; done; exit;; esac'

    def detected(topology: str):
        programs('nvidia-smi', f'{query}\n{topology}')
        read_site.cache_clear()
        site = load_site('localhost')
        read_site.cache_clear()
        return site, site.partitions['node']

    return detected


def test_a_detected_site_has_them(detected):
    _, node = detected(f'cat {OUTPUTS}/nvidia-smi-topo-polaris.txt')
    assert list(node.link_classes['A'].pairs) == [tuple(pair) for pair in ALL_PAIRS[4]]
    assert detected('exit 9')[1].link_classes == node.link_classes  # found out once, until the next boot


@pytest.mark.parametrize(('near', 'known'), [([0, 0, 0, 0], True), ([0, 0, 0, 4711], False), ([], False)])
def test_a_detected_site_knows_what_is_near_its_gpus_where_it_may_use_that(detected, monkeypatch, near, known):
    monkeypatch.setattr(detect, 'near_numa_domains', lambda number, root: near if number == 4 else None)
    monkeypatch.setattr(detect, 'numa_distances', lambda allowed, root: {'numa_ids': [0], 'numa_distances': [[10]]})
    site, node = detected('exit 3')
    (devices,) = node.entry['devices']
    assert (devices['num_devices'], devices.get('numa_domains')) == (4, near if known else None)
    assert node.link_classes == {}
    assert site.not_found['pairs of GPUs'] == 'nvidia-smi topo -m: ended with 3 and printed: nothing'


def test_links_are_not_those_of_devices_that_the_file_states(monkeypatch):
    found = {'devices': NVIDIA, 'link_classes': {'A': {'pairs': [[0, 3]]}}}
    monkeypatch.setattr(detect, 'this_machine', lambda: dict(found))
    other = {'name': 'node', 'devices': [NVIDIA[0] | {'num_devices': 2}]}
    entry = {'partitions': [{'name': 'same'}, other], 'environments': []}
    detect.complete('localhost', entry)
    assert entry['partitions'][0]['link_classes'] == found['link_classes']
    assert 'link_classes' not in other


@each_row(('name', 'classes'), [('sierra', {'A': 2, 'B': 4}), ('lassen', {'A': 2, 'B': 4}), ('perlmutter', {'A': 6})])
def test_the_classes_of_machines_of_which_no_node_printed_them(name, classes):
    """003, tables 5 and 6: A is NVLink, B is none."""
    (partition,) = load_site(name).partitions.values()
    assert {key: len(links.pairs) for key, links in partition.link_classes.items()} == classes
    assert all(links.descr for links in partition.link_classes.values())


@each_row(
    ('site', 'output'),
    [
        ('summit', 'nvidia-smi-topo-summit'), ('polaris', 'nvidia-smi-topo-polaris'),
        ('frontier', 'rocm-smi-shownodesbw-mi250'), ('tioga', 'rocm-smi-shownodesbw-mi250'),
        ('rzvernal', 'rocm-smi-shownodesbw-mi250'),
    ],
)  # fmt: skip
def test_their_pairs_are_those_that_such_a_node_printed(recorded, site, output):
    printed = link_classes(RECORDED[output][0](recorded(f'{output}.txt')))
    (partition,) = load_site(site).partitions.values()
    assert {name: [list(pair) for pair in links.pairs] for name, links in partition.link_classes.items()} == {
        name: item['pairs'] for name, item in printed.items()
    }
