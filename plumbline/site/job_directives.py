# SPDX-License-Identifier: BSD-3-Clause
"""Read what a job script asks of its scheduler, and name each directive that the scheduler would reject or ignore.

Slurm: sbatch(1). PBS: PBS Professional's user guide. LSF: bsub, with CSM's easy mode as on Summit. Flux: flux-batch(1)
and RFC 36. Of Cobalt there is nothing to read: ReFrame has no backend for it.
"""

import argparse
import difflib
import functools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from plumbline.errors import expected_one_of

Fault = tuple[int, str, str]  # line, option, why it would be rejected or ignored


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


def _directives(lines: list[str], prefix: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and words of each directive before the first command; schedulers ignore later directives."""
    for number, text in enumerate(lines, start=1):
        if text.startswith(f'{prefix} '):
            yield number, shlex.split(text.removeprefix(prefix), comments=prefix.endswith(':'))
        elif text.strip() and not text.startswith('#'):
            return


def _ignored(lines: list[str], prefix: str, fate: str = 'ignored') -> Iterator[Fault]:
    first = next((n for n, text in enumerate(lines, start=1) if text.strip() and not text.startswith('#')), len(lines))
    for number, text in enumerate(lines, start=1):
        if number > first and text.startswith(f'{prefix} '):
            yield number, text, f'{fate}: it stands after the first command, in line {first}'


class _OptionParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _read(
    lines: list[str], prefix: str, parser: _OptionParser, command: str, options: Iterable[str] = ()
) -> tuple[list[tuple[int, argparse.Namespace]], list[Fault]]:
    """Return line and options of each directive, and all faults. `options`: all options of `command`, if known."""
    directives, faults = [], [*_ignored(lines, prefix, 'rejected' if prefix.endswith(':') else 'ignored')]
    for number, words in _directives(lines, prefix):
        try:
            known, unknown = parser.parse_known_args(words)
        except ValueError as error:
            faults.append((number, ' '.join(words), str(error)))
            continue
        directives.append((number, known))
        for word in unknown:
            guess = expected_one_of(word.lstrip('-').partition('=')[0], options) if options else ''
            faults.append((number, word, f'{command} has no such option{guess and f"; {guess}"}'))
    return directives, faults


def _stated(read: Iterable[tuple[int, argparse.Namespace]]) -> dict[str, tuple[str, int]]:
    """Return the last value of each stated option, with its line."""
    return {
        name: (value, number)
        for number, known in read
        for name, value in vars(known).items()
        if value not in (None, False)
    }


# Slurm

_SLURM = {  # sbatch(1): long name, short name, whether it takes a value
    'account': ('A', True), 'array': ('a', True), 'begin': ('b', True), 'chdir': ('D', True), 'comment': ('', True),
    'constraint': ('C', True), 'core-spec': ('S', True), 'cores-per-socket': ('', True), 'cpus-per-gpu': ('', True),
    'acctg-freq': ('', True), 'bb': ('', True), 'bbf': ('', True), 'cluster-constraint': ('', True),
    'clusters': ('M', True), 'container': ('', True), 'contiguous': ('', False), 'cpu-freq': ('', True),
    'deadline': ('', True), 'delay-boot': ('', True), 'exclude': ('x', True), 'extra-node-info': ('B', True),
    'get-user-env': ('', None), 'gid': ('', True), 'gpu-freq': ('', True), 'gres-flags': ('', True),
    'ignore-pbs': ('', False), 'input': ('i', True), 'kill-on-invalid-dep': ('', True), 'mail-user': ('', True),
    'mcs-label': ('', True), 'mincpus': ('', True), 'no-kill': ('k', None), 'oversubscribe': ('s', False),
    'power': ('', True), 'priority': ('', True), 'profile': ('', True), 'propagate': ('', None), 'quiet': ('Q', False),
    'reboot': ('', False), 'segment': ('', True), 'stepmgr': ('', False), 'thread-spec': ('', True),
    'tres-bind': ('', True), 'tres-per-task': ('', True), 'uid': ('', True), 'verbose': ('v', False),
    'wait-all-nodes': ('', True), 'wckey': ('', True), 'cpus-per-task': ('c', True),
    'dependency': ('d', True), 'distribution': ('m', True), 'error': ('e', True),
    'exclusive': ('', None), 'export': ('', True), 'gpu-bind': ('', True), 'gpus': ('G', True),
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


@functools.cache
def _slurm_parser() -> _OptionParser:
    parser = _OptionParser(add_help=False, allow_abbrev=False)
    for name, (short, takes) in _SLURM.items():
        flags = [f'--{name}'] + ([f'-{short}'] if short else [])
        how = {'action': 'store_true'} if takes is False else {'nargs': '?', 'const': ''} if takes is None else {}
        parser.add_argument(*flags, dest=name, **how)  # type: ignore[arg-type]
    return parser


def _slurm(lines: list[str], asked: Asked) -> Iterator[Fault]:
    read, faults = _read(lines, '#SBATCH', _slurm_parser(), 'sbatch', _SLURM)
    yield from faults
    options = _stated(read)

    def value(name: str, default: str = '') -> str:
        return options.get(name, (default, 0))[0]

    where = {
        'time': 'time', 'nodes': 'nodes', 'tasks': 'ntasks-per-node', 'cpus': 'cpus-per-task', 'exclusive': 'exclusive',
        'threads': 'threads-per-core', 'gpus': 'gpus-per-node' if 'gpus-per-node' in options else 'gres',
    }  # fmt: skip
    asked.lines = {word: options[name][1] for word, name in where.items() if name in options}
    asked.tasks_per_node = int(value('ntasks-per-node', '1'))
    tasks = int(value('ntasks', str(asked.tasks_per_node)))
    asked.nodes = int(value('nodes', str(-(-tasks // asked.tasks_per_node))).partition('-')[0])
    if 'cpus-per-task' in options:
        asked.cpus = asked.tasks_per_node * int(value('cpus-per-task'))
    asked.exclusive, asked.seconds = 'exclusive' in options, _hms(value('time'), '--time' in ' '.join(lines))
    threads = {'multithread': None, 'nomultithread': '1'}.get(value('hint'), value('threads-per-core')) or None
    asked.threads_per_core = int(threads) if threads else 2 if value('hint') == 'multithread' else None
    asked.system_cores = int(value('core-spec')) if 'core-spec' in options else None
    if gpus := re.fullmatch(r'(?:gpu:)?(?:[A-Za-z]\w*:)?(\d+)', value('gpus-per-node') or value('gres')):
        asked.gpus = int(gpus[1])
    names = {'account': 'account', 'qos': 'qos', 'queue': 'partition', 'constraint': 'constraint'}
    asked.words = {word: value(name) for word, name in names.items() if name in options}


def gpus_asked_for(option: str) -> bool:
    """Return whether an option of sbatch, such as ``--gpus-per-node=4``, asks for GPUs."""
    return bool(re.match(r'(--gpus(-per-(node|task|socket))?[= ]|-G ?|--gres[= ](.*,)?gpu\b)', option))


def gpus_of_node(option: str) -> int | None:
    """Return how many GPUs of a node an option of Slurm or PBS asks for, such as ``--gres=gpu:4``; None if for none."""
    number = (
        re.fullmatch(r'--gpus-per-node[= ](?:[A-Za-z]\w*:)?(\d+)', option)
        or re.search(r'--gres[= ](?:.*,)?gpu:(?:[A-Za-z]\w*:)?(\d+)', option)
        or re.search(r'\bngpus=(\d+)', option)
    )
    return int(number[1]) if number else None


def sets_of_each_job(option: str, scheduler: str) -> str:
    """Return the name of an option that the suite sets for each job, such as ``--nodes``; else an empty text."""
    own = re.match(_OF_EACH_JOB.get(_PREFIXES.get(scheduler, ''), r'(?!)'), option)
    return own[0].strip(' =') if own else ''


def faults_of_option(option: str, scheduler: str) -> list[str]:
    """Return why a scheduler of `RULES` would reject or ignore an option that ``access`` of site.yaml states."""
    prefix = _PREFIXES.get(scheduler)
    if prefix is None:
        return []
    try:
        return [f'{where}: {why}' for _, where, why in RULES[scheduler]([f'{prefix} {option}'], Asked())]
    except ValueError as error:  # not a number where one is expected, or an open quote
        return [f'cannot be read as an option of {scheduler}: {error}']


def _hms(text: str, stated: bool = True) -> int | None:
    """Return the seconds of Slurm's ``90`` (minutes), ``1:30:00`` or ``1-12`` (days-hours); PBS has ``h:m:s`` too."""
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

# Resources of a job and of a chunk that every PBS has (pbs_resources(7)), and ngpus; sites add names of their own.
_OF_JOB = ('select', 'place', 'walltime', 'nodes', 'ncpus', 'mpiprocs', 'mem', 'vmem', 'cput', 'software')
_OF_CHUNK = ('ncpus', 'mpiprocs', 'ompthreads', 'ngpus', 'mem', 'vmem', 'host', 'vnode', 'arch')
_PLACES = ('free', 'pack', 'scatter', 'vscatter', 'excl', 'shared', 'exclhost')


def _misspelt(name: str, known: Sequence[str]) -> str:
    """Return why a resource would be rejected: its name resembles one of `known`; empty if it may be a site's own."""
    near = [] if name in known else difflib.get_close_matches(name, known, 1, 0.8)
    return f'PBS knows no such resource; did you mean {near[0]}?' if near else ''


def _pbs(lines: list[str], asked: Asked) -> Iterator[Fault]:
    places: list[str] = []
    stated: dict[str, int] = {}
    parser = _OptionParser(add_help=False)
    for flag in 'lNoeAPqWjkmMrSVv':
        parser.add_argument(f'-{flag}', action='append', default=[]) if flag != 'V' else parser.add_argument('-V')
    read, faults = _read(lines, '#PBS', parser, 'qsub')
    yield from faults
    for number, known in read:
        for name, word in (('A', 'account'), ('P', 'account'), ('q', 'queue')):
            if getattr(known, name):
                asked.words[word] = getattr(known, name)[-1]
        for resources in known.l:
            name, _, value = resources.partition('=')
            if why := _misspelt(name, _OF_JOB):
                yield number, resources, why
            elif name in stated:
                yield number, resources, f'ignored: {name} stands in line {stated[name]} already'
            elif name == 'select':
                yield from _select(value, number, asked)
            elif name == 'place':
                places, asked.lines['exclusive'] = value.split(':'), number
                for word in places:
                    if word not in _PLACES and not word.startswith('group='):
                        yield number, word, f'PBS knows no such place; {expected_one_of(word, _PLACES)}'
            elif name == 'walltime':
                asked.lines['time'] = number
                try:
                    asked.seconds = _hms(value if ':' in value else f'0:0:{value}')  # a plain number is in seconds
                except ValueError:
                    yield number, resources, 'expected h:m:s or seconds'
            elif name in ('nodes', 'ncpus', 'mpiprocs'):
                yield number, resources, 'cannot stand beside select=; old syntax'
            stated.setdefault(name, number)
    asked.exclusive, asked.confined = bool({'excl', 'exclhost'} & set(places)), True


def _select(text: str, number: int, asked: Asked) -> Iterator[Fault]:
    count, *pairs = text.split(':')
    known = dict(pair.partition('=')[::2] for pair in pairs)
    for name in known:
        if why := _misspelt(name, _OF_CHUNK):
            yield number, name, why
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
    options: dict[str, tuple[str, int]] = {}
    for number, words in _directives(lines, '#BSUB'):
        while words:
            name = words.pop(0).lstrip('-')
            if name in takes:
                options[name] = (words.pop(0) if words else '', number)
            elif name == 'x':
                options[name] = ('', number)
            else:
                yield number, f'-{name}', f'bsub has no such option; {expected_one_of(name, [*takes, "x"])}'
    if 'nnodes' in options:
        for name in ('R', 'n'):
            if name in options:
                yield (
                    options[name][1],
                    f'-{name}',
                    f'rejected beside -nnodes in line {options["nnodes"][1]} (CSM, easy mode)',
                )
        asked.nodes, asked.lines['nodes'] = int(options['nnodes'][0]), options['nnodes'][1]
    asked.exclusive = 'x' in options or 'nnodes' in options  # CSM gives whole nodes
    if 'W' in options:
        hours, _, minutes = options['W'][0].rpartition(':')
        asked.seconds, asked.lines['time'] = 3600 * int(hours or 0) + 60 * int(minutes), options['W'][1]
    for name, word in (('P', 'account'), ('G', 'account'), ('q', 'queue')):
        if name in options:
            asked.words[word] = options[name][0]


# Flux

_SENTINEL = re.compile(r'\W*(flux|FLUX):')  # RFC 36
_FLUX = {  # flux-batch(1): long name, short name
    'nodes': 'N', 'nslots': 'n', 'cores-per-slot': 'c', 'gpus-per-slot': 'g', 'time-limit': 't', 'queue': 'q',
    'bank': 'B', 'setopt': 'o', 'setattr': 'S', 'job-name': '', 'output': '', 'error': '', 'cwd': '', 'requires': '',
    'dependency': '', 'begin-time': '', 'urgency': '', 'flags': '', 'env': '', 'rlimit': '', 'conf': '',
}  # fmt: skip


def _flux(lines: list[str], asked: Asked) -> Iterator[Fault]:
    sentinels = {number: at[0] for number, text in enumerate(lines, 1) if (at := _SENTINEL.match(text))}
    first = next(iter(sentinels.values()), None)
    if first is None:
        yield 1, 'nodes', "none are asked for: ReFrame's backend submits one task of one core, whatever a check needs"
        return
    for number, sentinel in sentinels.items():
        if sentinel != first:
            yield number, sentinel, f'rejected: the first directive begins with {first!r}'
    parser = _OptionParser(add_help=False, allow_abbrev=False)
    for name, short in _FLUX.items():
        parser.add_argument(f'--{name}', *([f'-{short}'] if short else []), dest=name)
    parser.add_argument('--exclusive', '-x', action='store_true')
    read, faults = _read(lines, first, parser, 'flux batch', [*_FLUX, 'exclusive'])
    yield from faults
    options = _stated(read)

    def value(name: str, default: int = 0) -> int:
        return int(options[name][0]) if name in options else default

    where = {
        'time': 'time-limit', 'nodes': 'nodes', 'cpus': 'cores-per-slot', 'gpus': 'gpus-per-slot',
        'exclusive': 'nslots',
    }  # fmt: skip
    asked.lines = {word: options[name][1] for word, name in where.items() if name in options}
    nodes, slots = value('nodes'), value('nslots', value('nodes'))
    if not slots:
        yield 1, 'nodes', 'rejected: neither nodes nor slots are asked for'
    if 'exclusive' in options and not nodes:
        yield options['exclusive'][1], 'exclusive', 'rejected without nodes'
    if slots < nodes:
        yield options['nslots'][1], 'nslots', f'rejected: {slots} slots on {nodes} nodes'
    asked.nodes = nodes or 1
    of_node = -(-slots // asked.nodes)
    asked.exclusive = nodes > 0 and ('exclusive' in options or 'nslots' not in options)
    if not asked.exclusive:
        asked.cpus, asked.threads_per_core = of_node * value('cores-per-slot', 1), 1  # Flux counts cores
    asked.gpus = of_node * value('gpus-per-slot') if 'gpus-per-slot' in options else None
    asked.seconds = _fsd(options['time-limit'][0]) if 'time-limit' in options else None
    asked.words = {
        word: options[name][0] for word, name in (('account', 'bank'), ('queue', 'queue')) if name in options
    }


def _fsd(text: str) -> int:
    """Return a duration of Flux in s: a number with suffix ``s``, ``m``, ``h`` or ``d``; without one, minutes."""
    number, unit = (text, 'm') if text[-1].isdigit() else (text[:-1], text[-1])
    return int(float(number) * {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}[unit])


#: ReFrame's name of a scheduler -> the function that reads directives into an `Asked` and yields the faulty ones.
RULES: dict[str, Callable[[list[str], Asked], Iterator[Fault]]] = {
    'slurm': _slurm, 'squeue': _slurm, 'pbs': _pbs, 'pbspro': _pbs, 'lsf': _lsf, 'flux': _flux,
}  # fmt: skip
_OF_EACH_JOB = {
    '#SBATCH': r'(--(nodes|ntasks|ntasks-per-node|cpus-per-task|time|job-name|output|error)\b(?!-)|-[NntcJoe]\b)[= ]?',
    '#PBS': r'-l (select|walltime|nodes|ncpus)=',
    '#BSUB': r'-(nnodes|n|W|J|o|e)\b',
}
_PREFIXES = {'slurm': '#SBATCH', 'squeue': '#SBATCH', 'pbs': '#PBS', 'pbspro': '#PBS', 'lsf': '#BSUB'}
