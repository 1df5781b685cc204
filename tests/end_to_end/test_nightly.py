# SPDX-License-Identifier: BSD-3-Clause
"""The nightly run of a benchmark of a second: a slow device, faults, kills."""

import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from scratch import wait_for

IMPORT = 'import reframe as rfm\n', 'import reframe as rfm\nfrom plumbline.record import Dim\n'
DEVICES = r"""    dims = {'device': Dim('name')}
    metrics = [
        Metric(
            'copy', 'GB/s', 'higher', r'^copy (?P<device>\d): (?P<value>\S+)$', expected={'device': '0123'}
        ),
"""
# Numbers that differ from trial to trial, by less than the tightest limit there is
GOOD_NIGHT = 'echo "rate: 50.$RANDOM"; echo "delay: 1.20$RANDOM"'


@pytest.fixture
def demo(clone):
    clone.program(GOOD_NIGHT)
    return clone.without_our_checks()


def record(clone):
    answer = clone.plumbline('record', 'propose', '--although', 'the tests share their machine')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert (answer := clone.plumbline('record', 'accept')).returncode == 0, answer.stderr


def test_a_device_that_is_slow_again_is_reported_recorded_and_sent_to_others(demo):
    path = demo.root / 'checks/demo.py'
    path.write_text(path.read_text().replace('    metrics = [\n', DEVICES).replace(*IMPORT))
    demo.program(GOOD_NIGHT + ''.join(f'; echo "copy {i}: {60 if i == 3 else 80}.$RANDOM"' for i in range(4)))
    places = demo.site_file.with_name('locations.csv')
    places.write_text('rack\nr1\n')
    first = demo.nightly('--quiet')
    assert first.returncode == 1
    (fault,) = first.stderr.splitlines()
    assert fault.startswith(f'plumbline: the nodes were not compared: {places}:1: expected the columns node and')
    assert '1 warning, 5 no reference' in ' '.join(first.stdout.split()), 'the verdict is lost'
    assert first.stdout.splitlines()[-1] == fault.replace('plumbline: ', 'plumbline: next: ', 1), 'mend that first'
    assert (demo.results / 'summary.txt').read_text().endswith(fault + '\n')

    (report,) = demo.results.glob('reports/*.json')
    session, node = json.loads(report.read_text())['session_info']['uuid'], os.uname().nodename
    (suspected,) = json.loads(demo.plumbline('incidents', '--format', 'json').stdout)
    assert (suspected['kind'], suspected['state']) == ('DEVICE', 'suspected'), 'a single job without a baseline'
    places.unlink()
    publish = demo.root / 'published'
    second = demo.nightly(
        '--quiet', f'--artifacts={publish}', f'--publish={demo.root / "site"}', PLUMBLINE_NOTIFY='json://127.0.0.1:9/'
    )
    assert second.returncode == 1
    assert f'DEVICE {node} device 3: 2' in second.stdout and 'Demo size=small copy device=3' in ' '.join(
        second.stdout.split()
    )
    assert re.match(r'plumbline: next: 1 incident open: `plumbline incidents show', second.stdout.splitlines()[-1])
    assert 'number 1 of 1 could not be reached' in second.stderr
    assert sorted(path.name for path in publish.iterdir()) == ['report.html', 'verdicts.md', 'verdicts.xml']
    assert f'DEVICE {node} device 3' in (publish / 'verdicts.md').read_text()
    assert {'index.html', f'sessions/{session}.html', 'latest.svg'} <= {
        str(path.relative_to(demo.root / 'site/demo')) for path in (demo.root / 'site/demo').rglob('*')
    }
    assert f'\n{node},' in demo.plumbline('fleet', '--nodes', '--format', 'csv').stdout
    assert len(json.loads(demo.plumbline('incidents', '--format', 'json').stdout)) == 1


FAULTS = """\
kinds: {rates: {series: [Demo rate]}}
faults: {half of it lost: {where: site, loss: {rates: 0.5}, source: this test}}
"""


def test_a_night_of_so_many_minutes_runs_what_finds_most_and_misses_nothing(demo):
    path = demo.root / 'checks/demo.py'
    path.write_text(path.read_text().replace("['small']", "['s', 'm', 'l', 'xl']"))
    (demo.root / 'postprocess/history/faults.yaml').write_text(FAULTS)
    first = demo.nightly('--minutes', '0.16')
    assert 'holds no session of demo, so no night can be planned; all cases of mode nightly run' in first.stdout
    assert '8 no reference' in ' '.join(first.stdout.split())
    record(demo)
    answer = demo.nightly('--minutes', '0.16')  # a case takes 3 s at least
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert 'missing' not in answer.stdout
    ran = int(re.search(r'mode nightly: (\d) cases? of 4 in 0.16 minutes', answer.stdout)[1])
    assert 1 <= ran <= 3
    newest = max(demo.results.glob('reports/*.json'))
    info = json.loads(newest.read_text())['session_info']
    assert json.loads(info['plumbline_narrowed_by']) == ['minutes=0.16']
    chosen = json.loads(info['plumbline_plan'])
    assert len(chosen) == ran
    mistake = demo.nightly('--minutes', '0.01')
    assert mistake.returncode == 2
    assert mistake.stderr.startswith('plumbline: no case fits into 0.01 minutes on 1 node: the shortest, Demo %size=')


