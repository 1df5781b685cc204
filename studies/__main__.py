# SPDX-License-Identifier: BSD-3-Clause
"""Run the studies: what the suite costs, and how often its verdicts are right.

    python -m studies                  all of them, as their pages in docs/ quote them: about an hour
    python -m studies --brief          a small size of each, a few seconds long, to see that they still work
    python -m studies [--brief] NAME   those whose name begins so: `overhead`, `overhead list`

Every study prints its figures. The exit code is 1 if a study failed; `--brief` leaves out those that need the stack of
localhost or clones of public repositories, and says so.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Study -> the words of its small size, None if it has no small size. {0}: a folder that does not exist yet
STUDIES = {
    'worlds': 'worlds --sites 1 --only "Healthy nights: noise normal"',
    'public_series {0}': None,  # needs clones of public repositories
    'store_speed night': 'store_speed night --scale 0.01',
    'store_speed year': 'store_speed year --scale 0.01',
    'store_speed fleet': 'store_speed fleet --scale 0.01',
    'input_mutations': 'input_mutations --each 1',
    'mutations': 'mutations --changes 1 --room checks/storage',
    'planted year {0}': None,  # the tests of the page make small ones
    'planted fleet {0}': None,
    'planted night {0}': None,
    'overhead list': 'overhead list --rounds 1',
    'overhead wide': 'overhead wide --rounds 1',
    'overhead case': 'overhead case --rounds 1',
    'overhead hpcc': None,
    'overhead stream': None,
    'overhead hpl': None,
    'overhead osu': None,
    'overhead watch': None,
    'overhead looks': None,
    'overhead meters': None,
    'overhead best': None,
    'overhead stack': None,
}


def run(words: str) -> int:
    """Run a study in a process of its own; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        name, *arguments = shlex.split(words.format(Path(folder, 'new')))
        print(f'\n== {words}', flush=True)
        path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'  # the reframe of this environment
        command = [sys.executable, HERE / f'{name}.py', *arguments]
        return subprocess.run(command, env=os.environ | {'PATH': path}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        prog='studies', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--brief', action='store_true', help='run the small size of each')
    parser.add_argument('name', nargs='*', help='beginning of the names of the studies to run')
    arguments = parser.parse_args()
    chosen = {name: small for name, small in STUDIES.items() if name.startswith(' '.join(arguments.name))}
    if not chosen:
        parser.error(f'no study {" ".join(arguments.name)}; expected the beginning of one of: {", ".join(STUDIES)}')
    failed = []
    for name, small in chosen.items():
        if arguments.brief and small is None:
            print(f'\n== {name}: left out, it has no small size')
        elif run(small if arguments.brief else name):
            failed.append(name)
    if failed:
        print(f'\nfailed: {", ".join(failed)}', file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
