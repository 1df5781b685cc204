# SPDX-License-Identifier: BSD-3-Clause
"""What the checks on 1, 2, 4, ... nodes share, and those of several programming models."""

from collections.abc import Mapping

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.topology import Topology, features_of_this_system, on_this_system

# Programming model -> (feature of the stack, program, beginning of the architectures that it is for: `Vendor.arch`,
# ``opencl``, nothing, or `CPU` for every node)
Models = Mapping[str, tuple[str, str, str]]
CPU = 'cpu'


def models_for(topology: Topology, models: Models) -> list[str]:
    """Return those of `models` that a node can run; any OpenCL device has the architecture opencl."""
    archs = {arch for arch in topology.gpus if arch} | ({'opencl'} if topology.opencl_devices else set())
    able = {prefix for *_, prefix in models.values() if any(arch.startswith(prefix) for arch in archs)} | {CPU}
    return [model for model, (*_, prefix) in models.items() if prefix in able]


def models_of_this_system(models: Models) -> list[str | None]:
    """Return those of `models` that a partition can run and a stack offers, as values of a parameter."""
    offered = {model: row for model, row in models.items() if row[0] in features_of_this_system()}
    return on_this_system(lambda topology: models_for(topology, offered))


def devices_of_this_system() -> list[int | None]:
    """Return the numbers of the GPUs, or of other OpenCL devices, of a node, as values of a parameter."""
    return on_this_system(lambda topology: range(max(len(topology.gpus), topology.opencl_devices)))


class OnNodes(rfm.RegressionTestPlugin):
    """A check with the parameter `nodes`: cases on up to 16 nodes run every night, larger ones at an acceptance."""

    def supports(self, topology: Topology) -> bool:
        return self.nodes <= topology.nodes_of_partition and super().supports(topology)

    @run_after('init')
    def count_nodes(self):
        self.num_nodes = self.nodes
        self.tags = {'acceptance'} | ({'nightly'} if self.nodes <= 16 else set())


class ByModel(rfm.RegressionTestPlugin):
    """A check with the parameter `model`, one of `models`, which sets the required feature and the program."""

    models: Models

    def supports(self, topology: Topology) -> bool:
        return self.model in models_for(topology, self.models) and super().supports(topology)

    @run_after('init')
    def choose_model(self):
        # without a model there is no case, but ReFrame's selection names the missing feature
        feature, self.executable, _ = self.models[self.model or next(iter(self.models))]
        self.valid_prog_environs = [f'+{feature}']
