# SPDX-License-Identifier: BSD-3-Clause
"""Fail where ReFrame was started without our settings: no check loads then, and ReFrame would say that all passed."""

import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

if 'reframe_settings.schedulers' not in sys.modules:
    SETTINGS = Path(__file__).resolve().parent.parent / 'reframe_settings' / 'settings.py'
    WHY = f'no check loads without the settings of its clone: add -C {SETTINGS}, or export RFM_CONFIG_FILES={SETTINGS}'
    getlogger().warning(WHY)

    @rfm.simple_test
    class WithoutSettings(rfm.RunOnlyRegressionTest):
        """Stands for all checks, none of which loads, so that a run without them fails."""

        descr = 'The checks need the settings of their clone'
        valid_systems = valid_prog_environs = ['*']
        executable = 'false'
        local = True

        @run_after('setup')
        def say_why(self):
            raise SanityError(WHY)
