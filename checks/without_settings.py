# SPDX-License-Identifier: BSD-3-Clause
"""Say once that ReFrame was started without our settings: then no check loads, and ReFrame says `Found 0 check(s)`."""

import sys
from pathlib import Path

from reframe.core.logging import getlogger

if 'reframe_settings.schedulers' not in sys.modules:
    settings = Path(__file__).resolve().parent.parent / 'reframe_settings' / 'settings.py'
    getlogger().warning(
        f'no check loads without the settings of its clone: add -C {settings}, or export RFM_CONFIG_FILES={settings}'
    )
