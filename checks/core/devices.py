"""Which devices a node has, and which programming models can use them; for the parameters of checks."""

from __future__ import annotations

from collections.abc import Mapping

from checks.core.placement import Lists, ranks_with_threads
from checks.core.topology import Topology, current_site, topologies

# Programming model -> (feature of the stack, program, prefix of the architectures that it is for)
Models = Mapping[str, tuple[str, str, str]]


def models_for(topology: Topology, models: Models) -> list[str]:
    """Those of `models` that the devices of a node can run."""
    archs = {arch for arch in topology.gpus if arch}
    return [model for model, (*_, prefix) in models.items() if any(arch.startswith(prefix) for arch in archs)]


def models_of_this_system(models: Models) -> list[str | None]:
    """Those that a partition can run and a stack offers; a parameter must not be empty, and None exists nowhere."""
    offered = {feature for environ in current_site().environs.values() for feature in environ.features}
    able = {model for _, topology in topologies() for model in models_for(topology, models)}
    return [model for model, (feature, *_) in models.items() if model in able and feature in offered] or [None]


def cpus_of_devices(topology: Topology) -> Lists:
    """The cores for each device: of its NUMA domain an even share with the others near to that. Where nobody says
    which domain is near, of the node, in the order of both. Empty where there are fewer cores than devices."""
    near, lists = topology.gpu_numa_ids, []
    if not near:
        enough = 0 < len(topology.gpus) <= len(topology.cores)
        return ranks_with_threads(topology, len(topology.gpus)).cpus if enough else ()
    for device, domain in enumerate(near):
        cores = topology.cpus_in(topology.numa_domains[topology.numa_ids.index(domain)])
        share = len(cores) // near.count(domain)
        first = near[:device].count(domain) * share
        lists.append(cores[first : first + share])
    return tuple(lists) if all(lists) else ()


def devices_of_this_system() -> list[int]:
    return list(range(max((len(topology.gpus) for _, topology in topologies()), default=0) or 1))
