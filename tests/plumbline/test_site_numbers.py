# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of a site that no hardware has, places of its nodes, accounts of its users, and hosts that it matches."""

import pytest
from rows import each_row

from plumbline.errors import InputError
from plumbline.site import locations, magnitudes, schedulers

PARTITION = {'processor': {'num_cpus': 16, 'num_cpus_per_core': 2, 'num_sockets': 2}}  # 8 cores


def faults_of(partition):
    return [*magnitudes.faults_of_magnitudes(partition)]


WITH_GPUS = PARTITION | {'devices': [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': 4}]}


@each_row(
    ('mean', 'dimension', 'unit', 'nodes', 'partition', 'message', 'why'),
    [
        (1.2e-6, 'time', 'us', 1, {}, 8, ''),
        (1e-9, 'time', 'us', 1, {}, 64, 'expected 2e-08 to 0.001 s of such a time'),
        (2e-3, 'time', 'us', 1, {}, 65, ''),  # a large message may take longer
        (1e-4, 'time', 'ns', 1, {}, None, 'expected 1e-10 to 2e-05 s of such a time'),
        # 8 cores x 6.5e9 x 128 Flop are 6.656e12 Flop/s, x 192 B of caches 9.984e12 B/s
        (6.6e12, 'Flop rate', 'GFlop/s', 1, PARTITION, None, ''),
        (6.7e12, 'Flop rate', 'GFlop/s', 1, PARTITION, None, 'no node has more than 6.7e+12 Flop/s'),
        (13.4e12, 'Flop rate', 'GFlop/s', 2, PARTITION, None, 'no 2 nodes have more than 1.3e+13 Flop/s'),
        (1e13, 'bandwidth', 'GB/s', 1, PARTITION, None, 'no node has more than 1e+13 B/s'),
        (1e13, 'bandwidth', 'GB/s', 1, WITH_GPUS, None, ''),
        (1e30, 'bandwidth', 'GB/s', 1, {}, None, ''),
        (1e30, 'Flop rate', 'GFlop/s', 1, PARTITION | {'devices': [{'type': 'gpu', 'num_devices': 1}]}, None, ''),
    ],
)
def test_a_mean_that_no_node_can_have_measured(mean, dimension, unit, nodes, partition, message, why):
    assert magnitudes.beyond_hardware(mean, dimension, unit, nodes, partition, message) == why


def test_a_published_peak_is_about_that_which_is_stated():
    stated = PARTITION | {'peaks': {'flops_dp': '300 GFlop/s'}}
    for published, faults in (('3000 GFlop/s', 0), ('3100 GFlop/s', 1), ('30 GFlop/s', 0), ('29 GFlop/s', 1)):
        found = faults_of(stated | {'published_peaks': {'flops_dp': published}})
        assert [path for path, _ in found] == [['published_peaks', 'flops_dp']] * faults


@each_row(
    ('text', 'found'),
    [
        ('node,switch,rack\nn1,s1,r1\n\nn2,,r1\n', {'n1': {'switch s1', 'rack r1'}, 'n2': {'rack r1'}}),
        ('node\nn1\n', ':1: expected the columns node and at least one kind of place, found node'),
        ('', ':1: expected the columns node and at least one kind of place, found '),
        ('node,switch\nn1,s1\nn1,s2\n', ':3: node n1: expected one row of 2 columns'),
        ('node,switch\n\nn1\n', ':3: node n1: expected one row of 2 columns'),
        (None, {}),
    ],
)
def test_the_places_of_the_nodes_of_a_site(tmp_path, text, found):
    path = tmp_path / 'finch/locations.csv'
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    if isinstance(found, dict):
        assert locations.locations('finch', tmp_path) == found
    else:
        with pytest.raises(InputError) as refused:
            locations.locations('finch', tmp_path)
        assert str(refused.value) == f'{path}{found}'


@each_row(
    ('user', 'rows', 'partition', 'options', 'others'),
    [
        ('main', 'main||normal,high|', 'AllowAccounts=ALL', (), '-q high'),
        ('main', 'main||high,low|low', 'AllowQos=high', ('-q high',), ''),
        ('main', 'main||low,high|', 'DenyQos=low', ('-q high',), ''),
        ('main', 'main||normal|\nother||normal|', 'AllowAccounts=other', ('-A other',), ''),
        ('main', 'main||normal|\nother||normal|', 'DenyAccounts=other', (), ''),
        ('', 'b||normal|\na||normal|', '', ('-A a',), '-A b'),
        ('main', 'main|gpu|normal|\nmain|cpu|normal|', '', (), ''),
        ('main', '', '', (), ''),
        ('main', 'main|gpu|normal|', '', None, ''),
        (None, '', '', (), ''),
    ],
)
def test_the_account_and_qos_that_a_job_must_state(user, rows, partition, options, others):
    def output_of(command):
        if user is None:
            raise ValueError('no sacctmgr')
        return {'user': f'{user}\n', 'associations': f'{rows}\n'}.get(command[4], f'PartitionName=cpu {partition}\n')

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv('SLURM_ACCOUNT', raising=False)
        patch.setattr(schedulers, 'output_of', output_of)
        if options is None:
            with pytest.raises(InputError, match='it takes no account with a QOS of'):
                schedulers.must_state('cpu')
        else:
            assert schedulers.must_state('cpu') == (options, others)
        patch.setenv('SLURM_ACCOUNT', 'own')
        assert schedulers.must_state('cpu') == (('-A own',), '')


def test_flux_takes_numbers_of_cores_and_gpus():
    assert [schedulers.ids_in(text) for text in ('0-3,7', '5', '')] == [[0, 1, 2, 3, 7], [5], []]
