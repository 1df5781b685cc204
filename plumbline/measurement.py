# SPDX-License-Identifier: BSD-3-Clause
"""One number that no ReFrame test measured, as each reader of another program's results yields it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One number of one series; its fields are the columns in the table of docs/keep-your-suite.md.

    `value`: NaN if a number was expected and none came. `time`: UTC; None: the time of the file. `session`: numbers
    with the same name are of one session; empty: the session is the file. `better`: ``higher`` or ``lower``; empty: the
    unit says which. `judged`: whether a verdict is wanted. `failed`: why its case failed. `where`: its place in the
    file, such as ``row 7``, for messages. Raises ValueError.
    """

    check: str
    metric: str
    value: float
    unit: str = ''
    better: str = ''
    time: datetime | None = None
    session: str = ''
    partition: str = 'default'
    environ: str = 'default'
    params: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    node: str = ''
    trial: int = 1
    judged: bool = True
    failed: str = ''
    where: str = field(default='', repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ('check', 'metric', 'unit', 'better', 'session', 'partition', 'environ', 'node', 'failed'):
            if (text := getattr(self, name)) in ('', None) and name in ('check', 'metric'):
                raise ValueError(f'{name} is empty')
            if not isinstance(text, str):
                raise ValueError(f'{name}: expected a text, found {text!r:.40}')
        if self.better not in ('', 'higher', 'lower'):
            raise ValueError(f'better: expected higher or lower, found {self.better!r:.40}')
        for name in ('params', 'dims'):
            if not isinstance(of := getattr(self, name), Mapping):
                raise ValueError(f'{name}: expected names and values, found {of!r:.40}')
        if self.trial < 1:
            raise ValueError(f'trial: expected a number from 1 on, found {self.trial}')
