"""NUMA domains of a node: how far they are from each other, and how much equal work in each of them differs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean, stdev

Pair = tuple[int, int]  # the domain of the cores, the domain of the memory


def distance_classes(distances: Sequence[Sequence[int]], domains: int) -> dict[str, list[Pair]]:
    """The pairs of domains by class of distance, nearest first.

    ``local`` is the diagonal. All else is ``remote`` where it is equally far or no distances are known. Otherwise the
    largest step in the sorted distances divides ``same_group`` from ``other_group``; where a group has several
    distances, each is a class of its own, such as ``same_group_16``.
    """
    classes = {'local': [(i, i) for i in range(domains)]}
    remote = [(i, j) for i in range(domains) for j in range(domains) if i != j]
    levels = sorted({distances[i][j] for i, j in remote}) if distances else []
    if remote and len(levels) < 2:
        classes['remote'] = remote
    elif remote:
        step = max(range(1, len(levels)), key=lambda k: levels[k] / levels[k - 1])
        for group, members in (('same_group', levels[:step]), ('other_group', levels[step:])):
            for level in members:
                name = group if len(members) == 1 else f'{group}_{level}'
                classes[name] = [(i, j) for i, j in remote if distances[i][j] == level]
    return classes


def coefficient_of_variation(times: Sequence[float]) -> float:
    """Standard deviation of the times of equal work, over their mean."""
    return stdev(times) / fmean(times)


def normalized_range(times: Sequence[float]) -> float:
    """(tmax - tmin) / tmin: how much longer the slowest takes than the fastest (002, section IV-E)."""
    return max(times) / min(times) - 1


def allocated_from(output: str) -> set[int]:
    """The hardware threads from which likwid-bench first touched its arrays, which is where their memory is."""
    return set(map(int, re.findall(r'^Allocate: Process running on hwthread (\d+)', output, re.MULTILINE)))
