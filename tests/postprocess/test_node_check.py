# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline node-check` on this machine, with stand-ins for its programs, its load and its past."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run_command
from health_stand_in import EDAC, Node
from run_reports import Workplace
from scratch import ROOT

from plumbline.machine.node import processor_of, this_node
from plumbline.node_check import benchmarks, jobs, looks
from postprocess.node_check import CheckedNode, take_looks

SITE = """\
descr: a site
hostnames: [nowhere]
partitions:
  - name: one
    scheduler: local
    launcher: local
    environs: [system]
    processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}
    expects: {hugepages: HUGEPAGES}
  - {name: two, scheduler: local, launcher: local, environs: [system]}
environments:
  - {name: system, provider: system, prefix: /usr, features: []}
"""
HUGEPAGES = Path('/proc/sys/vm/nr_hugepages').read_text().strip()
MORE = str(int(HUGEPAGES) + 1)


class OneNode:
    """This machine as node n1: its programs print `rates`, others keep `busy` CPUs, and the `jobs` beside it run."""

    def __init__(self, folder: Path):
        self.folder, self.results, self.jobs, self.busy = folder, folder / 'results', [], 0.0
        self.checks = self.results / 'node-checks'
        self.checks.mkdir(parents=True)
        (folder / 'sites/box').mkdir(parents=True)
        self.expects(HUGEPAGES)
        (folder / 'bin').mkdir()
        self.rates()

    def expects(self, hugepages: str) -> None:
        (self.folder / 'sites/box/site.yaml').write_text(SITE.replace('HUGEPAGES', hugepages))

    def rates(self, memory: str = '10000.00') -> None:
        self.program('likwid-bench', f'touch {self.folder}/calls', f'printf "MByte/s:\\t\\t{memory}\\n"')
        self.program('openssl', 'echo "sha256         1500000.00k"')

    def program(self, name: str, *lines: str) -> None:
        path = self.folder / 'bin' / name
        path.write_text('\n'.join(['#!/bin/sh', *lines, '']))
        path.chmod(0o755)

    def past(self, name: str, memory: list[float]) -> None:
        """Write the checks of a node as the command does, at its first two rates."""
        environ = re.sub(r'[^\w.-]+', '_', processor_of(this_node())['model']).strip('_')
        domains = [domain for domain, _, _ in benchmarks.node_of(processor_of(this_node()), 0).domains]
        rows = ['session,time,partition,environ,check,params,metric,dims,unit,better,value,node,trial']
        for number, value in enumerate(memory):
            begin = f'{number},2026-11-01T00:00:{number:02},one,{environ},NodeCheck'
            for work, metric, unit, rate in (
                ('program=likwid-bench,work=load', 'memory_bandwidth', 'GB/s', value),
                ('program=openssl,work=sha256', 'core_rate', 'MB/s', 1500.0),
            ):
                rows += [f'{begin},"{work}",{metric},numa_domain={of},{unit},higher,{rate},{name},1' for of in domains]
        (self.checks / f'{name}.csv').write_text('\n'.join(rows) + '\n')

    def __call__(self, *words: str):
        # not --sites, which would stay in the environment of this process
        env = {'PLUMBLINE_SITE': 'box', 'PLUMBLINE_SITES': str(self.folder / 'sites')}
        return run_command(['node-check', '--results', self.results, *words], env=env)


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setenv('SLURMD_NODENAME', 'n1')
    monkeypatch.delenv('SLURM_JOB_PARTITION', raising=False)
    monkeypatch.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
    found = OneNode(tmp_path)
    monkeypatch.setattr(jobs, 'jobs', lambda epilog: [] if epilog else found.jobs)
    monkeypatch.setattr(jobs.Busy, 'cpus', lambda self: found.busy)
    monkeypatch.setattr('time.sleep', lambda seconds: None)
    return found


def looked(*rates, limits=(95.0,), beside=0.0):
    given = iter(rates)
    return take_looks(lambda: ([next(given)], beside), list(limits), quiet=0.5, pause=0)


