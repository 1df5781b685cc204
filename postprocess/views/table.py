# SPDX-License-Identifier: BSD-3-Clause
"""Render rows of plain values as aligned text, Markdown, CSV or JSON, from one description of their columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from postprocess.text import not_a_formula, to_csv, wrapped

TableRow = Mapping[str, Any]
_NARROWEST = 12  # characters to which a column of text without a width may be cut, so that a table fits
_COMMENT = 60_000  # most characters of a comment: GitHub and GitLab take 65 536 and more


def as_text(value: Any) -> str:
    """Return a value as text if its column has no format: lists and mappings on one line, nothing for None."""
    if value is None:
        return ''
    if isinstance(value, Mapping):
        return ', '.join(f'{key} {item}' for key, item in value.items())
    return ', '.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `key`: name of its values in the rows, in CSV, in JSON and on the page (``data-column``). `title`: its heading for
    people; None: only programs see the column. `format`: makes the text of a cell from the value and from the values
    under the keys `beside`. `number`: aligned to the right. `width`: number of characters that a cut text keeps, and at
    which the page breaks the text; 0: never broken inside a word. `priority`: 1 is always shown, 2 is left out on a
    narrow terminal, 3 also on a telephone and on paper. `sort`: key of the number by which the page sorts instead of
    the text; with a ``-`` before it, the largest first. `on_page`: False if the page shows the value elsewhere. `link`:
    beginning of the address to which the page links the value, and the key of its end; an empty key stands for the
    value, or for each of a list.
    """

    key: str
    title: str | None = None
    format: Callable[..., str] = as_text
    number: bool = False
    beside: tuple[str, ...] = ()
    width: int = 0
    priority: Literal[1, 2, 3] = 2
    sort: str = ''
    on_page: bool = True
    link: tuple[str, str] | None = None

    @property
    def heading(self) -> str:
        """The title as the page writes it: with a capital letter, unless it is one letter."""
        title = self.title or ''
        return title if len(title) == 1 else title[:1].upper() + title[1:]

    def links(self, row: TableRow) -> list[tuple[str, str]]:
        """Return (text, address) of each part of the cell of `row` on the page; an empty address is no link."""
        if not self.link:
            return [(self.text(row), '')]
        value, (begin, key) = row[self.key], self.link
        parts = value if isinstance(value, list) else [self.text(row)]
        ends = [row[key] if key else quote(part) for part in parts]
        return [
            (part, f'{begin}{end}' if part and end is not None else '') for part, end in zip(parts, ends, strict=True)
        ]

    def text(self, row: TableRow) -> str:
        """Return the cell of `row` as text for people."""
        return self.format(row[self.key], *(row[key] for key in self.beside))


@dataclass(frozen=True)
class View:
    """What a command shows: a table, and the sentences before and after it.

    `document` and `name`: what JSON has in addition to the rows, and the key of the rows there; without a name, JSON is
    the list of rows. `markdown`: replaces `before` in Markdown. `notes`: printed after the table and before `after`,
    which ends with the verdict; they go to standard error if standard output is for programs. `faults`: always go to
    standard error. `blocks`: as text, the cells of a row are printed below each other, because a table would be too
    wide.
    """

    columns: Sequence[Column]
    rows: Sequence[TableRow]
    before: str = ''
    after: str = ''
    markdown: str = ''
    name: str = ''
    document: TableRow = field(default_factory=dict)
    notes: Sequence[str] = ()
    faults: Sequence[str] = ()
    blocks: bool = False

    def render(self, format: str, width: int | None = None) -> str:
        """Return the view as ``table``, ``markdown``, ``csv`` or ``json``, ending in a line feed.

        `width`: of the terminal into which a table must fit.
        """
        keys = [column.key for column in self.columns]
        if format == 'csv':
            return to_csv(({key: not_a_formula(_joined(row[key])) for key in keys} for row in self.rows), keys)
        if format == 'json':
            rows = [{key: row[key] for key in keys} for row in self.rows]
            return to_json(dict(self.document) | {self.name: rows} if self.name else rows)
        parts: tuple[str, ...] = (self.before, '', self.after)
        if format == 'markdown':
            table = to_markdown(self.rows, self.columns)
            parts = _folded(self.markdown, table) if self.markdown else (self.before, table, self.after)
        elif self.rows:
            text = to_blocks(self.rows, self.columns) if self.blocks else to_table(self.rows, self.columns, width)
            parts = self.before, text, self.after
        if format == 'table':  # the verdict comes last
            parts = *parts[:2], '\n'.join(self.notes), self.after
        return '\n\n'.join(part.strip('\n') for part in parts if part) + '\n'


