#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a sweep over thousands of nodes costs the host that runs ci/node-sweep: time, memory, files.

    python studies/sweep_scale.py FOLDER [NODES [ROUNDS]]

ci/node-sweep, ReFrame and plumbline are real; Slurm's commands are stand-ins that say that NODES nodes are free, run
the first place of a round for real, with a program that prints a recorded output, and copy what it left for all other
places. BabelStream on every node, then OSU's latency on pairs in ROUNDS rounds, none if 0. Prints, asserts nothing.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from copy import copy
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT)]

from scratch import OUTPUTS, ScratchClone  # noqa: E402

SITE = """\
descr: a fleet
hostnames: [nowhere]
partitions:
  - name: fleet
    scheduler: slurm
    launcher: srun
    environs: [system]
    processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1, caches: {L3: {size: 1 MiB, num_cpus: 2}}}
    memory_per_node: 64 GiB
    num_nodes: NODES
environments:
  - {name: system, provider: system, prefix: PREFIX, features: [babelstream-omp, osu]}
"""
BABELSTREAM = f"""
while [ $# -gt 0 ]; do
    case $1 in --arraysize) elements=$2 ;; esac
    shift
done
mb=$(awk "BEGIN {{printf \\"%.1f\\", $elements * 8e-6}}")
sed "s/^Array size: [0-9.]* MB/Array size: $mb MB/" {OUTPUTS}/babelstream-5.0-omp-100.txt
"""
OSU = f'[ "$SLURM_PROCID" = 1 ] || cat {OUTPUTS}/osu_latency-7.4-all-sizes.txt'
SLURM = {
    'sinfo': """case "$*" in *--sta*) exit ;; *%E*) more='|root|none' ;; esac; case "$*" in *%P*) of='cpu*|' ;; esac
        sed "s/^/$of/; s/$/|idle$more/" FOLDER/nodes""",
    'salloc': 'echo "salloc: Granted job allocation 1" >&2',
    'squeue': ':',
    'scancel': ':',
    'srun': f'exec {sys.executable} {Path(__file__).resolve()} srun "$@"',
}
PUBLISHED = """\
partition,environ,check,params,metric,dims,unit,better,mean,std,n,kind,source,recorded_at,mode,note
fleet,*,BabelStreamHost,*,bandwidth,kernel=triad,GB/s,higher,14,,,published,made up,,,
fleet,*,OsuLatency,*,latency,message_bytes=8,us,lower,0.2,,,published,made up,,,
"""


def main(folder: Path, nodes: int, rounds: int):
    folder.mkdir(parents=True)
    clone = ScratchClone(folder)
    names = [f'node{number:05}' for number in range(1, nodes + 1)]
    (folder / 'nodes').write_text('\n'.join([*names, '']))
    prefix = clone.binary.parent
    clone.site_file.write_text(SITE.replace('NODES', str(nodes)).replace('PREFIX', str(prefix.parent)))
    clone.site_file.with_name('published.csv').write_text(PUBLISHED)
    (clone.root / 'checks/demo.py').unlink()
    clone.program(BABELSTREAM, 'omp-stream')
    clone.program(OSU, 'osu_latency')
    for name, script in SLURM.items():
        clone.program(script.replace('FOLDER', str(folder)), name)
    sweep(clone, f'BabelStream on {nodes} nodes', '-n', '^BabelStreamHost.*cores-spread')
    if rounds:
        sweep(clone, f'OSU on pairs of {nodes} nodes', '-n', '^OsuLatency.*two_nodes', rounds=rounds)


def sweep(clone: ScratchClone, title: str, *selection: str, rounds: int = 1):
    shutil.rmtree(clone.results, ignore_errors=True)
    print(f'{title}, {rounds} rounds, 1 trial')
    words = ['--mode=nightly', f'--rounds={rounds}', '--', *selection, '-Strials=1']
    measured('ci/node-sweep', clone, 'ci.node_sweep', *words)
    (part,) = clone.results.glob('reports/parts/*.json')
    (whole,) = clone.results.glob('reports/*Z.json')
    (case,) = (entry for entry in json.loads(part.read_text())['runs'][0]['testcases'] if not entry['fixture'])
    print(f'  {"of it ReFrame reading":26} {case["time_sanity"]:8.1f} s   {len(case["record"]["swept"])} places')
    for path in (part, whole, clone.results / 'reframe.db', clone.results / 'report.html'):
        print(f'  {path.name:26} {path.stat().st_size / 1e6:8.1f} MB')
    store = clone.results.parent / 'store'
    for words in (['ingest', str(whole)], ['compare', '--summary'], ['fleet'], ['report']):
        measured(f'plumbline {words[0]}', clone, 'plumbline', *words, f'--results={store}')
    shutil.rmtree(store)


def measured(name: str, clone: ScratchClone, *words: str):
    """Run a module; print its wall and CPU time, and the most memory of its processes."""
    log = clone.results.parent / 'log'
    environment = clone.environment() | {'PATH': f'{clone.binary.parent}:{clone.environment()["PATH"]}'}
    began = time.monotonic()
    with log.open('w') as stream:
        started = subprocess.Popen(
            [sys.executable, '-m', *words], cwd=clone.root, env=environment, stdout=stream, stderr=stream
        )
        _, status, used = os.wait4(started.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    wall, cpu, memory = time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f'  {name:26} {wall:8.1f} s   {cpu:6.1f} s CPU {memory:6.0f} MB   exit code {code}', flush=True)
    if 'Traceback' in log.read_text() or code == 2:
        sys.exit(log.read_text()[-3000:])


def srun(words: list[str]):
    """Stand in for srun: run the ranks of a place, or the first place of a round, copied for the other places."""
    command = words[words.index('bash') :]
    if 'PLUMBLINE_PLACE' in os.environ:
        for rank, node in enumerate(os.environ['PLUMBLINE_PLACE'].split(',')):
            step = {'SLURMD_NODENAME': node, 'SLURM_PROCID': str(rank), 'SLURM_LOCALID': '0'}
            subprocess.run(command, env=os.environ | step, check=True)
        return
    first, *others = (line.split() for line in Path('rounds', command[2]).read_text().splitlines())
    subprocess.run(command, env=os.environ | {'SLURMD_NODENAME': first[0]}, check=True)
    with tarfile.open(f'places/{first[1]}.tar') as archive:
        made = [(member, archive.extractfile(member).read()) for member in archive]
    for _, place in others:
        renamed = list(zip(first[1].split(','), place.split(','), strict=True))
        with tarfile.open(f'places/{place}.tar', 'w') as archive:
            for member, content in made:
                its = copy(member)
                for mine, other in renamed:
                    its.name = its.name.replace(mine, other)
                archive.addfile(its, io.BytesIO(content))


if __name__ == '__main__':
    if sys.argv[1:2] == ['srun']:
        srun(sys.argv[2:])
    elif 2 <= len(sys.argv) <= 4:
        given = [int(number) for number in sys.argv[2:]]
        main(Path(sys.argv[1]).absolute(), *given, *[6192, 8][len(given) :])
    else:
        sys.exit(__doc__)
