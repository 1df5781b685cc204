# SPDX-License-Identifier: BSD-3-Clause
"""Another suite's own command, run and judged by `plumbline gate`; and a case of ours in the folder of a run before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scratch import ROOT

SUITE = """\
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Rates(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'bash'
    executable_opts = ['-c', '"echo rate: 9$((RANDOM % 5)).$RANDOM; exit CODE"']

    @sanity_function
    def valid(self):
        return sn.assert_eq(self.job.exitcode, 0)

    @performance_function('GB/s')
    def rate(self):
        return sn.extractsingle(r'rate: (\S+)', self.stdout, 1, float)
"""
REFRAME = Path(sys.executable).with_name('reframe')


@pytest.fixture
def gate(tmp_path):
    """``plumbline gate -- COMMAND`` in an empty folder, without a site file, on a suite whose test ends with `code`."""

    def gate(*command, code=0):
        (tmp_path / 'suite.py').write_text(SUITE.replace('CODE', str(code)))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(('RFM_', 'PLUMBLINE_'))}
        return subprocess.run(
            [sys.executable, '-m', 'plumbline', 'gate', '--results', tmp_path / 'results', '--', *command],
            cwd=tmp_path,
            env=environment | {'PYTHONPATH': str(ROOT), 'HOME': str(tmp_path), 'PLUMBLINE_SITES': str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return gate


def test_a_suite_is_run_stored_and_judged(gate, tmp_path):
    command = (REFRAME, '-c', 'suite.py', '-r')
    first = gate(*command)
    assert first.returncode == 0 and '1 no reference' in first.stdout, first.stdout + first.stderr
    assert (tmp_path / 'results/report.html').stat().st_size > 10_000
    (report,) = (tmp_path / 'results/reports').iterdir()
    assert json.loads(report.read_text())['session_info']['cmdline'].endswith('-c suite.py -r')
    red = gate(*command, code=3)
    assert red.returncode == 1 and '1 incident open' in red.stdout and "suite.py -r -n '^Rates'" in red.stdout, (
        red.stdout
    )


@pytest.mark.parametrize(
    ('command', 'said'),
    [
        (('true',), 'ended with exit code 0 and wrote no run report'),
        ((REFRAME, '-c', 'suite.py', '-r', '--report-file=elsewhere.json'), 'which --report-file overrides'),
        (('no-such-program',), 'no-such-program: cannot be run: No such file'),
    ],
)
def test_a_command_without_a_report_is_named(gate, command, said):
    answer = gate(*command)
    assert answer.returncode == 2 and said in answer.stderr and len(answer.stderr.splitlines()) == 1, answer.stderr


def test_a_case_begins_anew_in_the_folder_of_a_run_before(clone):
    clone.program('echo "rate: 50.5"; echo "delay: 1.25"')
    first = clone.run_case('Demo', '-Strials=3', checks='checks/demo.py')
    again = clone.run_case('Demo', '-Strials=2', '--dont-restage', checks='checks/demo.py')
    assert first['result'] == again['result'] == 'pass', again['fail_reason']
    assert again['record']['trials'] == 2
