# SPDX-License-Identifier: BSD-3-Clause
"""The job script of a case: activation of the stack, then trials, and in each trial the runs of the program.

`check` is the :class:`checks.core.benchmark.Benchmark` whose attributes say what to run.
"""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from checks.core import budget
from checks.core.job import node_sweep
from checks.core.meters.energy import metering_of
from checks.core.placement import UNBOUND
from checks.core.reading.outputs import CLOCKS
from plumbline.errors import SiteError
from plumbline.site.mpi import FAMILIES
from plumbline.site.schedulers import ON_LAUNCH_NODES, scheduler
from plumbline.site.sites import Environ
from plumbline.stacks.install import BringUp, StackError
from plumbline.stacks.manifest import Installed

# The trap of a job that ends early. A job with a trap of its own, to clean up a file system, changes no node.
COMPARE_AT_EXIT = (
    'started_in=$PWD; '
    """trap '[ -e "$started_in/changes.txt" ] || """
    """{ cd "$started_in" && bash ./load.sh changes load.txt >> provenance.txt; }' EXIT"""
)


class ShellText(str):
    """An option of a program that is not quoted, so that the job's shell expands it."""


def limit_time(check):
    """Set the time limit of the job to that of all trials, at most what the queue allows."""
    needed = budget.seconds_of_job(check.trials, check.trial_time_limit) + metering_of(check).seconds
    most = check.partition.max_time or math.inf
    check.hurries = not check.time_limit and most < needed
    check.time_limit = f'{min(check.time_limit or needed, most):.0f}s'


def pass_buffers_of_gpus(check):
    """Make MPI pass GPU buffers without a copy through the host if the check has such buffers; else switch it off."""
    if not check.stack.mpi or check.device_buffers is None:
        return
    aware = FAMILIES[check.stack.mpi]
    if check.device_buffers:
        check.env_vars |= aware.env_vars.get(check.placement.gpu, {})
        check.job.launcher.options += aware.options.get(check.job.launcher.registered_name, [])
    else:
        check.env_vars |= aware.off


def on_all_nodes(check) -> str:
    """Return the command that starts a process on each node under Slurm, or for each rank under other schedulers."""
    if scheduler(check.partition.entry['scheduler']).is_slurm:
        return node_sweep.on_each_node(check.num_nodes)
    check.job.num_tasks, check.job.num_tasks_per_node = check.num_tasks, check.num_tasks_per_node
    return check.job.launcher.run_command(check.job)


def write_inputs(check):
    """Write the inputs of settings.sh (expected settings), energy.sh (meters) and load.sh (how to reach other nodes).

    If the settings are in `required.tsv`, rank.sh refuses nodes that differ from them.
    """
    lines = ''.join(f'{key}\t{wanted}\n' for key, wanted in check.topology.expects)
    if lines:
        Path(check.stagedir, check.expected_settings).write_text(lines, encoding='utf-8')
    if check.mpi and check.num_nodes > 1:
        Path(check.stagedir, 'on_all_nodes').write_text(f'{on_all_nodes(check)}\n', encoding='utf-8')
    if table := metering_of(check).table:
        Path(check.stagedir, 'energy.meters').write_text(table, encoding='utf-8')


def prerun(check, activation: Sequence[str]) -> list[str]:
    """Return the lines of the job script before the line that starts the program of a run.

    Parts that need no process of their own are read by a fork of the script's shell, ``(. ./part)``: a new shell takes
    three times as long, and on many clusters first reads $BASH_ENV.
    """
    meters = metering_of(check)
    unbound = ' '.join(f'{name}={value}' for name, value in UNBOUND.items())
    return [
        f'unset {" ".join(check.placement.unset)}',
        *_to_compute_node(check),
        *activation,
        *([f'export {unbound}'] if check.mpi else []),  # after the modules of the site, which may set them
        f'(. ./provenance.sh {shlex.quote(check.executable)}) > provenance.txt',
        COMPARE_AT_EXIT,
        *check.before_trials,
        '(. ./load.sh before) > load.txt',
        *meters.before,
        *['declare -A started'] * check.concurrent,
        f'for trial in {" ".join(str(i + 1) for i in range(check.trials))}; do',
        *(_unless_late(check) if check.hurries else ()),
        f'until=$((SECONDS + {check.trial_time_limit}))',
        f'mkdir trial_$trial trial_$trial/{next(iter(check.runs))}',
        *meters.look('started'),
        f'{CLOCKS} > trial_$trial/started',
        f'for run in {" ".join(check.runs)}; do',
        *['[ -d trial_$trial/$run ] || mkdir trial_$trial/$run'] * (len(check.runs) > 1),
        *([f'cp {shlex.join(check.inputs)} trial_$trial/$run/'] if check.inputs else ()),
        'cd trial_$trial/$run',
        'case $run in',
        *(_case(check, name, options) for name, options in check.runs.items()),
        'esac',
        'code=0',
    ]


