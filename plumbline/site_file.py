"""Read a ``site.yaml``, check it, and report what is wrong with file, line, key and what was expected."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError, expected_one_of
from plumbline.files import read_yaml
from plumbline.paths import SCHEMAS
from plumbline.site_rules import Fault, inconsistencies, omissions
from plumbline.units import EXAMPLES, in_base_unit, seconds

_RANGE = re.compile(r'((>=|<=|>|<) *[^<>= ]+ *)+')


def read_site_file(path: Path) -> dict[str, Any]:
    """Return the content of a ``site.yaml`` after all checks that need no other file. Raises SiteError: the first."""
    entry = read_yaml(path)
    for message in _messages(path, entry):
        raise SiteError(message)
    return entry


def faults_of_site_file(path: Path) -> list[str]:
    """Return a sentence for each mistake in a ``site.yaml``, in the order of its lines."""
    try:
        found = set(_messages(path, read_yaml(path), complete=True))
    except SiteError as error:
        return [str(error)]
    return sorted(found, key=lambda message: (int(message.removeprefix(f'{path}:').partition(':')[0]), message))


def place_of(path: Path, *key: str | int) -> str:
    """Return file, line and key of a part of a ``site.yaml``, as its messages begin."""
    place = tuple(map(str, key))
    lines = {where: line for where, line in reversed([*_lines(read_yaml(path, 'compose'))])}
    return f'{path}:{_line_in(lines, place)}: {".".join(place)}'


def _messages(path: Path, entry: Any, complete: bool = False) -> Iterator[str]:
    document = read_yaml(path, 'compose')
    lines: dict[tuple[str, ...], int] = {(): document.start_mark.line + 1 if document else 1}
    for place, line in _lines(document):
        if place in lines:  # YAML would keep the last one
            yield f'{path}:{line}: {".".join(place)}: is there twice, first in line {lines[place]}'
        else:
            lines[place] = line
    for where, wrong in _faults(entry, complete):
        place = tuple(map(str, where))
        yield f'{path}:{_line_in(lines, place)}: {".".join(place) or "the file"}: {wrong}'


def _line_in(lines: dict[tuple[str, ...], int], place: tuple[str, ...]) -> int:
    return next((lines[place[:depth]] for depth in range(len(place), -1, -1) if place[:depth] in lines), 1)


def _lines(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the path of each part of a document below `node`, of PyYAML or None, and its line, from 1."""
    parts: list[tuple[str, Any, Any]] = []
    if node and node.id == 'mapping':
        parts = [(key.value, key, value) for key, value in node.value]
    elif node and node.id == 'sequence':
        parts = [(str(index), item, item) for index, item in enumerate(node.value)]
    for name, start, value in parts:
        yield (*path, name), start.start_mark.line + 1
        yield from _lines(value, (*path, name))


def _faults(entry: Any, complete: bool) -> Iterator[Fault]:
    """Yield path and fault, `complete` also what is left out; only parts of the right form are looked at further."""
    broken = set()
    for error in _validator().iter_errors(entry):
        for path, wrong in _explain(error):
            broken.add(tuple(path[:2]))
            yield path, wrong
    if isinstance(entry, dict) and not any(len(path) < 2 for path in broken):
        found = [*inconsistencies(entry, broken)]
        yield from found
        if complete and not (broken or found):
            yield from omissions(entry)


@functools.cache
def _validator() -> Any:
    import jsonschema

    schema = json.loads((SCHEMAS / 'site.schema.json').read_text(encoding='utf-8'))
    formats = jsonschema.FormatChecker(['regex'])

    def define(name, is_right):
        formats.checks(name, raises=ValueError)(lambda text: not isinstance(text, str) or is_right(text))

    for dimension in EXAMPLES:
        define(dimension, lambda text, dimension=dimension: in_base_unit(text, of=dimension) > 0)
    define('duration', lambda text: seconds(text) > 0)
    define('version', lambda text: text[:1] not in '<>=' or _RANGE.fullmatch(text))
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def _explain(error: Any) -> Iterator[Fault]:
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
