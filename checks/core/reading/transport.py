# SPDX-License-Identifier: BSD-3-Clause
"""Check how bytes went between the nodes of a job, by counters of network devices and UCX's log. Imports no ReFrame."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from checks.core.reading.outputs import text_of
from plumbline.causes import Cause

_MUCH = 100e6  # bytes of a node; file systems and the launcher send less through sockets
#: Transports of UCX that do not leave the node (openucx.readthedocs.io, "Transports")
_WITHIN_NODE = ('self', 'sysv', 'posix', 'cma', 'knem', 'xpmem', 'cuda', 'rocm', 'gdr_copy', 'ze_')
UCX_LOG = 'ucx.*.log'  # which rank.sh asks for


def sent_of(fact: str) -> dict[str, int]:
    """Return the bytes that each device sent, from a text such as ``cxi0 81264, cxi1 0``."""
    return {name: int(number) for name, number in re.findall(r'(\S+) ([0-9]{1,20})\b', fact)}


def faults_of(
    facts: Mapping[str, Mapping[str, str]], nics: Sequence[str] = (), lanes: Sequence[str] = ()
) -> Iterator[Cause]:
    """Yield a cause if nodes sent through sockets although there is a fabric, or not through the requested devices.

    `facts`: by node, see ``job/parts/health.sh``. `nics`: the requested devices; empty: any of the fabric. `lanes`: see
    `lanes_of`.
    """
    by_sockets, others = [], []
    used: Counter[str] = Counter()
    for node, of_node in facts.items():
        fabric, sockets = (sent_of(of_node.get(name, '')) for name in ('fabric_sent', 'sockets_sent'))
        if 'sockets_sent' in of_node:  # a fabric over Ethernet that sent nothing is not listed
            fabric = {nic: 0 for nic in nics if nic not in sockets} | fabric
        through = sum(fabric.values())
        if fabric and sum(sockets.values()) > max(_MUCH, through / 2):  # sockets on a fabric count in both
            by_sockets.append(node)
            used += Counter(fabric) + Counter(sockets)
        elif through > _MUCH and any(fabric.get(nic, 0) < through / len(nics) / 10 for nic in nics):
            others.append(node)
            used += Counter(fabric)
    shares = ', '.join(f'{name} {number / 1e9:.1f} GB' for name, number in used.most_common(8))
    if by_sockets:
        sentence = 'bytes between nodes went through sockets and not through the fabric'
        yield Cause('transport', sentence, ','.join(by_sockets), detail=f': sent {shares}')
    elif {lane.partition('/')[0] for lane in lanes} == {'tcp'} and any(
        'fabric_sent' in fact for fact in facts.values()
    ):
        yield Cause('transport', f'UCX sends through sockets and not through the fabric: {", ".join(lanes)}')
    if others:
        sentence = f'bytes between nodes went not through each of {", ".join(nics)}, which were asked for'
        yield Cause('transport', sentence, ','.join(others), detail=f': sent {shares}')


def lanes_of(folder: Path) -> list[str]:
    """Return the transports to other nodes that UCX reports for a run, such as ``rc_mlx5/mlx5_0:1``.

    Before 1.14 it prints ``ep_cfg[1]: tag(...)`` of all ranks, later ``inter-node cfg#2 tag(...)``.
    """
    transports: set[str] = set()
    for path in folder.glob(UCX_LOG):
        for line in re.findall(r'(?:inter-node cfg#|ep_cfg\[)\d+[]:]* (.*)', text_of(path)):
            for lanes in re.findall(r'\w+\(([^)]*)\)', line):
                transports.update(lane for lane in lanes.split() if not lane.startswith(_WITHIN_NODE))
    return sorted(transports)
