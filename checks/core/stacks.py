"""Brings up the stack of a partition once, and leaves one activation file for the jobs of all its cases."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.exceptions import SanityError

from checks.core.topology import current_site
from site_configs import SiteError, Stack
from site_configs.places import ROOT
from site_configs.spack import Installed

ACTIVATION = 'activate.sh'


def activation(stack: Stack, installed: Installed | None = None) -> str:
    """The shell lines that put the benchmarks of `stack` on PATH; sourced by the jobs, returns non-zero on failure."""
    lines = [f'# stack {stack.name}, provider {stack.provider}']
    for module in stack.modules:
        sentence = shlex.quote(f'plumbline: stack {stack.name}: module load {module} failed')
        lines.append(f'module load {shlex.quote(module)} || {{ echo {sentence} >&2; return 1; }}')
    if stack.prefix:
        lines.append(f'export PATH={shlex.quote(str(Path(stack.prefix) / "bin"))}:"$PATH"')
    if installed:
        lines.append(f'source {shlex.quote(str(installed.activation))} || return 1')
    lines += [f'export {name}={shlex.quote(value)}' for name, value in stack.env_vars]
    return '\n'.join([*lines, 'return 0', ''])


class StackFixture(rfm.RunOnlyRegressionTest):
    """Installs the stack where it is not up to date, writes its activation file and sources it once on this host."""

    descr = 'stack of benchmarks'
    local = True
    executable = f'source ./{ACTIVATION}'
    installed: Installed | None = None
    #: Without meaning here: ``-S trials=N`` reaches fixtures too, and ReFrame warns of those that do not know it.
    trials = variable(int, value=1)

    @run_before('run')
    def bring_up(self):
        site, partition = current_site(), self.current_partition.name
        stack = site.stacks[self.current_environ.name]
        self.installed = Installed(site.name, partition, stack.name) if stack.provider == 'spack' else None
        Path(self.stagedir, ACTIVATION).write_text(activation(stack, self.installed), encoding='utf-8')
        if self.installed and not self.is_dry_run():
            try:
                fault = self.installed.fault()
            except SiteError as error:
                raise SanityError(str(error)) from None
            if fault:
                install = shlex.join([sys.executable, '-m', 'checks.core.spack', site.name, partition, stack.name])
                self.prerun_cmds = [f'PYTHONPATH={shlex.quote(str(ROOT))} {install} || exit 1']

    @run_before('sanity')
    def say_what_failed(self):
        if self.is_dry_run():
            return
        said = Path(self.stagedir, str(self.job.stderr)).read_text(encoding='utf-8', errors='replace').splitlines()
        if ours := [line for line in said if line.startswith('plumbline: ')]:
            raise SanityError(ours[-1].removeprefix('plumbline: '))

    @sanity_function
    def is_up(self):
        return True  # a failing line of the file ends the job with its exit code, and trap_job_errors fails the test

    @property
    def provenance(self) -> dict[str, Any]:
        """What the cases of a Spack stack carry with them; nothing for other providers."""
        return self.installed.provenance() if self.installed else {}
