# SPDX-License-Identifier: BSD-3-Clause
"""Check files look at ReFrame's current system while they are imported; here it is `localhost`."""

import importlib
import os
import pkgutil
from types import SimpleNamespace

import pytest
import reframe.core.config
import reframe.core.runtime
from scratch import ROOT

import checks
from checks.core.benchmark import Benchmark

before = dict(os.environ)
configuration = reframe.core.config.load_config(str(ROOT / 'reframe_settings/settings.py'))
configuration.select_subconfig('localhost')
reframe.core.runtime.init_runtime(configuration)
os.environ.update(before)  # of which the settings keep only what jobs need, for tests of other folders
if 'PLUMBLINE_ROOT' not in before:
    del os.environ['PLUMBLINE_ROOT']


@pytest.fixture(scope='session')
def classes() -> dict[str, type]:
    """Every check class by name."""
    for module in pkgutil.walk_packages(checks.__path__, 'checks.'):
        importlib.import_module(module.name)

    def below(cls: type) -> list[type]:
        return [cls, *(found for each in cls.__subclasses__() for found in below(each))]

    return {cls.__name__: cls for cls in below(Benchmark)}


@pytest.fixture
def case_on(classes, tmp_path):
    """Return a case of a check on a described node, after those of its hooks of ReFrame that are named."""

    def case_on(check, node, hooks='', entry=None, stack=None, **parameters):
        case = classes[check](variant_num=0)
        case.trial_seconds = classes[check]._rfm_var_space['trial_seconds'].default_value
        for name, value in parameters.items():
            setattr(case, name, value)
        described = {
            'peaks': {}, 'published_peaks': {}, 'benchmarks': {}, 'flop_per_cycle': {},
            'network_peak': lambda nics=(): None,
        } | (entry or {})  # fmt: skip
        case.partition = SimpleNamespace(**described)
        case.stack = SimpleNamespace(**{'provider': 'spack', 'mpi': None} | (stack or {}))
        case.topology, case._stagedir = node, str(tmp_path)
        for hook in hooks.split():
            getattr(case, hook)()
        return case

    return case_on
