# SPDX-License-Identifier: BSD-3-Clause
"""Programs of ours, and what they start, in forks of one process that has loaded their libraries.

That saves CPU time at each start: of the program, of the ReFrame that it runs and of each step of a night. A fork takes
0.24 s for `plumbline sites`, 0.27 s for ReFrame with a case, 1.1 s for a night of a case; plain processes take 0.56,
0.57 and 2.5 s. Some 350 tests of end_to_end start at least one each: together more than 100 s.

The parts of the product are not loaded there: each fork takes those of its clone. What a test is to signal, or to find
by the environment of its process, must be a process of its own.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

from fork_client import Fork

LIBRARIES = (
    'reframe.frontend.cli', 'reframe.core.launchers.mpi', 'reframe.core.schedulers.local',
    'reframe.core.schedulers.slurm', 'reframe.frontend.executors.policies', 'archspec.cpu', 'jsonschema.validators',
    'yaml', 'numpy', 'pandas', 'pyarrow.compute', 'pyarrow.parquet', 'duckdb', 'jinja2', 'typer', 'typer.testing',
    'pydantic.type_adapter', 'msgspec',
)  # fmt: skip


class Forks:
    """The process that forks, until this one ends. `address`: the socket that :class:`fork_client.Fork` connects to."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix='f')
        self.address = str(Path(folder.name, 'server'))
        self._server = subprocess.Popen(
            [sys.executable, __file__, self.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._server.stdout and self._server.stdout.read(1)  # it listens
        atexit.register(folder.cleanup)
        atexit.register(self.end)

    def end(self) -> None:
        self._server.communicate()

    def run(self, words: list[str], cwd: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        """Run ``reframe OPTIONS`` or ``MODULE OPTIONS`` as :func:`subprocess.run` does."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            fork = Fork(self.address, words, str(cwd), env, [out.fileno(), err.fileno()])
            try:
                code = fork.wait(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired(words, timeout) from None
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode().replace('\r\n', '\n'))
        return subprocess.CompletedProcess(words, code, *texts)


@functools.cache
def forks() -> Forks:
    return Forks()


def serve(address: str) -> None:
    """Fork for each connection, until standard input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    sys.path.pop(0)  # the folder of the tests
    gc.disable()  # a fork ends soon; collection takes up to a twentieth of its time
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the processes of `keep`
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        os.write(1, b'.')
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        while listener in select.select([listener, 0], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                os.dup2(1, 0)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                keep(connection)
                os._exit(0)
            connection.close()


def keep(connection: socket.socket) -> None:
    """Run the requested program to its end; kill it if the client ends before."""
    message, streams, *_ = socket.recv_fds(connection, 2**20, 2)
    if (pid := os.fork()) == 0:
        connection.close()
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
            os.close(stream)
        end(**json.loads(message))
    for stream in streams:
        os.close(stream)
    connection.send(str(pid).encode())
    program = os.pidfd_open(pid)
    if program not in select.select([program, connection], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        connection.send(str(code).encode())


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
    forking = multiprocessing.get_context('fork')
    multiprocessing.get_context = lambda method=None: forking  # also where a step asks for a new Python
    sys.path.insert(0, cwd)
    runpy.run_module(program, run_name='__main__', alter_sys=True)
    return 0


if __name__ == '__main__':
    serve(sys.argv[1])
