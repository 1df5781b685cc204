# SPDX-License-Identifier: BSD-3-Clause
"""Ask ``sbatch --test-only`` about job scripts, once all is stated that a site demands of each job."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from plumbline.programs import TIME_LIMIT
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Partition

#: What only the user knows -> the beginnings of the options of Slurm that state it, sbatch's variable, and those of the
#: options of PBS and LSF. The same letter is another word elsewhere: ``-q`` is a QOS of Slurm, and a queue of PBS.
_OF_USER = {
    'account': (('-A', '--account'), 'SBATCH_ACCOUNT', ('-A', '-P', '-G')),
    'qos': (('-q', '--qos'), 'SBATCH_QOS', ()),
    'queue': (('-p', '--partition'), 'SBATCH_PARTITION', ('-q',)),
}


def missing_words(partition: Partition) -> list[str]:
    """Return which of account, QOS and queue jobs of a partition need, and neither its `access` nor the user states."""
    needs, lacking = partition.entry.get('queue', {}).get('needs', ()), []
    words = ' '.join(partition.entry.get('access', ())).split()  # an entry may hold several options
    for word, (of_slurm, variable, of_others) in _OF_USER.items():
        is_slurm = scheduler(partition.entry['scheduler']).is_slurm
        stated = any(option.startswith(of_slurm if is_slurm else of_others) for option in words)
        if word in needs and not stated and not (is_slurm and os.environ.get(variable)):
            lacking.append(word)
    return lacking


def refusals_of_sbatch(scripts: dict[Path, str]) -> Iterator[tuple[Path, str]]:
    """Ask ``sbatch --test-only``, which submits nothing; yield each script that it refuses, and why.

    `scripts`: path -> text. Of those that ask for the same, it is asked about the first.
    """
    asked = set()
    for path, text in scripts.items():
        options = [line for line in text.splitlines() if line.startswith('#SBATCH ') and 'rfm_' not in line]
        if (directives := frozenset(options)) in asked:
            continue
        asked.add(directives)
        try:
            answer = subprocess.run(
                ['sbatch', '--test-only', path], capture_output=True, text=True, check=False, timeout=TIME_LIMIT,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            yield path, f'did not answer within {TIME_LIMIT:g} s'
            return
        if answer.returncode:
            yield path, ' '.join(answer.stderr.split()) or f'ended with {answer.returncode}'
