#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a session on Slurm costs beside the benchmarks: 200 short cases, and a sweep against ``--distribute``.

    python studies/fleet_cost.py FOLDER [CASES]
    python studies/fleet_cost.py FOLDER pairs

Starts ci/slurm/cluster in FOLDER (Debian's Slurm, best as root) and runs on its 16 virtual nodes of the partition
`fleet`: CASES cases of a program of half a second, by the suite and by a plain ReFrame test of the same command; then
ten cases on every node, by ``--distribute``, a job for each node and case, and by ci/node-sweep, one job for all. Wall
seconds from start to end, jobs and node seconds as Slurm's accounting has them; all nodes share this host's cores.
Then what follows of that for 6192 nodes, on paper.

`pairs`: the node ladder of the 16 nodes, and each of their 120 pairs by a job of its own, with the OSU of PATH, or a
program of a fifth of a second in its place.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT)]

from scratch import DEMO_CHECK, DEMO_PARTITION, ScratchClone  # noqa: E402

NODES, FLEET = 16, 6192  # nodes measured here, and nodes of the extrapolation
READ = 0.0015  # seconds to read the files of a node for a case: sweep_scale.py
PROGRAM = 'sleep 0.5; echo "rate: 50.5"; echo "delay: 1.25"'
PLAIN = """import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Plain(rfm.RunOnlyRegressionTest):
    valid_systems, valid_prog_environs = ['*'], ['*']
    executable, num_tasks, exclusive_access, time_limit = 'PROGRAM', 1, True, '2m'
    number = parameter(range(CASES))

    @sanity_function
    def ran(self):
        return sn.assert_found('rate', self.stdout)

    @performance_function('GB/s')
    def rate(self):
        return sn.extractsingle(r'rate: (\\\\S+)', self.stdout, 1, float)
"""

PAIR = r"""from itertools import combinations

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import Benchmark
from checks.core.placement import Placement
from checks.core.reading.trials import Metric


@rfm.simple_test
class Pair(Benchmark):
    requires, executable, mpi, num_nodes = 'osu', 'osu_bw', True, 2
    executable_opts = ['-m', '1048576:1048576', '-i', '20', '-x', '2']  # those of the ladder
    metrics = [Metric('bandwidth', 'MB/s', 'higher', r'^1048576 +(\S+)$')]
    pair = parameter([f'n{a},n{b}' for a, b in combinations(range(5, 21), 2)])

    @run_after('setup')
    def place(self):
        self.placement = Placement(1, ((0,),))
        self.job.options += [f'--nodelist={self.pair}']
"""
OSU = {  # stand-ins for OSU, if it is absent: the ranks of a virtual node share the cores of the host
    'osu_bw': '[ $SLURM_PROCID = 0 ] || exit 0; sleep 0.2; echo "1048576   1000.00"',
    'osu_allreduce': '[ $SLURM_PROCID = 0 ] || exit 0; sleep 0.2; echo "16777216   4000.00"',
}


def main(folder: Path, cases: int | None):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    port = str(21000 + os.getpid() % 10000)
    cluster = [str(ROOT / 'ci/slurm/cluster')]
    subprocess.run([*cluster, 'up', folder / 'slurm', port], check=True, stdout=subprocess.DEVNULL)
    try:
        conf = folder / 'slurm/slurm.conf'
        if cases is None:
            measure_pairs(prepare(folder, 1), conf)
        else:
            measure(prepare(folder, cases), conf, cases)
    finally:
        subprocess.run([*cluster, 'down', folder / 'slurm', port], check=True)


def prepare(folder: Path, cases: int) -> ScratchClone:
    clone = ScratchClone(folder)
    clone.describe(DEMO_PARTITION, 'demo')
    text = clone.site_file.read_text().replace('name: node', 'name: fleet').replace('max_jobs: 1', 'max_jobs: 16')
    local = 'scheduler: local\n    launcher: local\n'
    assert local in text
    remote = 'scheduler: slurm\n    launcher: srun\n    access: [-p fleet]\n'
    clone.site_file.write_text(text.replace(local, remote))
    for path in (clone.root / 'checks').glob('*/*.py'):
        if path.parent.name != 'core':
            path.unlink()
    clone.program(PROGRAM)
    many = DEMO_CHECK.replace("parameter(['small']", f'parameter(range({cases})')
    (clone.root / 'many.py').write_text(many)
    (clone.root / 'checks/demo.py').write_text(DEMO_CHECK.replace("parameter(['small']", 'parameter(range(10)'))
    plain = PLAIN.replace('PROGRAM', str(clone.binary)).replace('CASES', str(cases)).replace('\\\\', '\\')
    (clone.root / 'plain.py').write_text(plain)
    return clone