def test_a_metric_that_vanished_is_missing_and_a_night_on_half_of_the_cpus_is_not_judged(demo):
    assert demo.nightly('--no-retry').returncode == 0
    record(demo)
    check = demo.root / 'checks/demo.py'
    text = check.read_text()
    check.write_text(text.replace("['small']", "['another']"))
    vanished = demo.nightly('--no-retry')
    assert vanished.returncode == 1 and '2 missing' in vanished.stdout, vanished.stdout + vanished.stderr
    check.write_text(text)
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip('needs two CPUs, of which one is taken away')
    demo.program('echo "rate: 80.$RANDOM"; echo "delay: 0.90$RANDOM"')
    command = ['taskset', '-c', str(min(cpus)), sys.executable, '-m', 'ci.nightly', '--no-provision', '--no-retry']
    half = demo.run(*command)
    assert half.returncode == 1, half.stdout + half.stderr
    said = half.stdout[half.stdout.index('FAILED: ') :]
    first = next(line for line in said.splitlines() if re.match(r'\w{6} ', line))
    assert re.search(rf' NODE .* had 1 (of \d+ )?CPUs? \(in the baseline {len(cpus)}\b', first)
    assert '2 invalid' in said and 'improved' not in said


def test_no_case_at_all_is_never_a_pass(clone):
    stale = clone.root / 'published/verdicts.md'
    stale.parent.mkdir()
    stale.write_text('of yesterday')
    answer = clone.nightly('--artifacts', stale.parent, '--', '-n', 'OsuLatency|OpenSSLSpeed')
    assert answer.returncode == 1 and '0 cases' in answer.stdout
    assert not list(stale.parent.iterdir()), 'yesterday passes for today'
    lacking = answer.stderr
    assert 'OsuLatency: requires the feature osu: no environ of site demo has it' in lacking
    assert 'OpenSSLSpeed: requires another mode than nightly (its tags: ' in lacking
    assert lacking.splitlines()[-1].startswith('plumbline: no case can run here in mode nightly')


def test_a_machine_without_a_benchmark_says_which_it_lacks(clone):
    path = clone.root / 'plumbline/stacks/benchmarks.yaml'
    path.write_text('hpcc: {executables: [no-such-hpcc], debian: []}\n')
    answer = clone.nightly(PLUMBLINE_SITE='localhost')
    assert answer.returncode == 1
    assert 'not run: hpcc: no-such-hpcc not on PATH' in answer.stdout
    assert 'no case can run here' in answer.stderr


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--site', 'nosuch'], ['PLUMBLINE_SITE=nosuch', 'expected one of', ' demo,']),
        (['--mode', 'weekly'], ['invalid choice', 'quick']),
        (['--results', '/dev/null/results'], ['/dev/null/results', 'cannot be written']),
        (['--results', '/tmp/with blank'], ['/tmp/with blank', 'blank']),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_code_2(demo, arguments, words):
    answer = demo.nightly(*arguments)
    assert answer.returncode == 2
    assert 'Traceback' not in answer.stderr
    for word in words:
        assert word in answer.stderr