def test_a_low_rate_is_looked_at_eight_times_and_one_good_look_ends_it():
    assert looked(96.0) == ([[96.0]], [96.0])
    assert looked(90.0, 91.0, 97.0) == ([[90.0], [91.0], [97.0]], [97.0])
    rates, best = looked(*[90.0] * 7, 91.0)
    assert (len(rates), best) == (8, [91.0])
    assert looked(1.0, limits=(None,)) == ([[1.0]], [1.0])
    with pytest.raises(ValueError, match=r'^others kept 1\.0 CPUs busy in 16 of 16 looks$'):
        looked(*[90.0] * 16, beside=1.0)


def test_a_planted_loss_drains_and_its_repair_does_not(node):
    node.past('n1', [10.0, 10.02, 9.98, 10.01, 9.99] * 10)
    before = (node.checks / 'n1.csv').read_text()
    assert node('--partition', 'one').exit_code == 0
    node.rates(memory='9000.00')
    answer = node('--partition', 'one')
    assert answer.exit_code == 1
    assert answer.stdout.startswith('ERROR:  plumbline:  Health check failed:  memory_bandwidth: numa_domain=0: 9 GB/s')
    assert '-10 % in the best of 8 looks; usual 10, lowest 9.5' in answer.stdout and answer.stdout.count('\n') == 1
    reason = node('--partition', 'one', '--drain-reason')
    assert reason.exit_code == 1 and reason.stdout.startswith('plumbline: memory_bandwidth: numa_domain=0: 9 GB/s')
    assert (node.checks / 'n1.csv').read_text().startswith(before)
    with (node.checks / 'n1.drained.csv').open(newline='') as stream:
        rows = [row for row in csv.DictReader(stream) if row['metric'] == 'memory_bandwidth' and row['dims'][-1] == '0']
    assert [(float(row['value']), row['trial']) for row in rows] == [(9.0, str(k)) for k in range(1, 9)] * 2
    node.rates()
    assert node('--partition', 'one', '--drain-reason').stdout == ''
    answer = node('--partition', 'one', '--details')
    assert answer.exit_code == 0 and answer.stdout.startswith('OK:  plumbline:  n1: 1 settings, ')
    assert 'numa_domain=0: 10 GB/s, usual 10, lowest 9.5' in answer.stdout


def test_what_was_measured_is_read_by_ingest_and_what_is_not_judged_is_told(node, tmp_path):
    answer = node('--partition', 'one', '--details')
    assert answer.exit_code == 0 and 'rates, 0 of them judged' in answer.stdout
    assert 'not judged yet: 0 earlier checks' in answer.stdout
    assert 'network bandwidth (needs a second node)' in answer.stdout
    (tmp_path / 'work').mkdir()
    work = Workplace(tmp_path / 'work')
    stored = work.run('ingest', node.checks / 'n1.csv', '--format', 'table', '--site', 'cluster')
    assert stored.exit_code == 0, stored.output


def test_a_slow_new_node_is_found_by_its_peers_and_a_damaged_peer_is_named(node):
    for number in range(2, 11):
        node.past(f'n{number}', [10.0, 10.02, 9.98])
    node.rates(memory='8000.00')
    with (node.checks / 'n10.csv').open('a') as stream:
        stream.write('5,2026-11-01')  # n10 writes this line
    answer = node('--partition', 'one')
    assert answer.exit_code == 1 and '8 GB/s, -20 %' in answer.stdout
    (node.checks / 'n9.csv').write_text('session,value\n1,2\n')
    node.rates()
    answer = node('--partition', 'one')
    assert answer.exit_code == 0 and 'warning: ' in answer.stdout and 'n9.csv:2: expected a row' in answer.stdout


