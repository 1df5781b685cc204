"""The job script of a case: activation of the stack, then trials, and in each trial the runs of the program."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plumbline.errors import SiteError
from plumbline.sites import Environ
from plumbline.stacks.install import BringUp, StackError
from plumbline.stacks.manifest import Installed

CLOCKS = 'read -r uptime _ < /proc/uptime; echo $EPOCHREALTIME $uptime'  # the second one cannot be set


class ShellText(str):
    """An option of a program that the job's shell expands, so that it is not quoted."""


@dataclass(frozen=True)
class JobScript:
    """What the job of one case runs.

    `runs`: name -> options of the program; `run_env`: name -> variables of that run; `before_run`: name -> a shell
    command just before it. `before_trials`, `after_trials`: lines around all trials. For the rest see
    :class:`checks.core.benchmark.Benchmark`.
    """

    executable: str
    runs: Mapping[str, Sequence[str]]
    trials: int
    activation: Sequence[str]
    unset: Sequence[str]
    run_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    before_run: Mapping[str, str] = field(default_factory=dict)
    inputs: Sequence[str] = ()
    wrapper: Sequence[str] = ()
    own_programs: bool = False
    concurrent: bool = False
    output: str = 'stdout'
    before_trials: Sequence[str] = ()
    after_trials: Sequence[str] = ()

    def prerun(self) -> list[str]:
        """Return the lines before the program."""
        return [
            f'unset {" ".join(self.unset)}',
            *self.activation,
            f'bash ./provenance.sh {shlex.quote(self.executable)} > provenance.txt',
            *self.before_trials,
            f'for trial in {" ".join(str(i + 1) for i in range(self.trials))}; do',
            'mkdir trial_$trial',
            f'{CLOCKS} > trial_$trial/started',
            f'for run in {" ".join(self.runs)}; do',
            'mkdir trial_$trial/$run',
            *(f'cp {shlex.quote(name)} trial_$trial/$run/' for name in self.inputs),
            'cd trial_$trial/$run',
            'case $run in',
            *(self._case(name, options) for name, options in self.runs.items()),
            'esac',
        ]

    def command(self) -> tuple[str, list[str]]:
        """Return what the launcher starts, and its options."""
        program = [] if self.own_programs else [self.executable]
        then = '& started+=($!)' if self.concurrent else f'|| bash ../../show.sh $? .. {shlex.quote(self.output)}'
        options = ['"${options[@]}"', '> stdout', '2> stderr', then]
        return shlex.join(['bash', '../../rank.sh', *self.wrapper, *program]), options

    def postrun(self) -> list[str]:
        """Return the lines after the program."""
        show = f'bash ./show.sh %s trial_$trial {shlex.quote(self.output)}'
        wait_for_all = (  # none may be left running when another has failed
            [
                'code=0; for pid in ${started[@]}; do wait $pid || code=$?; done; started=()',
                f'[ $code = 0 ] || {show % "$code"}',
            ]
            if self.concurrent
            else []
        )
        ended = f'{CLOCKS} > trial_$trial/ended'
        return ['cd ../..', 'done', *wait_for_all, ended, show % 0, 'done', *self.after_trials]

    def _case(self, name: str, options: Sequence[str]) -> str:
        exports = ''.join(f' export {key}={shlex.quote(value)};' for key, value in self.run_env.get(name, {}).items())
        words = ' '.join(word if isinstance(word, ShellText) else shlex.quote(word) for word in options)
        before = f'; {self.before_run[name]}' if name in self.before_run else ''
        return f'{name}){exports} options=({words}) {before}{" " if before else ""};;'


def activation(stack: Environ, installed: Installed | None = None) -> list[str]:
    """Return the lines that put the benchmarks of `stack` on PATH, and end the job where one of them fails."""
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
    """Install a stack that is not up to date, once in a run of ReFrame; return why that failed, None if it is up.

    This is not a fixture: ReFrame creates one for each partition in each check file, which took two thirds of the time
    of listing all checks on 50 partitions.
    """
    try:
        if installed.fault():
            BringUp(installed).run()
    except (StackError, SiteError) as error:
        return str(error)
    return None
