# SPDX-License-Identifier: BSD-3-Clause
"""The job script of a case: activation of the stack, then trials, and in each trial the executions of the program."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path

from checks.core.job.spec import JobSpec
from checks.core.placement import UNBOUND, Execution
from checks.core.reading.outputs import CLOCKS, JOB_ENDED
from plumbline.errors import SiteError
from plumbline.site.sites import Environ
from plumbline.stacks.install import BringUp, StackError
from plumbline.stacks.manifest import Installed

# The trap of a job that ends early. A job with a trap of its own, to clean up a file system, changes no node.
COMPARE_AT_EXIT = (
    'started_in=$PWD; '
    """trap '[ -e "$started_in/changes.txt" ] || """
    """{ cd "$started_in" && bash ./load.sh changes load.txt >> provenance.txt; }' EXIT"""
)

# A decimal comma in the times that the shell tells would be no number to the parts, and none in an output to its
# reader. rank.sh does the same, for ranks to which the launcher takes no variables
DECIMAL_POINT = '[[ $EPOCHREALTIME = *.* ]] || { unset LC_ALL; export LC_NUMERIC=C; }'


class ShellText(str):
    """An option of a program that is not quoted, so that the job's shell expands it."""


def prerun(spec: JobSpec) -> list[str]:
    """Return the lines of the job script before the line that starts the program.

    Parts that need no process of their own are read by a fork of the script's shell, ``(. ./part)``: a new shell takes
    three times as long, and on many clusters first reads $BASH_ENV.
    """
    unbound = ' '.join(f'{name}={value}' for name, value in UNBOUND.items())
    variables = ' '.join(spec.variables)
    late = f'(. ./time_left.sh $trial {spec.trials} {spec.seconds} $SECONDS) >> provenance.txt || break'
    return [
        f'unset {" ".join(spec.placement.unset)}',
        *_restarted(spec),
        *activation(spec.stack, spec.installed),
        DECIMAL_POINT,
        *[f'export {unbound}'] * spec.mpi,  # after the modules of the site, which may set them
        f'(. ./provenance.sh {shlex.quote(spec.program)}) > provenance.txt',
        COMPARE_AT_EXIT,
        *spec.before,
        '(. ./load.sh before) > load.txt',
        *spec.meters.before,
        *['declare -A started'] * spec.concurrent,
        *[f'of_job=$(declare -px {variables} 2> /dev/null || true)'] * bool(variables),
        f'for trial in {" ".join(str(i + 1) for i in range(spec.trials))}; do',
        *[late] * spec.hurries,
        f'until=$((SECONDS + {spec.trial_limit}))',
        f'mkdir trial_$trial trial_$trial/{next(iter(spec.runs))}',
        *spec.meters.started,
        f'{CLOCKS} > trial_$trial/started',
        f'for run in {" ".join(spec.runs)}; do',
        *['[ -d trial_$trial/$run ] || mkdir trial_$trial/$run'] * (len(spec.runs) > 1),
        *[f'cp {shlex.join(spec.inputs)} trial_$trial/$run/'] * bool(spec.inputs),
        'cd trial_$trial/$run',
        *[f'unset {variables}; eval "$of_job"'] * bool(variables),  # what the run before has set
        'case $run in',
        *(_case(name, of) for name, of in spec.runs.items()),
        'esac',
        'code=0',
    ]


def _restarted(spec: JobSpec) -> list[str]:
    """Return the lines that restart the script on its compute node, where the scheduler starts it elsewhere."""
    start = f'{spec.launch} bash ./rfm_job.sh'
    lines = ['if [ -z "$PLUMBLINE_ON_NODE" ]; then', 'export PLUMBLINE_ON_NODE=1', start, 'exit', 'fi']
    return lines if spec.elsewhere else []


def end_at_limit() -> tuple[str, list[str]]:
    """Return the program before the launcher that ends a run at the time limit of its trial, and its options.

    It stays in the process group of the job script, so that it ends with the job, and passes on the signal.
    """
    return 'timeout', ['--foreground', '--kill-after=30', '$((until > SECONDS ? until - SECONDS : 1))']


