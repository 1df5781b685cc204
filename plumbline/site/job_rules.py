# SPDX-License-Identifier: BSD-3-Clause
"""Check a job script by the documented rules of its scheduler and by the limits that its site states.

What only an installed scheduler knows, such as accounts, is not judged. aprun: aprun(1).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from plumbline.machine.node import cores_of
from plumbline.site.job_directives import RULES, Asked, Fault
from plumbline.site.schedulers import ON_LAUNCH_NODES
from plumbline.site.sites import Partition


def faults_of_script(text: str, partition: Partition) -> Iterator[Fault]:
    """Yield what the scheduler of `partition` would reject or ignore in a job script."""
    read = RULES.get(partition.entry['scheduler'])
    if read is None:
        return
    lines, asked = text.splitlines(), Asked()
    yield from read(lines, asked)
    yield from _beyond_limits(asked, partition, _cpus_used(lines))
    yield from _launchers(lines, asked, partition)


def missing_words(text: str, partition: Partition) -> list[str]:
    """Return which of account, QOS and queue the site requires and a script lacks; only the user knows them."""
    asked = Asked()
    if read := RULES.get(partition.entry['scheduler']):
        list(read(text.splitlines(), asked))
    wanted = partition.entry.get('queue', {}).get('needs', [])
    return [word for word in wanted if word in ('account', 'qos', 'queue') and word not in asked.words]


def _beyond_limits(asked: Asked, partition: Partition, used: dict[int, int]) -> Iterator[Fault]:
    """Yield what exceeds the partition, or is not asked for. `used`: CPU of a rank -> the line that binds it."""
    line, processor, queue = asked.lines, partition.processor, partition.entry.get('queue', {})
    if asked.seconds is None:
        yield line.get('time', 1), 'time limit', 'none is stated: the default of the queue would end the job'
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
    gpus = sum(device['num_devices'] for device in partition.entry.get('devices', []) if device['type'] == 'gpu')
    if asked.gpus is not None and asked.gpus > gpus:
        yield line['gpus'], 'gpus', f'{asked.gpus} of a node, and it has {gpus}'
    if processor:
        yield from _cpus(asked, partition, used)


def _cpus(asked: Asked, partition: Partition, used: dict[int, int]) -> Iterator[Fault]:
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


# What starts the ranks inside the job

_LIMITED = re.compile(r'^timeout (--\S+ )*(\$\(\(.*?\)\)|\S+) ')  # before a launcher: the time limit of a trial


def _launchers(lines: list[str], asked: Asked, partition: Partition) -> Iterator[Fault]:
    """Yield what jsrun, PALS's mpiexec and aprun would reject, and programs that would run on the launch node."""
    starts: dict[str, Callable[[int, str, Asked, Partition], Iterator[Fault]]] = {
        'jsrun': _jsrun, 'mpiexec': _mpiexec, 'aprun': _aprun,
    }  # fmt: skip
    for number, line in enumerate(lines, start=1):
        text = _LIMITED.sub('', line)
        if text.split(' ', 1)[0] in starts:
            yield from starts[text.split(' ', 1)[0]](number, text, asked, partition)
        here = text.startswith('bash ../../rank.sh ') and 'export PLUMBLINE_ON_NODE=1' not in lines
        if here and partition.entry['launcher'] in ON_LAUNCH_NODES:
            yield (
                number,
                'rank.sh',
                f'runs on the launch node, not on a compute node: {partition.entry["launcher"]} must start it',
            )


def _number(text: str, option: str) -> int | None:
    match = re.search(rf'(?:^|\s){option}[ =](\d+)', text)
    return int(match[1]) if match else None


def _jsrun(number: int, text: str, asked: Asked, partition: Partition) -> Iterator[Fault]:
    sets, per_host = _number(text, '--nrs') or 1, _number(text, '--rs_per_host') or 1
    if sets > asked.nodes * per_host:
        yield number, '--nrs', f'{sets} resource sets, and {asked.nodes} nodes of {per_host} have fewer'


def _mpiexec(number: int, text: str, asked: Asked, partition: Partition) -> Iterator[Fault]:
    ranks, per_node = _number(text, '-n'), _number(text, '--ppn')
    if ranks and per_node and ranks > asked.nodes * per_node:
        yield number, '-n', f'{ranks} ranks, and {asked.nodes} nodes with --ppn {per_node} have fewer places'
    if ranks and partition.entry['launcher'] == 'pals' and per_node is None:
        yield number, '--ppn', 'PALS fills the first node without it'


def _aprun(number: int, text: str, asked: Asked, partition: Partition) -> Iterator[Fault]:
    ranks, per_node, depth = (_number(text, option) for option in ('-n', '-N', '-d'))
    if ranks and per_node and ranks > asked.nodes * per_node:
        yield number, '-n', f'{ranks} ranks, and {asked.nodes} nodes with -N {per_node} have fewer places'
    cpus = partition.processor.get('num_cpus', 0)
    if per_node and depth and per_node * depth > cpus > 0:
        yield number, '-d', f'{per_node} ranks of {depth} CPUs, and a node has {cpus}'
    if '-cc none' not in text:
        yield number, '-cc', 'none expected: aprun would bind the ranks itself, to other CPUs than the job does'
