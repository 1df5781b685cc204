# SPDX-License-Identifier: BSD-3-Clause
"""The two looks at a node, before the first trial and after the last one; and whether there is time for one more."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from plumbline.paths import ROOT

LOAD = ROOT / 'checks/core/job/parts/load.sh'


def look(folder, *words, script=LOAD, **variables):
    answer = subprocess.run(
        ['bash', script, *words], cwd=folder, capture_output=True, text=True, check=True, env=os.environ | variables
    )
    assert not answer.stderr
    return answer.stdout


def after(folder):
    """What the node did beside a benchmark since the look in load.txt."""
    facts = dict(line.split('=') for line in look(folder, 'after', 'load.txt').splitlines())
    return float(facts['load_beside']), float(facts['cpu_steal'])


@contextmanager
def busy_cpu():
    """A process that keeps one CPU busy."""
    program = 'print(flush=True)\nwhile True: pass'
    with subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE) as burner:
        burner.stdout.readline()
        try:
            yield
        finally:
            burner.kill()


def test_the_load_beside_is_that_of_the_quieter_look(tmp_path):
    """What the benchmark before or ReFrame itself still does for a moment is no load beside this one."""
    with busy_cpu():
        busy, steal, seen = look(tmp_path, 'before').splitlines()[0].split()
        found = []
        for first in (seen, 3, 0):  # hundredths of a CPU; after none there is no second look
            (tmp_path / 'load.txt').write_text(f'{busy} {steal} {first}\n')
            found.append(after(tmp_path))
    (load, steal), (quieter, _), (none, _) = found
    assert load > 0.5 and 0 <= steal <= 100 and (quieter, none) == (0.03, 0)


def test_stolen_time_is_that_since_the_first_look(tmp_path):
    busy, steal, beside = map(int, look(tmp_path, 'before').splitlines()[0].split())
    # as if since then 1000 hundredths of a second were wanted, and a tenth of them stolen
    (tmp_path / 'load.txt').write_text(f'{busy - 900} {steal - 100} {beside}\n')
    _, stolen = after(tmp_path)
    assert 5 < stolen <= 10.5


CPUS = 'sys/devices/system/cpu'
NODE = {
    f'{CPUS}/cpu0/cpufreq/scaling_governor': 'ondemand', f'{CPUS}/cpu11/cpufreq/scaling_governor': 'ondemand',
    'proc/sys/kernel/hostname': 'n1',
    f'{CPUS}/intel_pstate/no_turbo': '0', 'sys/kernel/mm/transparent_hugepage/enabled': 'always [madvise] never',
}  # fmt: skip


@pytest.fixture
def node(tmp_path):
    """A look at files of its own in place of those of the kernel."""
    for name, value in NODE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + '\n')
    script = tmp_path / 'load.sh'
    text = re.sub(r'/(sys/(?:devices|kernel)|proc/sys)/', lambda found: f'{tmp_path}/{found[1]}/', LOAD.read_text())
    script.write_text(text.replace('$EUID', '${AS:-$EUID}'))
    for name in ('health.sh', 'counters.sh'):
        shutil.copy(LOAD.with_name(name), tmp_path)

    run = partial(look, tmp_path, script=script)
    (tmp_path / 'load.txt').write_text(run('before'))
    return run


@pytest.mark.parametrize(('user', 'then'), [('0', 'set back'), ('1000', '')])
def test_what_a_benchmark_changed_is_named_and_root_sets_it_back(node, tmp_path, user, then):
    node('after', 'load.txt')
    assert (tmp_path / 'changes.txt').read_text() == ''
    changed = dict.fromkeys(NODE, 'performance') | {
        'proc/sys/kernel/hostname': 'n1', f'{CPUS}/intel_pstate/no_turbo': '1',
        'sys/kernel/mm/transparent_hugepage/enabled': '[always] madvise never',
    }  # fmt: skip
    for name, value in changed.items():
        (tmp_path / name).write_text(value + '\n')
    node('changes', 'load.txt', AS=user)
    said = sorted((tmp_path / 'changes.txt').read_text().splitlines())
    for line, parts in zip(said, [
        ('cpufreq/scaling_governor', 'ondemand', 'performance', '2 CPUs', then),
        ('intel_pstate/no_turbo', '0', '1', then), ('transparent_hugepage/enabled', 'madvise', 'always', then),
    ], strict=True):  # fmt: skip
        assert [part for part in parts if part not in line] == [], line
    found = {name: (tmp_path / name).read_text().strip() for name in NODE}
    assert found == (NODE | {'sys/kernel/mm/transparent_hugepage/enabled': 'madvise'} if then else changed)


def test_gpus_are_looked_at_until_the_last_trial_has_ended(node, tmp_path):
    """The first look comes ten seconds after the first trial began; here the sampler has said something before."""
    shutil.copy(LOAD.with_name('share.sh'), tmp_path)
    (tmp_path / 'gpus.sh').write_text('echo "0 1410 398 61"; echo > said; exec sleep 600\n')
    (tmp_path / 'load.txt').write_text(node('before', PLUMBLINE_GPU='cuda'))
    pid = int((tmp_path / 'gpus.pid').read_text())
    while not (tmp_path / 'said').exists():
        os.kill(pid, 0)
    node('after', 'load.txt', PLUMBLINE_GPU='cuda')
    assert not (tmp_path / 'gpus.pid').exists() and (tmp_path / 'gpus.txt').read_text() == '0 1410 398 61\n'
    while Path(f'/proc/{pid}/exe').exists():
        pass


@pytest.mark.parametrize(
    ('trial', 'elapsed', 'code'),
    [(1, 7100, 0), (3, 7000, 0), (3, 7081, 1)],  # 7200 - 60 - half as long again as 40 s
)
def test_no_trial_begins_that_would_not_end_in_time(tmp_path, trial, elapsed, code):
    for number, name, uptime in ((1, 'started', 100), (1, 'ended', 120), (2, 'started', 100), (2, 'ended', 140)):
        (tmp_path / f'trial_{number}').mkdir(exist_ok=True)
        clocks = f'1700000000.000000 {uptime}.00 1700000000.000000000 {uptime}.01\n'
        (tmp_path / f'trial_{number}' / name).write_text(clocks)
    words = ['bash', LOAD.with_name('time_left.sh'), str(trial), '100', '7200', str(elapsed)]
    answer = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (code, '')
    said = dict(line.split('=', 1) for line in answer.stdout.splitlines())
    assert list(said) == (['trials_run', 'trials_not_run', 'trials_left_out'] if code else [])
    if code:
        assert said['trials_run'] == '2'
        assert said['trials_left_out'].startswith('98 of 100 trials: one takes up to 41 s')
