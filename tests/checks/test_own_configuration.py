# SPDX-License-Identifier: BSD-3-Clause
"""What a ReFrame configuration of the site's own says of its nodes, and what a `site.yaml` adds."""

import json
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SkipTestError
from reframe.core.runtime import runtime, temp_runtime
from rows import each_row

from checks.core import own_configuration
from checks.core.topology import environs_with, topology_of
from plumbline.site import sites

PARTITION = {'scheduler': 'slurm', 'launcher': 'srun', 'environs': ['gnu', 'other']}
COUNTS = {'num_cpus': 8, 'num_cpus_per_core': 2, 'num_cpus_per_socket': 4, 'num_sockets': 2}
CPU = {'name': 'cpu', 'processor': COUNTS}


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
    site, fault = described([CPU | {'extras': {'mem_per_node': 2048}}])
    topology = topology_of('finch', 'cpu')
    assert fault == '' and site.from_reframe and site.partitions['cpu'].max_time == 86400
    assert topology.cores == ((0, 4), (1, 5), (2, 6), (3, 7)) and len(topology.sockets) == 2
    assert topology.memory_bytes == 2048 * 2**20 and topology.launcher == 'srun'
    assert topology.nodes_of_partition == 1  # this machine has no scheduler to ask


def test_what_is_not_described_is_a_reason_to_skip(described):
    described([CPU])
    topology = topology_of('finch', 'cpu')
    with pytest.raises(SkipTestError, match='caches of this partition are not described'):
        topology.last_level_cache_bytes((0,))
    with pytest.raises(SkipTestError, match='memory of this partition is not described'):
        _ = topology.memory_bytes


