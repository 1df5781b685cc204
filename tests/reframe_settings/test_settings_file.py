# SPDX-License-Identifier: BSD-3-Clause
"""What loading the settings leaves in the process of ReFrame, and what they hand on."""

import re
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


WITHOUT_POLARS = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == 'polars' else find(name, *more)
"""


def test_reframe_keeps_a_database_only_where_it_can_read_it(clone, tmp_path):
    (tmp_path / 'sitecustomize.py').write_text(WITHOUT_POLARS)
    without = {'PYTHONPATH': str(tmp_path)}
    command = ['reframe', '-C', 'reframe_settings/settings.py', '-c', 'checks/demo.py']
    ran = clone.run(*command, '-r', '-S', 'trials=1', **without)
    assert ran.returncode == 0 and re.search(r'results database: +\[off\]', ran.stdout), ran.stdout
    assert 'session stored' not in ran.stdout and not (clone.results / 'reframe.db').exists()
