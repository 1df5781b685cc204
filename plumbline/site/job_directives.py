# SPDX-License-Identifier: BSD-3-Clause
"""Read what a job script asks of its scheduler: nodes, time, GPUs, CPUs, whole nodes, and the words of a site.

Other options are left to the scheduler, which names what it rejects when the first job is submitted. Slurm: sbatch(1).
PBS: PBS Professional's user guide. LSF: bsub, with CSM's easy mode as on Summit.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Stated = list[tuple[int, str, str]]  # line, option and value of each option that is read; without a value it is empty


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
class Directives:
    """How a scheduler is asked: `options` -> the name that `meaning` knows each by; it sets what they ask for.

    `glued`: True if a value may follow a letter in the same word.
    """

    prefix: str
    options: Mapping[str, str]
    meaning: Callable[[Stated, Asked], None]
    glued: bool = True


def read_directives(lines: Sequence[str], scheduler: str) -> Asked:
    """Return what the directives of a job script ask of a scheduler of `DIRECTIVES`."""
    of, asked = DIRECTIVES[scheduler], Asked()
    stated: Stated = []
    for number, text in directives_of(lines, of.prefix):
        if (gpus := gpus_of_node(text)) is not None:
            asked.gpus, asked.lines['gpus'] = gpus, number
        words = shlex.split(text)
        while words:
            option, value = _parts_of(words.pop(0), of)
            if option in of.options:
                if not value and words and not words[0].startswith('-'):
                    value = words.pop(0)
                stated.append((number, of.options[option], value))
    of.meaning(stated, asked)
    return asked


def directives_of(lines: Sequence[str], prefix: str) -> Iterator[tuple[int, str]]:
    """Yield line and options of each directive before the first command."""
    for number, text in enumerate(lines, start=1):
        if text.startswith(f'{prefix} '):
            yield number, text.removeprefix(prefix).strip()
        elif text.strip() and not text.startswith('#'):
            return


def _parts_of(word: str, of: Directives) -> tuple[str, str]:
    """Return an option and its value in the same word, as in ``--time=1:0:0`` or ``-pgpu``."""
    if word.startswith('--'):
        option, _, value = word.partition('=')
        return option, value
    return (word[:2], word[2:]) if of.glued and word not in of.options else (word, '')


def gpus_asked_for(option: str) -> bool:
    """Return whether an option of sbatch, such as ``--gpus-per-node=4``, asks for GPUs."""
    return bool(re.match(r'(--gpus(-per-(node|task|socket))?[= ]|-G ?|--gres[= ](.*,)?gpu\b)', option))


def gpus_of_node(option: str) -> int | None:
    """Return how many GPUs of a node an option of Slurm or PBS asks for, such as ``--gres=gpu:4``; None if for none."""
    number = re.search(r'--gpus-per-node[= ](?:[A-Za-z]\w*:)?(\d+)|--gres[= ](?:\S*,)?gpu:(?:[A-Za-z]\w*:)?(\d+)|'
                       r'\bngpus=(\d+)', option)  # fmt: skip
    return int(next(filter(None, number.groups()))) if number else None


def _seconds(text: str) -> int | None:
    """Return the seconds of Slurm's ``90`` (minutes), ``1:30:00`` or ``1-12`` (days-hours); None for another text."""
    if not re.fullmatch(r'(\d+-)?\d+(:\d+){0,2}', text):
        return None
    days, _, rest = text.rpartition('-')
    parts = [int(part) for part in rest.split(':')]
    if days:
        return 86400 * int(days) + sum(part * factor for part, factor in zip(parts, (3600, 60, 1), strict=False))
    if len(parts) == 1:
        return 60 * parts[0]
    return sum(part * 60**power for power, part in enumerate(reversed(parts)))


def _number(text: str, default: int) -> int:
    """Return the number that `text` begins with, such as 2 of ``2-4``."""
    found = re.match(r'\d+', text)
    return int(found[0]) if found else default


