# SPDX-License-Identifier: BSD-3-Clause
"""Which cases may run, and with which options of the scheduler, where `ci/` runs only some of a session.

The file ``PLUMBLINE_CASES`` is JSON: ``cases``, by ReFrame's hash the place of each case, ``site:partition+environ``,
with its list of options; ``trials`` has in the same way how many trials such a case is to run, where not all; and
``generated``, how many of --parameterize, --repeat and --distribute make tests of the checks.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from plumbline import settings


def chosen(check) -> dict[str, list[str]] | None:
    """Return the options of each case of `check` that may run, by its place; None where all may run.

    ReFrame makes further tests of those that it has selected: what it makes them of must stay selected.
    """
    path = settings.CASES.get()
    if not path:
        return None
    content = _content(path)
    names = [one.__name__ for one in type(check).__mro__]
    generation = names.count(names[0]) - 1  # a test that ReFrame makes has the name of its base
    return content['cases'].get(check.hashcode, {}) if generation >= content['generated'] else None


def trials_left(check, place: str) -> int | None:
    """Return how many trials this job is to run of a case whose other trials ran in jobs before; None: all."""
    return _content(settings.CASES.get())['trials'].get(check.hashcode, {}).get(place)


@functools.cache
def _content(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text(encoding='utf-8'))
