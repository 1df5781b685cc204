# SPDX-License-Identifier: BSD-3-Clause
"""Check files look at ReFrame's current system while they are imported; here it is `localhost`."""

import importlib
import pkgutil

import pytest
import reframe.core.config
import reframe.core.runtime
from scratch import ROOT

import checks


@pytest.fixture(scope='session', autouse=True)
def reframe_runtime():
    configuration = reframe.core.config.load_config(str(ROOT / 'reframe_settings/settings.py'))
    configuration.select_subconfig('localhost')
    reframe.core.runtime.init_runtime(configuration)


@pytest.fixture(scope='session')
def classes(reframe_runtime) -> dict[str, type]:
    """Every check class by name."""
    from checks.core.benchmark import Benchmark

    for module in pkgutil.walk_packages(checks.__path__, 'checks.'):
        importlib.import_module(module.name)

    def below(cls: type) -> list[type]:
        return [cls, *(found for each in cls.__subclasses__() for found in below(each))]

    return {cls.__name__: cls for cls in below(Benchmark)}
