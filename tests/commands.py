# SPDX-License-Identifier: BSD-3-Clause
"""The `plumbline` command line inside the process of a test."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from typer.main import get_command
from typer.testing import CliRunner

from postprocess.cli import app

_COMMAND = get_command(app)  # Typer's `invoke` makes all commands anew each time, which takes longer than many of them


@dataclass(frozen=True)
class Answer:
    """What a command printed: `stdout`, `stderr`, and `output`, both as a terminal shows them."""

    exit_code: int
    stdout: str
    stderr: str
    output: str


def run_command(
    words: Iterable[object], env: Mapping[str, str | None] | None = None, input: str | None = None
) -> Answer:
    """Run ``plumbline WORDS``; `env` is added to the environment, `input` is typed. Raises what was not foreseen."""
    code = 0
    with CliRunner().isolation(input, env) as streams:
        try:
            _COMMAND.main([str(word) for word in words], prog_name='plumbline')
        except SystemExit as end:
            code = end.code
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        texts = [stream.getvalue().decode().replace('\r\n', '\n') for stream in streams]
    return Answer(code, *texts)
