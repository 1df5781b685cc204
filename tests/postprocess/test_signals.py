# SPDX-License-Identifier: BSD-3-Clause
"""Commands that are told to end at any instant: one line, the exit code of the signal, a store that is whole."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from run_reports import case, metric, report
from scratch import ROOT

COMMANDS = ('compare', 'report', 'status', 'ingest')
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def start(work):
    """A function: start a command on a store of 20 sessions as a process, the leader of its group."""
    work.ingest(*(report(case(metrics={'triad': metric([1.0, 2.0])}), uuid=f'{n:04x}') for n in range(20)))
    new = work.write(report(case(metrics={'triad': metric([1.0, 2.0])}), uuid='ffff'))

    def run(name: str, path=new) -> subprocess.Popen:
        words = [name, *([str(path)] if name == 'ingest' else ['--references', str(work.sites)])]
        return subprocess.Popen(
            [sys.executable, '-m', 'plumbline', *words, '--results', str(work.results)],
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return run


def ends_well(process, number, group):
    (os.killpg if group else os.kill)(process.pid, number)
    said, errors = process.communicate(timeout=60)
    if str(ROOT) in errors or 'Traceback' not in errors:  # Python itself may end before it has read a line of ours
        assert len(errors.splitlines()) <= 1, errors
    # before its first line a process has no handler yet, and when it has done all it has its own code
    assert process.returncode in (128 + number, -number, 0, 1), (said, errors)
    if process.returncode == 128 + number:
        assert errors in ('plumbline: interrupted\n', f'plumbline: ended by {number.name}\n')
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return process.returncode == 128 + number


def at_instants(work, start, name, instants):
    for _ in range(2):  # the first one may compile
        began = time.monotonic()
        start(name).communicate()
    takes = time.monotonic() - began
    ended = 0
    for at, number, group in instants:
        process = start(name)
        time.sleep(at * takes)
        ended += ends_well(process, number, group)
    assert work.run('store check').exit_code == 0
    assert work.run('compare').exit_code in (0, 1)
    return ended


@pytest.mark.parametrize(('number', 'group'), [*zip(NUMBERS, (True, False, True), strict=True)])
def test_a_command_that_is_told_to_end_while_it_reads(work, start, tmp_path, number, group):
    os.mkfifo(tmp_path / 'endless.json')
    process = start('ingest', tmp_path / 'endless.json')
    with (tmp_path / 'endless.json').open('wb'):  # which it has opened by now
        assert ends_well(process, number, group)
    assert work.run('store check').exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize('name', COMMANDS)
def test_a_command_that_is_told_to_end_at_20_instants(work, start, name):
    chosen = random.Random(34)
    instants = [(chosen.random(), chosen.choice(NUMBERS), chosen.random() < 0.5) for _ in range(20)]
    assert at_instants(work, start, name, instants) >= 3
