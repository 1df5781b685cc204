"""Check a job script by the documented rules of its scheduler and by the limits that its site states.

Slurm: sbatch(1). PBS: PBS Professional's user guide. LSF: bsub, with CSM's easy mode as on Summit. aprun: aprun(1).
What only an installed scheduler knows, such as accounts, is not judged.
"""

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from plumbline.errors import expected_one_of
from plumbline.sites import Partition

Fault = tuple[int, str, str]  # line, option, why it would be rejected or ignored


@dataclass
class Asked:
    """What a script asks of its scheduler. `lines`: of each of these words, where it stands."""

    nodes: int = 1
    tasks_per_node: int = 1
    cpus: int | None = None  # of a node; None: all of a whole node, or one a task
    seconds: int | None = None
    gpus: int | None = None  # of a node
    gpu_type: str = ''
    threads_per_core: int | None = None
    system_cores: int | None = None
    words: dict[str, str] = field(default_factory=dict)  # account, qos, queue, constraint
    exclusive: bool = False
    confined: bool = False  # to the CPUs asked for, also on a node of its own
    lines: dict[str, int] = field(default_factory=dict)


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
    """Return what each job needs by the site and only its user can state: account, QOS, queue."""
    asked = Asked()
    if read := RULES.get(partition.entry['scheduler']):
        list(read(text.splitlines(), asked))
    wanted = partition.entry.get('queue', {}).get('needs', [])
    return [word for word in wanted if word in ('account', 'qos', 'queue') and word not in asked.words]


def _beyond_limits(asked: Asked, partition: Partition, used: dict[int, int]) -> Iterator[Fault]:
    """Yield what is beyond the partition. `used`: each CPU that a rank is bound to, and the line that says so."""
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
    cpus, per_core = processor['num_cpus'], processor['num_cpus_per_core']
    cores, threads = cpus // per_core, asked.threads_per_core or queue.get('threads_per_core', per_core)
    if threads > per_core:
        yield line['threads'], 'threads-per-core', f'{threads}, and a core has {per_core}'
    kept = asked.system_cores if asked.system_cores is not None else queue.get('system_cores', 0)
    available = (cores - kept) * min(threads, per_core)
    wanted = max(asked.cpus or 0, asked.tasks_per_node)
    if wanted > available:
        why = f'{threads} of {per_core} threads of {cores - kept} cores' if threads < per_core or kept else 'a node has'
        yield line.get('cpus', line.get('tasks', 1)), 'cpus', f'{wanted} of a node, and the job gets {available}: {why}'
    beyond = sorted(cpu for cpu in used if cpu >= cpus)
    second = [] if processor.get('consecutive_threads') else sorted(cpu for cpu in used if cores <= cpu < cpus)
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
    elif kept and used:
        yield used[min(used)], 'PLUMBLINE_CPUS', f'{kept} cores are kept for the system: -S 0 gives the job all'


def _cpus_used(lines: list[str]) -> dict[int, int]:
    """Return the CPUs that ranks of the job are bound to, and the line of each."""
    found: dict[int, int] = {}
    for number, text in enumerate(lines, start=1):
        for listed in re.findall(r'PLUMBLINE_CPUS=[\'"]?([0-9,:]+)', text):
            for cpu in re.split('[,:]', listed):
                found.setdefault(int(cpu), number)
    return found


