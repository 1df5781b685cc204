# SPDX-License-Identifier: BSD-3-Clause
"""Compare what a job script asks for with its node and with the limits that its site states.

What only an installed scheduler knows, such as accounts, sbatch says where it is asked.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plumbline.machine.node import cores_of, number_of_gpus
from plumbline.programs import TIME_LIMIT
from plumbline.site.job_directives import DIRECTIVES, Asked, directives_of, read_directives
from plumbline.site.sites import Partition

ScriptFault = tuple[int, str, str]  # line, what it asks for, why it would be rejected or ignored


def faults_of_script(text: str, partition: Partition) -> Iterator[ScriptFault]:
    """Yield what a job script asks for beyond its node and queue, and what it should ask for and does not."""
    if partition.entry['scheduler'] in DIRECTIVES:
        lines = text.splitlines()
        yield from _beyond_limits(read_directives(lines, partition.entry['scheduler']), partition, _cpus_used(lines))


def refusals_of_sbatch(scripts: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    """Ask ``sbatch --test-only``, which submits nothing; yield each script that it refuses, and why.

    `scripts`: path -> text. Of those that ask for the same, it is asked about the first.
    """
    asked = set()
    for path, text in scripts.items():
        directives = frozenset(
            option for _, option in directives_of(text.splitlines(), '#SBATCH') if 'rfm_' not in option
        )
        if directives in asked:
            continue
        asked.add(directives)
        try:
            answer = subprocess.run(
                ['sbatch', '--test-only', path], capture_output=True, text=True, check=False, timeout=TIME_LIMIT,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            yield path, f'did not answer within {TIME_LIMIT:g} s'
            return
        if answer.returncode:
            yield path, ' '.join(answer.stderr.split()) or f'ended with {answer.returncode}'


def may_be_submitted(missing: set[str]) -> bool:
    """Return whether the environment of the user states the words that scripts of Slurm lack."""
    variables = {'account': 'SBATCH_ACCOUNT', 'qos': 'SBATCH_QOS', 'queue': 'SBATCH_PARTITION'}
    return all(os.environ.get(variables[word]) for word in missing)


def missing_words(text: str, partition: Partition) -> list[str]:
    """Return which of account, QOS and queue the site requires and a script lacks; only the user knows them."""
    wanted = [word for word in partition.entry.get('queue', {}).get('needs', []) if word in ('account', 'qos', 'queue')]
    if not wanted or partition.entry['scheduler'] not in DIRECTIVES:
        return []
    asked = read_directives(text.splitlines(), partition.entry['scheduler'])
    return [word for word in wanted if word not in asked.words]


def _beyond_limits(asked: Asked, partition: Partition, used: dict[int, int]) -> Iterator[ScriptFault]:
    """Yield what exceeds the partition, or is not asked for. `used`: CPU of a rank -> the line that binds it."""
    line, processor, queue = asked.lines, partition.processor, partition.entry.get('queue', {})
    if asked.seconds is None and 'time' in line:
        yield line['time'], 'time limit', 'expected one in days, hours, minutes and seconds'
    elif asked.seconds is None:
        yield 1, 'time limit', 'none is stated: the default of the queue would end the job'
    elif partition.max_time and asked.seconds > partition.max_time:
        allowed = f'max_time of {partition.name} allows {partition.max_time} s'
        yield line['time'], 'time limit', f'{asked.seconds} s, and {allowed}'
    if 'num_nodes' in partition.entry and asked.nodes > partition.num_nodes:
        yield line.get('nodes', 1), 'nodes', f'{asked.nodes}, and {partition.name} has {partition.num_nodes}'
    if not asked.exclusive:
        why = 'whole nodes are not asked for: other jobs would run beside the benchmark'
        yield line.get('exclusive', 1), 'exclusive', why
    for word in ('constraint', 'gpus'):
        if word in queue.get('needs', []) and not (asked.words.get(word) or (word == 'gpus' and asked.gpus)):
            yield 1, word, f'none is stated, and {partition.name} needs one: add it to access in site.yaml'
    gpus = number_of_gpus(partition.entry)
    if asked.gpus is not None and asked.gpus > gpus:
        yield line['gpus'], 'gpus', f'{asked.gpus} of a node, and it has {gpus}'
    if processor:
        yield from _cpus(asked, partition, used)


def _cpus(asked: Asked, partition: Partition, used: dict[int, int]) -> Iterator[ScriptFault]:
    processor, queue, line = partition.processor, partition.entry.get('queue', {}), asked.lines
    of_core, cpus, per_core = cores_of(processor), processor['num_cpus'], processor['num_cpus_per_core']
    cores, threads = len(of_core), asked.threads_per_core or queue.get('threads_per_core', per_core)
    if threads > per_core:
        yield line.get('threads', 1), 'threads-per-core', f'{threads}, and a core has {per_core}'
    for_system = asked.system_cores if asked.system_cores is not None else queue.get('system_cores', 0)
    available = sum(min(threads, len(core)) for core in of_core) - for_system * min(threads, per_core)
    wanted = max(asked.cpus or 0, asked.tasks_per_node)
    if wanted > available:
        why = (
            f'{threads} of {per_core} threads of {cores - for_system} cores'
            if threads < per_core or for_system
            else 'a node has'
        )
        yield line.get('cpus', line.get('tasks', 1)), 'cpus', f'{wanted} of a node, and the job gets {available}: {why}'
    beyond = sorted(set(used).difference(*of_core))
    further = {cpu for core in of_core for cpu in core[1:] if not processor.get('consecutive_threads')}
    second = sorted(further & used.keys())
    if beyond:
        yield used[beyond[0]], 'PLUMBLINE_CPUS', f'CPU {beyond[0]}, and a node has {cpus}'
    elif threads == 1 < per_core and second:
        option = f'--threads-per-core={per_core}'
        yield (
            used[second[0]],
            'PLUMBLINE_CPUS',
            f'CPU {second[0]} is a second hardware thread; jobs get one without {option}',
        )
    elif asked.confined and asked.cpus is not None and used and max(len(used), max(used) + 1) > asked.cpus:
        yield (
            line['cpus'], 'cpus', f'{asked.cpus} of a node, and a rank is bound to CPU {max(used)}: ask for all {cpus}'
        )  # fmt: skip
    elif for_system and (of_system := sorted(set(used) & _reserved(processor))):
        why = f'CPU {of_system[0]} is of a core that is kept for the system: see reserved_cores in site.yaml'
        yield used[of_system[0]], 'PLUMBLINE_CPUS', why
    elif for_system > len(processor.get('reserved_cores', ())) and used:
        why = f'{for_system} cores are kept for the system: -S 0 gives the job all, or state them as reserved_cores'
        yield used[min(used)], 'PLUMBLINE_CPUS', why


def _reserved(processor: dict[str, Any]) -> set[int]:
    """Return the hardware threads of the cores that no job gets."""
    return {cpu for core in cores_of(processor) if core[0] in processor.get('reserved_cores', ()) for cpu in core}


def _cpus_used(lines: list[str]) -> dict[int, int]:
    """Return the CPUs that ranks of the job are bound to, and the line of each."""
    used: dict[int, int] = {}
    for number, text in enumerate(lines, start=1):
        for listed in re.findall(r'PLUMBLINE_CPUS=[\'"]?([0-9,:]+)', text):
            for cpu in re.split('[,:]', listed):
                used.setdefault(int(cpu), number)
    return used
