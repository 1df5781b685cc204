"""What the suite costs, measured side by side with plain ReFrame and with runs by hand; prints, asserts nothing.

    python studies/overhead.py list    listing all checks against plain ReFrame listing one trivial check
    python studies/overhead.py wide    listing all checks of 50 partitions of 8 GPUs, and as many trivial ones
    python studies/overhead.py case    what a session adds to each case, against `executable = 'true'`
    python studies/overhead.py hpcc    STREAM triad and DGEMM by the suite and by hand, with the same binding
    python studies/overhead.py stream  BabelStream triad by the suite and by hand, with the same binding
    python studies/overhead.py hpl     HPL of the quick size by the suite and by hand, with the same input
    python studies/overhead.py osu     MPI latency between two cores by the suite and by hand
    python studies/overhead.py watch   HPL, STREAM and likwid-bench with the looks at their threads, and without
    python studies/overhead.py looks   CPU time of the looks at a program of 1 to 1024 threads in a minute
    python studies/overhead.py ior     IOR by the suite and by hand on tmpfs, the same files and bytes
    python studies/overhead.py best    the best binding of the suite and the best of 20 random ones
    python studies/overhead.py stack   a job's way to its program: system, Spack stack, ReFrame's stock Spack

The benchmarks by name, `best` and `stack` need the localhost stack installed (ci/provision), `stack` its Spack too.
Rounds are interleaved, so that a machine that drifts drifts for both sides. `--rounds N` sets how many.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'tests')]

from scratch import ScratchClone, cases_in  # noqa: E402

from checks.core.jobscript import activation  # noqa: E402
from checks.core.placement import granted  # noqa: E402
from checks.memory.babelstream_base import BINDINGS  # noqa: E402
from plumbline.sites import Environ  # noqa: E402
from plumbline.stacks.install import environment, find_spack  # noqa: E402
from plumbline.stacks.manifest import Installed, known_benchmarks  # noqa: E402

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


def seconds(*command: object, environment: dict[str, str], cwd: Path) -> float:
    began = time.perf_counter()
    subprocess.run([*map(str, command)], env=environment, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def show(name: str, values: list[float], unit: str = 's'):
    print(f'{name:<34} median {median(values):8.3f} {unit}   {" ".join(f"{value:.3f}" for value in sorted(values))}')


def listing(rounds: int):
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / 'plain.py'
        plain.write_text(PLAIN.replace('NUMBER', '1'))
        settings = ROOT / 'reframe_settings/settings.py'
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(seconds('reframe', '-c', plain, '-l', environment=os.environ, cwd=folder))
            command = ('reframe', '-C', settings, '-c', ROOT / 'checks', '-R', '-l')
            ours.append(seconds(*command, environment=os.environ, cwd=folder))
    show('plain ReFrame, one check', theirs)
    show('all checks of the suite', ours)
    print(f'ratio of medians {median(ours) / median(theirs):.2f}')


# All 28 pairs of eight GPUs in four classes, as an MI250X node has them in kind
NODE = """\
{processor: {num_cpus: 128, num_cpus_per_core: 2, num_sockets: 2, num_numa_domains: 8,
caches: {L2: {size: 1 MiB, num_cpus: 2}, L3: {size: 32 MiB, num_cpus: 16}}},
devices: [{type: gpu, arch: sm_90, num_devices: 8}], memory_per_node: 512 GiB, num_nodes: 64,
scheduler: local, launcher: mpirun, environs: [system], link_classes: {CLASSES}, name: """


def wide_site() -> str:
    pairs = [[a, b] for a in range(8) for b in range(a + 1, 8)]
    classes = ', '.join(f'{name}: {{pairs: {pairs[i::4]}}}' for i, name in enumerate('ABCD'))
    node = NODE.replace('CLASSES', classes).replace('\n', ' ')
    features = [feature for feature in known_benchmarks() if 'rocm' not in feature and 'hip' not in feature]
    lines = ['descr: wide', 'hostnames: [nowhere]', 'partitions:', *(f'  - {node}p{i}}}' for i in range(50))]
    stack = f'  - {{name: system, provider: system, prefix: /usr, features: [{", ".join(features)}]}}'
    return '\n'.join([*lines, 'environments:', stack, ''])


def seconds_and_memory(*command: object, environment: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Wall seconds, and MiB of the largest process."""
    began = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], env=environment, cwd=cwd, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if process.returncode or status:
        sys.exit(f'{command[0]} failed')
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def wide_listing(rounds: int):
    with tempfile.TemporaryDirectory() as folder:
        clone = ScratchClone(Path(folder))
        clone.site_file.write_text(wide_site())
        ours = ('reframe', '-C', clone.root / 'reframe_settings/settings.py', '-c', clone.root / 'checks', '-R', '-l')
        found = clone.run(*ours).stdout
        lines = [line for line in found.splitlines() if line.startswith('- ')]
        number = int(re.search(r'Found (\d+) check', found)[1])
        plain, config = Path(folder, 'plain.py'), Path(folder, 'config.py')
        plain.write_text(PLAIN.replace('NUMBER', str(number)))
        partitions = [
            {'name': f'p{i}', 'scheduler': 'local', 'launcher': 'local', 'environs': ['system']} for i in range(50)
        ]
        system = {'name': 'wide', 'hostnames': ['.*'], 'partitions': partitions}
        config.write_text(f'site_configuration = {{"systems": [{system}], "environments": [{{"name": "system"}}]}}')
        theirs = ('reframe', '-C', config, '-c', plain, '-l')
        at = {'environment': clone.environment(), 'cwd': clone.root}
        took = [[seconds_and_memory(*command, **at) for command in (theirs, ours)] for _ in range(rounds)]
    print(f'{number} checks, {len(lines)} listed, on 50 partitions')
    for i, unit in enumerate(('s', 'MiB')):
        plain_ones, suite = ([measured[side][i] for measured in took] for side in (0, 1))
        show('plain ReFrame', plain_ones, unit)
        show('the suite', suite, unit)
        print(f'ratio of medians {median(suite) / median(plain_ones):.2f}')


