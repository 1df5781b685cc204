# SPDX-License-Identifier: BSD-3-Clause
"""What the suite costs, measured side by side with plain ReFrame and with runs by hand; prints, asserts nothing.

    python studies/overhead.py case    what a session adds to each case, against `executable = 'true'` with the settings
                                       of ReFrame and with ours; in seconds, and in seconds of CPU time
    python studies/overhead.py hpcc    HPL, DGEMM and STREAM triad of HPC Challenge by the suite and by hand
    python studies/overhead.py stream  BabelStream by the suite and by hand
    python studies/overhead.py osu     MPI latency between two cores by the suite and by hand
    python studies/overhead.py looks   CPU time of the looks at a program of 1 to 1024 threads in a minute

By hand and by the suite, the programs on PATH run, with Open MPI; further options are ReFrame's.
Rounds are interleaved, so that a machine that drifts drifts for both sides. `--rounds N` sets how many.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'tests')]

import yaml  # noqa: E402
from scratch import ScratchClone  # noqa: E402

from checks.core.reading.binding import granted  # noqa: E402
from plumbline.machine.detect import detect_machine  # noqa: E402

PLAIN = """\
import reframe as rfm


@rfm.simple_test
class Plain(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'true'
    number = parameter(range(NUMBER))

    @sanity_function
    def ran(self):
        return True
"""


def show(name: str, values: list[float], unit: str = 's'):
    print(f'{name:<42} median {median(values):8.3f} {unit}   {" ".join(f"{value:.3f}" for value in sorted(values))}')


class Spent(NamedTuple):
    """The cost of a command: seconds, and seconds of CPU time with its children."""

    seconds: float
    cpu: float


def spent(*command: object, environment: Mapping[str, str], cwd: Path) -> Spent:
    began = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], env=environment, cwd=cwd, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if process.returncode or status:
        sys.exit(f'{command[0]} failed')
    return Spent(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def compare_last(ways: Mapping[str, Sequence[object]], rounds: int, of: int, environment: Mapping[str, str], cwd: Path):
    """Show the time and CPU time of each command, divided by `of`, and the ratios of the last command to the others."""
    took = [
        {name: spent(*command, environment=environment, cwd=cwd) for name, command in ways.items()}
        for _ in range(rounds)
    ]
    for what in ('seconds', 'cpu'):
        values_of = {name: [getattr(once[name], what) / of for once in took] for name in ways}
        for name, values in values_of.items():
            show(f'{name}, {"CPU time" if what == "cpu" else "time"}', values)
        *others, last = map(median, values_of.values())
        print('ratios of medians', *(f'{last / one:.2f}' for one in others))


def added_per_case(rounds: int, cases: int = 20):
    with tempfile.TemporaryDirectory() as folder:
        clone = ScratchClone(Path(folder))
        demo = clone.root / 'checks/demo.py'
        demo.write_text(demo.read_text().replace("['small']", f'range({cases})'))
        plain = clone.root / 'checks/plain.py'
        plain.write_text(PLAIN.replace('NUMBER', str(cases)))
        with_settings = ('reframe', '-C', clone.root / 'reframe_settings/settings.py', '-r')
        ways = {
            'plain ReFrame': ('reframe', '--prefix', clone.results / 'plain', '-r', '-c', plain),
            'plain ReFrame with our settings': (*with_settings, '-c', plain),
            'the suite': (*with_settings, '-c', demo, '-S', 'trials=1'),
        }
        compare_last(ways, rounds, cases, clone.environment(), clone.root)


# Name -> case, feature, program, file of its numbers, launcher, name of a number -> pattern
BY_HAND = {
    'hpcc': (
        'HPCC.*quick', 'hpcc', 'hpcc', 'hpccoutf.txt', 'mpirun', {
            'HPL': r'^HPL_Tflops=(\S+)', 'DGEMM': r'^StarDGEMM_Gflops=(\S+)', 'triad': r'^StarSTREAM_Triad=(\S+)',
        },
    ),
    'osu': (
        'OsuLatency.*same_numa', 'osu', 'osu_latency', 'stdout', 'mpirun',
        {f'{size} bytes': rf'^{size} +(\S+)' for size in (1, 8, 1024, 65536, 2**22)},
    ),
    'stream': (
        'BabelStreamHost.*cores-spread', 'babelstream-omp', 'omp-stream', 'stdout', '',
        {name.lower(): rf'^{name}\s+(\S+)' for name in ('Copy', 'Triad', 'Dot')},
    ),
}  # fmt: skip


def by_hand_and_by_suite(what: str, rounds: int, options: list[str]):
    """Compare the job script of a case with the same command by hand, with as many trials, on the same CPUs.

    `options`: options of ReFrame, such as ``-S trials=5 -S trial_seconds=2``, which makes sizes smaller. The median of
    trials counts.
    """
    name, feature, program, output, launcher, patterns = BY_HAND[what]
    cpus = sorted(os.sched_getaffinity(0))
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    values_of: dict[str, tuple[list[float], list[float]]] = {metric: ([], []) for metric in patterns}
    with tempfile.TemporaryDirectory() as temporary:
        clone = ScratchClone(Path(temporary))
        machine = {key: value for key, value in detect_machine().items() if key in ('processor', 'memory_per_node')}
        clone.describe(yaml.safe_dump(machine), feature, launcher=launcher or 'local')
        clone.binary.with_name(program).symlink_to(shutil.which(program) or sys.exit(f'{program}: not on PATH'))
        dry_run = ('--dry-run', '--keep-stage-files', '-n', name, '-S', 'trials=1', *options)
        answer = clone.reframe(*dry_run, checks='checks')
        scripts = [*clone.results.rglob('rfm_job.sh')]
        if len(scripts) != 1:
            sys.exit(f'{name}: expected one job script, found {len(scripts)}: {answer.stdout}')
        words = re.search(r'options=\((.*)\)', scripts[0].read_text())[1]
        bound = f'taskset --cpu-list {",".join(map(str, cpus))} {program} {words}'
        own = {'OMP_NUM_THREADS': str(len(cpus)), 'OMP_PROC_BIND': 'spread', 'OMP_PLACES': 'cores'}
        if launcher:
            ranks, own = 2 if what == 'osu' else len(cpus), {'OMP_NUM_THREADS': '1'}
            bind = f'cpus=({" ".join(map(str, cpus))}); exec taskset -c ${{cpus[OMPI_COMM_WORLD_LOCAL_RANK]}}'
            bound = f'{launcher} --bind-to none -np {ranks} bash -c {shlex.quote(f"{bind} {program} {words}")}'
        trials = len(re.search(r'^for trial in (.*); do$', scripts[0].read_text(), re.MULTILINE)[1].split())
        one = f'mkdir -p $i/run; cp * $i/run 2> /dev/null; cd $i/run; {bound} > stdout; cd ../..'
        runs = f'for ((i = 0; i < {trials}; i++)); do {one}; done'
        for number in range(rounds):
            ways = [('bash rfm_job.sh', {}, 0), (runs, own, 1)]
            for command, variables, way in ways[:: 1 if number % 2 else -1]:
                folder = Path(temporary, 'run')
                shutil.copytree(scripts[0].parent, folder)
                environment = clone.environment() | root | variables
                subprocess.run(['bash', '-c', command], cwd=folder, env=environment, check=True, capture_output=True)
                texts = [file.read_text() for file in folder.glob(f'*/*/{output}')]
                assert len(texts) == trials, command
                for metric, values in values_of.items():
                    numbers = [float(re.search(patterns[metric], text, re.MULTILINE)[1]) for text in texts]
                    values[way].append(median(numbers))
                looked = {str(one.watched) for file in folder.glob('*/*') for one in granted(file).values()}
                numbers = [f'{metric} {values[way][-1]}' for metric, values in values_of.items()]
                print(number, ('suite', 'hand')[way], *numbers, *sorted(looked)[:1], flush=True)
                shutil.rmtree(folder)
    for metric, (suite, hand) in values_of.items():
        show(f'{metric} by hand', hand, '')
        show(f'{metric} by the suite', suite, '')
        show_ratio(f'{what} {metric}', suite, hand)


def show_ratio(what: str, ours: list[float], theirs: list[float]):
    """Print the median of the ratios of all rounds, and its interval in 95 % of resampled rounds."""
    ratios, draw = [a / b for a, b in zip(ours, theirs, strict=True)], random.Random(1)
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    print(f'{what:<32} ratio {median(ratios):.4f}, between {medians[50]:.4f} and {medians[-51]:.4f}')


RANK = ROOT / 'checks/core/job/parts/rank.sh'


SLEEPER = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
void *work(void *a) { sleep(60); return a; }
int main(int count, char **words) {
    pthread_t thread;
    for (int i = atoi(words[1]); --i;) pthread_create(&thread, 0, work, 0);
    work(0);
}
"""


def looks():
    """Print the cost of looks at programs that all sleep for a minute; sleeping threads cost as much as busy ones."""
    with tempfile.TemporaryDirectory() as name:
        compiler = ['gcc', '-pthread', '-x', 'c', '-', '-o', f'{name}/sleeper']
        subprocess.run(compiler, input=SLEEPER, text=True, check=True)
        started = []
        for threads in (1, 8, 32, 64, 128, 256, 1024):
            folder = Path(name, str(threads))
            folder.mkdir()
            started.append((threads, folder, subprocess.Popen(['bash', RANK, '../sleeper', str(threads)], cwd=folder)))
        for threads, folder, process in started:
            process.wait()
            time.sleep(0.2)
            (rank,) = granted(folder).values()
            number, cost = len(rank.watched.looks), rank.watched.own / rank.watched.ended
            print(f'{threads:>4} threads: {number} looks, {rank.watched.own * 1e3:.1f} ms, {cost:.4%} of one core')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=('case', 'looks', *BY_HAND))
    parser.add_argument('--rounds', type=int, default=7)
    arguments, options = parser.parse_known_args()
    if arguments.what in BY_HAND:
        by_hand_and_by_suite(arguments.what, arguments.rounds, options)
    elif arguments.what == 'case':
        added_per_case(arguments.rounds)
    else:
        looks()