def test_a_setting_that_differs_and_devices_that_are_lost(node):
    node.expects(MORE)
    answer = node('--partition', 'one', '--settings-only')
    assert answer.exit_code == 1
    assert f'settings: hugepages: expected {MORE}, found {HUGEPAGES}' in answer.stdout
    node.expects(HUGEPAGES)
    kept = json.loads((node.checks / 'n1.json').read_text())
    cpus = kept['devices']['cpus']
    kept['devices'] |= {'cpus': 2 * cpus, 'nic_rate mlx5_9': 200}
    (node.checks / 'n1.json').write_text(json.dumps(kept))
    for _ in range(2):  # it stays lost
        answer = node('--partition', 'one', '--settings-only', '--drain-reason')
        assert answer.exit_code == 1 and f'cpus: {cpus:g}, was {2 * cpus:g}' in answer.stdout
        assert 'nic_rate mlx5_9: was 200' in answer.stdout
    assert not (node.checks / 'n1.csv').exists()


def test_uncorrected_errors_since_the_last_check_drain_and_corrected_ones_are_told(tmp_path, monkeypatch):
    stand_in = Node(tmp_path / 'node')
    monkeypatch.setattr(looks, 'PARTS', stand_in.folder)
    monkeypatch.setenv('PATH', f'{stand_in.folder}/bin:/usr/bin:/bin')
    errors, counts = stand_in.folder / EDAC / 'mc1', tmp_path / 'n1.counts'
    errors.mkdir(parents=True)
    for name in ('ue_count', 'ce_count'):
        (errors / name).write_text('0\n')
    text, facts = looks.counters(counts, gpus=False)
    assert facts == {}  # nothing is known of an earlier time
    counts.write_text(text)
    assert looks.growth(looks.counters(counts, gpus=False)[1]) == ([], [])
    (errors / 'ue_count').write_text('1\n')
    (errors / 'ce_count').write_text('7\n')
    hard, soft = looks.growth(looks.counters(counts, gpus=False)[1])
    assert hard == ['uncorrected memory errors +1 on mc1'] and soft == ['corrected memory errors +7 on mc1']


def test_jobs_are_known_by_their_processes(tmp_path, monkeypatch):
    words = ('slurmstepd: [12.batch]', 'slurmstepd: [13.0]', '/usr/bin/slurmstepd infinity', 'sh')
    for number, line in enumerate(words):
        (tmp_path / f'proc/{number}').mkdir(parents=True)
        (tmp_path / f'proc/{number}/cmdline').write_text(f'{line}\0')
    folder = tmp_path / 'var/spool/pbs/mom_priv/jobs'
    folder.mkdir(parents=True)
    (folder / '7.pbs.JB').touch()
    monkeypatch.setenv('SLURM_JOB_ID', '12')
    assert jobs.jobs(root=tmp_path) == ['12', '13', '7.pbs']
    assert jobs.jobs(epilog=True, root=tmp_path) == ['13', '7.pbs']  # that of another user stays


def test_no_benchmark_runs_beside_a_job_or_on_a_busy_node(node):
    node.jobs = ['12']
    answer = node('--partition', 'one')
    assert answer.exit_code == 3 and 'no benchmark runs beside job 12' in answer.stdout
    assert node('--partition', 'one', '--settings-only').exit_code == 0
    assert not (node.folder / 'calls').exists()
    most = max(0.25, 0.02 * processor_of(this_node())['num_cpus'])  # a quarter of a CPU, or two percent of all
    node.busy = most + 0.05
    answer = node('--partition', 'one', '--epilog')
    assert answer.exit_code == 3 and f'others keep {most + 0.05:.1f} CPUs busy' in answer.stdout
    assert not (node.folder / 'calls').exists() and node('--drain-reason').stdout == ''
    node.busy = most - 0.05
    assert node('--partition', 'one', '--epilog').exit_code == 0 and (node.folder / 'calls').exists()


def test_a_program_that_fails_or_prints_no_rate_leaves_the_check_open(node):
    node.program('likwid-bench', 'echo nothing')
    answer = node('--partition', 'one')
    assert answer.exit_code == 3 and 'likwid-bench printed no rate at numa_domain=0' in answer.stdout
    node.program('likwid-bench', 'exit 4')
    answer = node('--partition', 'one')
    assert answer.exit_code == 3 and 'likwid-bench ended with 4 at numa_domain=0' in answer.stdout


