"""Read a ``site.yaml``, check it, and report what is wrong with file, line, key and what was expected."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from plumbline.errors import SiteError
from plumbline.files import read_yaml
from plumbline.paths import SCHEMAS
from plumbline.units import in_base_unit


def read_site_file(path: Path) -> dict[str, Any]:
    """Return the content of a ``site.yaml`` after all checks that need no other file. Raises SiteError."""
    entry, document = read_yaml(path), read_yaml(path, yaml.compose)
    lines: dict[tuple[str, ...], int] = {(): document.start_mark.line + 1 if document else 1}
    for place, line in _lines(document):
        if place in lines:  # YAML would keep the last one
            raise SiteError(f'{path}:{line}: {".".join(place)}: is there twice, first in line {lines[place]}')
        lines[place] = line
    for where, wrong in _faults(entry):
        place = tuple(map(str, where))
        line = next(lines[place[:depth]] for depth in range(len(place), -1, -1) if place[:depth] in lines)
        raise SiteError(f'{path}:{line}: {".".join(place) or "the file"}: {wrong}')
    return entry


def _lines(node: yaml.Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the path of each part of a document below `node` and its line, from 1."""
    parts: list[tuple[str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        parts = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = [(str(index), item, item) for index, item in enumerate(node.value)]
    for name, start, value in parts:
        yield (*path, name), start.start_mark.line + 1
        yield from _lines(value, (*path, name))


def _faults(entry: Any) -> Iterator[tuple[list[Any], str]]:
    """Yield path and fault; the later checks rely on the earlier ones."""
    yield from map(_explain, _validator().iter_errors(entry))
    yield from _inconsistencies(entry)


@functools.cache
def _validator() -> Any:
    import jsonschema

    schema = json.loads((SCHEMAS / 'site.schema.json').read_text(encoding='utf-8'))
    formats = jsonschema.FormatChecker(['regex'])
    formats.checks('quantity', raises=ValueError)(lambda text: not isinstance(text, str) or in_base_unit(text) >= 0)
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def _explain(error: Any) -> tuple[list[Any], str]:
    """Return the path of a schema error in the file, and what was expected there."""
    path, found, wanted = list(error.absolute_path), error.instance, error.validator_value
    match error.validator:
        case 'additionalProperties':
            known, patterns = (error.schema.get(key, {}) for key in ('properties', 'patternProperties'))
            unknown = next(
                key for key in found if key not in known and not any(re.search(p, str(key)) for p in patterns)
            )
            return [*path, unknown], f'unknown key; expected one of {", ".join(sorted(known) or sorted(patterns))}'
        case 'required':
            return path, f'lacks the key {next(key for key in wanted if key not in found)!r}'
        case 'type':
            return path, f'expected {wanted}, found {found!r}'
        case 'enum':
            return path, f'expected one of {", ".join(map(str, wanted))}, found {found!r}'
        case 'format' if wanted == 'quantity':
            return path, f'expected a number and a unit such as "256 GiB" or "614.4 GB/s", found {found!r}'
    return path, error.message


def _inconsistencies(entry: dict[str, Any]) -> Iterator[tuple[list[Any], str]]:
    """Yield path and fault of what a schema cannot express."""
    for key in ('environments', 'partitions'):
        names = [item['name'] for item in entry[key]]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield [key, number], f'{name!r} is there twice'
    for number, item in enumerate(entry['environments']):
        if item['provider'] == 'modules' and entry.get('modules_system', 'nomod') == 'nomod':
            yield ['environments', number], 'provider modules needs the key modules_system'
    environs = [item['name'] for item in entry['environments']]
    for number, item in enumerate(entry['partitions']):
        path = ['partitions', number]
        for index, environ in enumerate(item['environs']):
            if environ not in environs:
                expected = f'expected one of {", ".join(environs)}'
                yield [*path, 'environs', index], f'{environ!r} is not an environment of this file; {expected}'
        for name, file_system in item.get('file_systems', {}).items():
            if 'if_free' in file_system and not entry.get('detect'):
                yield [*path, 'file_systems', name, 'if_free'], 'needs detect: true, as only then the machine is read'
        yield from ((path + where, wrong) for where, wrong in _wrong_pairs(item))


def _wrong_pairs(partition: dict[str, Any]) -> Iterator[tuple[list[Any], str]]:
    """Yield each pair of the link classes that is not two GPUs of the partition, or that is in two classes."""
    gpus = sum(device['num_devices'] for device in partition.get('devices', []) if device['type'] == 'gpu')
    first: dict[frozenset[int], str] = {}
    for name, item in partition.get('link_classes', {}).items():
        for index, pair in enumerate(item['pairs']):
            path = ['link_classes', name, 'pairs', index]
            known = type(pair) is list and all(type(number) is int and 0 <= number < gpus for number in pair)
            numbers = frozenset(pair) if known else frozenset()
            if not len(numbers) == 2 == len(pair):
                yield path, f'{pair}: expected two different ones of the {gpus} GPUs of the key devices, from 0'
            elif numbers in first:
                yield path, f'{pair}: is in class {first[numbers]} already'
            else:
                first[numbers] = name