def _slurm(stated: Stated, asked: Asked) -> None:
    options = {name: value for _, name, value in stated}
    asked.lines |= {name: number for number, name, _ in stated}
    asked.tasks_per_node = _number(options.get('tasks', ''), 1)
    tasks = _number(options.get('ntasks', ''), asked.tasks_per_node)
    asked.nodes = _number(options.get('nodes', ''), -(-tasks // asked.tasks_per_node))
    if 'cpus' in options:
        asked.cpus = asked.tasks_per_node * _number(options['cpus'], 1)
    asked.exclusive = 'exclusive' in options
    asked.seconds = _seconds(options.get('time', ''))
    threads = {'multithread': '2', 'nomultithread': '1'}.get(options.get('hint', ''), options.get('threads', ''))
    asked.threads_per_core = _number(threads, 0) or None
    asked.system_cores = _number(options['system'], 0) if 'system' in options else None
    asked.words = {word: options[word] for word in ('account', 'qos', 'queue', 'constraint') if word in options}


def _pbs(stated: Stated, asked: Asked) -> None:
    asked.confined = True
    asked.words = {name: value for _, name, value in stated if name != 'resource'}
    first: dict[str, tuple[int, str]] = {}  # of a resource that is stated again, PBS ignores the second
    for number, resources in ((number, value) for number, option, value in stated if option == 'resource'):
        for resource in resources.split(','):
            name, _, value = resource.partition('=')
            first.setdefault(name, (number, value))
    if 'select' in first:
        number, (count, *pairs) = first['select'][0], first['select'][1].split(':')
        of_chunk = dict(pair.partition('=')[::2] for pair in pairs)
        asked.nodes, asked.tasks_per_node = _number(count, 1), _number(of_chunk.get('mpiprocs', ''), 1)
        asked.cpus = _number(of_chunk.get('ncpus', ''), 1)  # what PBS gives where a chunk states none
        asked.lines |= dict.fromkeys(('nodes', 'tasks', 'cpus'), number)
    if 'place' in first:
        asked.lines['exclusive'], places = first['place']
        asked.exclusive = bool({'excl', 'exclhost'} & {*places.split(':')})
    if 'walltime' in first:
        asked.lines['time'], time = first['walltime']
        asked.seconds = _seconds(time if ':' in time else f'0:0:{time}')  # a plain number is in seconds


def _lsf(stated: Stated, asked: Asked) -> None:
    options = {name: value for _, name, value in stated}
    asked.lines |= {name: number for number, name, _ in stated}
    asked.nodes = _number(options.get('nodes', ''), 1)
    asked.exclusive = bool({'exclusive', 'nodes'} & {*options})  # CSM gives whole nodes
    time = options.get('time', '').partition('/')[0]  # behind it, the host whose speed it is of
    asked.seconds = _seconds(f'{time}:0' if ':' in time else time)
    asked.words = {word: options[word] for word in ('account', 'queue') if word in options}


_OF_SLURM = Directives(
    '#SBATCH',
    {
        '--time': 'time', '-t': 'time', '--nodes': 'nodes', '-N': 'nodes', '--ntasks': 'ntasks', '-n': 'ntasks',
        '--ntasks-per-node': 'tasks', '--cpus-per-task': 'cpus', '-c': 'cpus', '--exclusive': 'exclusive',
        '--threads-per-core': 'threads', '--hint': 'hint', '--core-spec': 'system', '-S': 'system',
        '--account': 'account', '-A': 'account', '--qos': 'qos', '-q': 'qos', '--partition': 'queue', '-p': 'queue',
        '--constraint': 'constraint', '-C': 'constraint',
    },
    _slurm,
)  # fmt: skip
_OF_PBS = Directives('#PBS', {'-l': 'resource', '-A': 'account', '-P': 'account', '-q': 'queue'}, _pbs)
#: How each scheduler is asked, by ReFrame's name of it.
DIRECTIVES = {
    'slurm': _OF_SLURM,
    'squeue': _OF_SLURM,
    'pbs': _OF_PBS,
    'pbspro': _OF_PBS,
    'lsf': Directives(
        '#BSUB',
        {'-nnodes': 'nodes', '-W': 'time', '-x': 'exclusive', '-P': 'account', '-G': 'account', '-q': 'queue'},
        _lsf,
        glued=False,
    ),
}
