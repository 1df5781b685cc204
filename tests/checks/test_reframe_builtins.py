# SPDX-License-Identifier: BSD-3-Clause
"""The checks load where ReFrame itself has a variable `num_nodes`, as it plans for version 5."""

import subprocess
import sys

from scratch import ROOT

LOAD = f"""
import importlib, pkgutil, sys
sys.path[:] = [{str(ROOT)!r}, *sys.path]
import reframe as rfm
import reframe.core.config, reframe.core.runtime
from reframe.core.builtins import variable

class WithNodes(rfm.RunOnlyRegressionTest):
    num_nodes = variable(int, type(None), value=None, loggable=True)

rfm.RunOnlyRegressionTest = WithNodes
configuration = reframe.core.config.load_config({str(ROOT / 'reframe_settings/settings.py')!r})
configuration.select_subconfig('localhost')
reframe.core.runtime.init_runtime(configuration)
sys.path[:] = [{str(ROOT)!r}, *sys.path]
import checks
from checks.core.benchmark import Benchmark

for module in pkgutil.walk_packages(checks.__path__, 'checks.'):
    importlib.import_module(module.name)

def below(cls):
    return [cls, *(found for each in cls.__subclasses__() for found in below(each))]

concrete = [cls for cls in below(Benchmark) if not cls.__subclasses__()]
nodes = {{cls.__name__: cls(variant_num=0).num_nodes for cls in concrete}}
print(len(nodes), nodes['HPCC'], nodes['OsuDeviceRails'], issubclass(Benchmark, WithNodes))
"""


def test_all_checks_load_where_reframe_has_num_nodes(tmp_path):
    (tmp_path / 'load.py').write_text(LOAD)
    words = [sys.executable, 'load.py']
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    number, of_hpcc, of_rails, is_of_reframe = done.stdout.split()[-4:]
    assert int(number) > 30 and (of_hpcc, of_rails, is_of_reframe) == ('1', '2', 'True')
