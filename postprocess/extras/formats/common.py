# SPDX-License-Identifier: BSD-3-Clause
"""What the formats of other tools have in common: local times, words, and directions by names."""

from __future__ import annotations

import re
from datetime import datetime

from postprocess.readers.fields import utc


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
