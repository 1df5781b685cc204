"""How a job gets at the benchmarks of its stack; brings a stack of Spack up first where it is not up to date."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path

from plumbline.errors import SiteError
from plumbline.sites import Environ
from plumbline.stacks.install import BringUp, StackError
from plumbline.stacks.manifest import Installed


def activation(stack: Environ, installed: Installed | None = None) -> list[str]:
    """The lines of a job's script that put the benchmarks of `stack` on PATH, and end the job where one fails."""
    lines = [f'# stack {stack.name}, provider {stack.provider}']
    for module in stack.modules:
        sentence = shlex.quote(f'plumbline: stack {stack.name}: module load {module} failed')
        lines.append(f'module load {shlex.quote(module)} || {{ echo {sentence} >&2; exit 1; }}')
    if stack.prefix:
        lines.append(f'export PATH={shlex.quote(str(Path(stack.prefix) / "bin"))}:"$PATH"')
    if installed:
        lines.append(f'source {shlex.quote(str(installed.activation))} || exit 1')
    lines += [f'export {name}={shlex.quote(value)}' for name, value in stack.env_vars]
    return lines


@functools.cache
def bring_up(installed: Installed) -> str | None:
    """Installs a stack where it is not up to date, once in a run of ReFrame; why it is not up, None where it is.

    Not a fixture: ReFrame makes one anew for each partition in each check file, which took two thirds of the time of
    listing all checks on 50 partitions.
    """
    try:
        if installed.fault():
            BringUp(installed).run()
    except (StackError, SiteError) as error:
        return str(error)
    return None
