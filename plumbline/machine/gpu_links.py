"""Classify the paths between the GPUs of a node by the output of ``nvidia-smi``, ``amd-smi`` or ``rocm-smi``.

Devices have the numbers of these programs: from 0 in the order of PCI addresses. CUDA has the same order only with
``CUDA_DEVICE_ORDER=PCI_BUS_ID``; its default, ``FASTEST_FIRST``, defines only the first device. HIP has no such
variable and uses the order of the kernel driver, which on Frontier is the order of PCI addresses.
"""

from __future__ import annotations

import itertools
import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.programs import output_of

Pair = tuple[int, int]
_ESCAPE = re.compile(r'\x1b\[[0-9;]*[A-Za-z]')
_DEVICE = re.compile(r'GPU\d+|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]')
_SELF = ('X', 'SELF', '0', 'N/A')  # cells of a device with itself
_PCIE = {  # labels of nvidia-smi, best first
    'PIX': 'PCIe, at most one bridge',
    'PXB': 'PCIe, several bridges',
    'PHB': 'PCIe, through a host bridge',
    'NODE': 'PCIe, between host bridges of a NUMA domain',
    'SYS': 'PCIe and the link between NUMA domains',
}
# Words in the titles of AMD's tables, and the same in amd-smi's JSON.
_AMD_TABLES = {'link type': 'link_type', 'bandwidth': 'bandwidth', 'hops': 'num_hops', 'weight': 'weight'}


@dataclass(frozen=True, order=True)
class Link:
    """A kind of path; the better of two sorts first."""

    rank: tuple[int, ...]
    descr: str


def find_link_classes(devices: list[dict[str, Any]]) -> tuple[dict[str, Any], str | None]:
    """Return ``link_classes`` of site.yaml for the `devices` of this machine, and why there are none.

    The reason is None if there are classes, and for fewer than two GPUs.
    """
    counts = {vendor: _count(devices, prefix) for vendor, prefix in (('NVIDIA', 'sm_'), ('AMD', 'gfx'))}
    if sum(counts.values()) < 2:
        return {}, None
    if all(counts.values()):
        return {}, 'GPUs of two vendors: no program lists both'
    faults = []
    for command, parse in _WAYS['NVIDIA' if counts['NVIDIA'] else 'AMD']:
        try:
            links = parse(output_of(command))
            if (found := 1 + max((j for _, j in links), default=0)) != sum(counts.values()):
                raise ValueError(f'expected {sum(counts.values())} GPUs, found {found}')
            return link_classes(links), None
        except ValueError as error:
            faults.append(f'{" ".join(command)}: {error}')
    return {}, '; '.join(faults)


def near_numa_domains(number: int, sys: Path = Path('/sys')) -> list[int]:
    """Return the nearest NUMA domain of each GPU in the order of PCI addresses, as the kernel shows it.

    Empty if the drivers do not have `number` devices, or the kernel knows no domain.
    """
    drivers = sys / 'bus/pci/drivers'
    nodes = [*drivers.glob('nvidia/*:*/numa_node'), *drivers.glob('amdgpu/*:*/numa_node')]
    domains = [int(node.read_text()) for node in sorted(nodes, key=lambda node: node.parent.name)]
    return domains if len(domains) == number and min(domains, default=-1) >= 0 else []


def _count(devices: list[dict[str, Any]], prefix: str) -> int:
    return sum(device['num_devices'] for device in devices if device.get('arch', '').startswith(prefix))


def link_classes(links: dict[Pair, Link]) -> dict[str, dict[str, Any]]:
    """Return a class of site.yaml for each kind of path, best first, named A, B, ..., Z, A1, ..."""
    return {
        f'{string.ascii_uppercase[i % 26]}{i // 26 or ""}': {
            'pairs': [list(pair) for pair in sorted(links) if links[pair] == kind],
            'descr': kind.descr,
        }
        for i, kind in enumerate(sorted(set(links.values())))
    }


def nvidia_links(text: str) -> dict[Pair, Link]:
    """Parse the table of ``nvidia-smi topo -m``. Raises ValueError that names the pair."""
    tables = _tables(text)
    if len(tables) != 1:
        raise ValueError(f'expected one table with columns GPU0, GPU1, ..., found {len(tables)}')
    (_, names, cells) = tables[0]
    return {pair: _nvidia_link(pair, label) for pair, label in _one_way(names, cells).items()}


def amd_links(text: str, expected: tuple[str, ...] = tuple(_AMD_TABLES)) -> dict[Pair, Link]:
    """Parse the tables of ``amd-smi topology`` or ``rocm-smi --showtopo --shownodesbw``.

    The tables `expected` are required. Raises ValueError that names the table or the pair.
    """
    found: dict[str, dict[Pair, str]] = {}
    for title, names, cells in _tables(text):
        for name in _AMD_TABLES:
            if name in title.lower().replace('numa bw', 'bandwidth'):
                if name in found:
                    raise ValueError(f'expected one table of {name}, found two')
                found[name] = _one_way(names, cells)
    if missing := [name for name in expected if name not in found]:
        raise ValueError(f'expected a table of {", ".join(missing)}')
    return _amd_links(found)


def amd_links_from_json(text: str) -> dict[Pair, Link]:
    """Parse ``amd-smi topology --json``, not its form up to ROCm 6.1.0. Raises ValueError that names the pair."""
    found: dict[str, dict[Pair, str]] = {}
    try:
        listed = json.loads(text)
        rows = {row['gpu']: {link['gpu']: link for link in row['links']} for row in listed}
        numbers = range(len(listed))
        for table, key in _AMD_TABLES.items():
            if any(key in link for row in rows.values() for link in row.values()):
                cells = [[str(rows[i][j][key]) for j in numbers] for i in numbers]
                found[table] = _one_way([f'GPU{i}' for i in numbers], cells)
    except (KeyError, TypeError, AttributeError):
        raise ValueError('expected a link from each GPU to each, found something else') from None
    if 'link type' not in found:
        raise ValueError('expected the key link_type')
    return _amd_links(found)


