# SPDX-License-Identifier: BSD-3-Clause
"""The 13 machines of the US DOE study of June 2023 (003) as sites: their nodes, stacks and host names."""

import platform
import re
from dataclasses import replace

from data.recipes import packages_of
from rows import each_row

from checks.core.topology import topology_of
from plumbline.identity import SeriesId, pairs
from plumbline.paths import ROOT, SUITE_SITES
from plumbline.references import load_references
from plumbline.site.sites import load_site, name_of_this_site
from plumbline.stacks.manifest import SPACK_ENVS, features_of, read_manifest

# Cores, hardware threads, sockets, NUMA domains of a node; devices and their architecture
NODES = {
    'trinity': (68, 272, 1, 1, 0, None),
    'theta': (64, 256, 1, 1, 0, None),
    'sawtooth': (48, 48, 2, 2, 0, None),
    'eagle': (36, 36, 2, 2, 0, None),
    'manzano': (48, 48, 2, 2, 0, None),
    'frontier': (56, 112, 1, 4, 8, 'gfx90a'),
    'summit': (44, 176, 2, 2, 6, 'sm_70'),
    'sierra': (44, 176, 2, 2, 4, 'sm_70'),
    'perlmutter': (64, 128, 1, 4, 4, 'sm_80'),
    'polaris': (32, 64, 1, 4, 4, 'sm_80'),
    'lassen': (44, 176, 2, 2, 4, 'sm_70'),
    'rzvernal': (64, 128, 1, 4, 8, 'gfx90a'),
    'tioga': (64, 128, 1, 4, 8, 'gfx90a'),
}


def the_partition(site: str):
    (partition,) = load_site(site).partitions.values()
    return partition


def manifest_of(site: str):
    (stack,) = load_site(site).environs.values()
    return read_manifest(SPACK_ENVS / site / stack.name / 'spack.yaml')


def test_a_published_rate_of_one_device_holds_for_every_device_and_for_its_programming_model():
    for name in NODES:
        partition = the_partition(name)
        (stack,) = partition.environs
        model = {'cpu': '', 'cuda': 'cuda', 'rocm': 'hip'}[stack]
        for device in range(NODES[name][4]):
            params = pairs({'device': device, 'model': model})
            of = SeriesId(partition.name, stack, 'BabelStreamDevice', params, 'best')
            assert load_references(name).find(of).std is not None
            assert load_references(name).find(replace(of, params=pairs({'device': device, 'model': 'sycl'}))) is None


@each_row('name', NODES)
def test_the_stack_offers_exactly_what_its_specs_bring(name):
    (stack,) = load_site(name).environs.values()
    assert stack.provider == 'spack'
    assert list(stack.features) == features_of(manifest_of(name).specs)


@each_row('name', NODES)
def test_the_topology_of_a_site_has_its_cores_sockets_domains_and_gpus(name):
    cores, threads, sockets, numa_domains, devices, arch = NODES[name]
    topology = topology_of(name, the_partition(name).name)
    assert len(topology.cores) == cores
    assert sum(map(len, topology.cores)) == threads
    assert (len(topology.sockets), len(topology.numa_domains)) == (sockets, numa_domains)
    assert topology.gpus == (arch,) * devices
    assert topology.last_level_cache_bytes(topology.cpu_of_core) >= 32 * 2**20


def test_the_last_level_caches_of_the_cpu_machines():
    mebibytes = {'trinity': 34, 'theta': 32, 'sawtooth': 71.5, 'eagle': 49.5, 'manzano': 71.5}
    for name, size in mebibytes.items():
        topology = topology_of(name, the_partition(name).name)
        assert topology.last_level_cache_bytes(topology.cpu_of_core) == size * 2**20
        assert topology.memory_bytes > 90e9


@each_row('name', NODES)
def test_site_and_spack_environment_speak_of_the_same_hardware(name):
    settings = packages_of(manifest_of(name))['all']
    target = settings['require'][0].removeprefix('target=')
    assert target == ('ppc64le' if name == 'summit' else the_partition(name).processor['arch'])
    arch = NODES[name][5]
    if arch:
        (variant,) = settings['variants']
        assert variant in (f'amdgpu_target={arch}', f'cuda_arch={arch.removeprefix("sm_")}')


