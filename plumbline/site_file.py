"""Read a ``site.yaml``, check it, and report what is wrong with file, line, key and what was expected."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from plumbline.errors import SiteError
from plumbline.files import read_yaml
from plumbline.paths import SCHEMAS
from plumbline.units import in_base_unit

if TYPE_CHECKING:
    import jsonschema


def read_site_file(path: Path) -> dict[str, Any]:
    """Return the content of a ``site.yaml`` after all checks that need no other file. Raises SiteError."""
    entry = read_yaml(path)
    for line, key, wrong in _faults(entry, read_yaml(path, yaml.compose)):
        raise SiteError(f'{path}:{line}: {key}: {wrong}')
    return entry


def _faults(entry: Any, node: yaml.Node | None) -> Iterator[tuple[int, str, str]]:
    """Yield line, key and fault; the later checks rely on the earlier ones."""
    for key, line, first in _repeated_keys(node):
        yield line, key, f'is there twice, first in line {first}'
    for error in _validator().iter_errors(entry):
        path, wrong = _explain(error)
        yield _line(node, path), '.'.join(map(str, path)) or 'the file', wrong
    for path, wrong in _inconsistencies(entry):
        yield _line(node, path), '.'.join(map(str, path)), wrong


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    import jsonschema

    schema = json.loads((SCHEMAS / 'site.schema.json').read_text(encoding='utf-8'))
    formats = jsonschema.FormatChecker(['regex'])
    formats.checks('quantity', raises=ValueError)(lambda text: not isinstance(text, str) or in_base_unit(text) >= 0)
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def _explain(error: jsonschema.ValidationError) -> tuple[list[Any], str]:
    """Return the path of a schema error in the file, and what was expected there."""
    path = list(error.absolute_path)
    rule = error.validator
    found: Any = error.instance
    schema: Any = error.schema
    wanted: Any = error.validator_value
    if rule == 'additionalProperties':
        known, patterns = schema.get('properties', {}), schema.get('patternProperties', {})
        unknown = next(key for key in found if key not in known and not any(re.search(p, str(key)) for p in patterns))
        return [*path, unknown], f'unknown key; expected one of {", ".join(sorted(known) or sorted(patterns))}'
    if rule == 'required':
        return path, f'lacks the key {next(key for key in wanted if key not in found)!r}'
    if rule == 'type':
        return path, f'expected {wanted}, found {found!r}'
    if rule == 'enum':
        return path, f'expected one of {", ".join(map(str, wanted))}, found {found!r}'
    if rule == 'format' and wanted == 'quantity':
        return path, f'expected a number and a unit such as "256 GiB" or "614.4 GB/s", found {found!r}'
    return path, error.message


def _line(node: yaml.Node | None, path: list[Any]) -> int:
    """Return the line, from 1, of the deepest part of `path` that the file has."""
    line = node.start_mark.line if node is not None else 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _repeated_keys(node: yaml.Node | None) -> Iterator[tuple[str, int, int]]:
    """Yield key, line and first line of each key that a mapping has twice; YAML would keep the last one."""
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in first:
                yield key.value, line, first[key.value]
            first[key.value] = line
            yield from _repeated_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated_keys(item)


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
