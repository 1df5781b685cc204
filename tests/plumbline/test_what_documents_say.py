# SPDX-License-Identifier: BSD-3-Clause
"""What pages and comments say of the four documents, computed again from the rows that are kept of them."""

import re

from plumbline.limits import DEFAULT_FLOOR
from plumbline.paths import ROOT
from plumbline.references import load_references
from plumbline.site.file import read_site_file
from postprocess.papers.energy import hpl_seconds

DOE = (
    'trinity', 'theta', 'sawtooth', 'eagle', 'manzano', 'frontier', 'summit', 'sierra', 'perlmutter', 'polaris',
    'lassen', 'rzvernal', 'tioga',
)  # fmt: skip
TOLERANCES = ' '.join((ROOT / 'docs/tolerances.md').read_text(encoding='utf-8').split())


def rows(*metrics, check=None):
    """(site, row) of the DOE study of these metrics."""
    found = [(site, row) for site in DOE for row in load_references(site).rows if row.id.metric in metrics]
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


def test_three_like_machines_differ_by_more_than_the_floor():
    """Frontier, Tioga and RZVernal have the same GPU."""
    rates = [row.mean for site, row in rows('best') if site in ('frontier', 'tioga', 'rzvernal')]
    assert 0.03 < max(rates) / min(rates) - 1 < 0.04 and DEFAULT_FLOOR < 0.03


def test_what_one_core_gets_of_the_memory_alone_and_beside_all_others():
    cores = {'trinity': 68, 'theta': 64, 'sawtooth': 48, 'eagle': 36, 'manzano': 48}
    said = (ROOT / 'checks/core/budget.py').read_text(encoding='utf-8')
    alone = [row.mean for _, row in rows('single_best')]
    assert f'One core reaches {min(alone):.0f} to {max(alone):.0f} GB/s' in said
    beside = [row.mean / cores[site] for site, row in rows('all_best')]
    assert f'{min(beside):.0f} to {max(beside):.0f} GB/s beside all others' in said


def test_the_count_of_hpl_in_001_changes_no_printed_digit_of_its_run_times():
    for order in (5_000, 20_000, 100_000):
        ours, theirs = hpl_seconds(order, 1e9), (2 / 3 * order**3 + 2 * order**2) / 1e9
        assert abs(ours / theirs - 1) < 2e-4


def test_a_node_of_marenostrum5_with_gpus_has_the_larger_of_two_bandwidths_that_its_report_states():
    """Each of four GPUs has 200 Gbit/s, though the next sentence has two links of NDR200."""
    site = read_site_file(ROOT / 'site_configs/marenostrum5/site.yaml')
    assert next(one for one in site['partitions'] if one['name'] == 'acc')['peaks']['network_bandwidth'] == '100 GB/s'
