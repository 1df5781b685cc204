# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are no limit, and what every site has in common."""

import re

import pytest
from rows import each_row
from test_doe_sites import NODES

from checks.core import topology
from plumbline.errors import SiteError
from plumbline.paths import SUITE_SITES
from plumbline.references import COLUMNS, NO_LIMIT, load_references, read_references
from plumbline.site.sites import load_site, site_names

OF_001 = (
    'coolmuc', 'castorc', 'tegra2', 'numaconnect', 'dsp-c6678', 'psnc', 'cea-clusterstor', 'cines-clusterstor',
    'juniors', 'jku-fpga',
)  # fmt: skip
OTHERS = ('marenostrum5', 'superdome-flex', 'cori')
OF_GUIDES = ('lumi', 'daint', 'aurora', 'leonardo', 'tuolumne')
#: How a row names its source: a document, a file of a dated commit, a submission, a page with its date.
SOURCE = re.compile(r'00[0-3] .+|\S+ [0-9a-f]{7} \S+|IO500 submission [0-9]+|.+ \(20[0-9]{2}-[0-9]{2}-[0-9]{2}\)')
DESCRIBED = [name for name in site_names() if name != 'localhost']
ROW = 'node,system,HPL,size=full,gflops,-,GFlop/s,higher,90,,,{kind},a paper,,,{note}'


@pytest.fixture
def site(tmp_path):
    def site(*lines: str, file='published.csv'):
        folder = tmp_path / 'cluster'
        folder.mkdir(exist_ok=True)
        (folder / file).write_text('\n'.join([','.join(COLUMNS), *lines, '']))
        return folder / file

    return site


@pytest.mark.parametrize('kind', NO_LIMIT)
def test_a_row_that_is_no_limit_says_why_and_is_in_no_baseline(site, tmp_path, kind):
    (row,) = read_references(site(ROW.format(kind=kind, note='it is garbled')), 'published')
    assert (row.kind, row.mean, row.is_limit) == (kind, 90, False)
    references = load_references('cluster', tmp_path)
    assert references.find(row.id) is None and references.rows == []
    with pytest.raises(SiteError, match=rf'published\.csv:2: note: .*{kind} says why'):
        read_references(site(ROW.format(kind=kind, note='')), 'published')
    with pytest.raises(SiteError, match=f'kind: expected one of .*baseline; found {kind!r}'):
        read_references(site(ROW.format(kind=kind, note='x'), file='baseline.csv'), 'baseline')


@each_row('name', DESCRIBED)
def test_a_limit_has_a_stack_and_a_mode_and_each_row_a_source_that_can_be_found(name):
    stacks = load_site(name).environs
    for row in read_references(SUITE_SITES / name / 'published.csv', 'published'):
        assert SOURCE.fullmatch(row.source)
        assert name in OF_GUIDES or row.source.startswith(('000 ', '001 ', '002 ', '003 ', 'IO500 ', 'github.com/'))
        assert row.id.partition in (*load_site(name).partitions, '*')
        if row.is_limit:
            assert row.id.environ in stacks and row.mode
        else:
            assert (row.id.environ, row.mode) == ('*', '')


@each_row('name', DESCRIBED)
def test_each_machine_says_what_its_numbers_were_measured_with_and_which_file_systems_it_has(name):
    with (SUITE_SITES / name / 'published.csv').open() as stream:
        assert stream.readline().rstrip().endswith(',software')
    described = (SUITE_SITES / name / 'site.yaml').read_text()
    assert 'file_systems:' in described or 'file system' in described.lower()


@each_row('name', [*OF_001, *OTHERS, *OF_GUIDES])
def test_the_nodes_have_the_caches_and_memory_by_which_the_benchmarks_are_sized(name):
    for partition in load_site(name).partitions.values():
        if partition.processor and partition.environs:
            node = topology.topology_of(name, partition.name)
            assert node.last_level_cache_bytes(node.cpu_of_core) > 0 and node.memory_bytes > 0
            assert len(node.cores) % len(node.sockets) == 0


@each_row('name', DESCRIBED)
def test_each_gpu_has_a_domain_of_cores_near_it_and_no_cache_is_reduced(name):
    for partition in load_site(name).partitions.values():
        if partition.processor and partition.environs:
            node = topology.topology_of(name, partition.name)
            of = () if name == 'castorc' else node.gpus  # its report does not say
            assert len(node.gpu_numa_ids) == len(of) and not node.cache_note


def test_there_is_a_site_for_every_machine_of_the_documents():
    assert {*NODES, *OF_001, *OTHERS, *OF_GUIDES} == set(DESCRIBED)
    assert {name: load_site(name).retired for name in ('cori', 'coolmuc')} == {'cori': 2023, 'coolmuc': 2016}
    assert not any(load_site(name).retired for name in OF_GUIDES)


def test_partitions_without_a_described_processor_have_no_nodes_and_are_named_once(monkeypatch):
    said = []
    monkeypatch.setattr(topology, 'current_site', lambda: load_site('marenostrum5'))
    monkeypatch.setattr(topology, 'getlogger', lambda: type('Log', (), {'warning': staticmethod(said.append)}))
    topology.warn_undescribed.cache_clear()
    names = [name for name, _ in topology.topologies()]
    assert names == [f'marenostrum5:{part}' for part in ('gpp-ddr', 'gpp-highmem', 'gpp-hbm', 'acc')]
    assert topology.topologies() and len(said) == 1 and 'gpp-ng, acc-ng' in said[0]
    topology.warn_undescribed.cache_clear()
