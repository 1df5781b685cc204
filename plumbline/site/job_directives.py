# SPDX-License-Identifier: BSD-3-Clause
"""Read what a job script asks of its scheduler, and name each option that the scheduler would reject or ignore.

Slurm: sbatch(1). PBS: PBS Professional's user guide. LSF: bsub, with CSM's easy mode as on Summit.
"""

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from plumbline.errors import expected_one_of

ScriptFault = tuple[int, str, str]  # line, option, why it would be rejected or ignored
Stated = list[tuple[int, str, str]]  # line, name and value of each option; of an option without a value it is empty


@dataclass
class Asked:
    """What a script asks of its scheduler. `lines`: the line number of each field that is stated."""

    nodes: int = 1
    tasks_per_node: int = 1
    cpus: int | None = None  # of a node; None: all of a whole node, or one for each task
    seconds: int | None = None
    gpus: int | None = None  # of a node
    threads_per_core: int | None = None
    system_cores: int | None = None
    words: dict[str, str] = field(default_factory=dict)  # account, qos, queue, constraint
    exclusive: bool = False
    confined: bool = False  # the job gets only the CPUs it asks for, also on a whole node
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    """What is known of a scheduler's directives.

    `options`: each option of its `command` as one writes it, and the name that `meaning` knows it by. `meaning`: sets
    what the stated options ask for, and returns the faulty ones.
    """

    prefix: str
    command: str
    options: Mapping[str, str]
    meaning: Callable[[Stated, Asked], Iterable[ScriptFault]]


def read_directives(lines: Sequence[str], scheduler: str) -> tuple[Asked, list[ScriptFault]]:
    """Return what the directives of a job script ask of a scheduler of `RULES`, and the faulty ones."""
    rules, asked = RULES[scheduler], Asked()
    stated: Stated = []
    faults: list[ScriptFault] = []
    for number, text in _directives(lines, rules.prefix):
        if (gpus := gpus_of_node(text)) is not None:
            asked.gpus, asked.lines['gpus'] = gpus, number
        words = shlex.split(text)
        while words:
            word = words.pop(0)
            option, value = _parts_of(word, rules)
            if option not in rules.options:
                names = [*rules.options.values()]
                guess = expected_one_of(option.lstrip('-'), names)
                faults.append((number, word, f'{rules.command} has no such option; {guess}'))
                continue
            if not value and words and not words[0].startswith('-'):
                value = words.pop(0)
            stated.append((number, rules.options[option], value))
    return asked, [*faults, *rules.meaning(stated, asked)]


def _directives(lines: Sequence[str], prefix: str) -> Iterator[tuple[int, str]]:
    """Yield line and options of each directive before the first command."""
    for number, text in enumerate(lines, start=1):
        if text.startswith(f'{prefix} '):
            yield number, text.removeprefix(prefix).strip()
        elif text.strip() and not text.startswith('#'):
            return


def _parts_of(word: str, rules: Rules) -> tuple[str, str]:
    """Return an option and its value in the same word, as in ``--time=1:0:0`` or ``-pgpu``; bsub has no such words."""
    if word.startswith('--'):
        option, _, value = word.partition('=')
        return option, value
    return (word, '') if word in rules.options or rules.command == 'bsub' else (word[:2], word[2:])


def gpus_asked_for(option: str) -> bool:
    """Return whether an option of sbatch, such as ``--gpus-per-node=4``, asks for GPUs."""
    return bool(re.match(r'(--gpus(-per-(node|task|socket))?[= ]|-G ?|--gres[= ](.*,)?gpu\b)', option))


def gpus_of_node(option: str) -> int | None:
    """Return how many GPUs of a node an option of Slurm or PBS asks for, such as ``--gres=gpu:4``; None if for none."""
    number = re.search(r'--gpus-per-node[= ](?:[A-Za-z]\w*:)?(\d+)|--gres[= ](?:\S*,)?gpu:(?:[A-Za-z]\w*:)?(\d+)|'
                       r'\bngpus=(\d+)', option)  # fmt: skip
    return int(next(filter(None, number.groups()))) if number else None


def _seconds(text: str) -> int:
    """Return the seconds of Slurm's ``90`` (minutes), ``1:30:00`` or ``1-12`` (days-hours); PBS has ``h:m:s`` too."""
    days, _, rest = text.rpartition('-')
    parts = [int(part) for part in rest.split(':')]
    if days:
        return 86400 * int(days) + sum(part * factor for part, factor in zip(parts, (3600, 60, 1), strict=False))
    if len(parts) == 1:
        return 60 * parts[0]
    return sum(part * 60**power for power, part in enumerate(reversed(parts)))


