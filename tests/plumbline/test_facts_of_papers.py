# SPDX-License-Identifier: BSD-3-Clause
"""Facts that the four documents state in passing, and that a site had wrong or not at all once."""

import csv

import pytest
from rows import each_row

from plumbline.paths import SUITE_SITES
from plumbline.site.sites import load_site


def software(site: str) -> dict[str, str]:
    """Return the software of each row of a site, by check and metric."""
    with (SUITE_SITES / site / 'published.csv').open(newline='', encoding='utf-8') as stream:
        return {f'{row["check"]} {row["params"]} {row["metric"]}': row['software'] for row in csv.DictReader(stream)}


@each_row(('partition', 'file_systems', 'flops'), [
    ('gpp-ddr', ['scratch', 'disk'], 10.75e12), ('gpp-highmem', ['scratch', 'disk'], 10.75e12),
    ('gpp-hbm', ['scratch', 'disk'], 10.75e12),  # 000, section 6: the cores of the others
    ('acc', [], None),  # its stack has no ior, as the head of the site says
])  # fmt: skip
def test_nodes_of_marenostrum5(partition, file_systems, flops):
    described = load_site('marenostrum5').partitions[partition]
    assert [*described.file_systems] == file_systems and described.peaks.get('flops_dp') == flops


def test_nvidias_container_on_marenostrum5_has_hpl_mxp():
    assert 'hpl-mxp-nvidia' in load_site('marenostrum5').environs['ngc'].features


def test_a_core_of_tegra_2_has_a_cache_of_its_own_and_its_numbers_a_compiler():
    (node,) = load_site('tegra2').partitions.values()
    assert node.processor['caches']['L1'] == {'size': '32 KiB', 'num_cpus': 1}
    assert all(text.startswith('GCC 4.6, ') for case, text in software('tegra2').items() if 'STREAM' in case.upper())


def test_peaks_and_the_pair_of_castorc():
    (node,) = load_site('castorc').partitions.values()
    wanted = {'device_flops_double': 515e9, 'network_bandwidth': 4e9}
    assert {name: node.peaks[name] for name in wanted} == wanted
    assert [(link.pairs, link.peak) for link in node.link_classes.values()] == [(((0, 1),), 16e9)]


def test_every_number_of_superdome_flex_names_its_software():
    assert all(software('superdome-flex').values())
    hybrid = [text for case, text in software('superdome-flex').items() if 'mpi+openmp' in case]
    assert hybrid and all('Open MPI 4.0.2' in text for text in hybrid)


@pytest.mark.parametrize('site', ['marenostrum5', 'superdome-flex', 'castorc', 'summit'])
def test_no_site_of_a_document_states_meters_or_caps(site):
    """docs/tables.md has the reason for each document."""
    for partition in load_site(site).partitions.values():
        assert not partition.energy and not partition.power_cap
