# SPDX-License-Identifier: BSD-3-Clause
"""Link classes of a site, and those that the vendors' programs tell of a machine: outputs that they printed."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scratch import OUTPUTS

from plumbline.errors import SiteError
from plumbline.machine import detect
from plumbline.machine.gpu_links import find_link_classes, link_classes, near_numa_domains
from plumbline.machine.gpu_tables import amd_links, nvidia_links
from plumbline.machine.node import Node
from plumbline.machine.vendors import VENDORS
from plumbline.site.sites import load_site, read_site

SITE = """\
descr: eight GPUs
hostnames: [login]
partitions:
  - name: gpu
    scheduler: slurm
    launcher: srun
    environs: [cuda]
    devices:
      - {type: gpu, arch: sm_90, num_devices: 2}
      - {type: fpga, num_devices: 9}
      - {type: gpu, arch: sm_90, num_devices: 1}
    link_classes:
      A:
        descr: NVLinks
        peak: 100 GB/s
        pairs:
          - [0, 1]
          - [0, 2]
      B: {pairs: [[1, 2]], both_directions: true}
environments:
  - {name: cuda, provider: system, features: []}
"""
ALL_PAIRS = {n: [list(pair) for pair in itertools.combinations(range(n), 2)] for n in (2, 4, 8)}


@pytest.fixture
def load(tmp_path):
    def load(text: str):
        path = tmp_path / 'cluster' / 'site.yaml'
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        read_site.cache_clear()
        return load_site('cluster', tmp_path).partitions['gpu'].link_classes

    return load


def test_classes_of_a_site(load):
    classes = load(SITE)
    assert list(classes) == ['A', 'B']
    assert (classes['A'].pairs, classes['A'].descr, classes['A'].peak) == (((0, 1), (0, 2)), 'NVLinks', 100e9)
    assert (classes['B'].both_directions, classes['B'].peak) == (True, None)


@pytest.mark.parametrize(
    ('line', 'wrong', 'said'),
    [
        ('- [0, 2]', '- [0, 3]', '18: partitions.0.link_classes.A.pairs.1: [0, 3]: expected two different ones of'),
        ('- [0, 2]', '- [2, 2]', '18: partitions.0.link_classes.A.pairs.1: [2, 2]: expected two different ones of'),
        ('- [0, 2]', '- [1, 0]', '18: partitions.0.link_classes.A.pairs.1: [1, 0]: is in class A'),
        ('[[1, 2]]', '[[1, 2], [2, 0]]', '19: partitions.0.link_classes.B.pairs.1: [2, 0]: is in class A'),
        ('[[1, 2]]', '[]', '19: partitions.0.link_classes.B.pairs: [] should be non-empty'),
        ('[[1, 2]]', '[[1, 2, 3]]', '19: partitions.0.link_classes.B.pairs.0: [1, 2, 3]: expected two different ones'),
        ('[[1, 2]]', '[[1, -1]]', '19: partitions.0.link_classes.B.pairs.0: [1, -1]: expected two different ones of'),
        ('[[1, 2]]', '[[1, GPU2]]', "19: partitions.0.link_classes.B.pairs.0: [1, 'GPU2']: expected two different"),
        ('[[1, 2]]', '[1, 2]', '19: partitions.0.link_classes.B.pairs.0: 1: expected two different ones of'),
        ('{pairs: [[1, 2]],', '{', "19: partitions.0.link_classes.B.pairs: is missing"),
        ('100 GB/s', '100 Gb/s', '15: partitions.0.link_classes.A.peak: expected a bandwidth above 0'),
        ('      B: {', '      B/C: {', "12: partitions.0.link_classes: expected text such as gpu, cpu-large"),
    ],
)  # fmt: skip
def test_a_wrong_pair_is_named_with_its_line(load, line, wrong, said):
    assert SITE.count(line) == 1
    with pytest.raises(SiteError, match=re.escape(f'site.yaml:{said}')):
        load(SITE.replace(line, wrong))


def test_pairs_without_devices_are_refused(load):
    text = re.sub(r'    devices:\n(      - .*\n)+', '', SITE)
    with pytest.raises(SiteError, match='expected two different ones of the 0 GPUs of the key devices'):
        load(text)


# What a file says: its parser, and for each class the words for it and how many pairs, or which.
SUMMIT_A = [[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5]]
RECORDED = {
    'nvidia-smi-topo-1-gpu': (nvidia_links, []),
    'nvidia-smi-topo-4-gpus-soc': (
        nvidia_links,
        [('PCIe, through a host bridge', [[0, 1], [2, 3]]), ('PCIe and the link between NUMA domains', 4)],
    ),
    'nvidia-smi-topo-5-gpus': (
        nvidia_links,
        [
            ('PCIe, through a host bridge', [[1, 2], [3, 4]]),
            ('PCIe, between host bridges of a NUMA domain', [[1, 3], [1, 4], [2, 3], [2, 4]]),
            ('PCIe and the link between NUMA domains', [[0, 1], [0, 2], [0, 3], [0, 4]]),
        ],
    ),
    'nvidia-smi-topo-4-gpus-node': (
        nvidia_links,
        [
            ('PCIe, between host bridges of a NUMA domain', [[0, 1], [2, 3]]),
            ('PCIe and the link between NUMA domains', 4),
        ],
    ),
    'nvidia-smi-topo-6-gpus': (
        nvidia_links,
        [
            ('PCIe, at most one bridge', [[0, 1], [2, 3], [4, 5]]),
            ('PCIe, between host bridges of a NUMA domain', [[0, 2], [0, 3], [1, 2], [1, 3]]),
            ('PCIe and the link between NUMA domains', 8),
        ],
    ),
    'nvidia-smi-topo-gb200': (nvidia_links, [('18 NVLinks', ALL_PAIRS[4])]),
    'nvidia-smi-topo-8-gpus-nics': (nvidia_links, [('PCIe and the link between NUMA domains', ALL_PAIRS[8])]),
    'nvidia-smi-topo-8-gpus-nvswitch': (nvidia_links, [('18 NVLinks', ALL_PAIRS[8])]),
    'nvidia-smi-topo-8-gpus-pcie': (
        nvidia_links,
        [
            ('PCIe, at most one bridge', [[0, 1], [2, 3], [4, 5], [6, 7]]),
            ('PCIe, several bridges', [[0, 2], [0, 3], [1, 2], [1, 3], [4, 6], [4, 7], [5, 6], [5, 7]]),
            ('PCIe and the link between NUMA domains', 16),
        ],
    ),
    'nvidia-smi-topo-polaris': (nvidia_links, [('4 NVLinks', ALL_PAIRS[4])]),
    'nvidia-smi-topo-summit': (
        nvidia_links,
        [('2 NVLinks', SUMMIT_A), ('PCIe and the link between NUMA domains', 9)],
    ),
    'rocm-smi-shownodesbw-mi250': (
        lambda text: amd_links(text, ('bandwidth',)),
        [
            ('link, 200 GB/s by the driver', [[0, 1], [2, 3], [4, 5], [6, 7]]),
            ('link, 100 GB/s by the driver', [[0, 6], [2, 4]]),
            ('link, 50 GB/s by the driver', [[0, 2], [1, 3], [1, 5], [3, 7], [4, 6], [5, 7]]),
            ('link, not direct', 16),
        ],
    ),
    'rocm-smi-showtopo-8-gpus': (
        lambda text: amd_links(text, ('link type', 'hops', 'weight')),
        [('Infinity Fabric, 1 hop, weight 15', ALL_PAIRS[8])],
    ),
    'rocm-smi-showtopo-mi250x': (
        lambda text: amd_links(text, ('weight',)),
        [('link, weight 15', 12), ('link, weight 30', 14), ('link, weight 45', [[1, 7], [3, 5]])],
    ),
    'rocm-smi-showtopo-mi210': (
        lambda text: amd_links(text, ('link type', 'hops', 'weight')),
        [('Infinity Fabric, 1 hop, weight 15', ALL_PAIRS[4])],
    ),
    'rocm-smi-showtopo-pcie': (
        lambda text: amd_links(text, ('link type', 'hops', 'weight')),
        [('PCIe, 3 hops, weight 52', ALL_PAIRS[4])],
    ),
    'rocm-smi-showtopo-4-gpus': (
        lambda text: amd_links(text, ('link type', 'hops', 'weight')),
        [('Infinity Fabric, 1 hop, weight 15', ALL_PAIRS[4])],
    ),
    'rocm-smi-showtopo-apu': (
        lambda text: amd_links(text, ('link type', 'hops', 'weight')),
        [('Infinity Fabric, 1 hop, weight 15', ALL_PAIRS[4])],
    ),
    'rocm-smi-showtopotype-1-gpu': (lambda text: amd_links(text, ('link type',)), []),
    'rocm-smi-showtopotype-mi100': (lambda text: amd_links(text, ('link type',)), [('PCIe', [[0, 1]])]),
    'amd-smi-topology-mi300x': (
        amd_links,
        [('Infinity Fabric, 50 GB/s by the driver, 1 hop, weight 15', ALL_PAIRS[8])],
    ),
}


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


@pytest.mark.parametrize('name', RECORDED)
@given(data=st.data())
def test_a_truncated_output_gives_the_right_classes_or_none(name, data):
    parse, _ = RECORDED[name]
    text = (OUTPUTS / f'{name}.txt').read_text()
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        links = parse(cut)
    except ValueError:
        return
    assert links == parse(text)


@pytest.mark.parametrize('name', [name for name in RECORDED if '-1-gpu' not in name])
@given(data=st.data())
def test_one_changed_word_is_found_or_does_not_matter(name, data):
    """A word more, less or another one: in a cell the two directions differ, elsewhere the table has another shape."""
    parse, _ = RECORDED[name]
    text = (OUTPUTS / f'{name}.txt').read_text()
    word = data.draw(st.sampled_from(list(re.finditer(r'[^\s"\[\]{},:]+', text))))
    other = data.draw(st.sampled_from(['NV4', 'SYS', 'PIX', 'XGMI', '1', '15', '100-200', 'X', 'GPU1', '']))
    try:
        links = parse(text[: word.start()] + other + text[word.end() :])
    except ValueError:
        return
    assert links == parse(text)


@given(st.text(st.sampled_from('GPU01 \t\nNVXSYIPZM-:.{}[]",')))
def test_no_text_is_more_than_an_error(text):
    for parse in (nvidia_links, amd_links):
        try:
            links = parse(text)
        except ValueError:
            continue
        assert links == {}


@given(st.data())
def test_every_symmetric_matrix_is_grouped_by_its_labels(data):
    n = data.draw(st.integers(2, 16))
    best_first = ['NV18', 'NV12', 'NV4', 'NV2', 'NV1', 'PIX', 'PXB', 'PHB', 'NODE', 'SYS']
    label = {pair: data.draw(st.sampled_from(best_first)) for pair in itertools.combinations(range(n), 2)}
    rows = [[f'GPU{i}', *('X' if i == j else label[min(i, j), max(i, j)] for j in range(n)), '0-15'] for i in range(n)]
    text = '\n'.join('\t'.join(row) for row in [['', *(f'GPU{i}' for i in range(n)), 'CPU Affinity'], *rows])
    classes = link_classes(nvidia_links(text))
    used = [kind for kind in best_first if kind in label.values()]
    assert [[tuple(pair) for pair in item['pairs']] for item in classes.values()] == [
        [pair for pair in label if label[pair] == kind] for kind in used
    ]
    i, j = data.draw(st.sampled_from(list(label)))
    rows[j][i + 1] = 'SYS' if label[i, j] != 'SYS' else 'PIX'
    text = '\n'.join('\t'.join(row) for row in [['', *(f'GPU{i}' for i in range(n))], *rows])
    with pytest.raises(ValueError, match=f'^GPU{i} and GPU{j}: '):
        nvidia_links(text)


def test_an_unknown_label_names_the_pair(recorded):
    text = recorded('nvidia-smi-topo-polaris.txt').replace('NV4', 'NEW')
    with pytest.raises(ValueError, match=r'^GPU0 and GPU1: expected NV and a number, or one of PIX, .*, found .NEW.$'):
        nvidia_links(text)
    text = recorded('rocm-smi-showtopo-mi210.txt').replace('XGMI', 'ERROR')
    with pytest.raises(ValueError, match=r'^GPU0 and GPU1: expected XGMI or PCIE, found .ERROR.$'):
        amd_links(text, ('link type',))


def swapped(text: str) -> str:
    header, first, second, rest = text.split('\n', 3)
    return '\n'.join([header, second, first, rest])


@each_row(
    ('change', 'said'),
    [
        (swapped, 'expected the rows GPU0 GPU1 GPU2 GPU3, found GPU1 after 0 of them'),
        (lambda text: text.replace('GPU2\tGPU3', 'GPU3\tGPU2', 1), 'expected the columns GPU0, GPU1, ..., found GPU0'),
        (lambda text: text.replace(' X ', 'NV4'), "GPU0 to itself: expected one of X, SELF, 0, N/A, found 'NV4'"),
        (lambda text: text.replace('GPU2\t', 'mlx5_2\t'), 'expected the columns GPU0, GPU1, ..., found GPU3'),
        (lambda text: text + text, 'expected one table with columns GPU0, GPU1, ..., found 2'),
        (lambda text: '', 'expected one table with columns GPU0, GPU1, ..., found 0'),
    ],
)  # fmt: skip
def test_a_garbled_table_of_nvidia(recorded, change, said):
    with pytest.raises(ValueError, match=f'^{re.escape(said)}'):
        nvidia_links(change(recorded('nvidia-smi-topo-polaris.txt')))


def test_garbled_tables_of_amd(recorded):
    four, eight = recorded('rocm-smi-showtopo-mi210.txt'), recorded('rocm-smi-showtopo-8-gpus.txt')
    parts = ('link type', 'hops', 'weight')
    with pytest.raises(ValueError, match=r'^expected one table of weight, found two$'):
        amd_links(four + four, parts)
    with pytest.raises(ValueError, match=r'^expected the same number of GPUs in all tables$'):
        amd_links(four.partition('=== Hops')[0] + eight[eight.index('=== Hops') :], parts)
    with pytest.raises(ValueError, match=r'table of bandwidth'):
        amd_links(four)


def test_bandwidth_that_is_0_everywhere_tells_nothing(recorded):
    """Where the driver has no bandwidths, 0-0 does not mean that no two GPUs are linked."""
    text = recorded('amd-smi-topology-mi300x.txt').replace('50000-50000', '0-0')
    assert link_classes(amd_links(text))['A']['descr'] == 'Infinity Fabric, 1 hop, weight 15'


NVIDIA = [{'type': 'gpu', 'arch': 'sm_80', 'model': 'A100', 'num_devices': 4}]
AMD = [{'type': 'gpu', 'arch': 'gfx942', 'model': 'MI300X', 'num_devices': 8}]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Stand-ins of programs, and nothing else but the shell's on PATH."""
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')

    def put(name: str, script: str):
        (tmp_path / name).write_text(f'#!/bin/sh\n{script}\n')
        (tmp_path / name).chmod(0o755)

    return put


