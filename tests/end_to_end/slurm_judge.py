# SPDX-License-Identifier: BSD-3-Clause
"""Slurm's own judgement of job scripts: a controller without nodes, configured as the described sites say."""

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plumbline.site.sites import Partition, Site

PATHS = f'{os.environ["PATH"]}:/usr/sbin:/sbin'
# No job of a published number has more than 1024 nodes; the start of slurmctld takes as long as there are nodes.
MOST_NODES = 1024
# Nodes in the state CLOUD need no slurmd and no name that resolves. EnforcePartLimits: what can never run is refused.
CONF = """\
ClusterName=judge
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
EnforcePartLimits=ALL
AllowSpecResourcesUsage=YES
GresTypes=gpu
SuspendTime=-1
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SlurmdTimeout=0
AccountingStorageType=accounting_storage/none
"""


class Judge:
    """Answers whether sbatch takes a script for a partition ``<site>-<partition>``; starts nothing."""

    def __init__(self, folder: Path):
        self.environment = os.environ | {'SLURM_CONF': str(folder / 'slurm.conf'), 'PATH': PATHS}

    def refusal(self, script: Path, partition: str | None = None) -> str:
        """Return why sbatch refuses the script; empty if it accepts it. Without `partition`: its own."""
        environment = self.environment | ({'SBATCH_PARTITION': partition} if partition else {})
        answer = subprocess.run(
            ['sbatch', '--test-only', script], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return (answer.stderr or 'no reason') if answer.returncode else ''


@contextmanager
def judge_of(sites: Iterable[Site], folder: Path, port: int) -> Iterator[Judge]:
    """Run munged and slurmctld below `folder` with the partitions of all `sites`. Skips without Slurm."""
    for name in ('sbatch', 'slurmctld', 'munged'):
        if shutil.which(name, path=PATHS) is None:
            pytest.skip(f'{name} is not installed')
    user, host = (subprocess.check_output(words, text=True).strip() for words in (['id', '-un'], ['hostname', '-s']))
    (folder / 'state').mkdir()
    folder.chmod(0o755)
    nodes = [line for site in sites for partition in site.partitions.values() for line in _lines(site, partition)]
    conf = CONF.format(host=host, user=user, folder=folder, port=port) + '\n'.join(nodes) + '\n'
    (folder / 'slurm.conf').write_text(conf)
    key = folder / 'munge.key'
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    judge, started = Judge(folder), []
    try:
        munged = ['munged', '--foreground', '--force', f'--key-file={key}', f'--socket={folder}/munge.sock']
        munged += [f'--{name}-file={folder}/munged.{name}' for name in ('pid', 'log', 'seed')]
        for words in (munged, ['slurmctld', '-D', '-c', '-i']):
            started.append(subprocess.Popen(
                words, env=judge.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd=folder,
            ))  # fmt: skip
            _within(30, folder, lambda words=words: _is_up(words[0], folder, judge))
        yield judge
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def _is_up(program: str, folder: Path, judge: Judge) -> bool:
    if program == 'munged':
        return (folder / 'munge.sock').exists()
    ping = subprocess.run(
        ['scontrol', 'ping'], env=judge.environment, capture_output=True, text=True, check=False, timeout=60
    )
    return 'UP' in ping.stdout


def _within(seconds: float, folder: Path, is_true) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            log = folder / 'slurmctld.log'
            pytest.fail(f'slurmctld did not start: {log.read_text()[-2000:] if log.exists() else "no log"}')
        time.sleep(0.1)


def _lines(site: Site, partition: Partition) -> Iterator[str]:
    """Yield the lines of slurm.conf for a partition of a Slurm site: its nodes, and what its queue allows."""
    if partition.entry['scheduler'] not in ('slurm', 'squeue') or not partition.processor:
        return
    processor, name = partition.processor, f'{site.name}-{partition.name}'
    cores, sockets = processor['num_cpus'] // processor['num_cpus_per_core'], processor['num_sockets']
    gpus = sum(device['num_devices'] for device in partition.entry.get('devices', []) if device['type'] == 'gpu')
    words = shlex.split(' '.join(partition.entry.get('access', [])))
    constraint = next((words[at + 1] for at, word in enumerate(words) if word in ('-C', '--constraint')), '')
    features = ','.join(re.findall(r'\w+', constraint))
    count = min(partition.num_nodes, MOST_NODES) if 'num_nodes' in partition.entry else 64
    kept = len(processor.get('reserved_cores', ())) if site.name == 'frontier' else 0  # without -S 0, says its guide
    yield ' '.join([
        f'NodeName={name}[1-{count}] Sockets={sockets} CoresPerSocket={cores // sockets}',
        f'ThreadsPerCore={processor["num_cpus_per_core"]} RealMemory={int((partition.memory_bytes or 2**34) / 2**20)}',
        *([f'CoreSpecCount={kept}'] if kept else []), *([f'Gres=gpu:{gpus}'] if gpus else []),
        *([f'Feature={features}'] if features else []), 'State=CLOUD',
    ])  # fmt: skip
    yield f'PartitionName={name} Nodes={name}[1-{count}] MaxTime={partition.max_time // 60}'
