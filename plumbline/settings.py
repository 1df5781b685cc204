"""Every environment variable of the suite: its name, type, default and purpose. Python code reads them only here.

Shell scripts read the same variables themselves; ``docs/settings.md`` is the table for users, tested against this list.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from plumbline.errors import InputError

T = TypeVar('T')
_TYPES: dict[object, str] = {str: 'text', int: 'an integer', float: 'a number'}

#: Who sets a variable, in the order of the documentation.
GROUPS = {
    'site': 'Set by the administrator',
    'pipeline': 'Set in a CI project that runs the suite',
    'run': 'Set by the commands of ci/ for ReFrame and its jobs',
    'rank': 'Set in a job script for the ranks of a benchmark',
    'tests': 'Set by a person who tests the suite',
}


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable. An empty value counts as unset.

    `default` is the value where it is unset; `otherwise` says in words what happens then, where the value does not.
    """

    group: str
    name: str
    kind: Callable[[str], T]
    default: T
    purpose: str
    otherwise: str = ''

    def get(self) -> T:
        """Return the value, or the default where the variable is unset. Raises InputError for another type."""
        text = os.environ.get(self.name, '')
        if not text:
            return self.default
        try:
            return self.kind(text)
        except ValueError:
            raise InputError(f'{self.name}={text}: expected {_TYPES[self.kind]}') from None

    def row(self) -> str:
        """Return its line in a table of ``docs/settings.md``."""
        default = self.otherwise or (f'`{self.default}`' if self.default not in (None, '') else '')
        return f'| `{self.name}` | {_TYPES[self.kind]} | {default} | {self.purpose} |'


# fmt: off
SITE = Setting(
    'site', 'PLUMBLINE_SITE', str, '', 'The site of this host: a folder of `site_configs/`.',
    'the site whose `hostnames` match, else `localhost`')
ROOT = Setting(
    'site', 'PLUMBLINE_ROOT', str, '',
    'Checkout that an installed `plumbline` works in; a clone works in itself.',
    'the checkout around the current directory')
RESULTS = Setting(
    'site', 'PLUMBLINE_RESULTS', str, '',
    'Directory of run reports, logs and the store, on a file system that the compute nodes see.',
    '`results/` of the clone; `~/plumbline-results` where its path has a blank')
SOFTWARE = Setting(
    'site', 'PLUMBLINE_SOFTWARE', str, '',
    'Directory of Spack and the stacks that it installs, on a file system that the compute nodes see.',
    '`software/` of the clone; `~/plumbline-software` where its path has a blank')
VENV = Setting(
    'site', 'PLUMBLINE_VENV', str, '', 'Virtual environment that the commands of `ci/` set up and use.',
    '`.venv` of the clone')
NOTIFY = Setting(
    'site', 'PLUMBLINE_NOTIFY', str, '',
    'Addresses that get the summary of a night, as apprise writes them, separated by blanks. Secret.', 'no messages')
NOTIFY_FILE = Setting(
    'site', 'PLUMBLINE_NOTIFY_FILE', str, '', 'File with such addresses, one a line.', 'no file')
HTTPJSON = Setting(
    'site', 'PLUMBLINE_HTTPJSON', str, '', 'URL to which ReFrame posts each finished case as JSON.',
    'nothing is posted')
HTTPJSON_AUTHORIZATION = Setting(
    'site', 'PLUMBLINE_HTTPJSON_AUTHORIZATION', str, '', 'Value of the `Authorization` header of these posts. Secret.',
    'no such header')
GRACE = Setting(
    'site', 'PLUMBLINE_GRACE', float, 90.0,
    'Seconds in which ReFrame must cancel its jobs and write its report when a run is ended; then it is killed.')
PATIENCE = Setting(
    'site', 'PLUMBLINE_PATIENCE', float, 120.0,
    'Seconds for which the nodes of a waiting Slurm job may be unavailable before the job is cancelled.')