# Slurm

_SBATCH = {  # sbatch(1): the short name of each option
    'account': 'A', 'acctg-freq': '', 'array': 'a', 'bb': '', 'bbf': '', 'begin': 'b', 'chdir': 'D',
    'cluster-constraint': '', 'clusters': 'M', 'comment': '', 'constraint': 'C', 'container': '', 'contiguous': '',
    'core-spec': 'S', 'cores-per-socket': '', 'cpu-freq': '', 'cpus-per-gpu': '', 'cpus-per-task': 'c', 'deadline': '',
    'delay-boot': '', 'dependency': 'd', 'distribution': 'm', 'error': 'e', 'exclude': 'x', 'exclusive': '',
    'export': '', 'extra-node-info': 'B', 'get-user-env': '', 'gid': '', 'gpu-bind': '', 'gpu-freq': '', 'gpus': 'G',
    'gpus-per-node': '', 'gpus-per-socket': '', 'gpus-per-task': '', 'gres': '', 'gres-flags': '', 'hint': '',
    'ignore-pbs': '', 'input': 'i', 'job-name': 'J', 'kill-on-invalid-dep': '', 'licenses': 'L', 'mail-type': '',
    'mail-user': '', 'mcs-label': '', 'mem': '', 'mem-bind': '', 'mem-per-cpu': '', 'mem-per-gpu': '', 'mincpus': '',
    'network': '', 'nice': '', 'no-kill': 'k', 'no-requeue': '', 'nodelist': 'w', 'nodes': 'N', 'ntasks': 'n',
    'ntasks-per-core': '', 'ntasks-per-node': '', 'ntasks-per-socket': '', 'open-mode': '', 'output': 'o',
    'overcommit': 'O', 'oversubscribe': 's', 'partition': 'p', 'power': '', 'prefer': '', 'priority': '',
    'profile': '', 'propagate': '', 'qos': 'q', 'quiet': 'Q', 'reboot': '', 'requeue': '', 'reservation': '',
    'segment': '', 'signal': '', 'sockets-per-node': '', 'spread-job': '', 'stepmgr': '', 'switches': '',
    'thread-spec': '', 'threads-per-core': '', 'time': 't', 'time-min': '', 'tmp': '', 'tres-bind': '',
    'tres-per-task': '', 'uid': '', 'use-min-nodes': '', 'verbose': 'v', 'wait': 'W', 'wait-all-nodes': '',
    'wckey': '',
}  # fmt: skip


