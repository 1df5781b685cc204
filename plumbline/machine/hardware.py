# SPDX-License-Identifier: BSD-3-Clause
"""Processors and GPUs by name: which names mean the same model, and the bandwidth of a processor's memory."""

import functools
import re
from pathlib import Path

from plumbline.files import read_yaml
from plumbline.units import in_base_unit

_TABLE = Path(__file__).with_name('hardware.yaml')
_DIGIT = re.compile(r'\d')
#: What a name holds beside the model: marks, clock, number of cores, makers, and words that all models have.
_NO_MODEL = re.compile(
    r'\(r\)|\(tm\)|@.*|\b\d+-core\b|\b(?:intel|amd|nvidia|ibm|cpu|processor|instinct|tesla|of|with)\b|[^a-z0-9+]'
)


@functools.cache
def _memory() -> dict[str, str]:
    return read_yaml(_TABLE)


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
    found = (text for pattern, text in _memory().items() if re.search(rf'\b(?:{pattern})(?!\S)', words))
    stated = next(found, None)
    return in_base_unit(stated) if stated else None
