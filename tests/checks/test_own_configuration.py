# SPDX-License-Identifier: BSD-3-Clause
"""What a ReFrame configuration of the site's own says of its nodes, and what a `site.yaml` adds."""

import json
from pathlib import Path

import pytest
from reframe.core.exceptions import SkipTestError
from reframe.core.runtime import temp_runtime
from scratch import ROOT

from checks.core import own_configuration
from checks.core.topology import topology_of
from plumbline.errors import SiteError
from plumbline.site import sites

CONFIGURATIONS = ROOT / 'tests/data/own-configurations'
PARTITION = {'scheduler': 'slurm', 'launcher': 'srun', 'environs': ['gnu', 'other']}
COUNTS = {'num_cpus': 8, 'num_cpus_per_core': 2, 'num_cpus_per_socket': 4, 'num_sockets': 2}


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Return the site that the checks see with a configuration, and why it has no case; `added`: a site.yaml of it."""
    monkeypatch.setenv('PLUMBLINE_SITES', str(tmp_path / 'sites'))

    def look(partitions, added='', environments=({'name': 'gnu'}, {'name': 'other'})):
        system = {'name': 'finch', 'hostnames': ['.*'], 'partitions': [PARTITION | one for one in partitions]}
        own = tmp_path / 'own.json'
        own.write_text(json.dumps({'systems': [system], 'environments': [*environments]}))
        folder = tmp_path / 'sites/finch'
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'site.yaml').write_text(added or 'detect: reframe')
        own_configuration._described.cache_clear()
        topology_of.cache_clear()
        with temp_runtime(str(own), 'finch'):
            own_configuration.use()
            return sites.load_site('finch'), own_configuration.fault()

    yield look
    own_configuration._described.cache_clear()
    topology_of.cache_clear()
    sites._given.clear()


def test_the_nodes_are_those_of_the_configuration(described):
    site, fault = described([{'name': 'cpu', 'processor': COUNTS, 'extras': {'mem_per_node': 2048}}])
    topology = topology_of('finch', 'cpu')
    assert fault == '' and site.from_reframe and site.partitions['cpu'].max_time == 86400
    assert topology.cores == ((0, 4), (1, 5), (2, 6), (3, 7)) and len(topology.sockets) == 2
    assert topology.memory_bytes == 2048 * 2**20 and topology.launcher == 'srun'
    assert topology.nodes_of_partition == 1  # this machine has no scheduler to ask


def test_what_is_not_described_is_a_reason_to_skip(described):
    described([{'name': 'cpu', 'processor': COUNTS}])
    topology = topology_of('finch', 'cpu')
    with pytest.raises(SkipTestError, match='caches of this partition are not described'):
        topology.last_level_cache_bytes((0,))
    with pytest.raises(SkipTestError, match='memory of this partition is not described'):
        _ = topology.memory_bytes


@pytest.mark.parametrize(
    'device, features, extras, archs',
    [
        ({'arch': 'sm_90', 'num_devices': 4}, [], {}, ('sm_90',) * 4),
        ({'num_devices': 2}, [], {'gpu_vendor': 'amd'}, ('gfx',) * 2),
        ({}, ['gpu', 'nvgpu'], {}, ('sm_',)),
        ({'num_devices': 2}, ['gpu'], {}, ('', '')),
    ],
)
def test_gpus_have_their_architecture_or_what_those_of_their_vendor_begin_with(
    described, device, features, extras, archs
):
    described([
        {'name': 'gpu', 'processor': COUNTS, 'devices': [{'type': 'gpu'} | device], 'features': features,
         'extras': extras}
    ])  # fmt: skip
    assert topology_of('finch', 'gpu').gpus == archs


def test_an_environ_has_what_its_features_or_extras_say_else_what_can_be_looked_for(described):
    gnu = {'name': 'gnu', 'features': ['mpi', 'osu', 'babelstream_omp']}
    extras = {'plumbline': {'other': ['hpcc']}}
    site, _ = described([{'name': 'cpu', 'processor': COUNTS, 'extras': extras}], environments=[gnu, {'name': 'other'}])
    assert set(site.environs['gnu'].features) == {'osu', 'babelstream-omp'}
    assert site.environs['other'].features == ('hpcc',)
    site, _ = described([{'name': 'cpu', 'processor': COUNTS}])
    assert site.environs['other'].provider == own_configuration.LOOKED_FOR
    assert {'hpcc', 'osu', 'likwid'} < set(site.environs['other'].features)
    assert 'osu-cuda' not in site.environs['other'].features  # no name of a program tells it from osu


@pytest.mark.parametrize(
    'partition, fault',
    [
        ({}, 'ReFrame knows no num_cpus, num_cpus_per_core and num_sockets of its processor'),
        ({'processor': {'num_cpus': 8}}, 'ReFrame knows no num_cpus, num_cpus_per_core and num_sockets'),
        ({'processor': COUNTS | {'num_cpus': 9}}, 'processor.num_cpus: expected a multiple of num_cpus_per_core, 2'),
        (
            {'processor': COUNTS, 'extras': {'plumbline': {'gnu': ['hpc']}}},
            "extras.plumbline.gnu: expected one of",
        ),
    ],
)  # fmt: skip
def test_why_there_is_no_case_is_one_sentence(described, partition, fault):
    site, why = described([{'name': 'cpu'} | partition])
    assert fault in why and why.startswith('finch: ') and site.partitions == {}


ADDED = """\
detect: reframe
partitions:
  - name: cpu
    num_nodes: 12
    memory_per_node: 4 GiB
    file_systems: {scratch: {path: /scratch, kind: lustre}}
