# SPDX-License-Identifier: BSD-3-Clause
"""Ask the process that forks (forks.py) for a program. Imports little: it starts in place of the program."""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


class Fork:
    """A program that the server forks; killed when this process closes the connection or ends. `pid`: its process."""

    def __init__(self, server: str, words: Sequence[str], cwd: str, env: Mapping[str, str], streams: Sequence[int]):
        request = json.dumps({'words': [*words], 'cwd': cwd, 'env': dict(env)}).encode()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(server)
        socket.send_fds(self._socket, [request], streams)
        self.pid = int(self._socket.recv(64))

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, or minus the number of the signal that killed it. Raises TimeoutError."""
        with self._socket:
            self._socket.settimeout(timeout)
            return int(self._socket.recv(64))


def become(words: Sequence[str]) -> None:
    """Run a program in a fork with the output of this process; pass signals on to it, and end as it ends."""
    fork = Fork(os.environ['TESTS_FORKS'], words, os.getcwd(), os.environ, (1, 2))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(fork.pid, number))
    code = fork.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == '__main__':
    become(sys.argv[1:])
