# SPDX-License-Identifier: BSD-3-Clause
"""A benchmark under power caps, where the site names the command that sets them."""

from __future__ import annotations

import shlex
from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from checks.core.job import script as jobscript
from checks.core.meters.energy import Metering
from checks.core.topology import Topology, on_this_system
from plumbline.record import Dim
from plumbline.units import in_base_unit


class UnderPowerCap(rfm.RegressionTestPlugin):
    """Run the next base class once for each cap of `power_cap` in site.yaml (002, section IV-I)."""

    cap = parameter(on_this_system(lambda topology: topology.power_caps), loggable=True)  #: W of a node

    def supports(self, topology: Topology) -> bool:
        return self.cap in topology.power_caps and super().supports(topology)

    @run_after('init')
    def leave_it_to_acceptance(self):
        self.tags, self.dims = {'acceptance'}, {**self.dims, 'cap': Dim('count', 'W')}

    @property
    def metering(self) -> Metering:
        return replace(super().metering, figures={'capped': 'cap'})

    @run_before('run')
    def set_and_restore_the_cap(self):
        self.metrics = [replace(metric, figures={}) for metric in self.metrics]  # which hold without a cap
        stated = self.partition.power_cap
        words = [f'{self.cap}', f'{in_base_unit(stated["normal"]):.0f}', stated['command']]
        at_exit = (
            jobscript.COMPARE_AT_EXIT.removesuffix("' EXIT") + '; cd "$started_in" && bash ./cap.sh restore\' EXIT'
        )
        self.prerun_cmds = [*self.prerun_cmds, at_exit, f'bash ./cap.sh set {shlex.join(words)}']
        self.postrun_cmds = [*self.postrun_cmds, 'bash ./cap.sh restore']
