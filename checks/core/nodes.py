# SPDX-License-Identifier: BSD-3-Clause
"""What the checks on 1, 2, 4, ... nodes share, and those of several programming models."""

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.placement import Models, models_for
from checks.core.topology import Topology


class OnNodes(rfm.RegressionTestPlugin):
    """A check with the parameter `nodes`: cases on up to 16 nodes run every night, larger ones at an acceptance."""

    @run_after('init')
    def count_nodes(self):
        self.num_nodes = self.nodes
        self.tags = {'acceptance'} | ({'nightly'} if self.nodes <= 16 else set())


class ByModel(rfm.RegressionTestPlugin):
    """A check with the parameter `model`, one of `models`, which sets the required feature and the program."""

    models: Models

    def supports(self, topology: Topology) -> bool:
        return self.model in models_for(topology, self.models)

    @run_after('init')
    def choose_model(self):
        # without a model there is no case, but ReFrame's selection names the missing feature
        feature, self.executable, _ = self.models[self.model or next(iter(self.models))]
        self.valid_prog_environs = [f'+{feature}']
