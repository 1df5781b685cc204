# SPDX-License-Identifier: BSD-3-Clause
"""The check classes, by what they measure; `core` is what they share.

Never here: the name of a site, a path of a machine, a verdict over sessions. The record is all that leaves.
ReFrame loads this module before them: by our settings, or from any other configuration.
"""

import sys
from importlib import import_module
from pathlib import Path

if __name__ != 'checks' and 'reframe_settings.schedulers' not in sys.modules:  # ReFrame's name of it is another one
    ROOT = str(Path(__file__).resolve().parent.parent)
    sys.path.insert(0, ROOT)
    import_module('plumbline')
    import_module('checks.core.own_configuration').use()
    sys.path.remove(ROOT)
