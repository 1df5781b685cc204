# SPDX-License-Identifier: BSD-3-Clause
"""Read which cases may run, and with which scheduler options, when `ci/` runs a part of a session again.

The file ``PLUMBLINE_CASES`` is JSON. ``cases``: ReFrame's hash -> place of a case, ``site:partition+environ`` -> list
of scheduler options. ``trials``: hash -> place -> number of trials, for cases that do not run all. ``generated``: how
many of the options --parameterize, --repeat and --distribute generate tests from the checks. ReFrame's own ways do not
do: ``-n /HASH`` is an alternative to the other ``-n`` and the same on every partition, and ``--restore-session
--failed`` does not know generated tests.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from plumbline import settings


def chosen(hashcode: str, generation: int) -> dict[str, list[str]] | None:
    """Return the scheduler options of each case of a check that may run, by its place; None where all may run.

    `generation`: how often ReFrame has generated the check from another one; it generates tests only from selected
    tests, so these must stay selected.
    """
    path = settings.CASES.get()
    if not path:
        return None
    content = _content(path)
    return content['cases'].get(hashcode, {}) if generation >= content['generated'] else None


def trials_left(hashcode: str, place: str) -> int | None:
    """Return the number of trials that earlier jobs have left for this job; None if it runs all trials."""
    return _content(settings.CASES.get())['trials'].get(hashcode, {}).get(place)


@functools.cache
def _content(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text(encoding='utf-8'))
