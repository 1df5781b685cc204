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
    """The constants of the method. docs/tolerances.md prints this table and explains the steps."""

    false: float = _constant(0.03, 'nominal chance of a red healthy night, all tests together; a quarter of it is seen')
    shares: tuple[float, float, float] = _constant(
        (0.45, 0.30, 0.25), "of it: tonight's further jobs, lasting losses, groups and nodes"
    )
    looks: tuple[int, ...] = _constant((1, 2, 4, 8), 'further jobs of a case in doubt; 4 and 8 decide')
    windows: tuple[int, ...] = _constant((2, 3, 5, 8, 14), 'sessions over which a lasting loss is looked for')
    doubt: float = _constant(0.03, 'chance of a healthy first job to be in doubt')
    budget: tuple[float, float] = _constant(
        (0.25, 0.08), 'further jobs a night as a share of the cases: below `many` sessions; later'
    )
    many: int = _constant(20, 'sessions from which the smaller budget is enough')
    go_on: float = _constant(0.10, 'chance of healthy further jobs to be followed by more')
    near: float = _constant(0.75, 'part of the floor from which on a loss counts, as estimates scatter')
    large: tuple[float, float, float] = _constant(
        (0.28, 7.0, 0.01), 'below `short` sessions: a loss that counts, its usual standard deviations, p'
    )
    short: int = _constant(5, "sessions of a baseline that say little of a series' own spread")
    long: int = _constant(30, 'sessions beyond which more do not sharpen a baseline')
    shown: float = _constant(0.20, "a lasting loss counts while tonight's first job is less likely than this")
    over: float = _constant(20.0, 'likelihood ratio by which later sessions end a loss')
    slow: tuple[float, float, float] = _constant(
        (5.0, 0.005, 0.2),
        'slow sessions: standard deviations; share of the baseline; share that lasts into a further job. From these '
        'on, one night does not confirm such a loss',
    )
    worst: float = _constant(1.2, 'times the worst slow session: a larger loss needs one night')
    level: tuple[float, float, float] = _constant(
        (7.0, 4.0, 3.0),
        'a lower level of the baseline: standard deviations of one session, of two; distance of tonight from it',
    )
    cut: tuple[float, float] = _constant(
        (3.0, 2.0), 'standard deviations at which a session in a window, and a series in a group, is cut'
    )
    alike: tuple[float, float] = _constant(
        (0.3, 20.0), 'assumed correlation of the jobs of one night; pairs of jobs that it is worth'
    )
    group: tuple[float, int] = _constant(
        (0.06, 4), 'chance that a kind of groups asks on a healthy night; cases that then run'
    )
    node: tuple[float, int] = _constant(
        (0.3, 4), 'chance that a healthy night has a node in doubt; other cases that then run on it'
    )

    def table(self) -> Iterator[dict[str, str]]:
        """Yield for each constant its name, value and meaning."""
        for constant in fields(self):
            value = getattr(self, constant.name)
            text = ', '.join(f'{each:g}' for each in value) if isinstance(value, tuple) else f'{value:g}'
            yield {'constant': constant.name, 'value': text, **constant.metadata}


METHOD = Method()