def measure(clone: ScratchClone, conf: Path, cases: int):
    run = Runs(clone, conf).run
    reframe, swept = [*REFRAME, '-S', 'trials=1'], [sys.executable, '-m', 'ci.node_sweep', '--', '-S', 'trials=1']
    plain, *_ = run(f'plain ReFrame, {cases} cases', *reframe[:-2], '-c', 'plain.py')
    suite, *_ = run(f'the suite, {cases} cases', *reframe, '-c', 'many.py')
    wall, jobs, node_seconds = run('10 cases by --distribute', *reframe, '-c', 'checks/demo.py', '--distribute=idle')
    _, _, held_one = run('1 case by ci/node-sweep', *swept, '-n', 'size=0$')
    _, _, held_ten = run('10 cases by ci/node-sweep', *swept)
    each = (held_ten - held_one) / 9 / NODES  # seconds that the nodes are held for a case
    begin = held_one / NODES - each
    spent, held = 10 * node_seconds / jobs, begin + 10 * each + FLEET * READ
    print(f"""
the suite beside plain ReFrame: {(suite - plain) / cases:.3f} s a case
--distribute: {wall / jobs:.3f} s a job of this host's time, {node_seconds / jobs:.1f} s on its node
ci/node-sweep: holds its nodes {begin:.1f} s to begin with and {each:.1f} s a case
10 cases on each of {FLEET} nodes, on paper:
--distribute: {10 * FLEET} jobs, {10 * FLEET * wall / jobs / 3600:.1f} h, {hours(spent):.0f} node hours
ci/node-sweep: 1 job, {held:.0f} s, {hours(held):.0f} node hours""")


REFRAME = ['reframe', '-C', 'reframe_settings/settings.py', '--system=demo:fleet', '-r']


class Runs:
    """Commands that are timed on the virtual nodes."""

    def __init__(self, clone: ScratchClone, conf: Path):
        self.clone = clone
        self.slurm = {'SLURM_CONF': str(conf), 'PATH': f'{clone.environment()["PATH"]}:/usr/sbin'}
        print(f'{"":28} {"wall s":>8} {"jobs":>6} {"node s":>8}')

    def run(self, name: str, *command: str) -> tuple[float, int, int]:
        """Run a command; return its seconds, its jobs and their node seconds."""
        since, began = time.strftime('%H:%M:%S'), time.monotonic()
        answer = self.clone.run(*command, timeout=1800, **self.slurm)
        wall = time.monotonic() - began
        if answer.returncode:
            sys.exit(f'{name}: {answer.stdout[-2000:]}{answer.stderr[-2000:]}')
        time.sleep(3)  # accounting comes later
        jobs, node_seconds = accounts(since, self.slurm)
        print(f'{name:28} {wall:8.1f} {jobs:6} {node_seconds:8}', flush=True)
        return wall, jobs, node_seconds


def measure_pairs(clone: ScratchClone, conf: Path):
    """Print what the ladder and a job for each pair cost, and the seconds of a round by its pairs."""
    shutil.copytree(ROOT / 'checks/mpi', clone.root / 'checks/mpi', dirs_exist_ok=True)
    (clone.root / 'pair.py').write_text(PAIR)
    text = clone.site_file.read_text().replace('features: [demo]', 'features: [osu]')
    clone.site_file.write_text(text.replace('max_jobs:', 'num_nodes: 16\n    max_jobs:'))
    for name, stand_in in OSU.items():
        real = shutil.which(name)
        clone.program(f'exec {real} "$@"' if real else stand_in, name)
    runs = Runs(clone, conf)
    for _ in range(2):
        runs.run('NodeLadder of 16 nodes', *REFRAME, '-c', 'checks/mpi', '-n', 'NodeLadder')
        runs.run('a job for each of 120 pairs', *REFRAME, '-c', 'pair.py', '-S', 'trials=1')
    for path in clone.results.glob('**/NodeLadder*/rfm_job.out'):
        print(*re.findall('^(?:round|took) .*', path.read_text(), re.MULTILINE), sep='\n')


def hours(seconds: float) -> float:
    """Return the node hours of the fleet if each of its nodes is held for `seconds`."""
    return FLEET * seconds / 3600


def accounts(since: str, slurm: dict[str, str]) -> tuple[int, int]:
    """Return the number of jobs that began since a time of today, and their node seconds."""
    command = ['sacct', '--noheader', '--allocations', '--parsable2', '--format=elapsedraw,nnodes']
    command.append(f'--starttime={since}')
    lines = subprocess.run(command, env=os.environ | slurm, capture_output=True, text=True, check=True).stdout.split()
    rows = [tuple(map(int, line.split('|'))) for line in lines]
    return len(rows), sum(seconds * nodes for seconds, nodes in rows)


if __name__ == '__main__':
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    given = sys.argv[2] if len(sys.argv) == 3 else '200'
    main(Path(sys.argv[1]).absolute(), None if given == 'pairs' else int(given))
