# SPDX-License-Identifier: BSD-3-Clause
"""What went wrong in a session outside its series: a sentence for people, and its facts for programs."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal['hardware', 'cut short', 'part ended', 'node lost', 'not measured', 'fixture', 'case', 'session']


@dataclass(frozen=True)
class Problem:
    """A sentence on what went wrong, with its facts as data.

    `kind`: ``hardware`` (not that of the baseline; the text is also the cause of the verdicts), ``cut short``, ``part
    ended``, ``node lost``, ``not measured`` (nothing in the session was), ``fixture``, ``case``, or ``session`` for all
    others. `partition`, `environ`, `nodes`: the place, if the problem has one. `why`: why the session or a part of it
    was ended.
    """

    text: str
    kind: Kind = 'session'
    partition: str = ''
    environ: str = ''
    nodes: tuple[str, ...] = ()
    why: str = ''

    def __str__(self) -> str:
        return self.text
