# SPDX-License-Identifier: BSD-3-Clause
"""Numbers and counts as text, the same in every sentence, table and chart."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH = 80  # characters of a line of a summary
_COLOUR = re.compile(r'\x1b\[[0-9;]*[A-Za-z]')
_NODES = 32  # most nodes that a sentence names one by one; more are named by ranges


def number(value: float | None) -> str:
    """Format a number with four significant digits and all digits before the point; empty for None."""
    if value is None:
        return ''
    return f'{value:.0f}' if 1e4 <= abs(value) < 1e9 else f'{value:.4g}'


def quantity(mean: float | None, std: float | None, unit: str) -> str:
    """Format a value as ``61.4 ± 0.35 GFlop/s``; without a spread only the mean, without a mean an empty text."""
    if mean is None:
        return ''
    spread = '' if std is None else f' ± {std:.2g}' if std < 100 else f' ± {std:.0f}'
    return f'{number(mean)}{spread} {unit}'.rstrip()


def decimals(values: Iterable[float | None]) -> int:
    """Return the number of decimals for the numbers of one column: four significant digits of the smallest."""
    sizes = [abs(value) for value in values if value and 1e-9 < abs(value) < 1e9]
    return min(max(3 - math.floor(math.log10(min(sizes))), 0), 9) if sizes else 0


def fixed(value: float | None, places: int, std: float | None = None) -> str:
    """Format with `places` decimals, as ``61.4 ± 0.4``; a value too large or small for that as :func:`number` does."""
    if value is None or (value and not 1e-9 < abs(value) < 1e9):
        return number(value)
    return f'{value:.{places}f}' + ('' if std is None else f' ± {std:.{places}f}' if std < 1e9 else f' ± {std:.2g}')


def signed(value: float | None, places: int = 1) -> str:
    """Format a number with a sign and `places` decimals; empty for None."""
    return '' if value is None else f'{round(value, places) + 0.0:+.{places}f}'  # + 0.0: no "-0.0"


def spaced(values: Iterable[float]) -> str:
    """Return numbers as text, with six significant digits, separated by blanks."""
    return ' '.join(f'{value:.6g}' for value in values)


def percent(value: float | None, places: int = 1) -> str:
    """Format a number as ``-3.1 %``; empty for None."""
    return '' if value is None else f'{signed(value, places)} %'


def count(n: int, noun: str) -> str:
    """Format a number of things as ``1 case`` or ``2 cases``."""
    return f'{n} {noun}' if n == 1 else f'{n} {noun}s'


def some(names: Sequence[str], most: int, between: str = ', ') -> str:
    """Return the first names and the number of the others: ``a, b and 3 more``."""
    return between.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')


def named(nodes: Sequence[str]) -> str:
    """Return the names of nodes; if they are many, their ranges."""
    return ', '.join(nodes) if len(nodes) <= _NODES else f'{len(nodes)} nodes, {ranges(nodes)}'


def ranges(nodes: Iterable[str]) -> str:
    """Return nodes as ranges, such as ``n[1-3,7]``."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # imported here, as most commands name no node

    return str(NodeSet.fromlist(nodes, resolver=RESOLVER_NOGROUP))


def names_in(nodes: str) -> list[str]:
    """Return the names of the nodes in a text such as ``n[1-3],login1``. Raises ValueError."""
    if '[' not in nodes:
        return [name for name in nodes.split(',') if name]
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

    try:
        return list(NodeSet(nodes, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError:
        raise ValueError(f'expected names of nodes such as n[1-3],login1, found {nodes!r:.80}') from None


def wrapped(text: str, first: str = '', rest: str = '', width: int = WIDTH) -> str:
    """Return text in lines that begin with `first`, then with `rest`; words stay whole, so a path can be copied."""
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def to_csv(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """Return a CSV document with a heading; keys of `rows` that are not in `fields` are left out."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, extrasaction='ignore', lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def not_a_formula(value: Any) -> Any:
    """Return a value for a CSV file that people open: a text that a spreadsheet would run gets an apostrophe before it.

    Numbers stay, also those in texts, and a lone ``-``, which stands for no params and no dims. Source: OWASP, CSV
    injection.
    """
    if not isinstance(value, str) or value == '-' or not value.startswith(('=', '+', '-', '@', '\t', '\r')):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def one_line(text: str | None) -> str | None:
    """Return a captured message as one line without colours and control characters; None if it is empty."""
    if not text:
        return None
    plain = _COLOUR.sub('', str(text))
    return ' '.join(''.join(c if c.isprintable() else ' ' for c in plain).split())


def digits(value: object) -> str:
    """Return a value as text for a file of references: numbers with six significant digits, nothing for None."""
    if value is None:
        return ''
    return f'{value:.6g}' if isinstance(value, float) else str(value)
