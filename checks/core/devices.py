"""Which devices a node has, and which programming models can use them; for the parameters of checks."""

from __future__ import annotations

from collections.abc import Mapping

from checks.core.topology import Topology, current_site, topologies

# Programming model -> (feature of the stack, program, prefix of the architectures that it is for)
Models = Mapping[str, tuple[str, str, str]]


def models_for(topology: Topology, models: Models) -> list[str]:
    """Those of `models` that the devices of a node can run."""
    archs = {arch for arch in topology.gpus if arch}
    return [model for model, (*_, prefix) in models.items() if any(arch.startswith(prefix) for arch in archs)]


def models_of_this_system(models: Models) -> list[str | None]:
    """Those that a partition can run and a stack offers; a parameter must not be empty, and None exists nowhere."""
    offered = {feature for stack in current_site().stacks.values() for feature in stack.features}
    able = {model for _, topology in topologies() for model in models_for(topology, models)}
    return [model for model, (feature, *_) in models.items() if model in able and feature in offered] or [None]


def devices_of_this_system() -> list[int]:
    return list(range(max((len(topology.gpus) for _, topology in topologies()), default=0) or 1))
