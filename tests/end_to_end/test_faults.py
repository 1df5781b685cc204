# SPDX-License-Identifier: BSD-3-Clause
"""What can go wrong in a job, through real ReFrame: every fault fails its case and says why."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from scratch import DEMO_PARTITION, GOOD_PROGRAM, cases_in


def case(clone, *options, **environment):
    """Runs the demo check; returns (exit code, its case in the run report)."""
    answer = clone.reframe('-r', '-n', 'Demo', *options, **environment)
    reports = sorted(clone.results.glob('reports/*.json'), key=lambda path: path.stat().st_mtime)
    assert reports, answer.stdout + answer.stderr
    (found,) = cases_in(reports[-1])
    return answer.returncode, found


def test_a_good_run_leaves_every_trial_with_its_provenance(clone):
    code, found = case(clone, '-S', 'trials=4')
    assert (code, found['result']) == (0, 'pass'), found['fail_reason']
    record = found['record']
    assert (record['check'], record['params'], record['trials']) == ('Demo', 'size=small', 4)
    rate = record['metrics']['rate']
    assert (rate['unit'], rate['better'], rate['invalid']) == ('GB/s', 'higher', None)
    assert [sample[0] for sample in rate['samples']] == [1, 2, 3, 4]
    assert {sample[2] for sample in rate['samples']} == {50.5}
    (rank,) = record['placement']['actual'].items()
    assert rank[1] == '0' == record['placement']['requested']
    assert len(record['trial_seconds']) == 4 and all(0 <= seconds < 10 for seconds in record['trial_seconds'])
    provenance = record['provenance']
    assert provenance['binary'] == str(clone.binary)
    sha = subprocess.run(['sha256sum', clone.binary], capture_output=True, text=True, check=True).stdout.split()[0]
    assert provenance['binary_sha256'] == sha
    assert provenance['kernel'] == os.uname().release
    assert {'cpu_model', 'governor', 'smt_active', 'transparent_hugepages', 'suite_version', 'check_code'} <= set(
        provenance
    )
    assert ('virtual' in provenance) == (' hypervisor' in Path('/proc/cpuinfo').read_text())
    assert int(provenance['sockets']) >= 1
    assert float(provenance['load_beside']) >= 0 and 0 <= float(provenance['cpu_steal']) <= 100
    assert record['job']['state'] == 'SUCCESS'
    assert found['env_vars']['PLUMBLINE_CPUS'] == '0' and 'variables' not in found  # its deprecated name


def test_trials_that_the_queue_allows_no_time_for_run_in_further_jobs_of_the_session(clone):
    clone.describe(f'{DEMO_PARTITION}max_time: 1m4s\n', 'demo')  # a minute is kept for what follows the trials
    clone.program(f'sleep 1; {GOOD_PROGRAM}')
    night = clone.without_our_checks().nightly('--mode=quick', '--no-retry', '--', '-Strials=4')
    assert 'had no time for all trials in a job: job 2' in night.stdout
    (report,) = clone.results.glob('reports/*.json')
    jobs = [cases_in(report, run)[0] for run in range(len(json.loads(report.read_text())['runs']))]
    assert len(jobs) > 1 and {one['result'] for one in jobs} == {'pass'}
    assert sum(len(one['record']['metrics']['rate']['samples']) for one in jobs) == 4
    first, last = (one['record']['provenance'] for one in (jobs[0], jobs[-1]))
    assert f'{4 - jobs[0]["record"]["trials"]} of 4 trials' in first['trials_left_out']
    assert 'of the 64 s that the queue allows' in first['trials_left_out'] and 'trials_left_out' not in last
    rows = json.loads(clone.plumbline('compare', '--format=json').stdout)['verdicts']
    assert rows and {row['n'] for row in rows} == {4}, 'one series of all jobs'


@pytest.mark.parametrize(
    ('script', 'words'),
    [
        ('echo "rate: 50.5"', ['demo in all 2 trials on', 'metric delay not measured', 'not in the output']),
        ('echo "rate: 50.5"; echo "delay: 1"; exit 3',
         ['demo ended with exit code 3 in trial 1 of 2 on', 'its output ends "delay: 1"', 'all output: evidence/']),
        ('[[ $PWD = *trial_1* ]] && echo "rate: nan" || echo "rate: -1"; echo "delay: 1"',
         ['demo in trial 1 of 2 on', 'metric rate', 'above zero; also: demo in trial 2 of 2 on', ' -1.0 GB/s is not']),
        ('echo "no licence" >&2; exit 1', ['exit code 1', 'no license was granted ("no licence")']),
        ('taskset -pc 1 $PPID >/dev/null; rm ../../trial_*/run/binding.*; echo "rate: 5"; echo "delay: 1"',
         ['1 ranks were requested, 0 reported their binding']),
        ('echo 0-1 > binding.x.0; echo "rate: 5"; echo "delay: 1"', ['binding']),
    ],
)  # fmt: skip
def test_a_bad_run_fails_with_its_cause(clone, script, words):
    clone.program(script)
    code, found = case(clone, '-S', 'trials=2')
    assert (code, found['result']) == (1, 'fail')
    for word in words:
        assert word in found['fail_reason']


def test_a_trial_that_hangs_is_ended_at_its_limit_and_the_next_one_runs(clone):
    """Its child ignores SIGTERM, and must not run beside the next trial."""
    hangs = f"(trap '' TERM; echo $BASHPID > {clone.results}/child; sleep 600) & echo at rank 0 >&2; wait; exit 1"
    clone.program(
        f'[[ $PWD != *trial_2* ]] || {{ {hangs}; }}; [ ! -e {clone.results}/child ] ||\n'
        f'[[ $PWD = *trial_2* ]] || ! readlink /proc/$(cat {clone.results}/child)/cwd || exit 3\n{GOOD_PROGRAM}'
    )
    code, found = case(clone, '-S', 'trials=3', '-S', 'trial_time_limit=3')
    assert (code, found['result']) == (1, 'fail')
    assert found['fail_reason'].count('in trial') == 1, found['fail_reason']
    said = ['the time limit of the trial, 3 s,', 'demo ran in trial 2 of 3', '"at rank 0"']
    assert all(words in found['fail_reason'] for words in said), found['fail_reason']
    assert [sample[0] for sample in found['record']['metrics']['rate']['samples']] == [1, 3]
    assert found['record']['job']['state'] == 'SUCCESS'


def test_no_benchmark_runs_on_a_node_that_is_not_set_as_expected(clone):
    clone.describe(f"{DEMO_PARTITION}expects: {{kernel: '>=99', kernel_command_line: [plumb=line]}}\n", 'demo')
    clone.program(f'touch {clone.results}/ran; {GOOD_PROGRAM}')
    answer = clone.reframe('-r', '-n', 'Demo|NodeSettings', '-S', 'trials=1', '-c', clone.root / 'checks/node')
    assert answer.returncode == 1 and not (clone.results / 'ran').exists()
    (report,) = clone.results.glob('reports/*.json')
    reasons = {case['record']['check']: case['fail_reason'] for case in cases_in(report)}
    assert set(reasons) == {'Demo', 'NodeSettings'}
    for reason in reasons.values():
        assert f'kernel: expected >=99, found {os.uname().release}' in reason
        assert 'kernel_command_line: expected plumb=line, which is not there' in reason
    assert f'{os.uname().nodename} is not set as site.yaml expects, so no benchmark runs there' in reasons['Demo']


def test_a_check_without_a_metric_is_no_pass(clone):
    path = clone.root / 'checks/demo.py'
    path.write_text(path.read_text().replace('    metrics = [\n', '    metrics = []\n    none = [\n'))
    code, found = case(clone)
    assert code == 1 and 'declares no metric' in found['fail_reason']


def test_a_missing_binary_is_named(clone):
    clone.binary.unlink()
    code, found = case(clone)
    assert code == 1
    assert 'exit code 127' in found['fail_reason']
    assert 'before its first trial' in found['fail_reason'] and 'demo: not found on PATH' in found['fail_reason']
    assert 'the program is not on PATH of environ system' in found['fail_reason']


def test_a_benchmark_that_hangs_is_ended(clone):
    clone.program('echo "rate: 50.5"; echo "delay: 1.25"; sleep 600')
    code, found = case(clone, '-S', 'time_limit=3s')
    assert code == 1
    assert 'the time limit of 3 s was reached while demo ran in trial 1 of 3 on' in found['fail_reason']
    (cause,) = found['record']['causes']
    assert cause['code'] == 'time-limit'
    assert found['record']['missing'].keys() == {'rate', 'delay'}
    assert all(cause['what'] == reason for reason in found['record']['missing'].values())
    assert found['record']['job']['state'] == 'TIMEOUT'


def baseline(clone, **changes):
    from plumbline.references import COLUMNS

    row = {
        'partition': 'node', 'environ': '*', 'check': 'Demo', 'params': 'size=small', 'metric': 'rate', 'dims': '-',
        'unit': 'GB/s', 'better': 'higher', 'mean': '50', 'std': '0.5', 'n': '10', 'kind': 'baseline',
        'source': 'a test', 'recorded_at': '', 'mode': 'quick', 'note': '',
    } | changes  # fmt: skip
    text = ','.join(COLUMNS) + '\n' + ','.join(row[column] for column in COLUMNS) + '\n'
    (clone.site_file.parent / 'baseline.csv').write_text(text)


def test_a_reference_decides_tonight(clone):
    baseline(clone)
    code, found = case(clone)
    assert code == 0
    assert found['perfvalues']['demo:node:rate'][1] == 50
    baseline(clone, mean='70')
    code, found = case(clone)
    assert code == 1
    assert 'rate=50.5 GB/s, expected 70.0' in found['fail_reason']


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'unit': 'MB/s'}, ['rate: unit differs', 'GB/s', 'MB/s', 'a test']),
        ({'std': ''}, ['baseline.csv:2', 'std and n']),
    ],
)
def test_a_reference_that_cannot_be_used_fails_and_is_not_lost(clone, changes, words):
    baseline(clone, **changes)
    code, found = case(clone)
    assert code == 1
    for word in words:
        assert word in found['fail_reason']


@pytest.mark.skipif(os.geteuid() != 0, reason='mounting a small file system takes root')
def test_a_full_disk_fails_the_night(clone):
    clone.results.mkdir()
    mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'none', clone.results], check=False)
    if mounted.returncode:
        pytest.skip('tmpfs cannot be mounted here')
    try:
        clone.program('head -c 4000000 /dev/zero; echo; echo "rate: 50.5"; echo "delay: 1.25"')
        answer = clone.without_our_checks().nightly()
        assert answer.returncode == 1
        assert 'No space left on device' in answer.stdout + answer.stderr
        assert 'Traceback' not in answer.stdout + answer.stderr
    finally:
        subprocess.run(['umount', clone.results], check=True)


def test_a_check_with_a_mistake_in_its_code_costs_no_other_case_its_numbers(clone):
    path = clone.root / 'checks/demo.py'
    text = path.read_text().replace("['small']", "['small', 'big']")
    path.write_text(
        f'{text}\n    def plan(self):\n        if self.size == "big":\n            raise AttributeError("a slip")\n'
        '        return super().plan()\n'
    )
    answer = clone.reframe('-r', f'--report-file={clone.results}/reports/0.json')
    assert answer.returncode == 1
    said = answer.stdout + answer.stderr
    assert 'Demo %size=big: has no record: AttributeError: a slip' in said
    found = {case['size']: case for case in cases_in(clone.results / 'reports/0.json')}
    assert (found['big']['result'], found['big']['record']) == ('fail', None)
    assert clone.plumbline('ingest', f'{clone.results}/reports/0.json').returncode == 0
    rows = json.loads(clone.plumbline('compare', '--format=json').stdout)['verdicts']
    assert {(row['params'], row['metric'], row['verdict']) for row in rows} == {
        ('size=small', 'rate', 'no_reference'), ('size=small', 'delay', 'no_reference'), ('size=big', '*', 'failed'),
    }  # fmt: skip


def test_the_program_of_another_place_does_not_stand_in_for_a_prefix_that_is_gone(clone):
    """Such as that of a file system which is not mounted on the node."""
    gone = clone.binary.parent.rename(clone.root / 'bin')
    code, found = case(clone, PATH=f'{gone}:{os.environ["PATH"]}')
    assert code == 1
    assert f'its prefix {clone.binary.parent.parent} has no folder bin on this node' in found['fail_reason']
    assert found['record']['metrics']['rate']['samples'] == []


def test_a_case_under_lsf_which_tells_no_exit_code_passes_if_its_job_came_to_its_end(clone):
    site = clone.site_file.read_text().replace('scheduler: local', 'scheduler: lsf')
    clone.site_file.write_text(site)
    folder = clone.binary.parent
    clone.program('bash > rfm_job.out 2> rfm_job.err; echo "Job <7> is submitted to queue <batch>."', 'bsub')
    clone.program('echo "7 me DONE batch"', 'bjobs')
    path = f'{folder}:{clone.environment()["PATH"]}'
    code, found = case(clone, PATH=path)
    assert (code, found['result']) == (0, 'pass'), found['fail_reason']
    assert found['record']['job'] == {'id': '7', 'state': 'COMPLETED', 'exitcode': 0, 'nodes': found['job_nodelist']}
    clone.program('exit 3')
    code, found = case(clone, PATH=path)
    assert (code, found['result']) == (1, 'fail') and 'demo ended with exit code 3' in found['fail_reason']