MODE = Setting('pipeline', 'PLUMBLINE_MODE', str, '', 'Mode that the GitLab pipeline runs.', '`quick`')
RUNNER = Setting(
    'pipeline', 'PLUMBLINE_RUNNER', str, '', 'Tag of the GitLab runner that may submit jobs.', 'required')
TOKEN = Setting(
    'pipeline', 'PLUMBLINE_TOKEN', str, '',
    'GitLab access token with scope `api`, for the comment on a merge request. Secret.', 'no comment')

OWNER = Setting(
    'run', 'PLUMBLINE_OWNER', str, '',
    'Results directory of the command that started a process: finds the processes that a killed command left.')
JOURNAL = Setting(
    'run', 'PLUMBLINE_JOURNAL', str, '',
    'File to which ReFrame appends each case as soon as it ends, for a run that is killed.', 'no journal')
CASES = Setting(
    'run', 'PLUMBLINE_CASES', str, '', 'Hashes of the cases of `--distribute` that may run, separated by blanks.',
    'all cases')
JOB_OPTIONS = Setting(
    'run', 'PLUMBLINE_JOB_OPTIONS', str, '{}',
    'Scheduler options of single cases, such as the nodes of a rerun: JSON, a list of words by hash.')
NODE_SWEEP = Setting(
    'run', 'PLUMBLINE_NODE_SWEEP', str, '', 'File with the nodes of the allocation of a node sweep, one a line.',
    'no node sweep')
NODE_SWEEP_ROUNDS: Setting[int | None] = Setting(
    'run', 'PLUMBLINE_NODE_SWEEP_ROUNDS', int, None,
    'Rounds of a node sweep over pairs of nodes: a sample in which each node meets this many others.', 'every pair')
NODE_SWEEP_UNTIL = Setting(
    'run', 'PLUMBLINE_NODE_SWEEP_UNTIL', str, '',
    'Time after which a node sweep starts no benchmark, in seconds since 1970.', 'no limit')
NO_PROVISION = Setting(
    'run', 'PLUMBLINE_NO_PROVISION', str, '',
    'Any value: install no Debian packages while the Python environment is set up.')

PLACE = Setting('rank', 'PLUMBLINE_PLACE', str, '', 'Nodes of one place of a node sweep, joined by commas.')
CPUS = Setting('rank', 'PLUMBLINE_CPUS', str, '', 'Hardware threads of each rank of a node.')
MEMORY = Setting('rank', 'PLUMBLINE_MEMORY', str, '', 'NUMA nodes from which each rank may take memory.')
DEVICES = Setting('rank', 'PLUMBLINE_DEVICES', str, '', 'GPUs that each rank sees.')
GPU = Setting('rank', 'PLUMBLINE_GPU', str, '', 'Kind of these GPUs: `cuda` or `rocm`.')
NICS = Setting('rank', 'PLUMBLINE_NICS', str, '', 'Network device of each rank.')
LOCATE = Setting(
    'rank', 'PLUMBLINE_LOCATE', str, '',
    'Any value: each rank reports the sockets and NUMA domains of its hardware threads.')
BOUND = Setting('rank', 'PLUMBLINE_BOUND', str, '', 'Local rank, from the first to the second call of `rank.sh`.')

TEST_SPACK_CONFIG = Setting(
    'tests', 'PLUMBLINE_TEST_SPACK_CONFIG', str, '',
    'Folder of Spack configuration for the tests that install with a real Spack.', "Spack's own")
# fmt: on

#: Every setting, in the order of the documentation.
ALL: tuple[Setting, ...] = tuple(value for value in tuple(vars().values()) if isinstance(value, Setting))


def table(group: str) -> str:
    """Return the Markdown table of a group of settings."""
    rows = [setting.row() for setting in ALL if setting.group == group]
    return '\n'.join(['| variable | type | default | purpose |', '|---|---|---|---|', *rows])
