# SPDX-License-Identifier: BSD-3-Clause
"""The highest rates of each kind of processor and GPU, by which a wrong unit in a site's numbers is noticed."""

import functools
from pathlib import Path
from typing import NamedTuple

from plumbline.files import read_yaml
from plumbline.units import in_base_unit

_TABLE = Path(__file__).with_name('hardware.yaml')
CLOCK = 6.5e9  # Hz: above that of any processor in a cluster
FLOP_PER_CYCLE = 128.0  # of one core in any precision: two pipelines of 512 bits in half precision
CACHE_BYTES_PER_CYCLE = 192.0  # of one core: two loads and a store of 64 bytes each


class Gpu(NamedTuple):
    """The highest rates of one device: bytes/s of its memory, Flop/s in double precision and in any precision."""

    memory: float
    double: float
    any: float


@functools.cache
def _table() -> dict[str, dict[str, object]]:
    return read_yaml(_TABLE)


def memory_of_socket(arch: str) -> float | None:
    """Return the memory bandwidth of a socket with the fastest processor of `arch`, in bytes/s; None if unknown."""
    stated = _table()['processors'].get(arch)
    return in_base_unit(str(stated)) if stated else None


def gpu(arch: str) -> Gpu | None:
    """Return the highest rates of the fastest GPU of an architecture; None if unknown."""
    stated = _table()['gpus'].get(arch)
    return Gpu(**{name: in_base_unit(text) for name, text in stated.items()}) if isinstance(stated, dict) else None