def start(clone, *options):
    """As a shell does in the background: with interrupts ignored."""
    return subprocess.Popen(
        [sys.executable, '-m', 'ci.nightly', *options], cwd=clone.root, env=clone.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip


def alive(pid: int) -> bool:
    try:
        return 'State:\tZ' not in open(f'/proc/{pid}/status').read()
    except OSError:
        return False


@pytest.mark.parametrize('times', [1, 2])
def test_after_an_interrupt_it_says_how_many_cases_ran(demo, tmp_path, times):
    first, second = tmp_path / 'first', tmp_path / 'second'
    demo.program(f'if mkdir {first}; then echo "rate: 50.5"; echo "delay: 1.25"; else touch {second}; sleep 300; fi')
    check = demo.root / 'checks/demo.py'
    check.write_text(check.read_text().replace("['small']", "['a', 'b', 'c', 'd']"))
    options = '--no-provision', '--', '-Strials=1'
    running = start(demo, *options) if times == 1 else demo.start('ci.nightly', *options)
    before = ''
    while '[1/4] OK' not in before:
        line = running.stdout.readline()
        assert line, before
        before += line
    wait_for(second.exists)
    for _ in range(times):
        running.send_signal(signal.SIGINT)
        time.sleep(0.2)
    said, _ = running.communicate(timeout=60)
    said = before + said
    assert running.returncode == 130, said
    assert re.search(r'mode nightly: 4 cases, about \d+ s', said), said
    assert said.splitlines()[-1] == 'plumbline: ended by you after 1 of 4 cases; the same command goes on', said
    (left,) = (line for line in said.splitlines() if 'not run to the end' in line)
    assert left.endswith(': Demo %size=b, Demo %size=c, Demo %size=d')
    for word in ('incident', 'FAILED', 'aborted', 'Traceback', 'Keyboard'):
        assert word not in said, said
    assert 'ended after 1 of 4 cases' in demo.plumbline('status').stdout
    demo.program(GOOD_NIGHT)
    if times == 1:
        after = demo.nightly('--', '-Strials=1')
        assert 'resumes the session' in after.stdout and ': 4 cases, 8 samples' in after.stdout, after.stdout
    else:  # what had ended is a session of its own, and what had not is no fault
        after = demo.nightly('--no-resume', '--', '-Strials=1')
        stored = demo.plumbline('compare', '--format', 'json', json.loads(first_report(demo))['session_info']['uuid'])
        found = json.loads(stored.stdout)
        assert 'ended by a person' in demo.plumbline('compare', found['session']).stdout
        assert found['counts'] == {'no_reference': 2} and found['problems'] == found['incidents'] == [], found
    assert after.returncode == 0, after.stdout + after.stderr
    assert json.loads(demo.plumbline('incidents', '--format', 'json').stdout) == []


BEST = """

@rfm.simple_test
class Best(Benchmark):
    \"\"\"The sum of both sizes.\"\"\"

    valid_prog_environs = ['+demo']
    tags = {'nightly'}
    local = True
    executable = 'true'
    metrics = [Metric('sum', 'GB/s', 'higher')]

    @run_after('init')
    def depend(self):
        self.parts = [Demo.variant_name(number) for number in Demo.get_variant_nums()]
        for name in self.parts:
            self.depends_on(name)

    @run_before('run')
    def assemble_job(self):
        self.trials = 0

    def derive(self, record):
        parts = [next(self.getdep(name).result.series())[2].samples for name in self.parts]
        record.metrics['sum'].series[0].samples = [(1, '', sum(one[0][2] for one in parts))]
"""


def test_a_case_that_depends_on_one_that_failed_runs_again_with_all_that_it_depends_on(demo, tmp_path):
    """Of two sizes, which run one after the other, the first fails once."""
    path = demo.root / 'checks/demo.py'
    text = path.read_text().replace("(['small'],", "(['small', 'large'],")
    path.write_text(text + BEST)
    demo.program(f'[ -e {tmp_path}/ran ] || {{ touch {tmp_path}/ran; exit 1; }}; {GOOD_NIGHT}')
    night = demo.nightly('-S', 'Demo.trials=1')
    assert 'runs 2 failed cases once more' in night.stdout, night.stdout + night.stderr
    first, again = json.loads(first_report(demo))['runs'][:2]
    for run, results, purposes in ((first, ['fail', 'fail_deps', 'pass'], ['']), (again, ['pass'] * 3, ['rest'])):
        cases = [one for one in run['testcases'] if not one['fixture']]
        assert sorted(one['result'] for one in cases) == results
        assert sorted({one.get('plumbline_purpose', '') for one in cases}) == purposes
    assert '5 no reference' in night.stdout, 'the sum was not measured'


def first_report(demo) -> str:
    return min(demo.results.glob('reports/*.json')).read_text()


def test_a_busy_machine_is_told_before_the_first_case_also_by_plain_reframe(demo):
    loop = ['nice', '-n', '19', 'sh', '-c', 'while :; do :; done']  # takes what others leave
    loops = [subprocess.Popen(loop) for _ in range(os.cpu_count())]
    try:
        night = demo.nightly('--', '-Strials=1', PLUMBLINE_BUSY='').stdout
        plain = demo.reframe('-r', '-Strials=1', PLUMBLINE_BUSY='').stdout
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    for said, first in ((night, '[1/1]'), (plain, '1/1)')):
        (found,) = re.finditer(r'others keep (\S+) of (\d+) CPUs busy: these numbers will be no baseline', said)
        assert float(found[1]) > 0.7 * os.cpu_count() and int(found[2]) == os.cpu_count()
        assert found.start() < said.index(first), said
    assert 'WARNING: others' in plain, plain


def test_two_at_once_and_a_kill_in_the_middle(demo, tmp_path):
    started = tmp_path / 'started'
    demo.program(f'echo $$ > {started}; sleep 300')
    running = start(demo, '--no-provision')
    wait_for(lambda: started.exists() and started.read_text().strip())
    (stale := demo.root / 'report.html').write_text('of yesterday')
    second = demo.nightly('--artifacts', '.')
    assert second.returncode == 2 and not stale.exists()
    assert f'another nightly run writes to {demo.results} (process {running.pid} since' in second.stderr

    running.send_signal(signal.SIGKILL)
    running.wait()
    benchmark = int(started.read_text())
    assert alive(benchmark), 'the kill left nothing behind, so this test shows nothing'
    demo.program(GOOD_NIGHT)
    after = demo.nightly()
    assert after.returncode == 0, after.stdout + after.stderr
    assert 'a run before this one was killed; ended' in after.stdout
    assert not alive(benchmark)


def of_clone(clone) -> list[int]:
    """Return the processes that work in a clone, those that others started for it left out."""
    found = []
    for process in Path('/proc').glob('[0-9]*'):
        with suppress(OSError):
            named = str(clone.results).encode() in (process / 'environ').read_bytes()
            if named and int(process.name) != os.getpid() and alive(int(process.name)):
                found.append(int(process.name))
    return found


def end_nights(demo, instants):
    """End a night at each of these parts of its time, by a signal to it alone or to its process group."""

    def start_night():
        return subprocess.Popen(
            [sys.executable, '-m', 'ci.nightly', '--no-provision', '--quiet', '--', '-Strials=1'], cwd=demo.root,
            env=demo.environment(), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    before, began = set(of_clone(demo)), time.monotonic()
    start_night().communicate()
    takes = time.monotonic() - began
    for at, number, group in instants:
        night = start_night()
        time.sleep(at * takes)
        (os.killpg if group else os.kill)(night.pid, number)
        said, _ = night.communicate(timeout=60)
        # Python may end before it has a handler; a session that was cut short is stored; the night may be over
        assert night.returncode in (-number, 128 + number, 0, 1), said
        assert 'Traceback' not in said or str(demo.root) not in said, said
        if night.returncode == 128 + number:
            told = 'interrupted' if number == signal.SIGINT else f'ended by {number.name}'
            ends = (f'plumbline: {told}', 'plumbline: ended by you')
            assert sum(line == ends[0] or line.startswith(ends[1]) for line in said.splitlines()) == 1, said
        wait_for(lambda: set(of_clone(demo)) <= before, 20)
        # a report that was not stored yet is stored by the next night
        faults = demo.plumbline('store', 'check').stdout.splitlines()
        assert all(
            'is not in the store' in fault or 'every file is as' in fault or fault[0] == '`' for fault in faults
        ), faults
    after = demo.nightly('--', '-Strials=1')
    if 'is in the store already' in after.stdout:  # told to end between storing and judging: this one only judged
        after = demo.nightly('--', '-Strials=1')
    assert after.returncode in (0, 1) and 'Traceback' not in after.stdout + after.stderr, after.stdout + after.stderr
    assert ': 1 case, 2 samples' in after.stdout, after.stdout
    checked = demo.plumbline('store', 'check')
    assert checked.returncode == 0, checked.stdout


def test_a_night_that_is_told_to_end_while_it_measures_or_stores(demo):
    end_nights(demo, [(0.5, signal.SIGTERM, True), (0.9, signal.SIGHUP, False)])


@pytest.mark.slow
def test_a_night_that_is_told_to_end_at_20_instants(demo):
    chosen, numbers = random.Random(34), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    end_nights(demo, [(chosen.random(), chosen.choice(numbers), chosen.random() < 0.5) for _ in range(20)])


def test_results_are_never_for_more_users_than_their_folder_whatever_the_umask(demo):
    """Of plain ReFrame and of `plumbline`; a night starts both."""
    (demo.root / 'results').mkdir(exist_ok=True)
    (demo.root / 'results').chmod(0o750)
    reframe = 'reframe -C reframe_settings/settings.py -c checks/demo.py -r -Strials=1'
    store, show = (f'python -m plumbline {words}' for words in ('ingest results/reports/*.json', 'report latest'))
    for command in (reframe, store, show):
        answer = demo.run('sh', '-c', f'umask 0; exec {command}', PLUMBLINE_RESULTS=str(demo.root / 'results'))
        assert answer.returncode in (0, 1), answer.stdout + answer.stderr
    made = [demo.root / 'results', *(demo.root / 'results').rglob('*')]
    assert {'report.html', 'rfm_job.out', 'sessions'} <= {path.name for path in made}
    others = stat.S_IWGRP | stat.S_IRWXO
    assert [path for path in made if not path.is_symlink() and path.stat().st_mode & others] == []
