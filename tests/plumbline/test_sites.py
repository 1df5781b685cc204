# SPDX-License-Identifier: BSD-3-Clause
"""A site's file: what is read from it, and one clear sentence for each thing that can be wrong in it."""

import importlib
import json
import platform
import re

import pytest
from reframe.core import backends
from rows import each_row

import reframe_settings.launchers  # noqa: F401  registers ours
from plumbline.errors import SiteError
from plumbline.paths import SCHEMAS
from plumbline.site import schedulers
from plumbline.site import sites as loader
from plumbline.site.mpi import FAMILIES
from plumbline.site.sites import load_site, name_of_this_site, read_site

GOOD = """\
descr: a cluster
hostnames: ['^login']
modules_system: lmod
partitions:
  - name: compute
    scheduler: slurm
    launcher: srun
    access: [-p compute]
    environs: [cpu]
    env_vars: [[OMP_DISPLAY_ENV, 1]]
    processor: {arch: zen4, num_cpus: 8, num_cpus_per_core: 2, num_sockets: 2}
    memory_per_node: 256 GiB
    peaks: {memory_bandwidth: 614.4 GB/s, flop_per_cycle: {avx512_dp: 32}}
environments:
  - {name: cpu, provider: modules, modules: [hpcc], features: [hpcc]}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = 'cluster'):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / 'site.yaml').write_text(text)
        read_site.cache_clear()
        return tmp_path

    return write


def test_features_are_words_that_reframe_4_11_takes(write):
    root = write(GOOD.replace('features: [hpcc]', 'features: [hpcc, comm-scope-cuda]'))
    (environ,) = load_site('cluster', root).reframe_environments()
    assert environ['features'] == ['hpcc', 'comm_scope_cuda']


def test_values_in_base_units_and_reframes_words(write):
    partition = load_site('cluster', write(GOOD)).partitions['compute']
    assert partition.memory_bytes == 256 * 2**30
    assert partition.peaks == {'memory_bandwidth': 614.4e9}
    assert partition.flop_per_cycle == {'avx512_dp': 32}
    reframe = partition.reframe()
    assert reframe['access'] == ['-p compute']
    assert reframe['env_vars'] == [['OMP_DISPLAY_ENV', '1']]
    assert 'peaks' not in reframe and 'memory_per_node' not in reframe


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'words'),
    [
        ('256 GiB', '256 gigs', 12, ['memory_per_node', '256 gigs', '256 GiB']),
        ('provider: modules, modules: [hpcc]', 'provider: modules', 15, ['modules: is missing']),
        ('    access: [-p compute]', '    access: [a]\n    access: [b]', 9, ['access', 'twice', 'line 8']),
    ],
)  # fmt: skip
def test_one_sentence_names_file_line_key_and_what_was_expected(write, old, new, line, words):
    assert old in GOOD
    with pytest.raises(SiteError) as caught:
        load_site('cluster', write(GOOD.replace(old, new)))
    message = str(caught.value)
    assert f'cluster/site.yaml:{line}: ' in message
    assert '\n' not in message
    for word in words:
        assert word in message


@each_row(
    ('scheduler', 'stated', 'seconds'),
    [
        ('slurm', '', 86_400),  # a day
        ('slurm', '1d12h', 129_600),
    ],
)
def test_the_most_time_that_a_job_may_ask_for(write, scheduler, stated, seconds):
    text = GOOD.replace('scheduler: slurm', f'scheduler: {scheduler}' + f'\n    max_time: {stated}' * bool(stated))
    text = text.replace('launcher: srun', 'launcher: mpirun')
    assert load_site('cluster', write(text)).partitions['compute'].max_time == seconds


def test_a_file_that_only_adds_to_a_reframe_configuration_may_leave_out_its_partitions(write):
    assert load_site('cluster', write('detect: reframe\n')).partitions == {}


def test_reframe_is_told_only_what_it_knows_of_a_device(write):
    device = '{type: gpu, arch: sm_90, num_devices: 2, numa_domains: [0, 0], unified: true}'
    root = write(GOOD.replace('    memory_per_node', f'    devices: [{device}]\n    memory_per_node'))
    told = load_site('cluster', root).partitions['compute'].reframe()
    assert told['devices'] == [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': 2}]
    assert 'devices' not in load_site('cluster', write(GOOD)).partitions['compute'].reframe()


DEVICES = (
    '    devices: [{type: gpu, arch: sm_90, num_devices: 2}, {type: fpga, num_devices: 9}, '
    '{type: gpu, arch: sm_90, num_devices: 1}]\n'
)
LINKS = """\
    link_classes:
      A: {descr: NVLinks, peak: 100 GB/s, pairs: [[0, 1], [0, 2]]}
      B: {pairs: [[1, 2]], both_directions: true}
"""


def test_link_classes_join_gpus_and_no_other_devices(write):
    text = GOOD.replace('    memory_per_node', f'{DEVICES}{LINKS}    memory_per_node')
    first, second = load_site('cluster', write(text)).partitions['compute'].link_classes.values()
    assert (first.pairs, first.descr, first.peak) == (((0, 1), (0, 2)), 'NVLinks', 100e9)
    assert (second.both_directions, second.peak) == (True, None)
    with pytest.raises(SiteError, match='expected GPUs in the key devices'):
        load_site('cluster', write(text.replace(DEVICES, '')))


OF_THIS_HOST = re.sub(r'hostnames: .*', f'hostnames: [{json.dumps(re.escape(platform.node()))}]', GOOD)
OF_ANOTHER = re.sub(r'hostnames: .*', 'hostnames: [another-host]', GOOD)


def test_a_broken_site_stops_only_a_host_that_may_be_its_own(write, monkeypatch):
    monkeypatch.delenv('PLUMBLINE_SITE', raising=False)
    root = write(OF_THIS_HOST.replace('launcher', 'luncher'))
    with pytest.raises(SiteError, match='luncher'):
        name_of_this_site(root)
    write(OF_ANOTHER.replace('launcher', 'luncher'))
    assert name_of_this_site(root) == loader.UNDESCRIBED
    for text in ('descr: x', 'hostnames: ["("]', 'hostnames: ['):  # nobody can tell whose it is
        write(text)
        with pytest.raises(SiteError, match='PLUMBLINE_SITE=localhost' if text.endswith('[') else 'site.yaml'):
            name_of_this_site(root)
    write(OF_THIS_HOST, 'other')  # but this host is described elsewhere
    assert name_of_this_site(root) == 'other'


def test_a_wrong_choice_lists_the_sites(write, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITE', 'nosuch')
    with pytest.raises(SiteError, match='expected one of cluster'):
        name_of_this_site(write(GOOD))


def test_schedulers_launchers_and_mpis_are_those_of_reframe_and_our_own():
    schema = json.loads((SCHEMAS / 'site.schema.json').read_text())['$defs']
    assert set(schema['stack']['properties']['mpi']['enum']) == set(FAMILIES)
    known = schema['partition']['properties']
    assert set(known['scheduler']['enum']) == set(schedulers.SCHEDULERS)
    for kind in ('scheduler', 'launcher'):
        for module in getattr(backends, f'_{kind}_backend_modules'):
            importlib.import_module(module)
        registered = {name for name in getattr(backends, f'_{kind}s') if not name.startswith('plumbline-')}
        registered -= {'flux', *(name for name in registered if name.endswith('-on-whole-nodes'))}
        assert set(known[kind]['enum']) == registered