def to_table(rows: Sequence[TableRow], columns: Sequence[Column], width: int | None = None) -> str:
    """Return aligned columns below their headings, one line for each row, without columns that are empty.

    To fit into `width`, the widest texts are cut. If that is not enough, columns are left out, the lowest priority and
    the last column first, and a line gives their number. (rich takes seconds for thousands of rows.)
    """
    shown, filled = _filled(rows, columns)
    cells = [[column.title or '' for column in shown], *filled]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left_out = 0
    if width:
        while len(widths) > 1 and sum(widths) + 2 * (len(widths) - 1) > width:
            texts = [i for i, of in enumerate(shown) if not of.number and widths[i] > (of.width or _NARROWEST)]
            if texts:
                widths[max(texts, key=lambda i: widths[i])] -= 1
            else:
                last = max(range(len(shown)), key=lambda i: (shown[i].priority, i))
                lines: list[list[Any]] = [shown, widths, *cells]
                for line in lines:
                    del line[last]
                left_out += 1
        cells = [[_cut(text, room) for text, room in zip(line, widths, strict=True)] for line in cells]
    cells.insert(1, ['-' * width for width in widths])
    aligned = [
        (
            text.rjust(width) if column.number else text.ljust(width)
            for text, width, column in zip(line, widths, shown, strict=True)
        )
        for line in cells
    ]
    text = ''.join('  '.join(line).rstrip() + '\n' for line in aligned)
    return text + (f'{left_out} more columns on a wider terminal, and in --format csv\n' if left_out else '')


def to_blocks(rows: Sequence[TableRow], columns: Sequence[Column]) -> str:
    """Return the cells of each row below each other, each after the title of its column, without empty cells."""
    shown, texts = _filled(rows, columns)
    room = max((len(column.title or '') for column in shown), default=0) + 2
    blocks = (
        [wrapped(text, f'{column.title:<{room}}', ' ' * room) for column, text in zip(shown, line, strict=True) if text]
        for line in texts
    )
    return '\n\n'.join(map('\n'.join, blocks))


def _filled(rows: Sequence[TableRow], columns: Sequence[Column]) -> tuple[list[Column], list[list[str]]]:
    """Return the columns for people that are not empty in every row, and their texts; without rows, all columns."""
    shown = [column for column in columns if column.title is not None]
    texts = [[column.text(row) for column in shown] for row in rows]
    has_text = [any(of) for of in zip(*texts, strict=True)] if rows else [True] * len(shown)
    return list(compress(shown, has_text)), [list(compress(line, has_text)) for line in texts]


def _cut(text: str, room: int) -> str:
    """Return the text, cut to `room` characters."""
    return text if len(text) <= room else text[: room - 1] + '~'


def _folded(text: str, table: str) -> tuple[str, str, str]:
    """Return the text before a folded table, as many rows of the table as a comment can hold, and the text after it."""
    text = text if len(text) < _COMMENT // 2 else text[: _COMMENT // 2].rpartition('\n')[0] + '\n\nand more'
    head, rule, *rows = table.splitlines()
    fitting, room = [], _COMMENT - len(text) - len(head) - len(rule) - 200
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        fitting.append(row)
    more = f', the first {len(fitting)}' if len(fitting) < len(rows) else ''
    before = f'{text.rstrip()}\n\n<details><summary>{len(rows)} verdicts{more}</summary>'
    return before, '\n'.join([head, rule, *fitting]), '</details>'


def to_markdown(rows: Sequence[TableRow], columns: Sequence[Column]) -> str:
    """Return a table in GitHub's Markdown, without columns that are empty."""
    shown, texts = _filled(rows, columns)
    lines = [
        [column.title or '' for column in shown],
        ['---:' if column.number else '---' for column in shown],
        *([in_markdown(text) for text in line] for line in texts),
    ]
    return ''.join(f'| {" | ".join(cells)} |\n' for cells in lines)


def in_markdown(text: str) -> str:
    """Escape text so that GitHub's Markdown shows it literally."""
    return re.sub(r'[\\`*<|&\[\]]', r'\\\g<0>', text.replace('\n', ' '))


def to_json(value: Any) -> str:
    """Return standard JSON; a number that is not finite becomes null, because JSON has no such numbers."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=2).decode() + '\n'


def _plain(value: Any) -> Any:
    """Return a mapping as dict, and a number of numpy as float."""
    return dict(value) if isinstance(value, Mapping) else float(value)


def _joined(value: Any) -> Any:
    """Return a value for a field of CSV; a list becomes text."""
    if isinstance(value, (list, tuple)):
        return '; '.join(map(as_text, value))
    return as_text(value) if isinstance(value, Mapping) else value
