# SPDX-License-Identifier: BSD-3-Clause
"""The present time."""

from datetime import datetime, timedelta, timezone


def now() -> datetime:
    """Return the present time in UTC, without a time zone."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def is_ahead(time: datetime) -> bool:
    """Return True if `time` is more than a day in the future: the clock of the host that wrote it was wrong."""
    return time > now() + timedelta(days=1)