def added_per_case(rounds: int, cases: int = 20):
    with tempfile.TemporaryDirectory() as folder:
        clone = ScratchClone(Path(folder))
        demo = clone.root / 'checks/demo.py'
        demo.write_text(demo.read_text().replace("['small']", f'range({cases})'))
        plain = clone.root / 'checks/plain.py'
        plain.write_text(PLAIN.replace('NUMBER', str(cases)))
        reframe = ('reframe', '-C', clone.root / 'reframe_settings/settings.py', '-r')
        ours, theirs = [], []
        for number in range(rounds):
            report = clone.results / f'round-{number}.json'
            theirs.append(seconds(*reframe, '-c', plain, environment=clone.environment(), cwd=clone.root) / cases)
            command = (*reframe, '-c', demo, '-S', 'trials=1', f'--report-file={report}')
            whole = seconds(*command, environment=clone.environment(), cwd=clone.root)
            entries = json.loads(report.read_text())['runs'][0]['testcases']
            own = sum(sum(entry['record']['trial_seconds']) for entry in entries if not entry['fixture'])
            ours.append((whole - own) / cases)
    show(f'plain ReFrame, {cases} x true', theirs)
    show(f'the suite, {cases} cases', ours)
    print(f'ratio of medians {median(ours) / median(theirs):.2f}')


def hpcc_by_hand_and_by_suite(rounds: int):
    metrics = ('StarSTREAM_Triad', 'StarDGEMM_Gflops')
    by_suite: dict[str, list[float]] = {name: [] for name in metrics}
    by_hand: dict[str, list[float]] = {name: [] for name in metrics}
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMP_NUM_THREADS': '1'}
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | root | {'PLUMBLINE_RESULTS': folder, 'PLUMBLINE_SITE': 'localhost'}
        for number in range(rounds):
            report = Path(folder) / f'round-{number}.json'
            seconds(
                'reframe', '-C', ROOT / 'reframe_settings/settings.py', '-c', ROOT / 'checks/compute', '-r',
                '-n', 'HPCC', '-t', 'quick', '-S', 'trials=1', '--keep-stage-files', f'--report-file={report}',
                environment=environment, cwd=folder,
            )  # fmt: skip
            (case,) = (e for e in json.loads(report.read_text())['runs'][0]['testcases'] if not e['fixture'])
            for name in metrics:
                by_suite[name].append(case['record']['metrics'][name]['samples'][0][2])
            hand = Path(folder) / f'hand-{number}'
            hand.mkdir()
            shutil.copy(next(Path(folder, 'stage').rglob('hpccinf.txt')), hand)
            ranks = len(case['record']['placement']['actual'])
            bind = 'exec taskset --cpu-list "$OMPI_COMM_WORLD_LOCAL_RANK" hpcc'
            command = shlex.split(f'mpirun --bind-to none -np {ranks} bash -c {shlex.quote(bind)}')
            seconds(*command, environment=environment, cwd=hand)
            for line in (hand / 'hpccoutf.txt').read_text().splitlines():
                name, _, value = line.partition('=')
                if name in metrics:
                    by_hand[name].append(float(value))
    for name, unit in zip(metrics, ('GB/s', 'GFlop/s'), strict=True):
        show(f'{name} by hand', by_hand[name], unit)
        show(f'{name} by the suite', by_suite[name], unit)
        print(f'ratio of medians {median(by_suite[name]) / median(by_hand[name]):.4f}')