def _slurm(stated: Stated, asked: Asked) -> Iterable[ScriptFault]:
    options = {name: value for _, name, value in stated}
    where = {
        'time': 'time', 'nodes': 'nodes', 'ntasks-per-node': 'tasks', 'cpus-per-task': 'cpus',
        'exclusive': 'exclusive', 'threads-per-core': 'threads',
    }  # fmt: skip
    asked.lines |= {where[name]: number for number, name, _ in stated if name in where}
    asked.tasks_per_node = int(options.get('ntasks-per-node', 1))
    tasks = int(options.get('ntasks', asked.tasks_per_node))
    asked.nodes = int(options.get('nodes', str(-(-tasks // asked.tasks_per_node))).partition('-')[0])
    if 'cpus-per-task' in options:
        asked.cpus = asked.tasks_per_node * int(options['cpus-per-task'])
    asked.exclusive = 'exclusive' in options
    asked.seconds = _seconds(options['time']) if 'time' in options else None
    threads = {'multithread': 2, 'nomultithread': 1}.get(options.get('hint', ''), options.get('threads-per-core'))
    asked.threads_per_core = int(threads) if threads else None
    asked.system_cores = int(options['core-spec']) if 'core-spec' in options else None
    names = {'account': 'account', 'qos': 'qos', 'queue': 'partition', 'constraint': 'constraint'}
    asked.words = {word: options[name] for word, name in names.items() if name in options}
    return ()


# PBS

# Resources of a job and of a chunk that every PBS has (pbs_resources(7)), and ngpus; sites add names of their own.
_OF_JOB = ('select', 'place', 'walltime', 'nodes', 'ncpus', 'mpiprocs', 'mem', 'vmem', 'cput', 'software')
_OF_CHUNK = ('ncpus', 'mpiprocs', 'ompthreads', 'ngpus', 'mem', 'vmem', 'host', 'vnode', 'arch')
_PLACES = ('free', 'pack', 'scatter', 'vscatter', 'excl', 'shared', 'exclhost')


def _misspelt(name: str, known: Sequence[str]) -> str:
    """Return why a resource would be rejected: its name resembles one of `known`; empty if it may be a site's own."""
    near = [] if name in known else difflib.get_close_matches(name, known, 1, 0.8)
    return f'PBS knows no such resource; did you mean {near[0]}?' if near else ''


def _pbs(stated: Stated, asked: Asked) -> Iterator[ScriptFault]:
    asked.confined = True
    words = {'A': 'account', 'P': 'account', 'q': 'queue'}
    asked.words = {words[option]: value for _, option, value in stated if option in words}
    first: dict[str, int] = {}
    for number, resources in [(number, value) for number, option, value in stated if option == 'l']:
        name, _, value = resources.partition('=')
        if first.setdefault(name, number) != number:
            yield number, resources, f'ignored: {name} stands in line {first[name]} already'
        elif why := _misspelt(name, _OF_JOB):
            yield number, resources, why
        elif name == 'select':
            yield from _select(value, number, asked)
        elif name == 'place':
            places, asked.lines['exclusive'] = value.split(':'), number
            asked.exclusive = bool({'excl', 'exclhost'} & set(places))
            for word in places:
                if word not in _PLACES and not word.startswith('group='):
                    yield number, word, f'PBS knows no such place; {expected_one_of(word, _PLACES)}'
        elif name == 'walltime':
            asked.lines['time'] = number
            try:
                asked.seconds = _seconds(value if ':' in value else f'0:0:{value}')  # a plain number is in seconds
            except ValueError:
                yield number, resources, 'expected h:m:s or seconds'
        elif name in ('nodes', 'ncpus', 'mpiprocs'):
            yield number, resources, 'cannot stand beside select=; old syntax'


def _select(text: str, number: int, asked: Asked) -> Iterator[ScriptFault]:
    count, *pairs = text.split(':')
    known = dict(pair.partition('=')[::2] for pair in pairs)
    for name in known:
        if why := _misspelt(name, _OF_CHUNK):
            yield number, name, why
    asked.nodes, asked.tasks_per_node = int(count), int(known.get('mpiprocs', 1))
    asked.cpus = int(known.get('ncpus', 1))  # what PBS gives where a chunk states none
    asked.lines |= dict.fromkeys(('nodes', 'tasks', 'cpus'), number)
    if asked.cpus < asked.tasks_per_node:
        yield number, 'ncpus', f'{asked.cpus}, fewer than mpiprocs={asked.tasks_per_node}'


# LSF

_BSUB = ('J', 'o', 'e', 'nnodes', 'n', 'R', 'W', 'P', 'G', 'q', 'alloc_flags', 'm', 'core_isolation', 'env', 'cwd', 'x')


def _lsf(stated: Stated, asked: Asked) -> Iterator[ScriptFault]:
    options = {name: (value, number) for number, name, value in stated}
    if 'nnodes' in options:
        nodes, first = options['nnodes']
        asked.nodes, asked.lines['nodes'] = int(nodes), first
        for name in ('R', 'n'):
            if name in options:
                yield options[name][1], f'-{name}', f'rejected beside -nnodes in line {first} (CSM, easy mode)'
    asked.exclusive = 'x' in options or 'nnodes' in options  # CSM gives whole nodes
    if 'W' in options:
        hours, _, minutes = options['W'][0].rpartition(':')
        asked.seconds, asked.lines['time'] = 3600 * int(hours or 0) + 60 * int(minutes), options['W'][1]
    words = {'P': 'account', 'G': 'account', 'q': 'queue'}
    asked.words = {word: options[name][0] for name, word in words.items() if name in options}


_OF_SLURM = Rules(
    '#SBATCH',
    'sbatch',
    {f'--{name}': name for name in _SBATCH} | {f'-{short}': name for name, short in _SBATCH.items() if short},
    _slurm,
)
_OF_PBS = Rules('#PBS', 'qsub', {f'-{name}': name for name in 'lNoeAPqWjkmMrSVv'}, _pbs)
#: What is known of the directives of a scheduler, by ReFrame's name of it.
RULES = {
    'slurm': _OF_SLURM,
    'squeue': _OF_SLURM,
    'pbs': _OF_PBS,
    'pbspro': _OF_PBS,
    'lsf': Rules('#BSUB', 'bsub', {f'-{name}': name for name in _BSUB}, _lsf),
}
