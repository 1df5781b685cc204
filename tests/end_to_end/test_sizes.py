# SPDX-License-Identifier: BSD-3-Clause
"""What all checks of a mode are sized for, on machines that do not exist: dry runs, whose records hold the sizes."""

import json

import pytest
from scratch import ScratchClone

ALL = ('hpcc', 'hpl', 'hpcg', 'likwid', 'multichase', 'babelstream-omp', 'osu', 'ior', 'mdtest')
MACHINE = """\
processor:
  {arch: ARCH, num_cpus: CORES, num_cpus_per_core: 1, num_sockets: SOCKETS,
   caches: {L1: {size: 32 KiB, num_cpus: 1}, L3: {size: CACHE, num_cpus: SHARING}}}
memory_per_node: MEMORY
file_systems: {disk: {path: /tmp, kind: any, size: 512 MiB}, memory: {path: /dev/shm, kind: tmpfs, size: 256 MiB}}
"""
VM = {'ARCH': 'zen4', 'CORES': '2', 'SOCKETS': '1', 'SHARING': '2', 'MEMORY': '24 GiB'}
BIG = {'ARCH': 'zen4', 'CORES': '192', 'SOCKETS': '2', 'SHARING': '8', 'MEMORY': '768 GiB'}
MACHINES = {
    'two cores': VM | {'CACHE': '32 MiB'},
    'two slow cores that report 480 MiB': VM | {'CACHE': '480 MiB', 'ARCH': 'x86_64', 'MEMORY': '8 GiB'},
    '192 cores of two large caches': BIG | {'CACHE': '480 MiB', 'SHARING': '96'},
}
PER_CASE = 3  # seconds that ReFrame and the job take besides


@pytest.fixture(scope='module', params=MACHINES)
def cases(request, tmp_path_factory):
    """Every case of quick on such a machine, by the name of its check."""
    clone = ScratchClone(tmp_path_factory.mktemp('sizes'))
    text = MACHINE
    for word, value in MACHINES[request.param].items():
        text = text.replace(word, value)
    clone.describe(text, *ALL)
    report = clone.results / 'report.json'
    answer = clone.reframe(
        '--system=demo', '--dry-run', '--mode=quick', '--name=^(?!Demo)', f'--report-file={report}', checks='checks',
        PLUMBLINE_SITE='demo',
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout
    found = json.loads(report.read_text())['runs'][0]['testcases']
    assert len(found) == 12
    return request.param, found


def test_quick_ends_in_ten_minutes(cases):
    _, found = cases
    assert sum(PER_CASE + case['trials'] * case['trial_seconds'] for case in found) <= 600


def test_what_the_caches_judge_is_beyond_them_or_informational(cases):
    machine, found = cases
    judged = {}
    for case in found:
        for name, metric in case['record']['metrics'].items():
            series = metric['series']
            judged[case['name'].split()[0], name] = all(one['judged'] for one in series) if series else None
    provenance = {case['name'].split()[0]: case['record']['provenance'] for case in found}
    # HPL alone of 407 s with the N that four times 105 MiB ask for; the budget of a trial is 55 s
    assert int(provenance['HPCC']['hpl_n']) < (100_000 if '192' in machine else 8500)
    assert judged['HPCC', 'StarSTREAM_Triad'] is ('report' not in machine)
    assert judged['HPCC', 'SingleSTREAM_Triad'] is False and 'informational_SingleSTREAM' in provenance['HPCC']
    assert judged['HPCC', 'HPL_Tflops'] is True
    assert judged['HPCG', 'gflops'] is ('report' not in machine)
    assert ('informational' in provenance['HPCG'].get('size_cut', '')) is ('report' in machine)
    assert judged['BabelStreamHost', 'bandwidth'] is True  # repeats less often instead
    assert ('480 MiB for 2 cores' in provenance['OsuLatency'].get('caches', '')) is ('480' in machine)


def test_trials_and_budget_of_the_command_line_win_over_mode_and_check(tmp_path_factory):
    clone, told = ScratchClone(tmp_path_factory.mktemp('trials')), tmp_path_factory.mktemp('told') / 'budgets'
    for words in (['-S', 'trials=2', '--mode=nightly'], ['--mode=nightly', '-S', 'Demo.trials=2']):
        answer = clone.reframe('-n', 'Demo', '-l', '-S', 'trial_seconds=7', *words, PLUMBLINE_BUDGETS=str(told))
        assert answer.returncode == 0, answer.stdout
    assert [line.split()[1] for line in told.read_text().splitlines()] == ['14', '14']
