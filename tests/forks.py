# SPDX-License-Identifier: BSD-3-Clause
"""Programs of ours in forks of one process that has loaded their libraries: half a second less for each start.

The parts of the product are not loaded there: each fork takes those of its clone. What a test is to signal, or to find
by the environment of its process, must be a process of its own.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

LIBRARIES = (
    'reframe.frontend.cli', 'reframe.core.launchers.mpi', 'reframe.core.schedulers.local',
    'reframe.core.schedulers.slurm', 'reframe.frontend.executors.policies', 'archspec.cpu', 'jsonschema.validators',
    'yaml', 'numpy', 'pandas', 'pyarrow.compute', 'pyarrow.parquet', 'duckdb', 'jinja2', 'typer', 'typer.testing',
)  # fmt: skip


class Forks:
    """The process that forks, until this one ends."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        atexit.register(self.end)

    def end(self) -> None:
        self._socket.close()
        self._server.wait()

    def run(self, words: list[str], cwd: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Run ``reframe OPTIONS`` or ``MODULE OPTIONS`` as :func:`subprocess.run` does."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = json.dumps({'words': words, 'cwd': str(cwd), 'env': env}).encode()
            self._socket.settimeout(timeout)
            socket.send_fds(self._socket, [request], [out.fileno(), err.fileno()])
            pid = int(self._socket.recv(64))
            try:
                code = int(self._socket.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._socket.recv(64)
                raise subprocess.TimeoutExpired(words, timeout) from None
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode().replace('\r\n', '\n'))
        return subprocess.CompletedProcess(words, code, *texts)


@functools.cache
def forks() -> Forks:
    return Forks()


def serve(requests: socket.socket) -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    sys.path.pop(0)  # the folder of the tests
    gc.freeze()
    while True:
        message, streams, *_ = socket.recv_fds(requests, 2**20, 2)
        if not message:
            return
        if (pid := os.fork()) == 0:
            requests.close()
            for number, stream in enumerate(streams, start=1):
                os.dup2(stream, number)
            end(**json.loads(message))
        for stream in streams:
            os.close(stream)
        requests.send(str(pid).encode())
        requests.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def end(words: list[str], cwd: str, env: dict[str, str]) -> None:
    """Become the program, and end as it does."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    code: object = 1
    try:
        code = become(words, cwd)
    except SystemExit as error:
        code = error.code
    except BaseException:  # as Python does at the end of a program
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(int(code or 0))  # the exit functions of libraries, which know of no fork, do not run


def become(words: list[str], cwd: str) -> object:
    program, *_ = sys.argv[:] = words
    if program == 'reframe':
        from reframe.core.logging import shutdown
        from reframe.frontend.cli import main

        sys.path.insert(0, str(Path(sys.executable).parent))
        sys.argv[0] = str(Path(sys.executable).with_name('reframe'))
        try:
            return main()
        finally:
            shutdown()
    sys.path.insert(0, cwd)
    runpy.run_module(program, run_name='__main__', alter_sys=True)
    return 0


if __name__ == '__main__':
    with socket.socket(fileno=int(sys.argv[1])) as one:
        serve(one)
