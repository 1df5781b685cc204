# SPDX-License-Identifier: BSD-3-Clause
"""Job states of a real Slurm: a controller, an accounting database and virtual nodes on this host."""

import os
import re
import subprocess
import sys

import pytest
from scratch import ROOT, cases_in

from plumbline.site.sites import load_site

SLURM_PARTITION = """\
  - name: compute
    scheduler: slurm
    launcher: srun
    access: [-p compute]
"""
LOCAL_PARTITION = """\
  - name: node
    scheduler: local
    launcher: local
"""


@pytest.fixture
def on_slurm(clone, slurm):
    """Runs the demo check there; returns its case."""
    text = clone.site_file.read_text()
    assert LOCAL_PARTITION in text
    clone.site_file.write_text(text.replace(LOCAL_PARTITION, SLURM_PARTITION))

    def run(*options):
        environment = slurm | {'PATH': f'{clone.environment()["PATH"]}:{slurm["PATH"]}'}
        clone.reframe('-r', '-n', 'Demo', '-S', 'trials=1', *options, **environment)
        report = max(clone.results.glob('reports/*[0-9].json'), key=lambda path: path.stat().st_mtime)
        (found,) = cases_in(report)
        return found

    return run


def test_a_job_that_completes(on_slurm):
    found = on_slurm('-S', 'trials=2')
    assert found['result'] == 'pass', found['fail_reason']
    record = found['record']
    assert record['job']['state'] == 'COMPLETED' and record['job']['exitcode'] == 0
    (node,) = record['job']['nodes']
    assert node in ('n1', 'n2', 'n3')
    assert record['placement']['actual'] == {f'{node}.0': '0'}
    assert {sample[1] for sample in record['metrics']['rate']['samples']} == {node}


def test_a_site_without_accounting_learns_exit_code_and_node_from_the_controller(on_slurm, clone):
    clone.site_file.write_text(clone.site_file.read_text().replace('scheduler: slurm', 'scheduler: squeue'))
    found = on_slurm()
    assert found['result'] == 'pass', found['fail_reason']
    assert (found['scheduler'], found['job_exitcode']) == ('squeue', 0)
    assert set(found['job_nodelist']) <= {'n1', 'n2', 'n3'}
    clone.program('echo "rate: 50.5"; scancel $SLURM_JOB_ID; sleep 60')
    found = on_slurm()
    assert found['result'] == 'fail' and 'CANCELLED' in found['fail_reason']


def test_from_nothing_to_a_verdict_on_unlike_partitions_without_editing(clone, slurm):
    (clone.root / 'plumbline/stacks/benchmarks.yaml').write_text('demo: {executables: [demo], debian: []}\n')
    environment = slurm | {'PATH': f'{clone.binary.parent}:{clone.environment()["PATH"]}:{slurm["PATH"]}'}
    clone.without_our_checks()
    guide = [sys.executable, '-m', 'plumbline', 'init', '--site', 'box']
    answer = clone.run(*guide, typed='y\ny\ny\n', **environment)  # and the end of the input at the baseline
    assert answer.returncode == 0, answer.stdout + answer.stderr
    box = load_site('box', clone.root / 'site_configs')
    described = [
        (name, one.num_nodes, one.max_time, one.memory_bytes // 10**9, 'caches' in str(one.processor))
        for name, one in box.partitions.items()
    ]
    assert described == [
        ('compute', 3, 3600, 8, True), ('debug', 2, 600, 8, True), ('urgent', 3, 600, 8, True),
        ('fleet', 16, 3600, 8, True), ('small', 1, 1800, 4, True),
    ], answer.stderr  # fmt: skip
    assert len(re.findall(r'\] OK +Demo .*@box:', answer.stdout)) == 5 and '10 no reference' in answer.stdout
    assert 'ok: 5 cases, 0 references, 5 job scripts' in answer.stdout
    assert answer.stdout.endswith('run it? [Y/n]: \n`plumbline init --site box` goes on from here\n')
    assert '\n$ plumbline record propose --site box\n' in answer.stdout
    assert 'plumbline: next: there is no baseline yet' in answer.stdout
    status = clone.plumbline('status', '--site', 'box', **environment)
    assert status.returncode == 0 and '5 of 5 cases' in status.stdout and len(status.stdout.splitlines()) <= 15


def test_slurm_accepts_the_example_of_its_own_cron(slurm):
    text = (ROOT / 'ci/examples/scrontab').read_text().replace('=login', '=compute').replace('=06:00:00', '=01:00:00')
    options = re.findall(r'^#SCRON (--\S+)$', text, re.MULTILINE)
    command = ['sbatch', '--test-only', *options, '--wrap', 'true']
    answer = subprocess.run(command, env=os.environ | slurm, capture_output=True, text=True, check=False)
    assert len(options) == 5 and answer.returncode == 0, answer.stderr