environments:
  - {name: gnu, features: [hpcc], mpi: openmpi}
tolerance: {floor: 0.1}
"""


def test_a_site_yaml_adds_what_reframe_does_not_know(described):
    site, fault = described([{'name': 'cpu', 'processor': COUNTS}], ADDED)
    topology = topology_of('finch', 'cpu')
    assert fault == '' and topology.nodes_of_partition == 12 and topology.memory_bytes == 4 * 2**30
    assert [*topology.file_systems] == ['scratch'] and site.tolerance == {'floor': 0.1}
    gnu = site.environs['gnu']
    assert (gnu.features, gnu.mpi, gnu.provider) == (('hpcc',), 'openmpi', 'system')


def test_the_same_file_reads_without_reframe(described, tmp_path):
    described([{'name': 'cpu', 'processor': COUNTS}], ADDED)
    sites._given.clear()
    site = sites.load_site('finch')
    assert site.tolerance == {'floor': 0.1} and site.partitions['cpu'].num_nodes == 12


@pytest.mark.parametrize(
    'old, new, words',
    [
        ('name: cpu', 'name: gpu', "partitions: not of ReFrame's configuration: expected one of cpu"),
        ('name: gnu', 'name: gcc', "environments: not of ReFrame's configuration: expected one of gnu, other"),
        ('num_nodes: 12', 'num_nodes: 0', 'finch/site.yaml:4: partitions.0.num_nodes: 0 is less than'),
        (
            'num_nodes: 12', 'link_classes: {A: {pairs: [[0, 1]]}}',
            'finch/site.yaml: cpu: link_classes.A.pairs.0: [0, 1]: expected two different ones of the 0 GPUs',
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_it_is_the_reason_why_there_is_no_case(described, old, new, words):
    site, why = described([{'name': 'cpu', 'processor': COUNTS}], ADDED.replace(old, new))
    assert words in why and site.partitions == {}


def test_a_site_of_ours_must_still_say_all(tmp_path):
    (folder := Path(tmp_path, 'finch')).mkdir()
    (folder / 'site.yaml').write_text(ADDED.replace('detect: reframe\n', ''))
    with pytest.raises(SiteError, match="lacks the key 'descr'"):
        sites.read_site('finch', folder / 'site.yaml')