def test_links_of_this_machine_are_found(programs):
    programs('nvidia-smi', f'[ "$*" = "topo -m" ] && cat {OUTPUTS}/nvidia-smi-topo-polaris.txt')
    assert find_link_classes(NVIDIA, Node()) == ({'A': {'pairs': ALL_PAIRS[4], 'descr': '4 NVLinks'}}, None)
    assert (
        find_link_classes(NVIDIA[:0], Node())
        == find_link_classes([NVIDIA[0] | {'num_devices': 1}], Node())
        == ({}, None)
    )


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
        (NVIDIA, f'cat {OUTPUTS}/nvidia-smi-topo-1-gpu.txt', 'nvidia-smi topo -m: expected 4 GPUs, found 1'),
        (NVIDIA + AMD, 'exit 0', 'GPUs of two vendors: no program lists both'),
    ],
)  # fmt: skip
def test_why_there_are_no_links_is_said(programs, impatient, devices, script, expected):
    if script:
        programs('nvidia-smi', script)
    assert find_link_classes(devices, Node()) == ({}, expected)


def bound_to(driver: str, sys, **domains: int):
    """Devices of a kernel driver: PCI address without colons -> NUMA domain."""
    for address, domain in domains.items():
        device = sys / f'bus/pci/drivers/{driver}/0000:{address[1:]}:00.0'
        device.mkdir(parents=True)
        (device / 'numa_node').write_text(f'{domain}\n')


