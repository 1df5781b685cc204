# SPDX-License-Identifier: BSD-3-Clause
"""The identity of a measured quantity: which case, metric and dims a number belongs to, and its unit and direction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Pairs = tuple[tuple[str, str], ...]
#: The text of no pairs, in files and on the screen.
NONE = '-'
#: Matches any pairs, in the pattern of a reference. A pattern may also hold ``name=*``.
ANY: Pairs = (('*', '*'),)
_DIGITS = re.compile(r'(\d+)')


def pairs(values: Mapping[str, object]) -> Pairs:
    """Return `values` as (name, value) pairs of text, sorted by name."""
    return tuple(sorted((str(name), str(value)) for name, value in values.items()))


def to_text(params: Pairs) -> str:
    """Format pairs as ``name=value,name=value``; ``-`` where there are none, ``*`` for :data:`ANY`."""
    if params == ANY:
        return '*'
    return ','.join(f'{name}={value}' for name, value in params) or NONE


@lru_cache(2**16)
def from_text(text: str) -> Pairs:
    """Parse what :func:`to_text` wrote; an empty text has no pairs. Raises ValueError.

    A part without ``=`` continues the value before it, since parameters of other suites may hold commas.
    """
    if text in (NONE, ''):
        return ()
    if text == '*':
        return ANY
    items: list[str] = []
    for item in text.split(','):
        if '=' in item or not items:
            items.append(item)
        else:
            items[-1] += f',{item}'
    parts = [item.partition('=') for item in items]
    if wrong := [item for item, (name, equals, _) in zip(items, parts, strict=True) if not (name and equals)]:
        raise ValueError(f'expected name=value pairs joined by commas, found {wrong[0]!r} in {text!r}')
    return tuple(sorted((name, value) for name, _, value in parts))


def name_pattern(name: str) -> str:
    """Return the pattern of ReFrame's option ``--name`` for the names that begin with `name`.

    ReFrame compares names without their blanks, and does not use a pattern with an ``@`` as one.
    """
    return '^' + re.escape(name.replace(' ', '')).replace('@', '.')


def short_name(session: str) -> str:
    """Return the part of the uuid of a session that baselines, messages and people name it by."""
    return session[:8]


@lru_cache(2**16)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders the numbers inside a text by value: ``n9`` before ``n10``."""
    return tuple((0, int(part), '') if part.isdigit() else (1, 0, part) for part in _DIGITS.split(text) if part)


@dataclass(frozen=True, order=True, slots=True)
class CaseId:
    """One test case: a check with fixed params, on a partition, with an environ."""

    partition: str
    environ: str
    check: str
    params: Pairs

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CaseId:
        """Return the id of the case that a row of the store names in its columns. Raises ValueError."""
        return CaseId(row['partition'], row['environ'], row['check'], from_text(row['params']))

    def to_row(self) -> dict[str, str]:
        """Return the columns of the id, pairs as texts."""
        names = {'partition': self.partition, 'environ': self.environ, 'check': self.check}
        return {**names, 'params': to_text(self.params)}

    def series(self, metric: str, dims: Pairs = ()) -> SeriesId:
        """Return the id of a series that the case measures: of `metric`, at one point of its `dims`."""
        return SeriesId(self.partition, self.environ, self.check, self.params, metric, dims)

    def __str__(self) -> str:
        return f'{self.partition}/{self.environ} {self.check} {to_text(self.params)}'


@dataclass(frozen=True, order=True, slots=True)
class SeriesId(CaseId):
    """One time series of a site: equal ids are the same quantity, whatever the session.

    `params` distinguish the variants of a check, `dims` what one case measures at once, such as ``message_bytes=8``.
    """

    metric: str
    dims: Pairs = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SeriesId:
        """Return the id of the series that a row of the store or of a reference file names. Raises ValueError."""
        return CaseId.from_row(row).series(row['metric'], from_text(row['dims']))

    def to_row(self) -> dict[str, str]:
        """Return the columns of the id, pairs as texts."""
        return {**CaseId.to_row(self), 'metric': self.metric, 'dims': to_text(self.dims)}

    @property
    def case(self) -> CaseId:
        """The case that measures this series."""
        return CaseId(self.partition, self.environ, self.check, self.params)

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """A sort key for lists that people read: numbers in params and dims by value, so that 64 is before 1024."""
        params, dims = (
            tuple((name, natural(value)) for name, value in pairs_of_id) for pairs_of_id in (self.params, self.dims)
        )
        return self.partition, self.environ, self.check, params, self.metric, dims

    @property
    def name(self) -> str:
        """The metric with its dims, ``latency message_bytes=8``: unique within the case."""
        return f'{self.metric} {to_text(self.dims)}' if self.dims else self.metric

    @property
    def what(self) -> str:
        """Check, params and name, ``OsuLatency pair=near latency message_bytes=8``: unique in partition and environ."""
        return f'{self.check} {to_text(self.params)} {self.name}'

    def __str__(self) -> str:
        return f'{self.case} {self.name}'


#: The columns of a :class:`SeriesId` in every table.
ID_COLUMNS = ('partition', 'environ', 'check', 'params', 'metric', 'dims')


@dataclass(frozen=True, order=True, slots=True)
class Quantity:
    """What the numbers of a series are: their unit, and whether ``higher`` or ``lower`` is better."""

    unit: str
    better: str

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return 1 if self.better == 'higher' else -1


@dataclass(frozen=True)
class Dim:
    """A quantity that varies inside a case; one trial measures all its values. Its name is a key of dims.

    `kind`: ``size`` of bytes, drawn on a logarithmic axis; ``count`` of things; ``name``, one of a few words; ``pair``
    of two places, ``from-to``, drawn as a matrix. `unit`: of the values of a ``size`` or ``count``, such as ``B``;
    empty where the values only name things.
    """

    kind: Literal['size', 'count', 'name', 'pair']
    unit: str = ''
