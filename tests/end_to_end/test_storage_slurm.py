# SPDX-License-Identifier: BSD-3-Clause
"""Storage jobs on a real Slurm cluster of virtual nodes, with stand-ins for IOR and mdtest."""

import os
import subprocess
import threading
import time

import pytest
from storage_stand_in import NODE, cases, install, why

# every virtual node has it, though it is a disk
SHARED = 'disk: {path: FOLDER, kind: shared, size: 16 MiB, max_percent_of_free: 50, min_percent_left: 1}'


@pytest.fixture
def nodes(clone, tmp_path, slurm):
    """`nodes.prepare(before)`: a clone whose site has two nodes of Slurm that share the folder `nodes.disk`."""
    clone.disk = tmp_path / 'disk'
    clone.disk.mkdir()
    clone.slurm = slurm | {'PATH': f'{clone.environment()["PATH"]}:{slurm["PATH"]}'}

    def prepare(before: str = ''):
        install(clone, clone.disk, before, SHARED, f'num_nodes: 2\n{NODE}')
        text = clone.site_file.read_text()
        local = 'scheduler: local\n    launcher: local\n'
        assert local in text
        clone.site_file.write_text(
            text.replace(local, 'scheduler: slurm\n    launcher: srun\n    access: [-p compute]\n')
        )

    clone.prepare = prepare
    return clone


def test_ior_and_mdtest_run_on_two_nodes_of_slurm(nodes):
    nodes.prepare()
    found = cases(nodes, '-n', '(POSIX|MdtestRanks).*%nodes=2', '-S', 'time_limit=30m', **nodes.slurm)
    assert set(found) == {
        'IOR api=POSIX,file_system=disk,num_nodes=2,size=full', 'MdtestRanks file_system=disk,num_nodes=2,processes=2',
    }  # fmt: skip
    for case in found.values():
        assert case['result'] == 'pass', case['fail_reason']
    ior = found['IOR api=POSIX,file_system=disk,num_nodes=2,size=full']['record']
    # not job.nodes: of two-node jobs that backfill started, Slurm 22.05's accounts have named the first node only
    assert len({rank.partition('.')[0] for rank in ior['placement']['actual']}) == 2
    assert 'bandwidth access=read,pattern=easy_1m' in ior['metrics']
    # the node that the job's shell did not run on has counted for itself, and one step of Slurm has asked it
    assert len(ior['health']) == 1
    assert 'counters_not_read' not in ior['provenance']
    assert ior['provenance']['readers'] == 'ranks of another node than the one that wrote'
    assert os.listdir(nodes.disk) == []


@pytest.mark.parametrize('how', [(), ('--full', '--signal=KILL')], ids=['cancelled', 'killed'])
def test_what_a_job_leaves_that_an_administrator_ends(nodes, how):
    """Nothing, or what the next one removes."""
    nodes.prepare('echo x > "$(echo FOLDER/plumbline-*)/$SLURM_JOB_ID"; sleep 300\n')

    def end():
        while not (found := list(nodes.disk.glob('plumbline-*/[0-9]*'))):
            time.sleep(0.2)
        subprocess.run(['scancel', *how, found[0].name], env=os.environ | nodes.slurm, check=True)

    helper = threading.Thread(target=end, daemon=True)
    helper.start()
    reason = why(nodes, '-n', 'IOR%.*quick', **nodes.slurm)
    assert 'CANCELLED' in reason or 'FAILED' in reason
    (nodes.disk / 'somebodys').write_text('x')
    nodes.prepare()
    (case,) = cases(nodes, '-n', 'IOR%.*quick', **nodes.slurm).values()
    assert case['result'] == 'pass', case['fail_reason']
    assert os.listdir(nodes.disk) == ['somebodys']
