# SPDX-License-Identifier: BSD-3-Clause
"""All constants of the method that judges a night, each with its meaning and the effect of a change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any


def _constant(value: Any, meaning: str, moves: str) -> Any:
    """Return a field with default `value` and its `meaning`; `moves` says what another value would change."""
    return field(default=value, metadata={'meaning': meaning, 'moves': moves})


@dataclass(frozen=True)
class Method:
    """The constants of the method. docs/tolerances.md prints this table, and docs/verdicts.md explains the steps."""

    false: float = _constant(
        0.03,
        'nominal chance of a red healthy night, all tests together',
        'larger: more losses found the same night, and more red healthy nights; what is held is a quarter of it',
    )
    shares: tuple[float, float, float] = _constant(
        (0.45, 0.30, 0.25),
        "of it: tonight's further jobs, lasting losses, groups and nodes",
        'more for one finds more of its kind and less of the others',
    )
    looks: tuple[int, ...] = _constant(
        (1, 2, 4, 8),
        'further jobs of a case in doubt, and how many of them are looked at; 4 and 8 decide',
        'more jobs find smaller losses the same night, and take longer',
    )
    windows: tuple[int, ...] = _constant(
        (2, 3, 5, 8, 14), 'sessions over which a lasting loss is looked for', 'longer ones find smaller losses, later'
    )
    doubt: float = _constant(
        0.03, 'chance of a healthy first job to be in doubt', 'larger: more cases wait for a further job'
    )
    budget: tuple[float, float] = _constant(
        (0.25, 0.08),
        'further jobs a night as a share of the cases: with a baseline of fewer than `many` sessions; later',
        'larger: small losses are found the same night rather than within three',
    )
    many: int = _constant(
        20, 'sessions from which the smaller budget is enough', 'larger: more further jobs for longer'
    )
    go_on: float = _constant(
        0.10,
        'chance of healthy further jobs to be followed by more',
        'larger: fewer losses are cleared by one lucky job',
    )
    near: float = _constant(
        0.75,
        'part of the floor from which on a loss counts: estimates scatter about the truth',
        '1: half of the losses of just the floor are missed',
    )
    large: tuple[float, float, float] = _constant(
        (0.28, 7.0, 0.01),
        'a loss that counts against fewer than `short` sessions: its size, usual standard deviations, p',
        'smaller: more losses are found in the first week, and more healthy metrics that vary much are red',
    )
    short: int = _constant(
        5, "sessions of a baseline that say little of its series' own spread", 'larger: a rougher rule for longer'
    )
    long: int = _constant(
        30, 'sessions beyond which more do not sharpen a baseline', 'larger: smaller losses in the second month'
    )
    shown: float = _constant(
        0.20,
        "a lasting loss counts while tonight's first job is less likely than this",
        'larger: red for longer after a repair',
    )
    over: float = _constant(
        20.0,
        'likelihood ratio by which later sessions end a loss: what follows is judged by itself',
        'smaller: a small lasting loss is begun anew by one lucky night',
    )
    slow: tuple[float, float, float] = _constant(
        (5.0, 0.005, 0.2),
        'slow sessions: their standard deviations; their share of the baseline, and how many last into a further job, '
        'from which on further jobs of one night do not confirm a loss of that size',
        'smaller: fewer false losses where nights are slow, and later true ones there',
    )
    worst: float = _constant(
        1.2, 'times the worst slow session: a larger loss needs one night', 'larger: large losses are told later'
    )
    level: tuple[float, float, float] = _constant(
        (7.0, 4.0, 3.0),
        'standard deviations of a lower level that the baseline holds: one session so far below, or two less far; and '
        'within which tonight is at it, unless it was there in the two sessions before, too',
        'smaller: a common outlier hides losses of its size for two nights',
    )
    cut: tuple[float, float] = _constant(
        (3.0, 2.0),
        'standard deviations at which a session counts no further in a window, and a series in a group',
        'larger: one slow night is a lasting loss; smaller: less power',
    )
    alike: tuple[float, float] = _constant(
        (0.3, 20.0),
        'correlation of the jobs of one night before anything is known, and how many pairs of jobs that is worth',
        'larger: further jobs say less',
    )
    group: tuple[float, int] = _constant(
        (0.06, 4),
        'chance that a kind of groups asks on a healthy night, and the cases that then run for it',
        'larger: smaller losses in common, and more further jobs',
    )
    node: tuple[float, int] = _constant(
        (0.3, 4),
        'chance that a healthy night has a node in doubt, and the other cases that then run on it',
        'larger: slow nodes are named a night earlier, and more further jobs',
    )

    def table(self) -> Iterator[dict[str, str]]:
        """Yield for each constant its name, value, meaning and effect."""
        for constant in fields(self):
            value = getattr(self, constant.name)
            text = ', '.join(f'{each:g}' for each in value) if isinstance(value, tuple) else f'{value:g}'
            yield {'constant': constant.name, 'value': text, **constant.metadata}


METHOD = Method()
