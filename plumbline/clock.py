"""The present time."""

from datetime import datetime, timezone


def now() -> datetime:
    """Return the present time in UTC, without a time zone."""
    return datetime.now(timezone.utc).replace(tzinfo=None)
