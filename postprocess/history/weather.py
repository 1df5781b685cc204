# SPDX-License-Identifier: BSD-3-Clause
"""Tell what a whole site lost below the floor, such as by the season, of which no series is accused."""

from __future__ import annotations

import math
from collections.abc import Sequence

from plumbline.limits import DEFAULT_FLOOR
from postprocess.results.store import Session, Store
from postprocess.statistics.method import METHOD

_NIGHTS = 7  # whose mean is told
_CASES = 8  # fewest cases whose median is that of the site, as in `postprocess.statistics.night`
_LOSSES = f"""
SELECT night, median(loss) AS loss, median(floor) AS floor FROM (
    SELECT night, case_id, median(reference.floor) AS floor,
        median(ln(reference.mean / mean) * CASE better WHEN 'higher' THEN 1 ELSE -1 END) AS loss
    FROM verdicts WHERE mean > 0 AND reference.mean > 0 AND reference.kind = 'baseline' GROUP BY night, case_id
) GROUP BY night HAVING count(*) >= {_CASES} ORDER BY night
"""


def below(store: Store, sessions: Sequence[Session]) -> str:
    """Return a sentence if a site is below its baseline by half of the floor in the mean of a week, or ''.

    From the floor on, it is an incident.

    Raises InputError if the store cannot be read.
    """
    nights = store.select(_LOSSES, sessions)
    if len(nights) < _NIGHTS or nights[-1]['night'] != len(sessions) - 1:
        return ''
    losses = [row['loss'] for row in nights]
    means = [math.fsum(losses[end - _NIGHTS : end]) / _NIGHTS for end in range(_NIGHTS, len(losses) + 1)]
    least = -math.log1p(-(nights[-1]['floor'] or DEFAULT_FLOOR)) / 2
    lasting = next((back for back, mean in enumerate(reversed(means)) if mean < least), len(means))
    if not lasting or means[-1] >= 2 * METHOD.near * least:
        return ''
    since = sessions[nights[len(nights) - lasting - _NIGHTS + 1]['night']].day
    return (
        f'the whole site was {-100 * math.expm1(-means[-1]):.1f} % below its baseline in the last {_NIGHTS} sessions, '
        f'since {since}: less than the floor, so it accuses no metric'
    )