@each_row(
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
    devices = [{'type': 'gpu'} | device]
    described([CPU | {'name': 'gpu', 'devices': devices, 'features': features, 'extras': extras}])
    assert topology_of('finch', 'gpu').gpus == archs


def test_an_environ_has_what_its_features_or_extras_say_else_what_can_be_looked_for(described):
    gnu = {'name': 'gnu', 'features': ['mpi', 'osu', 'babelstream_omp']}
    extras = {'plumbline': {'other': ['hpcc']}}
    site, _ = described([CPU | {'extras': extras}], environments=[gnu, {'name': 'other'}])
    assert set(site.environs['gnu'].features) == {'osu', 'babelstream-omp'}
    assert site.environs['other'].features == ('hpcc',)
    site, _ = described([CPU])
    assert site.environs['other'].provider == own_configuration.LOOKED_FOR
    assert {'hpcc', 'osu', 'likwid'} < set(site.environs['other'].features)
    assert 'osu-cuda' not in site.environs['other'].features  # no name of a program tells it from osu


@each_row(
    'partition, fault',
    [
        ({'processor': {'num_cpus': 8}}, 'ReFrame knows no num_cpus, num_cpus_per_core and num_sockets'),
        ({'processor': COUNTS | {'num_cpus': 9}}, 'processor.num_cpus: expected a multiple of num_cpus_per_core, 2'),
        ({'processor': COUNTS, 'extras': {'plumbline': {'gnu': ['hpc']}}}, 'extras.plumbline.gnu: found'),
    ],
)
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
    site, fault = described([CPU], ADDED)
    topology = topology_of('finch', 'cpu')
    assert fault == '' and topology.nodes_of_partition == 12 and topology.memory_bytes == 4 * 2**30
    assert [*topology.file_systems] == ['scratch'] and site.tolerance == {'floor': 0.1}
    gnu = site.environs['gnu']
    assert (gnu.features, gnu.mpi, gnu.provider) == (('hpcc',), 'openmpi', 'system')
    sites._given.clear()  # as without ReFrame
    assert sites.load_site('finch').partitions['cpu'].num_nodes == 12


@each_row(
    'old, new, words',
    [
        ('name: cpu', 'name: gpu', "partitions: not of ReFrame's configuration: expected one of cpu"),
        ('name: gnu', 'name: gcc', "environments: not of ReFrame's configuration: expected one of gnu, other"),
        ('num_nodes: 12', 'num_nodes: 0', 'finch/site.yaml:4: partitions.0.num_nodes: expected at least 1'),
        ('num_nodes: 12', 'link_classes: {A: {pairs: [[0, 1]]}}', 'cpu: link_classes: expected GPUs'),
    ],
)
def test_a_mistake_in_it_is_the_reason_why_there_is_no_case(described, old, new, words):
    site, why = described([CPU], ADDED.replace(old, new))
    assert words in why and site.partitions == {}


def test_gpus_are_asked_for_by_the_resource_that_takes_their_number_alone():
    resources = {'gpu': ['--gres=gpu:{num_gpus_per_node}'], 'both': ['{num_gpus_per_node}{size}']}
    found = own_configuration.resources_of_gpus(SimpleNamespace(resources=resources), 4)
    assert found == {'gpu': {'num_gpus_per_node': 4}}


@pytest.fixture
def lacking(tmp_path, monkeypatch):
    """Why the environ of a partition with this launcher has none of some benchmarks; `programs` alone are on PATH."""

    def lacking(programs, launcher, features, load=()):
        name = f'{tmp_path.name}-{len([*tmp_path.iterdir()])}'  # of each call: what was looked for once is known
        (folder := tmp_path / name).mkdir()
        (folder / 'bash').symlink_to('/bin/bash')
        for program in programs:
            (folder / program).write_text('#!/bin/sh\n')
            (folder / program).chmod(0o755)
        monkeypatch.setenv('PATH', str(folder))
        partition = PARTITION | {'name': name, 'launcher': launcher, 'prepare_cmds': [*load]}
        system = {'name': 'finch', 'hostnames': ['.*'], 'partitions': [partition]}
        environments = [{'name': 'gnu'}, {'name': 'other'}]
        (folder / 'own.json').write_text(json.dumps({'systems': [system], 'environments': environments}))
        with temp_runtime(str(folder / 'own.json'), 'finch'):
            (part,) = runtime().system.partitions
            return own_configuration.lacking(part, part.environment('gnu'), features)

    return lacking


OSU = ['osu_latency', 'osu_bw']


@each_row(
    ('programs', 'launcher', 'features', 'lacks'),
    [
        (['osu_bw'], 'srun', ['osu'], 'osu_latency'),
        (OSU, 'mpirun', ['osu'], 'mpirun'),
        ([*OSU, 'mpirun'], 'mpirun', ['osu'], ''),
        (['stress-ng'], 'srun', ['osu', 'stress-ng'], ''),  # of several, one suffices
        ([], 'srun', ['osu', 'stress-ng'], 'osu_latency, osu_bw'),
        ([], 'srun', [], ''),
    ],
)
def test_an_environ_lacks_what_is_not_on_its_path(programs, launcher, features, lacks, lacking):
    why = lacking(programs, launcher, features)
    assert why.startswith(f'gnu has no {lacks} on its PATH; ') if lacks else why == ''


def test_an_environ_whose_modules_do_not_load_here_says_so(lacking):
    why = lacking(OSU, 'srun', ['osu'], load=['echo no module command >&2; exit 3'])
    assert 'PATH, as its modules and commands do not load here: ' in why and 'no module command' in why


LOGIN = {'name': 'login', 'scheduler': 'local', 'launcher': 'local'}
GPUS_OF_GPU = 'no case on the GPUs of gpu: its `devices` do not say how many'


@each_row(
    ('partitions', 'known', 'said'),
    [
        ([CPU | {'name': 'gpu', 'features': ['gpu']}], ['gpu'], [GPUS_OF_GPU]),
        ([CPU | {'name': 'gpu', 'features': ['nvidia'], 'devices': []}], ['gpu'], [GPUS_OF_GPU]),
        ([CPU | {'name': 'gpu', 'features': ['gpu'], 'devices': [{'type': 'gpu', 'num_devices': 1}]}], ['gpu'], []),
        ([CPU, LOGIN, CPU | {'name': 'empty', 'environs': []}], ['cpu'],
         ['no case on login: others log in there', 'empty: it has no environs']),
    ],
)  # fmt: skip
def test_what_has_no_case_beside_others_is_told_to_the_log(described, monkeypatch, partitions, known, said):
    told = []
    monkeypatch.setattr(own_configuration, 'getlogger', lambda: SimpleNamespace(info=told.append))
    site, why = described(partitions)
    assert ([*site.partitions], why) == (known, '')
    assert len(told) == bool(said) and all(words in told[0] for words in said)


@each_row(
    ('from_reframe', 'features', 'found'),
    [
        (True, ['hpl', 'osu'], ['gnu', 'other']),
        (True, ['hpcc'], []),
        (False, ['hpl', 'babelstream-omp'], ['+hpl', '+babelstream_omp']),
        (True, [], ['other', 'gnu']),  # the first of each partition, preferably without Spack
    ],
)
def test_the_environs_of_a_check(monkeypatch, from_reframe, features, found):
    environs = {
        'gnu': SimpleNamespace(features=['hpl'], provider='spack'),
        'other': SimpleNamespace(features=['osu'], provider='system'),
        'last': SimpleNamespace(features=['x'], provider='system'),
    }  # fmt: skip
    parts = [SimpleNamespace(environs=names) for names in (['gnu', 'other', 'last'], ['gnu'], ['other', 'last'])]
    site = SimpleNamespace(from_reframe=from_reframe, environs=environs, partitions=dict(enumerate(parts)))
    monkeypatch.setattr('checks.core.topology.current_site', lambda: site)
    assert environs_with(features) == found
