# SPDX-License-Identifier: BSD-3-Clause
"""Tell whether a job runs on this node, or other processes keep its CPUs busy."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

#: CPUs that others may keep busy on a quiet node.
QUIET = 0.5

_STEP = re.compile(rb'slurmstepd: \[(\d+)')  # how Slurm names the process of each step
_PBS_JOBS = 'var/spool/pbs/mom_priv/jobs'
_OWN = ('SLURM_JOB_ID', 'PBS_JOBID')
_TICKS = os.sysconf('SC_CLK_TCK')


def jobs(epilog: bool = False, root: Path = Path('/')) -> list[str]:
    """Return the jobs of Slurm, PBS or Flux on this node; with `epilog` without the job whose epilog runs this."""
    names = set()
    for path in (root / 'proc').glob('[0-9]*/cmdline'):
        try:
            words = path.read_bytes()
        except OSError:  # it ended
            continue
        if step := _STEP.match(words):
            names.add(step[1].decode())
        elif os.path.basename(words.split(b'\0')[0]) == b'flux-shell':
            names.add(f'of flux-shell, process {path.parent.name}')
    names |= {path.stem for path in (root / _PBS_JOBS).glob('*.JB')}
    return sorted(names - {os.environ.get(name, '') for name in _OWN} if epilog else names)


def warning(cpus: float) -> str:
    """Return a sentence if others keep more than `QUIET` CPUs of this node busy; else empty."""
    if cpus <= QUIET:
        return ''
    every = os.cpu_count() or 1
    return f'others keep {min(cpus, every):.1f} of {every} CPUs busy: these numbers will be no baseline'


class Busy:
    """CPU time that others use: other processes of this node, and other machines of its hypervisor."""

    def __init__(self) -> None:
        self._before = self._now()

    def cpus(self) -> float:
        """Return how many CPUs others kept busy since this object was made, on average."""
        others, clock = self._now()
        return max(0.0, (others - self._before[0]) / max(clock - self._before[1], 1e-3))

    def _now(self) -> tuple[float, float]:
        """Return the CPU time of others and the monotonic clock, both in s."""
        user, nice, system, _, _, irq, softirq, steal = map(int, Path('/proc/stat').read_text().split(None, 9)[1:9])
        own = sum(os.times()[:4])  # of this process and of its ended children
        return (user + nice + system + irq + softirq + steal) / _TICKS - own, time.monotonic()
