# SPDX-License-Identifier: BSD-3-Clause
"""Another suite's own command, run and judged by `plumbline gate`; and a case of ours in the folder of a run before."""

import json
import os
import re
import shutil

import pytest
from forks import forks
from lxml import etree
from scratch import ROOT

from plumbline.references import COLUMNS
from postprocess.results.store import Store

SUITE = r"""
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


@pytest.fixture
def gate(tmp_path):
    """``plumbline gate -- COMMAND`` in an empty folder, without a site file, on a suite whose test ends with `code`."""

    def gate(*command, code=0, options=(), **more):
        # what Python compiled of a file of the same size and second would run again
        shutil.rmtree(tmp_path / '__pycache__', ignore_errors=True)
        (tmp_path / 'suite.py').write_text(SUITE.replace('CODE', str(code)))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(('RFM_', 'PLUMBLINE_'))}
        environment |= {
            'HOME': str(tmp_path), 'PLUMBLINE_SITES': str(tmp_path), 'TESTS_FORKS': forks().address,
            'PATH': f'{ROOT / "tests/forked"}:{os.environ["PATH"]}',
        }  # fmt: skip
        words = ['plumbline', 'gate', '--results', tmp_path / 'results', *options, '--', *command]
        return forks().run([*map(str, words)], tmp_path, environment | more, timeout=300)

    return gate


def test_a_suite_is_run_stored_and_judged(gate, tmp_path):
    command = ('reframe', '-c', 'suite.py', '-r')
    first = gate(*command)
    assert first.returncode == 0 and '1 no reference' in first.stdout, first.stdout + first.stderr
    assert (tmp_path / 'results/report.html').stat().st_size > 10_000
    (report,) = (tmp_path / 'results/reports').iterdir()
    assert json.loads(report.read_text())['session_info']['cmdline'].endswith('-c suite.py -r')
    odd = gate('sh', '-c', 'reframe -c suite.py -r; exit 4')  # all passed, says the report
    assert odd.returncode == 1 and 'ended with exit code 4' in re.sub(r'\s+', ' ', odd.stdout), odd.stdout
    red = gate(*command, code=3)
    assert red.returncode == 1 and '1 incident open' in red.stdout and "suite.py -r -n '^Rates'" in red.stdout, (
        red.stdout
    )


@pytest.fixture
def rates(gate, tmp_path):
    """``plumbline gate --rerun 2`` on the suite whose test prints one of the rates after the other, about 95 by its
    baseline."""

    def run(*rates, **more):
        (tmp_path / 'rates').write_text(''.join(f'{rate}\n' for rate in rates))
        program = tmp_path / 'program'  # takes the first line
        program.write_text(f'cd {tmp_path}; echo rate: $(head -1 rates); sed -i 1d rates')
        baseline = tmp_path / 'generic' / 'baseline.csv'
        baseline.parent.mkdir(exist_ok=True)
        row = dict.fromkeys(COLUMNS, '') | {
            'partition': 'default', 'environ': 'builtin', 'check': 'Rates', 'params': '-', 'metric': 'rate',
            'dims': '-', 'unit': 'GB/s', 'better': 'higher', 'mean': '95', 'std': '0.5', 'n': '20', 'kind': 'baseline',
            'source': 'by hand', 'recorded_at': '2026-01-01',
        }  # fmt: skip
        baseline.write_text('\n'.join([','.join(row), ','.join(row.values())]) + '\n')
        junit = tmp_path / 'junit.xml'
        command = ('reframe', '-c', 'suite.py', '-r', '-S', f'executable_opts={program}')
        return gate(*command, options=('--rerun', '2', '--junit', junit), **more)

    return run


def stored(tmp_path):
    store = Store(tmp_path / 'results')
    session = store.find()
    rows = store.select('FROM samples ORDER BY case_id, metric, dims, trial', [session])
    return [row['value'] for row in rows], session


def test_what_was_slow_once_runs_again_by_its_own_command(rates, tmp_path):
    summary = tmp_path / 'summary.md'
    summary.write_text('before\n')
    answer = rates(80.5, 95.25, 94.75, GITHUB_STEP_SUMMARY=str(summary))
    values, session = stored(tmp_path)
    assert 'rerun 1: 1 test in doubt' in answer.stdout and values[:2] == [80.5, 95.25], answer.stdout + answer.stderr
    assert answer.returncode == 0 and session.ran == 1 and session.runs == len(values), answer.stdout
    verdicts = etree.parse(tmp_path / 'junit.xml')
    assert verdicts.findall('.//testcase') and not verdicts.findall('.//failure')
    assert summary.read_text().startswith('before\n') and len(summary.read_text()) > 10
    red = rates(80.5, 80.25, 80.75, GITHUB_STEP_SUMMARY=str(summary))
    values, session = stored(tmp_path)
    assert red.returncode == 1 and '1 incident open' in red.stdout and values == [80.5, 80.25, 80.75], red.stdout
    assert etree.parse(tmp_path / 'junit.xml').findall('.//failure')
    assert '-15.3 %' in summary.read_text()  # of 80.5 from 95


@pytest.mark.parametrize(
    ('command', 'said'),
    [
        (('true',), 'ended with exit code 0 and wrote no run report'),
        (('reframe', '-c', 'suite.py', '-r', '--report-file=elsewhere.json'), 'which --report-file overrides'),
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
