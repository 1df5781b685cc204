# SPDX-License-Identifier: BSD-3-Clause
"""Say what is wrong in a YAML file, with file, line, key and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plumbline.errors import did_you_mean, expected_one_of, nearest
from plumbline.files import read_yaml
from plumbline.units import EXAMPLES, units_of

#: The path of keys in the file, and what is wrong there.
Fault = tuple[list[Any], str]
_KINDS = {
    'string': 'text', 'integer': 'a whole number', 'number': 'a number', 'boolean': 'on or off', 'array': 'a list',
    'object': 'keys with values', 'null': 'nothing',
}  # fmt: skip
_MOST_KEYS = 20  # that a message lists
_BOUNDS = {'minimum': 'at least', 'maximum': 'at most', 'exclusiveMinimum': 'above', 'exclusiveMaximum': 'below'}


def items(content: dict[str, Any], key: str) -> Iterator[tuple[list[Any], Any]]:
    """Yield path and content of each item of a list; none if the list is absent or empty."""
    yield from (([key, number], item) for number, item in enumerate(content.get(key) or ()))


def within(place: list[Any], faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield the `faults` of the part of a file at `place`."""
    yield from (([*place, *path], wrong) for path, wrong in faults)


def first_of(stages: Iterable[Iterable[Fault]]) -> list[Fault]:
    """Return the faults of the first stage that has any: a later one may rest on what an earlier one finds wrong."""
    return next(filter(None, map(list, stages)), [])


def messages(path: Path, faults: Iterable[Fault]) -> Iterator[str]:
    """Yield a sentence for each key that is there twice, and for each fault. Raises SiteError."""
    document = read_yaml(path, 'compose')
    lines: dict[tuple[str, ...], int] = {(): document.start_mark.line + 1 if document else 1}
    for place, line in _parts(document):
        if place in lines:  # YAML would keep the last one
            yield f'{path}:{line}: {".".join(place)}: is there twice, first in line {lines[place]}'
        lines.setdefault(place, line)
    for where, wrong in faults:
        place = tuple(map(str, where))
        yield f'{path}:{_line_in(lines, place)}: {".".join(place) or "the file"}: {wrong}'


def line_of(path: Path, place: tuple[str, ...]) -> int:
    """Return the line of a key or, if the file lacks it, of the nearest key around it. Raises SiteError."""
    return _line_in(dict(reversed([*_parts(read_yaml(path, 'compose'))])), place)


def _line_in(lines: dict[tuple[str, ...], int], place: tuple[str, ...]) -> int:
    return next((lines[place[:depth]] for depth in range(len(place), -1, -1) if place[:depth] in lines), 1)


def _parts(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield path and line, from 1, of each part of a document below `node`, a node of PyYAML or None."""
    parts: list[tuple[str, Any, Any]] = []
    if node and node.id == 'mapping':
        parts = [(str(key.value), key, value) for key, value in node.value]
    elif node and node.id == 'sequence':
        parts = [(str(index), item, item) for index, item in enumerate(node.value)]
    for name, start, value in parts:
        yield (*path, name), start.start_mark.line + 1
        yield from _parts(value, (*path, name))


def explain(errors: Iterable[Any]) -> Iterator[Fault]:
    """Yield path and fault of each schema error; a key is not missing where an unknown one resembles it."""
    meant: list[list[Any]] = []
    for error in sorted(errors, key=lambda error: error.validator == 'required'):
        path, wanted = list(error.absolute_path), error.validator_value
        if error.validator == 'additionalProperties':
            known, own = sorted(error.schema['properties']), 'patternProperties' in error.schema
            for key in _unknown_keys(error):
                choices = f'; expected {error.schema["description"]}' if own else f'; {expected_one_of(key, known)}'
                unlike = choices if len(known) <= _MOST_KEYS else f', and unlike all {len(known)} that are known'
                yield [*path, key], f'unknown key{did_you_mean(key, known) or unlike}'
                meant += [[*path, near] for near in nearest(key, known)]
        elif error.validator == 'required':
            missing = next(key for key in wanted if f'{key!r} is a required' in error.message)
            if [*path, missing] not in meant:
                yield [*path, missing], 'is missing'
        else:
            yield path, expected_one_of(error.instance, wanted) if error.validator == 'enum' else _expected(error)


def _unknown_keys(error: Any) -> Iterator[Any]:
    known, patterns = (error.schema.get(key, {}) for key in ('properties', 'patternProperties'))
    for key in error.instance:
        if key not in known and not any(re.search(pattern, str(key)) for pattern in patterns):
            yield key


def _expected(error: Any) -> str:
    """Return what a schema expects, by its description and examples, and what was found."""
    schema, wanted, found = error.schema, error.validator_value, error.instance
    kind, examples, more = schema.get('format'), schema.get('examples', ()), schema.get('description')
    if error.validator == 'between':
        return f'expected {wanted[0]} to {wanted[1]}; found {found}: a slip of the unit?'
    if error.validator in _BOUNDS:
        wanted = f'{_BOUNDS[error.validator]} {wanted:g}'
    elif error.validator not in ('type', 'format', 'pattern'):
        return str(error.message)
    elif kind in EXAMPLES:
        wanted, examples, more = f'a {kind} above 0', [EXAMPLES[kind]], f'units: {", ".join(units_of(kind))}'
    else:
        stated = schema.get('type', 'string')
        wanted = ' or '.join(_KINDS[name] for name in ([stated] if isinstance(stated, str) else stated))
    such = f' such as {", ".join(map(str, examples))}' if examples else ''
    about = f' ({more})' if more and (such or error.validator in _BOUNDS) else ''
    return f'expected {wanted}{such}{about}; found {found!r}'
