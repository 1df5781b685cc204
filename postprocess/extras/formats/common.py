# SPDX-License-Identifier: BSD-3-Clause
"""What the formats of other tools have in common: stated means, local times, words, and directions by names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from postprocess.readers.fields import number, utc


def mean_of(values: Sequence[float], stated: Any, what: str) -> None:
    """Raise ValueError if the mean of `values` is not the one `stated`: some values are lost.

    None: no mean is stated.
    """
    if values and stated is not None and not math.isclose(mean := math.fsum(values) / len(values), number(stated)):
        raise ValueError(f'{what:.60}: states a mean of {stated}, and its {len(values)} values have {mean}')


def local(text: str) -> datetime:
    """Return in UTC a time that a program wrote in the time zone of this machine."""
    return utc(datetime.fromisoformat(text).astimezone())


def word(text: str) -> str:
    """Return a text as a name without blanks."""
    return re.sub(r'\s+', '_', text.strip()) or 'default'


def better_by_name(metric: str) -> str:
    """Return the better direction of a metric without a unit, as its name says it; empty: it does not.

    Times, latencies, errors and sizes are better lower; rates, bandwidths and efficiencies higher.
    """
    of_lower = r'time|latency|seconds|error|miss|jitter|overhead|_lat\b|\bsize\b'
    of_higher = r'rate\b|bandwidth|bw(?![a-z])|throughput|flops?(?![a-z])|iops|speed|efficien|performan|per_?s(ec|\b)'
    lower, higher = (bool(re.search(words, metric, re.IGNORECASE)) for words in (of_lower, of_higher))
    return '' if lower == higher else 'lower' if lower else 'higher'
