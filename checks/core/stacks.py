"""Brings up the stack of a partition once, and leaves one activation file for the jobs of all its cases."""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm

from checks.core.topology import current_site
from site_configs import Stack

ACTIVATION = 'activate.sh'


def activation(stack: Stack) -> str:
    """The shell lines that put the benchmarks of `stack` on PATH; sourced by the jobs, returns non-zero on failure."""
    lines = [f'# stack {stack.name}, provider {stack.provider}']
    for module in stack.modules:
        sentence = shlex.quote(f'plumbline: stack {stack.name}: module load {module} failed')
        lines.append(f'module load {shlex.quote(module)} || {{ echo {sentence} >&2; return 1; }}')
    if stack.prefix:
        lines.append(f'export PATH={shlex.quote(str(Path(stack.prefix) / "bin"))}:"$PATH"')
    lines += [f'export {name}={shlex.quote(value)}' for name, value in stack.env_vars]
    return '\n'.join([*lines, 'return 0', ''])


class StackFixture(rfm.RunOnlyRegressionTest):
    """Writes the activation file of one environment of one partition and sources it once on this host."""

    descr = 'stack of benchmarks'
    local = True
    executable = f'source ./{ACTIVATION}'
    #: Without meaning here: ``-S trials=N`` reaches fixtures too, and ReFrame warns of those that do not know it.
    trials = variable(int, value=1)

    @run_before('run')
    def write_activation_file(self):
        stack = current_site().stacks[self.current_environ.name]
        Path(self.stagedir, ACTIVATION).write_text(activation(stack), encoding='utf-8')

    @sanity_function
    def is_up(self):
        return True  # a failing line of the file ends the job with its exit code, and trap_job_errors fails the test
