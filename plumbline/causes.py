# SPDX-License-Identifier: BSD-3-Clause
"""The cause of a failure: data that people read as a sentence and programs by its code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

#: Codes of what several checks can share: on one partition and environ it is one cause of them all.
Shared = Literal[
    'oom-node', 'memory', 'device', 'network', 'node-fail', 'preempted', 'cancelled', 'lost', 'stack', 'license', 'mpi',
    'file-system', 'node-limit', 'transport', 'site',
]  # fmt: skip
#: Codes of what one check did or printed: another check with the same code has a cause of its own.
OfCheck = Literal[
    'time-limit', 'oom-limit', 'refused', 'no-memory', 'crash', 'exit-code', 'missing-file', 'permission', 'input',
    'binding', 'settings', 'clock', 'output', 'validation', 'named', 'lost-metric', 'invalid', 'reference',
]  # fmt: skip
#: All codes; docs/troubleshooting.md has the meaning of each. ``not-run``: `ci` ended the session or a part of it
#: before. ``said``: only a sentence is known, such as of another suite.
Code = Literal[Shared, OfCheck, 'not-run', 'said']
CODES: tuple[Code, ...] = get_args(Code)
SHARED: frozenset[Code] = frozenset(get_args(Shared))


@dataclass(frozen=True)
class Cause:
    """A cause, shown as ``<what> in trial 1 of 3 on n1<detail>; <remedy>``; fields that are not known are empty.

    `nodes`: joined by commas.
    """

    code: Code
    what: str
    nodes: str = ''
    trials: tuple[int, ...] = ()
    of_trials: int = 0
    detail: str = ''
    remedy: str = ''

    @property
    def brief(self) -> str:
        """What happened and in which trial."""
        numbers = ', '.join(map(str, self.trials[:5])) + f' and {len(self.trials) - 5} more' * (len(self.trials) > 5)
        if len(self.trials) == self.of_trials > 1:
            return f'{self.what} in all {self.of_trials} trials'
        several = 's' * (len(self.trials) > 1)
        return f'{self.what} in trial{several} {numbers} of {self.of_trials}' if self.trials else self.what

    def __str__(self) -> str:
        remedy = f'; {self.remedy}' if self.remedy else ''
        return self.brief + (f' on {self.nodes}' if self.nodes else '') + self.detail + remedy


def sentence(causes: Sequence[Cause], evidence: str = '') -> str:
    """Return the four worst causes and the archive of the output, as far as there is one; empty without a cause."""
    if not causes:
        return ''
    more = f'; and {len(causes) - 4} causes more, in the record' if causes[4:] else ''
    return '; also: '.join(map(str, causes[:4])) + more + (f'; all output: {evidence}' if evidence else '')
