# SPDX-License-Identifier: BSD-3-Clause
"""Where the nodes of a site are: the switch, chassis or rack of each, as `locations.csv` of the site states."""

import csv
import re
from pathlib import Path

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.paths import site_folder
from plumbline.programs import output_of

LOCATIONS = 'locations.csv'


def locations(site: str, root: Path | None = None) -> dict[str, set[str]]:
    """Return the places of each node, such as ``switch s3``, from ``locations.csv`` of the site; empty without one.

    Its first column is `node`, each other one a kind of place. Raises InputError.
    """
    path = site_folder(site, root, LOCATIONS) / LOCATIONS
    if not path.exists():
        return {}
    try:
        with path.open(encoding='utf-8', newline='') as lines:
            reader = csv.reader(lines)
            (_, header), *rows = [(reader.line_num, row) for row in reader if row] or [(1, [''])]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f'{path}: cannot be read as CSV: {error}') from None
    if header[0] != 'node' or len(header) < 2:
        raise InputError(
            f'{path}:1: expected the columns node and at least one kind of place, found {",".join(header)}'
        )
    places: dict[str, set[str]] = {}
    for line, row in rows:
        if len(row) != len(header) or row[0] in places:
            raise InputError(f'{path}:{line}: node {row[0]}: expected one row of {len(header)} columns')
        places[row[0]] = {f'{kind} {name}' for kind, name in zip(header[1:], row[1:], strict=True) if name}
    return places


def of_slurm() -> str:
    """Return the ``locations.csv`` of Slurm's topology, of its plugins tree and block; empty if it has none.

    Columns: ``switch`` for those that nodes are plugged into, ``switch_level_1`` and so on above, ``block``. A level
    of a single switch is left out, as it tells no node from another.
    """
    try:
        printed = output_of(['scontrol', '--oneliner', 'show', 'topology'])
        found = re.findall(r'^(Switch|Block)Name=(\S+) (?:Level=(\d+) )?.*?\bNodes=(\S+)', printed, re.MULTILINE)
        kinds: dict[str, dict[str, str]] = {}  # kind of place -> node -> its name
        for what, name, level, nodes in found:
            kind = 'block' if what == 'Block' else f'switch_level_{level}' if int(level or 0) else 'switch'
            names = output_of(['scontrol', 'show', 'hostnames', nodes]).split()
            kinds.setdefault(kind, {}).update(dict.fromkeys(names, name))
    except ValueError:
        return ''
    telling = {kind: places for kind, places in kinds.items() if len({*places.values()}) > 1}
    names = list(dict.fromkeys(node for places in telling.values() for node in places))
    rows = [[node, *(places.get(node, '') for places in telling.values())] for node in names]
    return ''.join(f'{",".join(row)}\n' for row in [['node', *telling], *rows]) if rows else ''


def fill(folder: Path) -> str:
    """Write ``locations.csv`` of a site from Slurm's topology if it has none; return a sentence on it, or nothing."""
    path, text = folder / LOCATIONS, of_slurm()
    if not text or (path.exists() and path.read_text(encoding='utf-8') == text):
        return ''
    if path.exists():
        return f'{path}: kept; the topology of Slurm differs: remove this file and run the command again to take that'
    write_text(path, text)
    return f"{path}: written from Slurm's topology: {text.count(chr(10)) - 1} nodes; check it"