def test_a_login_node_knows_its_site_and_no_other_host_takes_it_for_its_own(monkeypatch):
    monkeypatch.delenv('PLUMBLINE_SITE', raising=False)
    hosts = {
        'login05.frontier.olcf.ornl.gov': 'frontier', 'login3.summit': 'summit', 'polaris-login-01': 'polaris',
        'thetalogin4': 'theta', 'lassen708': 'lassen', 'sierra1': 'sierra', 'tioga10': 'tioga',
        'rzvernal15': 'rzvernal',
        'sawtooth1.ib0.sawtooth.hpc.inl.gov': 'sawtooth', 'manzano-login11': 'manzano', 'el2.hpc.nrel.gov': 'eagle',
        'perlmutter': 'perlmutter', 'login01': 'localhost', 'el1': 'localhost', 'login01.mycluster': 'localhost',
    }  # fmt: skip
    for host, site in hosts.items():
        monkeypatch.setattr(platform, 'node', lambda host=host: host)
        assert name_of_this_site() == site, host
        assert [name for name in NODES if load_site(name).matches(host)] == [site] * (site != 'localhost')


@each_row('name', NODES)
def test_each_number_says_what_it_was_measured_with(name):
    rows = [row for row in load_references(name).rows if row.source.startswith('003 ')]
    assert {row.n for row in rows} == {100}
    assert all(re.match(r'(BabelStream|OSU|Comm\|Scope) [0-9.-]+, \S+/', row.software) for row in rows)
    assert all(row.origin == f'{row.source} ({row.software})' for row in rows)


def test_each_site_names_its_document_and_one_that_is_gone_since_when():
    retired = {name: load_site(name).retired for name in NODES if load_site(name).retired}
    assert retired == {'eagle': 2024, 'lassen': 2025, 'sierra': 2025, 'summit': 2024, 'theta': 2023}
    for name in NODES:
        text = (SUITE_SITES / name / 'site.yaml').read_text()
        assert '(003)' in text.split('descr:')[0] and (
            name not in retired or 'https://' in text or 'github.com/' in text
        )


# What pages and comments say of the study, computed again from its rows

TOLERANCES = ' '.join((ROOT / 'docs/tolerances.md').read_text(encoding='utf-8').split())


def rows(*metrics, check=None):
    """(site, row) of the DOE study of these metrics."""
    found = [(site, row) for site in NODES for row in load_references(site).rows if row.id.metric in metrics]
    return [(site, row) for site, row in found if check in (None, row.id.check)]


def spread(row):
    return 100 * row.std / row.mean


def test_how_much_the_latency_within_a_host_varies_within_100_runs():
    worst: dict[str, float] = {}
    for site, row in rows('mpi_latency', check='OsuLatency'):
        worst[site] = max(worst.get(site, 0), spread(row))
    usual = [of for site, of in worst.items() if site not in ('perlmutter', 'summit')]
    said = re.search(r'at most ([\d.]+) % on (\w+) machines, (\d+) % on Perlmutter, (\d+) % on Summit', TOLERANCES)
    assert said.groups() == (
        f'{max(usual):.1f}',
        {11: 'eleven'}[len(usual)],
        f'{worst["perlmutter"]:.0f}',
        f'{worst["summit"]:.0f}',
    )


def test_how_much_memory_bandwidth_varies_within_100_runs():
    spreads = [spread(row) for _, row in rows('all_best', 'best')]
    few = sum(one < 0.5 for one in spreads)
    assert f'{few} of {len(spreads)} memory bandwidths of 003 (Tables 4 and 5) spread by less than 0.5 %' in TOLERANCES
    host, device = ([spread(row) for _, row in rows(*of)] for of in (('all_best', 'single_best'), ('best',)))
    assert f'{min(host):.2f} to {max(host):.1f} % within 100 runs' in TOLERANCES
    assert f'{min(device):.2f} to {max(device):.2f} % within 100 runs' in TOLERANCES


def test_what_one_core_gets_of_the_memory_alone_and_beside_all_others():
    cores = {'trinity': 68, 'theta': 64, 'sawtooth': 48, 'eagle': 36, 'manzano': 48}
    said = (ROOT / 'checks/core/budget.py').read_text(encoding='utf-8')
    alone = [row.mean for _, row in rows('single_best')]
    assert f'One core reaches {min(alone):.0f} to {max(alone):.0f} GB/s' in said
    beside = [row.mean / cores[site] for site, row in rows('all_best')]
    assert f'{min(beside):.0f} to {max(beside):.0f} GB/s beside all others' in said