def _to_compute_node(check) -> list[str]:
    """Return the lines that restart the script on its compute node, for machines that run job scripts on a launch node.

    Empty for a check with MPI: its script must stay where it can start ranks.
    """
    if check.mpi or check.is_local() or check.partition.entry['launcher'] not in ON_LAUNCH_NODES:
        return []
    check.job.num_tasks, check.job.num_tasks_per_node = check.num_tasks, check.num_tasks_per_node
    start = f'{check.job.launcher.run_command(check.job)} bash ./rfm_job.sh'
    return ['if [ -z "$PLUMBLINE_ON_NODE" ]; then', 'export PLUMBLINE_ON_NODE=1', start, 'exit', 'fi']


def _unless_late(check) -> list[str]:
    """Return the line that ends the trials before the time that the queue allows a job is over."""
    return [f'(. ./time_left.sh $trial {check.trials} {int(check.time_limit)} $SECONDS) >> provenance.txt || break']


def end_at_limit() -> tuple[str, list[str]]:
    """Return the program before the launcher that ends a run at the time limit of its trial, and its options.

    It stays in the process group of the job script, so that it ends with the job, and passes on the signal.
    """
    return 'timeout', ['--foreground', '--kill-after=30', '$((until > SECONDS ? until - SECONDS : 1))']


def command(check) -> tuple[str, list[str]]:
    """Return the program that the launcher starts, with rank.sh before it, and the rest of its command line."""
    program = [] if check.own_programs else [check.executable]
    options = ['"${options[@]}"', '> stdout', '2> stderr', '& started[$run]=$!' if check.concurrent else '|| code=$?']
    through = [] if check.starts_ranks else ['bash', '../../rank.sh', *check.wrapper]
    return shlex.join([*through, *program]), options


def postrun(check) -> list[str]:
    """Return the lines of the job script after the program; they write its exit code into the folder of the run.

    A run without that file was still running when its job ended.
    """
    meters, show = metering_of(check), f'(. ./show.sh %s trial_$trial {shlex.quote(check.output)})'
    ended = '[ -e "trial_$trial/$run/time_limit" ]'  # then the next trial runs; any other failure ends the job
    late = f'((SECONDS < until)) || (. ./time_limit.sh {check.trial_time_limit} "trial_$trial/$run" $code)'
    if check.concurrent:  # if one fails, the others must not keep running
        lines = [
            'cd ../..', 'done', 'failed=0', 'for run in "${!started[@]}"; do', 'code=0',
            'wait "${started[$run]}" || code=$?', 'echo $code > "trial_$trial/$run/exit_code"',
            late, f'[ $code = 0 ] || {ended} || failed=$code', 'done; started=()',
            f'[ $failed = 0 ] || {show % "$failed"}',
        ]  # fmt: skip
    else:
        lines = ['echo $code > exit_code', 'cd ../..', late, f'[ $code = 0 ] || {ended} || {show % "$code"}']
        lines += [f'! {ended} || break'] * (len(check.runs) > 1) + ['done']
    lines += [
        f'{CLOCKS} > trial_$trial/ended',
        *meters.look('ended'),
        show % 0,
        'done',
        *meters.after,
        '(. ./load.sh after load.txt) >> provenance.txt',
    ]
    return [*lines, *check.after_trials]


def _case(check, name: str, options: Sequence[str]) -> str:
    exports = ''.join(f' export {key}={shlex.quote(value)};' for key, value in check.run_env.get(name, {}).items())
    words = ' '.join(word if isinstance(word, ShellText) else shlex.quote(word) for word in options)
    before = f'; {check.before_run[name]}' if name in check.before_run else ''
    return f'{name}){exports} options=({words}) {before}{" " if before else ""};;'


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