def command(spec: JobSpec) -> tuple[str, list[str]]:
    """Return the program that the launcher starts, with rank.sh before it, and the rest of its command line."""
    program = [] if any(of.program for of in spec.runs.values()) else [spec.program]
    options = ['"${options[@]}"', '> stdout', '2> stderr', '& started[$run]=$!' if spec.concurrent else '|| code=$?']
    through = ['bash', '../../rank.sh', *spec.placement.wrapper] if spec.through_rank else []
    return shlex.join([*through, *program]), options


def postrun(spec: JobSpec) -> list[str]:
    """Return the lines of the job script after the program; they write its exit code into the folder of the run.

    A run without that file was still running when its job ended. The last line is reached if nothing failed, because
    ReFrame ends the script at the first failure.
    """
    show = f'(. ./show.sh %s trial_$trial {shlex.quote(spec.output)})'
    ended = '[ -e "trial_$trial/$run/time_limit" ]'  # then the next trial runs; any other failure ends the job
    late = f'((SECONDS < until)) || (. ./time_limit.sh {spec.trial_limit} "trial_$trial/$run" $code)'
    if spec.concurrent:  # if one fails, the others must not keep running
        lines = [
            'cd ../..', 'done', 'failed=0', 'for run in "${!started[@]}"; do', 'code=0',
            'wait "${started[$run]}" || code=$?', 'echo $code > "trial_$trial/$run/exit_code"',
            late, f'[ $code = 0 ] || {ended} || failed=$code', 'done; started=()',
            f'[ $failed = 0 ] || {show % "$failed"}',
        ]  # fmt: skip
    else:
        lines = ['echo $code > exit_code', 'cd ../..', late, f'[ $code = 0 ] || {ended} || {show % "$code"}']
        lines += [f'! {ended} || break'] * (len(spec.runs) > 1) + ['done']
    lines += [
        f'{CLOCKS} > trial_$trial/ended',
        *spec.meters.ended,
        show % 0,
        'done',
        *spec.meters.after,
        '(. ./load.sh after load.txt) >> provenance.txt',
    ]
    return [*lines, *spec.after, f': > "$started_in/{JOB_ENDED}"']


def _case(name: str, of: Execution) -> str:
    exports = ''.join(f' export {key}={shlex.quote(value)};' for key, value in of.variables.items())
    options = [of.program, *of.options] if of.program else of.options
    words = ' '.join(word if isinstance(word, ShellText) else shlex.quote(word) for word in options)
    before = f'; {of.before} ' if of.before else ''
    return f'{name}){exports} options=({words}) {before};;'


def activation(stack: Environ, installed: Installed | None = None) -> list[str]:
    """Return the lines that put the programs of `stack` on PATH, and end the job if one of them fails."""
    lines = [f'# stack {stack.name}, provider {stack.provider}']
    for module in stack.modules:
        sentence = shlex.quote(f'plumbline: stack {stack.name}: module load {module} failed')
        lines.append(f'module load {shlex.quote(module)} || {{ echo {sentence} >&2; exit 1; }}')
    if stack.prefix:
        programs = shlex.quote(str(Path(stack.prefix) / 'bin'))
        sentence = f'plumbline: stack {stack.name}: its prefix {stack.prefix} has no folder bin on this node'
        # Else others of PATH would run
        lines.append(f'[ -d {programs} ] || {{ echo {shlex.quote(sentence)} >&2; exit 1; }}')
        lines.append(f'export PATH={programs}:"$PATH"')
    if installed:
        lines.append(f'source {shlex.quote(str(installed.activation))} || exit 1')
    lines += [f'export {name}={shlex.quote(value)}' for name, value in stack.env_vars]
    return lines


@functools.cache
def bring_up(installed: Installed) -> str | None:
    """Install a stack that is not up to date; return why that failed, None on success.

    This is not a fixture: ReFrame would create one for each partition in each check file, which takes two thirds of the
    time of listing all checks on 50 partitions.
    """
    try:
        if installed.fault():
            BringUp(installed).run()
    except (StackError, SiteError) as error:
        return str(error)
    return None
