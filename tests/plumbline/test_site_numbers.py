# SPDX-License-Identifier: BSD-3-Clause
"""Places of the nodes of a site, and accounts of its users."""

import pytest
from rows import each_row

from plumbline.errors import InputError
from plumbline.site import locations, schedulers


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
