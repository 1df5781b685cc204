# SPDX-License-Identifier: BSD-3-Clause
"""Say what is wrong in a YAML file, with file, line, key and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plumbline.errors import expected_one_of
from plumbline.files import read_yaml
from plumbline.units import EXAMPLES

#: The path of keys in the file, and what is wrong there.
Fault = tuple[list[Any], str]


def messages(path: Path, faults: Iterable[Fault]) -> Iterator[str]:
    """Yield a sentence for each key that is there twice, then for each fault of the content. Raises SiteError."""
    document = read_yaml(path, 'compose')
    lines: dict[tuple[str, ...], int] = {(): document.start_mark.line + 1 if document else 1}
    for place, line in _lines(document):
        if place in lines:  # YAML would keep the last one
            yield f'{path}:{line}: {".".join(place)}: is there twice, first in line {lines[place]}'
        else:
            lines[place] = line
    for where, wrong in faults:
        place = tuple(map(str, where))
        yield f'{path}:{_line_in(lines, place)}: {".".join(place) or "the file"}: {wrong}'


def line_of(path: Path, place: tuple[str, ...]) -> int:
    """Return the line of a key or, if the file lacks it, of the nearest key around it. Raises SiteError."""
    return _line_in({where: line for where, line in reversed([*_lines(read_yaml(path, 'compose'))])}, place)


def _line_in(lines: dict[tuple[str, ...], int], place: tuple[str, ...]) -> int:
    return next((lines[place[:depth]] for depth in range(len(place), -1, -1) if place[:depth] in lines), 1)


def _lines(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield path and line, from 1, of each part of a document below `node`, which is a node of PyYAML or None."""
    parts: list[tuple[str, Any, Any]] = []
    if node and node.id == 'mapping':
        parts = [(key.value, key, value) for key, value in node.value]
    elif node and node.id == 'sequence':
        parts = [(str(index), item, item) for index, item in enumerate(node.value)]
    for name, start, value in parts:
        yield (*path, name), start.start_mark.line + 1
        yield from _lines(value, (*path, name))


def explain(error: Any) -> Iterator[Fault]:
    """Yield the path of each fault of a schema error in the file, and what was expected there."""
    path, found, wanted = list(error.absolute_path), error.instance, error.validator_value
    match error.validator:
        case 'additionalProperties':
            known, patterns = (error.schema.get(key, {}) for key in ('properties', 'patternProperties'))
            for key in found:
                if key not in known and not any(re.search(pattern, str(key)) for pattern in patterns):
                    yield [*path, key], f'unknown key; {expected_one_of(key, sorted(known) or sorted(patterns))}'
        case 'required':
            missing = next(key for key in wanted if f'{key!r} is a required' in error.message)
            yield path, f'lacks the key {missing!r}'
        case 'type' if type(found) is int and error.schema.get('format') == 'duration':
            hours = f'; a time with colons is a number to YAML, here of {found} s' if found >= 60 else ''
            yield path, f'expected days, hours, minutes such as 2h, 1d12h or 90m; found {found}{hours}'
        case 'type':
            yield path, f'expected {wanted}, found {found!r}'
        case 'enum':
            yield path, expected_one_of(found, wanted)
        case 'format' if wanted in EXAMPLES:
            yield path, f'expected a {wanted} above 0 with its unit, such as {EXAMPLES[wanted]!r}; found {found!r}'
        case 'format' if wanted == 'version':
            yield path, f"expected a version, or a range such as '>=550.54 <560'; found {found!r}"
        case 'format' if wanted == 'duration':
            yield path, f'expected days, hours, minutes such as 2h, 1d12h or 90m; found {found!r}'
        case _:
            yield path, error.message
