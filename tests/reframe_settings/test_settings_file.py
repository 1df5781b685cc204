# SPDX-License-Identifier: BSD-3-Clause
"""What loading the settings leaves in the process of ReFrame, and what they hand on."""

import os
import subprocess
import sys

from scratch import ROOT

LOAD = """
import os, sys
from reframe.utility import import_module_from_file
before = [path for path in sys.path if path not in ('', os.getcwd())]  # as where nothing is installed
sys.path[:] = before
module = import_module_from_file('reframe_settings/settings.py')
assert sys.path == before, [before, sys.path]
assert not module.site_configuration['general'][0]['colorize'], 'the output goes to a pipe'
import checks.core.benchmark
assert checks.__path__ == [os.path.join(os.getcwd(), 'checks')]
"""


def test_the_search_path_of_reframe_stays_as_it_was():
    """ReFrame drops the last folder, with site-packages in it, if the settings put one more in front."""
    answer = subprocess.run([sys.executable, '-c', LOAD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


ACCOUNTS = """
from reframe.utility import import_module_from_file
(system,) = import_module_from_file('reframe_settings/settings.py').site_configuration['systems']
(partition,) = system['partitions']
print(*partition['sched_options']['slurm_envvar_whitelist'], partition['launcher'], partition['scheduler'])
"""


def test_the_account_of_a_user_reaches_sbatch():
    """ReFrame unsets all variables of sbatch that are not named; site.yaml cannot hold the account of each user."""
    answer = subprocess.run(
        [sys.executable, '-c', ACCOUNTS], cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {'PLUMBLINE_SITE': 'frontier'},
    )  # fmt: skip
    assert {'SBATCH_ACCOUNT', 'SBATCH_QOS', 'srun-on-whole-nodes', 'plumbline-slurm'} <= set(answer.stdout.split())


def test_reframe_is_asked_for_details_only_where_they_are_printed(clone):
    """ReFrame gathers all variables of a check for each message of the logger's level: half of its time for a case."""
    asked, silent = (clone.reframe('-l', *words) for words in (['-vv'], []))
    assert 'not a test file' not in silent.stdout and 'Loaded 1 test' not in silent.stdout
    assert 'Loaded 1 test' in asked.stdout and f'Validating {str(clone.root / "checks/demo.py")!r}: OK' in asked.stdout
    shown = clone.reframe('--show-config=logging/0/level').stdout
    assert shown.strip().strip('"') == 'info'
