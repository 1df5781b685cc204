# SPDX-License-Identifier: BSD-3-Clause
"""All constants of the method that judges a night, each with its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any


def _constant(value: Any, meaning: str) -> Any:
    """Return a field with default `value` and its `meaning`."""
    return field(default=value, metadata={'meaning': meaning})


@dataclass(frozen=True)
class Method:
    """The constants of the method. docs/method.md prints this table and explains the steps."""

    false: float = _constant(0.03, 'nominal chance of a red healthy night, all tests together; a quarter of it is seen')
    shares: tuple[float, float, float] = _constant(
        (0.45, 0.30, 0.25), 'of it: further jobs of tonight, lasting losses, groups'
    )
    looks: tuple[int, ...] = _constant((1, 2, 4, 8), 'further jobs of a case in doubt; 4 and 8 decide')
    windows: tuple[int, ...] = _constant((2, 3, 5, 7, 14), 'sessions over which a lasting loss is looked for')
    nights: int = _constant(14, 'last sessions that are judged together')
    doubt: float = _constant(0.03, 'chance of a healthy first job to be in doubt')
    budget: tuple[float, float] = _constant(
        (0.25, 0.08), 'further jobs a night as a share of the cases: below `many` sessions; later'
    )
    many: int = _constant(20, 'sessions from which the smaller budget is enough')
    go_on: float = _constant(0.10, 'chance of healthy further jobs to be followed by more')
    near: float = _constant(0.9, 'part of the floor from which on a loss counts, as estimates scatter')
    short: int = _constant(5, "sessions of a baseline that say little of a series' own spread")
    large: tuple[float, float, float] = _constant(
        (0.28, 7, 0.01), 'below `short` sessions: a loss that counts, its usual standard deviations, p of further jobs'
    )
    long: int = _constant(30, 'sessions beyond which more do not sharpen a baseline')
    slow: tuple[float, float, float, float] = _constant(
        (5.0, 0.02, 0.2, 1.2),
        'slow sessions: standard deviations; share of the baseline, and of its pairs of jobs that are both slow, from '
        'which on one night confirms no such loss; times the worst one: a larger loss needs one night',
    )
    level: tuple[float, float, float] = _constant(
        (7.0, 4.0, 3.0),
        'a lower level of the baseline: standard deviations of one session, of two; distance of tonight from it',
    )
    cut: tuple[float, float] = _constant(
        (3.0, 2.0),
        'standard deviations at which a session in a window or a series is cut; a job in the evidence against a node',
    )
    alike: tuple[float, float] = _constant(
        (0.3, 20.0), 'assumed correlation of the jobs of one night; pairs of jobs that it is worth'
    )
    node: tuple[float, int] = _constant(
        (0.3, 6), 'chance that a healthy night has a node in doubt; most other cases that then run on it'
    )
    node_false: float = _constant(0.002, 'chance that a healthy night accuses a node')

    def table(self) -> Iterator[dict[str, str]]:
        """Yield for each constant its name, value and meaning."""
        for constant in fields(self):
            value = getattr(self, constant.name)
            text = ', '.join(f'{each:g}' for each in value) if isinstance(value, tuple) else f'{value:g}'
            yield {'constant': constant.name, 'value': text, **constant.metadata}


METHOD = Method()
