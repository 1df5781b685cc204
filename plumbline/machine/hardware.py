# SPDX-License-Identifier: BSD-3-Clause
"""Processors and GPUs by name: their highest rates, and which names mean the same model.

The rates of a kind show a wrong unit in a site's numbers; those of a model, how much of its memory a benchmark reaches.
"""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.files import read_yaml
from plumbline.units import in_base_unit

_TABLE = Path(__file__).with_name('hardware.yaml')
CLOCK = 6.5e9  # Hz: above that of any processor in a cluster
FLOP_PER_CYCLE = 128.0  # of one core in any precision: two pipelines of 512 bits in half precision
CACHE_BYTES_PER_CYCLE = 192.0  # of one core: two loads and a store of 64 bytes each
_DIGIT = re.compile(r'\d')
#: What a name holds beside the model: marks, clock, number of cores, makers, and words that all models have.
_NO_MODEL = re.compile(
    r'\(r\)|\(tm\)|@.*|\b\d+-core\b|\b(?:intel|amd|nvidia|ibm|cpu|processor|instinct|tesla|of|with)\b|[^a-z0-9+]'
)


class GpuRates(NamedTuple):
    """The highest rates of one device: bytes/s of its memory, Flop/s in double precision and in any precision."""

    memory: float
    double: float
    any: float


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    return read_yaml(_TABLE)


def memory_of_socket(arch: str) -> float | None:
    """Return the memory bandwidth of a socket with the fastest processor of `arch`, in bytes/s; None if unknown."""
    stated = _table()['processors'].get(arch)
    return in_base_unit(stated) if stated else None


def gpu(arch: str) -> GpuRates | None:
    """Return the highest rates of the fastest GPU of an architecture; None if unknown."""
    stated = _table()['gpus'].get(arch)
    return GpuRates(**{name: in_base_unit(text) for name, text in stated.items()}) if stated else None


def words_of_model(name: str) -> tuple[str, ...]:
    """Return the words of a name that tell models apart: ``xeon``, ``platinum``, ``8480+``; sizes as ``40gb``."""
    plain = re.sub(r'(\d+)\s*gb\b', r'\1gb', name.lower().split(' (')[0])
    return tuple(_NO_MODEL.sub(' ', plain).split())


@functools.cache
def same_model(stated: str, found: str) -> bool:
    """Return True if a machine's own name of a processor or GPU has all words of the `stated` model.

    A name without any digit, such as ``AMD EPYC`` in a virtual machine, is that of no model.
    """
    words = words_of_model(stated)
    return any(map(_DIGIT.search, words)) and set(words) <= set(words_of_model(found))


@functools.cache
def memory_of_model(name: str) -> float | None:
    """Return the memory bandwidth of a socket with this processor and all its channels, in bytes/s; None if unknown."""
    words = ' '.join(words_of_model(name))
    found = (text for pattern, text in _table()['models'].items() if re.search(rf'\b(?:{pattern})(?!\S)', words))
    stated = next(found, None)
    return in_base_unit(stated) if stated else None
