"""Check files look at ReFrame's current system while they are imported; here it is `localhost`."""

import pytest
import reframe.core.config
import reframe.core.runtime
from scratch import ROOT


@pytest.fixture(scope='session', autouse=True)
def reframe_runtime():
    configuration = reframe.core.config.load_config(str(ROOT / 'reframe_settings/settings.py'))
    configuration.select_subconfig('localhost')
    reframe.core.runtime.init_runtime(configuration)