_WAYS: dict[str, list[tuple[list[str], Callable[[str], dict[Pair, Link]]]]] = {
    'NVIDIA': [(['nvidia-smi', 'topo', '-m'], nvidia_links)],
    'AMD': [
        (['amd-smi', 'topology', '--json'], amd_links_from_json),
        (['amd-smi', 'topology'], amd_links),
        (['rocm-smi', '--showtopo', '--shownodesbw'], amd_links),
    ],
}


def _nvidia_link(pair: Pair, label: str) -> Link:
    if links := re.fullmatch(r'NV(\d+)', label):
        return Link((0, -int(links[1])), f'{links[1]} NVLink{"s" if int(links[1]) > 1 else ""}')
    label = 'SYS' if label == 'SOC' else label  # its name before 2018
    if label not in _PCIE:
        raise ValueError(f'{_words(pair)}: expected NV and a number, or one of {", ".join(_PCIE)}, found {label!r}')
    return Link((1, list(_PCIE).index(label)), _PCIE[label])


def _amd_links(tables: dict[str, dict[Pair, str]]) -> dict[Pair, Link]:
    pairs = list(next(iter(tables.values())))
    if any(list(cells) != pairs for cells in tables.values()):
        raise ValueError('expected the same number of GPUs in all tables')
    cells = {name: tables.get(name) or dict.fromkeys(pairs, 'N/A') for name in _AMD_TABLES}
    ranges = r'\d+-(\d+)', 'two numbers such as 50000-200000'  # the upper end shows the number of links
    bandwidths = {pair: _number(pair, cell, *ranges) or 0 for pair, cell in cells['bandwidth'].items()}
    return {
        pair: _amd_link(
            pair,
            cells['link type'][pair],
            bandwidths[pair] if any(bandwidths.values()) else None,  # all 0: unknown to the driver
            *(_number(pair, cells[name][pair]) for name in ('hops', 'weight')),
        )
        for pair in pairs
    }


def _amd_link(pair: Pair, kind: str, bandwidth: int | None, hops: int | None, weight: int | None) -> Link:
    """Return the link of a pair. `bandwidth` in MB/s: it shows the number of links, 0 that there is no direct one."""
    kinds = {'XGMI': 'Infinity Fabric', 'PCIE': 'PCIe', 'N/A': 'link'}
    if kind.upper() not in kinds:
        raise ValueError(f'{_words(pair)}: expected XGMI or PCIE, found {kind!r}')
    words = [kinds[kind.upper()]]
    if bandwidth is not None and kind.upper() != 'PCIE':
        words.append(f'{bandwidth / 1000:g} GB/s by the driver' if bandwidth else 'not direct')
    words += [f'{hops} hop{"s" if hops > 1 else ""}'] if hops is not None else []
    words += [f'weight {weight}'] if weight is not None else []
    rank = (list(kinds).index(kind.upper()), -(bandwidth or 0), hops or 0, weight or 0)
    return Link(rank, ', '.join(words))


def _number(pair: Pair, cell: str, pattern: str = r'(\d+)', expected: str = 'a number') -> int | None:
    """Return the number in a cell; None if it is unknown. Raises ValueError."""
    if cell in ('N/A', 'None'):
        return None
    if not (found := re.fullmatch(pattern, cell, re.ASCII)):
        raise ValueError(f'{_words(pair)}: expected {expected}, found {cell!r}')
    return int(found[1])


def _tables(text: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, GPUs and rows of every table with GPUs as columns and rows; the title is the line above.

    Other columns (NICs, affinities) must be right of the GPUs, other rows below.
    """
    tables: list[tuple[str, list[str], list[list[str]]]] = []
    title = ''
    names: list[str] = []
    for line in _ESCAPE.sub('', text).splitlines():
        words = line.split()
        leading = list(itertools.takewhile(_DEVICE.fullmatch, words))
        if not leading:
            title, names = line.strip(' =:') or title, []
        elif not names:
            names = leading
            tables.append((title, names, []))
            if names[0].startswith('GPU') and names != [f'GPU{i}' for i in range(len(names))]:
                raise ValueError(f'expected the columns GPU0, GPU1, ..., found {" ".join(names)}')
        else:
            cells = tables[-1][2]
            if words[0] not in names[len(cells) : len(cells) + 1]:
                raise ValueError(f'expected the rows {" ".join(names)}, found {words[0]} after {len(cells)} of them')
            cells.append(words[1:])
    return tables


def _one_way(names: list[str], cells: list[list[str]]) -> dict[Pair, str]:
    """Return the cells above the diagonal. Raises ValueError if the table is incomplete or not symmetric."""
    size = len(names)
    if len(cells) != size:
        raise ValueError(f'expected {size} rows, {" ".join(names)}, found {len(cells)}')
    for i, row in enumerate(cells):
        if len(row) < size:
            raise ValueError(f'row {names[i]}: expected {size} columns, found {len(row)}')
        if row[i] not in _SELF:
            raise ValueError(f'{names[i]} to itself: expected one of {", ".join(_SELF)}, found {row[i]!r}')
    for i, j in itertools.combinations(range(size), 2):
        if cells[i][j] != cells[j][i]:
            raise ValueError(f'{names[i]} and {names[j]}: {cells[i][j]} one way and {cells[j][i]} the other')
    return {(i, j): cells[i][j] for i, j in itertools.combinations(range(size), 2)}


def _words(pair: Pair) -> str:
    return f'GPU{pair[0]} and GPU{pair[1]}'