def test_the_numa_domain_near_each_gpu_in_the_order_of_pci_addresses(tmp_path):
    assert near_numa_domains(4, tmp_path) == near_numa_domains(0, tmp_path) == []
    (tmp_path / 'bus/pci/drivers/nvidia').mkdir(parents=True)
    (tmp_path / 'bus/pci/drivers/nvidia/bind').touch()
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


QUERY = 'case "$*" in *query*) for i in 1 2 3 4; do echo "NVIDIA A100-SXM4-40GB, 8.0"; done; exit;; esac'


def test_a_detected_site_has_them(programs, tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    programs('nvidia-smi', f'{QUERY}\ncat {OUTPUTS}/nvidia-smi-topo-polaris.txt')
    read_site.cache_clear()
    (partition,) = load_site('localhost').partitions.values()
    assert list(partition.link_classes['A'].pairs) == [tuple(pair) for pair in ALL_PAIRS[4]]
    programs('nvidia-smi', 'exit 9')  # found out once, until the next boot
    read_site.cache_clear()
    assert load_site('localhost').partitions['node'].link_classes == partition.link_classes
    read_site.cache_clear()


@pytest.mark.parametrize(('near', 'known'), [([0, 0, 0, 0], True), ([0, 0, 0, 4711], False), ([], False)])
def test_a_detected_site_knows_what_is_near_its_gpus_where_it_may_use_that(
    programs, tmp_path, monkeypatch, near, known
):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    monkeypatch.setattr(detect, 'near_numa_domains', lambda number, sys: near if number == 4 else None)
    monkeypatch.setattr(detect, 'numa_distances', lambda allowed, sys: {'numa_ids': [0], 'numa_distances': [[10]]})
    programs('nvidia-smi', f'{QUERY}\nexit 3')
    read_site.cache_clear()
    (partition,) = load_site('localhost').partitions.values()
    read_site.cache_clear()
    (devices,) = partition.entry['devices']
    assert devices.get('numa_domains') == (near if known else None)
    assert 'numa_domains' not in partition.reframe()['devices'][0]  # ReFrame has no such key


def test_a_detected_site_loads_without_them_and_says_so(programs, tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    programs('nvidia-smi', f'{QUERY}\nexit 3')
    read_site.cache_clear()
    site = load_site('localhost')
    read_site.cache_clear()
    assert site.partitions['node'].entry['devices'][0]['num_devices'] == 4
    assert site.partitions['node'].link_classes == {}
    assert site.not_found['pairs of GPUs'] == 'nvidia-smi topo -m: ended with 3 and printed: nothing'


def test_a_driver_that_hangs_is_no_gpu(programs, impatient):
    programs('nvidia-smi', 'exec sleep 60')
    assert detect.gpus_of(VENDORS['cuda'], Node()) == []


def test_links_are_not_those_of_devices_that_the_file_states(monkeypatch):
    found = {'devices': NVIDIA, 'link_classes': {'A': {'pairs': [[0, 3]]}}}
    monkeypatch.setattr(detect, 'this_machine', lambda: dict(found))
    other = {'name': 'node', 'devices': [NVIDIA[0] | {'num_devices': 2}]}
    entry = {'partitions': [{'name': 'same'}, other], 'environments': []}
    detect.complete('localhost', entry)
    assert entry['partitions'][0]['link_classes'] == found['link_classes']
    assert 'link_classes' not in other


# 003, tables 5 and 6: A, B and C are quad, dual and single Infinity Fabric links, D is none; A is NVLink, B is none
CLASSES = {
    'frontier': {'A': 4, 'B': 2, 'C': 6, 'D': 16},
    'rzvernal': {'A': 4, 'B': 2, 'C': 6, 'D': 16},
    'tioga': {'A': 4, 'B': 2, 'C': 6, 'D': 16},
    'summit': {'A': 6, 'B': 9},
    'sierra': {'A': 2, 'B': 4},
    'lassen': {'A': 2, 'B': 4},
    'perlmutter': {'A': 6},
    'polaris': {'A': 6},
}


@each_row('name', CLASSES)
def test_the_classes_of_the_doe_machines(name):
    (partition,) = load_site(name).partitions.values()
    assert {key: len(links.pairs) for key, links in partition.link_classes.items()} == CLASSES[name]
    gpus = sum(device['num_devices'] for device in partition.entry['devices'])
    pairs = sorted(pair for links in partition.link_classes.values() for pair in links.pairs)
    assert pairs == list(itertools.combinations(range(gpus), 2))
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