def test_what_cannot_be_read_is_not_known(node):
    node.program('bash', 'exit 4')
    answer = node('--partition', 'one', '--settings-only')
    assert answer.exit_code == 3
    assert [part for part in ('settings: ', 'devices: ', 'counters: ') if part not in answer.stdout] == []


def test_wrong_input_is_one_sentence(node):
    answer = node('--partition', 'tow', '--settings-only')
    assert (answer.exit_code, answer.stdout) == (2, '')
    assert '--partition tow: ' in answer.stderr and 'did you mean two?' in answer.stderr
    answer = node('--settings-only')
    assert answer.exit_code == 0 and 'choose with --partition' in answer.stdout
    (node.checks / 'n1.csv').write_text('session,value\n1,2\n')
    answer = node('--partition', 'one')
    assert answer.exit_code == 2 and 'n1.csv:2: expected a row of a node check' in answer.stderr
    (node.checks / 'n1.json').write_text('{')
    answer = node('--partition', 'one')
    assert answer.exit_code == 2 and 'n1.json: ' in answer.stderr


def test_what_a_check_keeps_is_open_to_nobody_to_whom_the_results_are_closed(node):
    node.checks.rmdir()
    node.results.chmod(0o750)
    before = os.umask(0)
    try:
        assert node('--partition', 'one').exit_code == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (node.checks, *node.checks.iterdir())}
    assert modes.pop('node-checks') == 0o750 and {*modes.values()} == {0o640}


def test_gpus_and_domains_are_places_of_their_own():
    caches = [{'type': 'L3', 'size': 2**25, 'cpusets': ['0xf', '0xf0']}]
    processor = {
        'num_cpus_per_core': 2, 'topology': {'numa_nodes': ['0x33', '0xcc'], 'sockets': ['0xff'], 'caches': caches,
                                             'cores': ['0x11', '0x22', '0x44', '0x88']},
    }  # fmt: skip
    node = benchmarks.node_of(processor, gpus=2)
    assert node.domains == [(0, [0, 1], 2**26), (1, [2, 3], 2**26)]
    by_program = {(one.program, one.work): list(one.places(node)) for one in benchmarks.BENCHMARKS}
    (words,) = by_program['likwid-bench', 'load'][1].commands
    assert ' '.join(words) == 'likwid-bench -t load -s 1 -w M1:268435kB:2:1:2'  # 4 x 64 MiB
    assert [place.dims for place in by_program['cuda-stream', 'triad']] == [{'gpu': '0'}, {'gpu': '1'}]
    assert by_program['openssl', 'sha256'][1].commands[1][:3] == ['taskset', '-c', '3']


def test_settings_alone_load_no_library_of_arrays(tmp_path):
    script = (
        'import sys; from pathlib import Path; from postprocess.node_check import check; '
        f"check(Path({str(tmp_path)!r}), 'none', 'p', True, False); "
        "print(sorted({'numpy', 'pandas', 'pyarrow', 'reframe', 'scipy'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout == '[]\n'


@pytest.mark.parametrize(('fields', 'code', 'begin', 'has'), [
    ({'done': ['2 rates']}, 0, 'OK:', 'n1: 2 rates'), ({'undecided': ['x']}, 3, 'UNKNOWN:', 'not known: x'),
    ({'faults': [('hpl', 'slow'), ('ecc', 'grew')], 'undecided': ['x']}, 1, 'ERROR:', 'hpl: slow; ecc: grew'),
    ({'notes': ['warm'], 'lacking': ['a', 'b']}, 0, 'OK:', 'warning: warm; not measured: a, b'),
])  # fmt: skip
def test_the_outcome_of_a_check_is_one_line_and_a_code(fields, code, begin, has):
    found = CheckedNode('n1', **fields)
    assert found.exit_code == code and found.line.startswith(begin) and has in found.line
    assert bool(found.reason) == (code == 1)
