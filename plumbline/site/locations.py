# SPDX-License-Identifier: BSD-3-Clause
"""Where the nodes of a site are: the switch, chassis or rack of each, as `locations.csv` of the site states."""

import csv
from pathlib import Path

from plumbline.errors import InputError
from plumbline.paths import site_folder

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
