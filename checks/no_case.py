# SPDX-License-Identifier: BSD-3-Clause
"""Fail where a ReFrame configuration of the site's own has no case of the checks: ReFrame would say that all passed."""

import sys

import reframe as rfm
from reframe.core.builtins import run_after
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

WHY = ''
if 'reframe_settings.schedulers' not in sys.modules:
    try:
        from checks.core.own_configuration import fault

        WHY = fault()
    except Exception as error:  # whatever it is, no check has loaded
        WHY = f'the checks do not load with this configuration: {type(error).__name__}: {error}'

if WHY:
    getlogger().warning(WHY)

    @rfm.simple_test
    class NoCase(rfm.RunOnlyRegressionTest):
        """Stands for all checks, none of which has a case, so that a run without them fails."""

        descr = 'The configuration has no case of the checks'
        valid_systems = valid_prog_environs = ['*']
        executable = 'false'
        local = True

        @run_after('setup')
        def say_why(self):
            raise SanityError(WHY)
