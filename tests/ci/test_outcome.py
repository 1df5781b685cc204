# SPDX-License-Identifier: BSD-3-Clause
"""What a command keeps when a step after the measurement crashes."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from scratch import wait_for

from ci import command, isolated, outcome
from ci.process import Process
from plumbline.errors import InputError


@isolated.isolated
def killed(*_):
    os.kill(os.getpid(), signal.SIGSEGV)


@isolated.isolated
def wrong():
    return {}['nothing']


@isolated.isolated
def killed_while_it_answers():
    def send(self, answer):
        self._send(struct.pack('!i', 1000) + b'half')
        os.kill(os.getpid(), signal.SIGKILL)

    Connection.send = send


@isolated.isolated
def refused():
    raise InputError('reports/x.json: cannot be read')


@isolated.isolated
def interrupted() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return 'went on'


@isolated.isolated
def process() -> int:
    return os.getpid()


@isolated.isolated
def sleeping(path: Path) -> int:
    path.write_text(str(os.getpid()))
    time.sleep(60)
    return 0


def test_steps_share_a_process_beside_the_command_that_ends_before_reframe_measures(tmp_path):
    first, second = process(), process()
    assert first == second != os.getpid()
    assert Path(f'/proc/{first}').exists()
    measures = ['sh', '-c', f'echo "there: $(ls -d /proc/{first})"']
    Process(measures, tmp_path / 'log', tmp_path, time.monotonic() + 60, {}).wait()
    assert (tmp_path / 'log').read_text().splitlines()[-1] == 'there: '
    assert process() not in (first, os.getpid())


def test_after_a_crash_or_where_nothing_is_left_of_it_the_next_step_has_another_process():
    first = process()
    with pytest.raises(isolated.CrashError):
        killed()
    second = process()
    assert second != first
    os.kill(second, signal.SIGKILL)
    wait_for(lambda: 'Z' in Path(f'/proc/{second}/stat').read_text().split()[2])
    assert process() != second


@pytest.mark.parametrize(
    ('function', 'error', 'words'),
    [
        (killed, isolated.CrashError, 'killed: ended by SIGSEGV'), (refused, InputError, 'cannot be read'),
        (killed_while_it_answers, isolated.CrashError, 'killed_while_it_answers: ended by SIGKILL'),
    ],
)  # fmt: skip
def test_a_crash_is_an_error_that_says_how_and_an_input_error_stays_one(function, error, words):
    with pytest.raises(error, match=words):
        function()


def test_the_traceback_of_a_crash_is_printed():
    steps = "from test_outcome import wrong; wrong() if __name__ == '__main__' else None"
    here = Path(__file__).resolve().parent
    variables = os.environ | {'PYTHONPATH': f'{here}:{here.parent}:{here.parent.parent}'}
    answer = subprocess.run([sys.executable, '-c', steps], env=variables, capture_output=True, text=True, check=False)
    assert "KeyError: 'nothing'" in answer.stderr and 'CrashError: wrong: ended with' in answer.stderr


def test_an_interrupt_at_the_terminal_is_left_to_the_command():
    assert interrupted() == 'went on'


def test_an_interrupt_while_a_step_loads_libraries_is_one_line():
    steps = """
import os, signal, sys, threading, time
from pathlib import Path
from ci import command, so_far

def interrupt():
    while not any(b'spawn_main' in path.read_bytes() for path in Path('/proc').glob('[0-9]*/cmdline')
                  if os.access(path, os.R_OK) and f'PPid:\\t{os.getpid()}\\n' in (path.parent / 'status').read_text()):
        time.sleep(0.01)
    time.sleep(0.1)
    os.killpg(0, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sys.exit(command.exit_code_of(lambda: so_far.store(Path('none'), Path('none'), 0, []), Path))
"""
    answer = subprocess.run(
        [sys.executable, '-c', steps], cwd=Path(__file__).parents[2], start_new_session=True, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (answer.returncode, answer.stderr) == (130, 'plumbline: interrupted\n')


@pytest.mark.parametrize(
    ('number', 'code', 'words'),
    [(signal.SIGINT, 130, 'interrupted'), (signal.SIGHUP, 129, 'ended by SIGHUP')],
)
def test_a_signal_outside_a_run_is_one_line(tmp_path, capsys, number, code, words):
    before = signal.getsignal(number)
    assert command.exit_code_of(lambda: os.kill(os.getpid(), number), lambda: tmp_path) == code
    assert capsys.readouterr().err == f'plumbline: {words}\n'
    assert signal.getsignal(number) == before


def test_a_signal_ends_a_step_and_its_process(tmp_path):
    pid = tmp_path / 'pid'

    def end_it():
        while not pid.exists() or not pid.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    ender = threading.Thread(target=end_it)
    ender.start()
    assert command.exit_code_of(lambda: sleeping(pid), lambda: tmp_path) == 143
    ender.join()
    assert not Path('/proc', pid.read_text()).exists()


def test_the_page_does_not_lose_the_verdict(tmp_path):
    """Nothing is stored there."""
    look = outcome.look_back(tmp_path, 'uuid')
    assert (look.lines, look.needs_attention) == ([], False) and look.faults[0].startswith('the page was not written: ')