def record_of(check: str, results: Path, *options: str) -> dict:
    """What one case of one check of localhost left in the run report of a session of one trial."""
    report = results / f'{time.time_ns()}.json'
    seconds(
        'reframe', '-C', ROOT / 'reframe_settings/settings.py', '-c', ROOT / 'checks', '-R', '-r', '-n', check,
        '-S', 'trials=1', '--keep-stage-files', f'--report-file={report}', *options, cwd=results,
        environment=os.environ | {'PLUMBLINE_RESULTS': str(results), 'PLUMBLINE_SITE': 'localhost'},
    )  # fmt: skip
    (case,) = cases_in(report)
    return case['record']


def by_hand(command: str, pattern: str, cwd: Path, **environment: str) -> float:
    """The number that `pattern` finds in what a command prints, the stack's programs on PATH."""
    activate = Installed('localhost', 'node', 'cpu').activation
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    said = subprocess.run(
        ['bash', '-c', f'source {activate} && {command}'], cwd=cwd, env=os.environ | root | environment,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return float(re.search(pattern, said, re.MULTILINE)[1])


def compare_with_hand(what: str, unit: str, suite: list[float], hand: list[float]):
    show(f'{what} by hand', hand, unit)
    show(f'{what} by the suite', suite, unit)
    again = random.Random(1)
    ratios = sorted(
        median(again.choices(suite, k=len(suite))) / median(again.choices(hand, k=len(hand))) for _ in range(2000)
    )
    low, high = ratios[50], ratios[-51]  # 95 % of resampled pairs of rounds
    print(f'ratio of medians {median(suite) / median(hand):.4f}, between {low:.3f} and {high:.3f}')


TRIAD = r'^Triad\s+(\S+)'


def stream_by_hand_and_by_suite(rounds: int):
    cpus = ','.join(map(str, sorted(os.sched_getaffinity(0))))
    cores = str(len(os.sched_getaffinity(0)))
    bound = {'OMP_NUM_THREADS': cores, 'OMP_PROC_BIND': 'spread', 'OMP_PLACES': 'cores'}
    command = f'taskset --cpu-list {cpus} omp-stream --arraysize {2**25} --numtimes 100'
    suite, hand = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            record = record_of('BabelStreamHost.*cores-spread', Path(folder))
            suite.append(record['metrics']['bandwidth kernel=triad']['samples'][0][2])
            hand.append(by_hand(command, TRIAD, Path(folder), **bound) / 1000)
    compare_with_hand('BabelStream triad', 'GB/s', suite, hand)


def osu_by_hand_and_by_suite(rounds: int):
    """Of 1 and 8 bytes and of 4 MiB between the first two cores."""
    sizes = (1, 8, 2**22)
    bind = 'exec taskset --cpu-list "$OMPI_COMM_WORLD_LOCAL_RANK" osu_latency -m 1:4194304'
    command = f'mpirun --bind-to none -np 2 bash -c {shlex.quote(bind)} | tee osu_latency.txt'
    suite, hand = {size: [] for size in sizes}, {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            record = record_of('OsuLatency.*same_numa', Path(folder))
            by_hand(command, r'^1 +(\S+)', Path(folder))
            for size in sizes:
                suite[size].append(record['metrics'][f'latency message_bytes={size}']['samples'][0][2])
                said = Path(folder, 'osu_latency.txt').read_text()
                hand[size].append(float(re.search(rf'^{size} +(\S+)', said, re.MULTILINE)[1]))
    for size in sizes:
        compare_with_hand(f'MPI latency of {size} bytes', 'us', suite[size], hand[size])


def hpl_by_hand_and_by_suite(rounds: int):
    suite, hand = [], []
    bind = 'exec taskset --cpu-list "$OMPI_COMM_WORLD_LOCAL_RANK" xhpl'
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            record = record_of('HPL.*quick', Path(folder))
            suite.append(record['metrics']['gflops']['samples'][0][2])
            shutil.copy(next(Path(folder, 'stage').rglob('HPL.dat')), folder)
            command = f'mpirun --bind-to none -np {len(record["binding"]["got"])} bash -c {shlex.quote(bind)}'
            hand.append(by_hand(command, r'^W[RC]\S+(?:\s+\S+){5}\s+(\S+)', Path(folder), OMP_NUM_THREADS='1'))
    compare_with_hand('HPL', 'GFlop/s', suite, hand)


def ior_by_hand_and_by_suite(rounds: int):
    operations = {'write': '-w -e -k -i 3', 'read': '-r -i 1'}
    suite, hand = {name: [] for name in operations}, {name: [] for name in operations}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir='/dev/shm') as memory:
        for _ in range(rounds):
            record = record_of('IOR%file_system=memory.*quick', Path(folder))
            ranks = len(record['binding']['got'])
            for name, options in operations.items():
                suite[name].append(record['metrics'][f'bandwidth access={name},pattern=easy_1m']['samples'][0][2])
                bind = f'exec taskset --cpu-list "$OMPI_COMM_WORLD_LOCAL_RANK" ior -a POSIX -F -C -g {options}'
                bind += f' -t 1m -b {64 * 2**20 // ranks} -o {memory}/file'
                command = f'mpirun --bind-to none -np {ranks} bash -c {shlex.quote(bind)}'
                mean = rf'^{name}\s+\S+\s+\S+\s+(\S+).*POSIX\s+\d+$'  # the row of the summary
                hand[name].append(by_hand(command, mean, Path(folder)))
    for name in operations:
        compare_with_hand(f'IOR {name}', 'MiB/s', suite[name], hand[name])


RANK = ROOT / 'checks/core/job/rank.sh'
LIKWID_ITERATIONS = 150
HPCC_INPUT = Path('/usr/share/doc/hpcc/examples/_hpccinf.txt')


def watching(rounds: int):
    """Three runs a round, in an order that changes: by hand, again by hand, and by rank.sh, on the same CPU.

    One rank on one CPU: CPU seconds of the same work are much less disturbed by other load than its rate is.
    """
    cpu = str(min(os.sched_getaffinity(0)))
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMP_NUM_THREADS': '1'}
    programs = {
        'likwid-bench': (
            f'likwid-bench -t stream -w N:200MB:1 -i {LIKWID_ITERATIONS}', {'stream': r'^MByte/s:\s+(\S+)'}
        ),
        'hpcc': ('hpcc', {'HPL': r'^HPL_Tflops=(\S+)', 'STREAM triad': r'^StarSTREAM_Triad=(\S+)'}),
    }  # fmt: skip
    found: dict[str, dict[str, list[float]]] = {}
    own = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one_rank = re.sub(r'^2(\s+[PQ]s)', r'1\1', HPCC_INPUT.read_text(), flags=re.MULTILINE)
        (folder / 'hpccinf.txt').write_text(re.sub(r'^1000(\s+Ns)', r'1500\1', one_rank, flags=re.MULTILINE))
        for number in range(rounds):
            for program, (command, patterns) in programs.items():
                launch = 'mpirun --bind-to none -np 1 ' if program == 'hpcc' else ''
                hand = f'{launch}taskset --cpu-list {cpu} {command}'
                ways = [('hand', hand), ('again', hand), ('rank.sh', f'{launch}bash {RANK} {command}')]
                for way, words in ways[number % 3 :] + ways[: number % 3]:
                    (folder / 'hpccoutf.txt').unlink(missing_ok=True)
                    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                    said = subprocess.run(
                        shlex.split(words), cwd=folder, env=os.environ | root | {'PLUMBLINE_CPUS': cpu},
                        capture_output=True, text=True, check=True,
                    ).stdout  # fmt: skip
                    took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
                    found.setdefault(f'{program} CPU time', {}).setdefault(way, []).append(1 / took)
                    said += (folder / 'hpccoutf.txt').read_text() if program == 'hpcc' else ''
                    for what, pattern in patterns.items():
                        value = float(re.search(pattern, said, re.MULTILINE)[1])
                        found.setdefault(f'{program} {what}', {}).setdefault(way, []).append(value)
                time.sleep(0.1)  # for the last line of the looks
                own += [one.watched.own / one.watched.ended for one in granted(folder).values() if one.watched.own]
    for what, values in found.items():
        for way in ('again', 'rank.sh'):
            ratios = [a / b for a, b in zip(values[way], values['hand'], strict=True)]
            draw = random.Random(1)
            medians = sorted(median(draw.choices(ratios, k=rounds)) for _ in range(2000))
            print(f'{what:<22} {way:<8} {median(ratios):.4f}, between {medians[50]:.3f} and {medians[-51]:.3f}')
    print(f'CPU time of the looks: {median(own):.4%} of one core, at most {max(own):.4%}')


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


def looks(_: int):
    """All programs at the same time, for a minute: sleeping threads cost as much to look at as busy ones."""
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
            (one,) = granted(folder).values()
            number, cost = len(one.watched.looks), one.watched.own / one.watched.ended
            print(f'{threads:>4} threads: {number} looks, {one.watched.own * 1e3:.1f} ms, {cost:.4%} of one core')


PROC_BIND = [None, 'true', 'close', 'spread', 'master']
PLACES = [None, 'cores', 'threads', 'sockets']


def best_binding(rounds: int):
    """The bindings of the suite and 20 random ones, 20 repetitions each: the highest mean of `rounds` runs, and the
    highest run, which says more where the memory switches between two levels."""
    cpus = sorted(os.sched_getaffinity(0))
    choose = random.Random(1)
    ours = [
        {'OMP_NUM_THREADS': {'one': '1'}.get(count, str(len(cpus))), **options(proc_bind, places)}
        for count, proc_bind, places in BINDINGS.values()
    ]
    others = [
        {'OMP_NUM_THREADS': str(choose.randint(1, 2 * len(cpus)))}
        | options(choose.choice(PROC_BIND), choose.choice(PLACES))
        for _ in range(20)
    ]
    command = f'omp-stream --arraysize {2**25} --numtimes 20'
    with tempfile.TemporaryDirectory() as folder:
        rates = [
            [by_hand(command, TRIAD, Path(folder), **binding) / 1000 for binding in ours + others]
            for _ in range(rounds)
        ]
    for name, reduce in (('mean', fmean), ('run', max)):
        rate_of_each = [reduce(values) for values in zip(*rates, strict=True)]
        suite, rest = max(rate_of_each[: len(ours)]), max(rate_of_each[len(ours) :])
        print(f'highest {name}: {suite:.2f} GB/s of the suite, {rest:.2f} of random ones, ratio {suite / rest:.4f}')


def options(proc_bind: str | None, places: str | None) -> dict[str, str]:
    return {name: value for name, value in (('OMP_PROC_BIND', proc_bind), ('OMP_PLACES', places)) if value}


def stacks(rounds: int):
    installed = Installed('localhost', 'node', 'cpu')
    if fault := installed.fault():
        sys.exit(f'the cpu stack of localhost: {fault}; run ci/provision')
    with tempfile.TemporaryDirectory() as folder:
        ways = {'nothing': 'true'}
        for provider, stack in (('system', None), ('spack', installed)):
            file = Path(folder, provider)
            file.write_text('\n'.join(activation(Environ('cpu', provider, prefix='/usr'), stack)))
            ways[f'{provider} provider'] = f'source {file}'
        ways["ReFrame's stock Spack, load"] = f'eval `{find_spack()} -e {installed.folder} load --sh ior`'
        ways["ReFrame's stock Spack, install"] = f'{find_spack()} -e {installed.folder} install'
        took: dict[str, list[float]] = {name: [] for name in ways}
        checked = []
        for _ in range(rounds):
            for name, script in ways.items():
                took[name].append(seconds('bash', '-c', script, environment=environment(), cwd=ROOT))
            began = time.perf_counter()
            installed.fault()
            checked.append(time.perf_counter() - began)
    for name, values in took.items():
        show(name, values)
    show('looking whether it is up to date', checked)
    print(f'spack to system provider: {median(took["spack provider"]) / median(took["system provider"]):.3f}')


WHAT = {
    'list': listing, 'wide': wide_listing, 'case': added_per_case, 'hpcc': hpcc_by_hand_and_by_suite,
    'stream': stream_by_hand_and_by_suite, 'hpl': hpl_by_hand_and_by_suite, 'osu': osu_by_hand_and_by_suite,
    'ior': ior_by_hand_and_by_suite, 'watch': watching, 'looks': looks, 'best': best_binding, 'stack': stacks,
}  # fmt: skip

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=tuple(WHAT))
    parser.add_argument('--rounds', type=int, default=7)
    arguments = parser.parse_args()
    WHAT[arguments.what](arguments.rounds)
