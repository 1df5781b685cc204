# SPDX-License-Identifier: BSD-3-Clause
"""Detect that MPI stages GPU buffers through host memory, a fallback without an error message."""

from checks.mpi.osu_output import time_of
from plumbline.site.mpi import FAMILIES

_TWO_COPIES = 8.0  # us: of a short message from a GPU to its host, and from a host to its GPU (003, Table 7)
WORDS = {True: 'staged through the host', False: 'direct', None: 'not decided: the path has no peak, or a low one'}


def is_staged(device: float, host: float, direct: float | None = None) -> bool | None:
    """Return whether MPI staged a message between two GPUs through the host; None if the times do not show it.

    Of one message, in us: `device` between the GPUs; `host` between the memories of their hosts, by the same ranks;
    `direct` at the peak of the path of two GPUs of a node, inf where it has none; None for two nodes. A staged message
    includes the message between the hosts, so it is not faster. Within a node this is conclusive if the path is at
    least twice as fast as the host's. Between nodes both cross the network, and staging adds two copies.
    """
    if direct is None:
        return device > 2 * host and device - host > _TWO_COPIES
    return device >= host if host > 2 * direct else None


def staging_of(
    program: str, on_devices: str, on_hosts: str, size: int, direct: float | None
) -> tuple[bool | None, str]:
    """Return whether MPI staged a message of `size` bytes, and its times in both outputs; without both, None and ''."""
    device, host = (time_of(program, output, size) for output in (on_devices, on_hosts))
    if device is None or host is None:
        return None, ''
    times = f'{size} bytes take {device:.1f} us between the GPUs and {host:.1f} us between the hosts'
    return is_staged(device, host, direct), times


def fault_of(run: str, times: str, family: str | None) -> str:
    """Return the sentence on a staged message of a run, with what the MPI library needs."""
    needs = (family and FAMILIES[family].needs) or 'state mpi of the environment in site.yaml'
    return f'MPI stages buffers of GPUs through the host: in {run} {times}; {family or "this MPI"} needs {needs}'
