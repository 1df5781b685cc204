# SPDX-License-Identifier: BSD-3-Clause
"""Say what is wrong in a YAML file, with file, line, key and what was expected.

All mistakes are found in one pass: a rule that reads what is wrong already is left out, and all others go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plumbline.errors import did_you_mean, expected_one_of, nearest
from plumbline.files import read_yaml
from plumbline.units import EXAMPLES, units_of

#: The path of keys in the file, and what is wrong there; nothing: it is in doubt, as it contradicts what is named.
Fault = tuple[list[Any], str]
#: The path of a part of the file, and the faults that one rule finds there.
Rule = tuple[list[Any], Iterator[Fault]]
_KINDS = {
    'string': 'text', 'integer': 'a whole number', 'number': 'a number', 'boolean': 'on or off', 'array': 'a list',
    'object': 'keys with values', 'null': 'nothing',
}  # fmt: skip
_MOST_KEYS = 20  # that a message lists
_BOUNDS = {'minimum': 'at least', 'maximum': 'at most', 'exclusiveMinimum': 'above', 'exclusiveMaximum': 'below'}


class _Hidden(Exception):
    """A rule reads a key whose value is wrong already."""


class _Mapping(dict[Any, Any]):
    """A mapping of the file, of which `hidden` keys cannot be read."""

    def __init__(self, items: Iterable[tuple[Any, Any]]):
        super().__init__(items)
        self.hidden: set[Any] = set()

    def _look(self, key: Any) -> None:
        if key in self.hidden:
            raise _Hidden

    def __getitem__(self, key: Any) -> Any:
        self._look(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._look(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._look(key)
        return super().get(key, default)


def for_rules(part: Any) -> Any:
    """Return a copy of the content of a file, in which :func:`hide` keeps wrong values from the rules."""
    if isinstance(part, dict):
        return _Mapping((key, for_rules(value)) for key, value in part.items())
    return [for_rules(item) for item in part] if isinstance(part, list) else part


def hide(content: Any, path: Sequence[Any]) -> None:
    """Hide the innermost key of `path` from the rules; a path to an item that has keys of its own hides nothing."""
    of, last, part = None, None, content
    for key in path:
        if isinstance(part, _Mapping):
            of, last, part = part, key, dict.get(part, key)
        else:
            part = part[key] if isinstance(part, list) and key in range(len(part)) else None
    if of is not None and not (isinstance(part, _Mapping) and last != path[-1]):
        of.hidden.add(last)
        of.pop(last, None)


def stated(content: Any, path: Iterable[Any]) -> Any:
    """Return what stands at `path`; None if nothing does, or if it is hidden."""
    for key in path:
        content = dict.get(content, key) if isinstance(content, dict) else None
    return content


def items(content: Any, key: str) -> Iterator[tuple[list[Any], Any]]:
    """Yield path and content of each item of a list; none if the list is wrong or absent."""
    yield from (([key, number], item) for number, item in enumerate(stated(content, [key]) or ()))


def follow(content: Any, rules: Iterable[Rule]) -> Iterator[Fault]:
    """Yield what the `rules` find; what one finds wrong is hidden from those after it."""
    for place, faults in rules:
        found = []
        try:
            for path, wrong in faults:
                found.append([*place, *path])
                if wrong:
                    yield found[-1], wrong
        except _Hidden:
            pass
        for path in found:
            hide(content, path)


def messages(path: Path, faults: Iterable[Fault]) -> Iterator[str]:
    """Yield a sentence for each key that is there twice, for each fault, and for numbers that YAML reads as others.

    Raises SiteError.
    """
    document = read_yaml(path, 'compose')
    lines: dict[tuple[str, ...], int] = {(): document.start_mark.line + 1 if document else 1}
    read_as: dict[tuple[str, ...], str] = {}
    for place, line, value in _parts(document):
        if place in lines:  # YAML would keep the last one
            yield f'{path}:{line}: {".".join(place)}: is there twice, first in line {lines[place]}'
        else:
            lines[place] = line
            if other := _other_number(value):
                read_as[place] = f'YAML reads {value.value} as the number {other}'
    for where, wrong in faults:
        place = tuple(map(str, where))
        also = f'; {read_as.pop(place)}' if place in read_as else ''
        yield f'{path}:{_line_in(lines, place)}: {".".join(place) or "the file"}: {wrong}{also}'
    for place, wrong in read_as.items():
        yield f'{path}:{lines[place]}: {".".join(place)}: {wrong}; expected that number, or the text in quotes'


def line_of(path: Path, place: tuple[str, ...]) -> int:
    """Return the line of a key or, if the file lacks it, of the nearest key around it. Raises SiteError."""
    return _line_in({where: line for where, line, _ in reversed([*_parts(read_yaml(path, 'compose'))])}, place)


def _line_in(lines: dict[tuple[str, ...], int], place: tuple[str, ...]) -> int:
    return next((lines[place[:depth]] for depth in range(len(place), -1, -1) if place[:depth] in lines), 1)


def _parts(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int, Any]]:
    """Yield path, line from 1, and node of each part of a document below `node`, a node of PyYAML or None."""
    parts: list[tuple[str, Any, Any]] = []
    if node and node.id == 'mapping':
        parts = [(str(key.value), key, value) for key, value in node.value]
    elif node and node.id == 'sequence':
        parts = [(str(index), item, item) for index, item in enumerate(node.value)]
    for name, start, value in parts:
        yield (*path, name), start.start_mark.line + 1, value
        yield from _parts(value, (*path, name))


def _other_number(node: Any) -> str:
    """Return the number that YAML 1.1 reads where it is not the one that is written, as 64 for 0100; else nothing."""
    import yaml

    if not node.tag.endswith((':int', ':float')) or not re.search(r'^[-+]?0[\dxb]|[:_]', node.value):
        return ''
    return '' if node.tag.endswith(':float') and ':' not in node.value else str(yaml.safe_load(node.value))


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
            while path and isinstance(path[-1], int):  # no rule reads a list of which an item is wrong
                path.pop()
            yield path, ''
    yield from ((path, '') for path in meant)


def _unknown_keys(error: Any) -> Iterator[Any]:
    known, patterns = (error.schema.get(key, {}) for key in ('properties', 'patternProperties'))
    for key in error.instance:
        if key not in known and not any(re.search(pattern, str(key)) for pattern in patterns):
            yield key


def _expected(error: Any) -> str:
    """Return what a schema expects, by its description and examples, and what was found."""
    schema, wanted, found = error.schema, error.validator_value, error.instance
    kind, examples, more = schema.get('format'), schema.get('examples', ()), schema.get('description')
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
