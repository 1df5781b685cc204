# SPDX-License-Identifier: BSD-3-Clause
"""Ask the process that forks (forks.py) for a program. Imports little: it starts in place of the program."""

import json
import os
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence


class Fork:
    """A program that the server forks; killed when this process closes the connection or ends. `pid`: its process.

    `streams`: by the number that a file has in the program, its number in this process.
    """

    def __init__(self, server: str, words: Sequence[str], cwd: str, env: Mapping[str, str], streams: Mapping[int, int]):
        os.umask(umask := os.umask(0))
        request = {'words': [*words], 'cwd': cwd, 'env': dict(env), 'umask': umask, 'numbers': [*streams]}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(server)
        socket.send_fds(self._socket, [json.dumps(request).encode()], [*streams.values()])
        self.pid = int(self._socket.recv(64))

    def close_all_others(self) -> None:
        """Close all files of this process but its first three and the connection."""
        os.closerange(3, self._socket.fileno())
        os.closerange(self._socket.fileno() + 1, os.sysconf('SC_OPEN_MAX'))

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, or minus the number of the signal that killed it. Raises TimeoutError."""
        with self._socket:
            self._socket.settimeout(timeout)
            return int(self._socket.recv(64))


def become(words: Sequence[str], passed: Iterable[int] = ()) -> None:
    """Run a program in a fork with the output of this process and the files `passed`; pass signals on to it, and end as
    it ends."""
    fork = Fork(os.environ['TESTS_FORKS'], words, os.getcwd(), os.environ, {n: n for n in (1, 2, *passed)})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(fork.pid, number))
    fork.close_all_others()
    code = fork.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
