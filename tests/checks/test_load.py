"""The two looks at a node, before the first trial and after the last one."""

import subprocess
import sys
from contextlib import contextmanager

from plumbline.paths import ROOT

LOAD = ROOT / 'checks/core/job/load.sh'


def look(folder, *words):
    answer = subprocess.run(['bash', LOAD, *words], cwd=folder, capture_output=True, text=True, check=True)
    assert not answer.stderr
    return answer.stdout


@contextmanager
def busy_cpu():
    """A process that keeps one CPU busy."""
    with subprocess.Popen(
        [sys.executable, '-c', 'print(flush=True)\nwhile True: pass'], stdout=subprocess.PIPE
    ) as burner:
        burner.stdout.readline()
        try:
            yield
        finally:
            burner.kill()


def facts(text):
    return {name: float(value) for name, value in (line.split('=') for line in text.splitlines())}


def test_a_process_that_runs_all_the_time_is_seen(tmp_path):
    with busy_cpu():
        (tmp_path / 'load.txt').write_text(look(tmp_path, 'before'))
        found = facts(look(tmp_path, 'after', 'load.txt'))
    assert found['load_beside'] > 0.5
    assert 0 <= found['cpu_steal'] <= 100 and found.get('clock_throttled', 0) >= 0


def test_the_quieter_look_counts(tmp_path):
    """What the benchmark before or ReFrame itself still does for a moment is no load beside this one."""
    with busy_cpu():
        busy, steal, throttled, _ = look(tmp_path, 'before').split()
        (tmp_path / 'load.txt').write_text(f'{busy} {steal} {throttled} 3\n')  # the first look saw 0.03 CPUs
        found = facts(look(tmp_path, 'after', 'load.txt'))
    assert found['load_beside'] == 0.03


def test_stolen_time_and_throttling_are_those_since_the_first_look(tmp_path):
    busy, steal, _, beside = map(lambda word: int(word) if word != '-' else 0, look(tmp_path, 'before').split())
    # as if since then 1000 hundredths of a second were wanted, and a tenth of them stolen
    (tmp_path / 'load.txt').write_text(f'{busy - 900} {steal - 100} - {beside}\n')
    assert 5 < facts(look(tmp_path, 'after', 'load.txt'))['cpu_steal'] <= 10.5