def _directives(lines: list[str], prefix: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and words of each directive; those after the first command are ignored by the schedulers."""
    for number, text in enumerate(lines, start=1):
        if text.startswith(f'{prefix} '):
            yield number, shlex.split(text.removeprefix(prefix), comments=False)
        elif text.strip() and not text.startswith('#'):
            return


def _ignored(lines: list[str], prefix: str) -> Iterator[Fault]:
    first = next((n for n, text in enumerate(lines, start=1) if text.strip() and not text.startswith('#')), len(lines))
    for number, text in enumerate(lines, start=1):
        if number > first and text.startswith(f'{prefix} '):
            yield number, text, f'ignored: it stands after the first command, in line {first}'


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise ValueError(message)


def _read(
    lines: list[str], prefix: str, parser: _Parser, command: str, options: Iterable[str] = ()
) -> tuple[list[tuple[int, argparse.Namespace]], list[Fault]]:
    """Return line and options of each directive, and the faults of all. `command` takes `options`, where known."""
    found, faults = [], [*_ignored(lines, prefix)]
    for number, words in _directives(lines, prefix):
        try:
            known, unknown = parser.parse_known_args(words)
        except ValueError as error:
            faults.append((number, ' '.join(words), str(error)))
            continue
        found.append((number, known))
        for word in unknown:
            guess = expected_one_of(word.lstrip('-').partition('=')[0], options) if options else ''
            faults.append((number, word, f'{command} has no such option{guess and f"; {guess}"}'))
    return found, faults


# Slurm

_SLURM = {  # sbatch(1): long name, short name, whether it takes a value
    'account': ('A', True), 'array': ('a', True), 'begin': ('b', True), 'chdir': ('D', True), 'comment': ('', True),
    'constraint': ('C', True), 'core-spec': ('S', True), 'cores-per-socket': ('', True), 'cpus-per-gpu': ('', True),
    'cpus-per-task': ('c', True), 'dependency': ('d', True), 'distribution': ('m', True), 'error': ('e', True),
    'exclude': ('x', True), 'exclusive': ('', None), 'export': ('', True), 'gpu-bind': ('', True), 'gpus': ('G', True),
    'gpus-per-node': ('', True), 'gpus-per-socket': ('', True), 'gpus-per-task': ('', True), 'gres': ('', True),
    'hint': ('', True), 'job-name': ('J', True), 'licenses': ('L', True), 'mail-type': ('', True), 'mem': ('', True),
    'mem-bind': ('', True), 'mem-per-cpu': ('', True), 'mem-per-gpu': ('', True), 'network': ('', True),
    'nice': ('', None), 'no-requeue': ('', False), 'nodelist': ('w', True), 'nodes': ('N', True), 'ntasks': ('n', True),
    'ntasks-per-core': ('', True), 'ntasks-per-node': ('', True), 'ntasks-per-socket': ('', True),
    'open-mode': ('', True), 'output': ('o', True), 'overcommit': ('O', False), 'partition': ('p', True),
    'prefer': ('', True), 'qos': ('q', True), 'requeue': ('', False), 'reservation': ('', True), 'signal': ('', True),
    'sockets-per-node': ('', True), 'spread-job': ('', False), 'switches': ('', True), 'threads-per-core': ('', True),
    'time': ('t', True), 'time-min': ('', True), 'tmp': ('', True), 'use-min-nodes': ('', False), 'wait': ('W', False),
}  # fmt: skip


def _slurm_parser() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name, (short, takes) in _SLURM.items():
        flags = [f'--{name}'] + ([f'-{short}'] if short else [])
        how = {'action': 'store_true'} if takes is False else {'nargs': '?', 'const': ''} if takes is None else {}
        parser.add_argument(*flags, dest=name, **how)  # type: ignore[arg-type]
    return parser


def _slurm(lines: list[str], asked: Asked) -> Iterator[Fault]:
    read, faults = _read(lines, '#SBATCH', _slurm_parser(), 'sbatch', _SLURM)
    yield from faults
    found: dict[str, tuple[str, int]] = {
        name: (value, number)
        for number, known in read
        for name, value in vars(known).items()
        if value not in (None, False)
    }

    def value(name: str, default: str = '') -> str:
        return found.get(name, (default, 0))[0]

    where = {
        'time': 'time', 'nodes': 'nodes', 'tasks': 'ntasks-per-node', 'cpus': 'cpus-per-task', 'exclusive': 'exclusive',
        'threads': 'threads-per-core', 'gpus': 'gpus-per-node' if 'gpus-per-node' in found else 'gres',
    }  # fmt: skip
    asked.lines = {word: found[name][1] for word, name in where.items() if name in found}
    asked.tasks_per_node = int(value('ntasks-per-node', '1'))
    tasks = int(value('ntasks', str(asked.tasks_per_node)))
    asked.nodes = int(value('nodes', str(-(-tasks // asked.tasks_per_node))).partition('-')[0])
    if 'cpus-per-task' in found:
        asked.cpus = asked.tasks_per_node * int(value('cpus-per-task'))
    asked.exclusive, asked.seconds = 'exclusive' in found, _hms(value('time'), '--time' in ' '.join(lines))
    threads = {'multithread': None, 'nomultithread': '1'}.get(value('hint'), value('threads-per-core')) or None
    asked.threads_per_core = int(threads) if threads else 2 if value('hint') == 'multithread' else None
    asked.system_cores = int(value('core-spec')) if 'core-spec' in found else None
    gpus = re.fullmatch(r'(?:gpu:)?(?:([A-Za-z]\w*):)?(\d+)', value('gpus-per-node') or value('gres'))
    if gpus:
        asked.gpu_type, asked.gpus = gpus[1] or '', int(gpus[2])
    names = {'account': 'account', 'qos': 'qos', 'queue': 'partition', 'constraint': 'constraint'}
    asked.words = {word: value(name) for word, name in names.items() if name in found}


def _hms(text: str, stated: bool = True) -> int | None:
    """Return seconds of Slurm's ``minutes``, ``h:m:s``, ``days-hours``; PBS has ``h:m:s`` too."""
    if not (text and stated):
        return None
    days, _, rest = text.rpartition('-')
    parts = [int(part) for part in rest.split(':')]
    if days:
        return 86400 * int(days) + sum(part * factor for part, factor in zip(parts, (3600, 60, 1), strict=False))
    if len(parts) == 1:
        return 60 * parts[0]
    return sum(part * 60**power for power, part in enumerate(reversed(parts)))


# PBS


def _pbs(lines: list[str], asked: Asked) -> Iterator[Fault]:
    place, parser = '', _Parser(add_help=False)
    for flag in 'lNoeAPqWjkmMrSVv':
        parser.add_argument(f'-{flag}', action='append', default=[]) if flag != 'V' else parser.add_argument('-V')
    read, faults = _read(lines, '#PBS', parser, 'qsub')
    yield from faults
    for number, known in read:
        for name, word in (('A', 'account'), ('P', 'account'), ('q', 'queue')):
            if getattr(known, name):
                asked.words[word] = getattr(known, name)[-1]
        for resources in known.l:
            if resources.startswith('select='):
                yield from _select(resources.removeprefix('select='), number, asked)
            elif resources.startswith('place='):
                place, asked.lines['exclusive'] = resources, number
            elif resources.startswith('walltime='):
                asked.seconds, asked.lines['time'] = _hms(resources.removeprefix('walltime=')), number
            elif resources.startswith(('nodes=', 'ncpus=', 'mpiprocs=')):
                yield number, resources, 'cannot stand beside select=; old syntax'
    asked.exclusive, asked.confined = 'excl' in place, True


def _select(text: str, number: int, asked: Asked) -> Iterator[Fault]:
    count, *pairs = text.split(':')
    known = dict(pair.partition('=')[::2] for pair in pairs)
    asked.nodes, asked.tasks_per_node = int(count), int(known.get('mpiprocs', 1))
    asked.cpus = int(known.get('ncpus', 1))  # what PBS gives where a chunk states none
    asked.gpus = int(known['ngpus']) if 'ngpus' in known else None
    asked.lines |= dict.fromkeys(('nodes', 'tasks', 'cpus', 'gpus'), number)
    if asked.cpus < asked.tasks_per_node:
        yield number, 'ncpus', f'{asked.cpus}, fewer than mpiprocs={asked.tasks_per_node}'


# LSF


def _lsf(lines: list[str], asked: Asked) -> Iterator[Fault]:
    yield from _ignored(lines, '#BSUB')
    takes = ('J', 'o', 'e', 'nnodes', 'n', 'R', 'W', 'P', 'G', 'q', 'alloc_flags', 'm', 'core_isolation', 'env', 'cwd')
    found: dict[str, tuple[str, int]] = {}
    for number, words in _directives(lines, '#BSUB'):
        while words:
            name = words.pop(0).lstrip('-')
            if name in takes:
                found[name] = (words.pop(0) if words else '', number)
            elif name == 'x':
                found[name] = ('', number)
            else:
                yield number, f'-{name}', f'bsub has no such option; {expected_one_of(name, [*takes, "x"])}'
    if 'nnodes' in found:
        for name in ('R', 'n'):
            if name in found:
                yield (
                    found[name][1],
                    f'-{name}',
                    f'rejected beside -nnodes in line {found["nnodes"][1]} (CSM, easy mode)',
                )
        asked.nodes, asked.lines['nodes'] = int(found['nnodes'][0]), found['nnodes'][1]
    asked.exclusive = 'x' in found or 'nnodes' in found  # CSM gives whole nodes
    if 'W' in found:
        hours, _, minutes = found['W'][0].rpartition(':')
        asked.seconds, asked.lines['time'] = 3600 * int(hours or 0) + 60 * int(minutes), found['W'][1]
    for name, word in (('P', 'account'), ('G', 'account'), ('q', 'queue')):
        if name in found:
            asked.words[word] = found[name][0]


#: Scheduler, by ReFrame's word -> what reads its directives into an `Asked`, and yields those it would reject.
RULES: dict[str, Callable[[list[str], Asked], Iterator[Fault]]] = {
    'slurm': _slurm, 'squeue': _slurm, 'pbs': _pbs, 'pbspro': _pbs, 'lsf': _lsf,
}  # fmt: skip


# What starts the ranks inside the job


def _launchers(lines: list[str], asked: Asked, partition: Partition) -> Iterator[Fault]:
    """Yield what jsrun, mpiexec of PALS and aprun would reject: more ranks than the job has places for."""
    starts: dict[str, Callable[[int, str, Asked, Partition], Iterator[Fault]]] = {
        'jsrun': _jsrun, 'mpiexec': _mpiexec, 'aprun': _aprun,
    }  # fmt: skip
    for number, text in enumerate(lines, start=1):
        if text.split(' ', 1)[0] in starts:
            yield from starts[text.split(' ', 1)[0]](number, text, asked, partition)


def _number(text: str, option: str) -> int | None:
    found = re.search(rf'(?:^|\s){option}[ =](\d+)', text)
    return int(found[1]) if found else None


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
