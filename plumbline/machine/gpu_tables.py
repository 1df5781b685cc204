# SPDX-License-Identifier: BSD-3-Clause
"""Parse what the programs and drivers of GPU vendors print about the GPUs of a node; `vendors.py` names the parsers.

The links between GPUs come from ``nvidia-smi``, ``amd-smi``, ``rocm-smi``, or a program with tables of the same form.
"""

import itertools
import re
from dataclasses import dataclass

Pair = tuple[int, int]
_ESCAPE = re.compile(r'\x1b\[[0-9;]*[A-Za-z]')
_DEVICE = re.compile(r'GPU\d+|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]')
_PCIE = {  # labels of nvidia-smi, best first
    'PIX': 'PCIe, at most one bridge',
    'PXB': 'PCIe, several bridges',
    'PHB': 'PCIe, through a host bridge',
    'NODE': 'PCIe, between host bridges of a NUMA domain',
    'SYS': 'PCIe and the link between NUMA domains',
}
_AMD_TABLES = ('link type', 'bandwidth', 'hops', 'weight')  # words in the titles of AMD's tables


@dataclass(frozen=True, order=True)
class Link:
    """A kind of path between two GPUs. A better path sorts before a worse one."""

    rank: tuple[int, ...]
    descr: str


def kfd_device(text: str) -> tuple[str, str] | None:
    """Return model and architecture of a GPU as the amdgpu kernel driver lists it; None for a CPU.

    No program of ROCm is needed. ``gfx_target_version`` 90010 is gfx90a: the last four digits are minor and stepping,
    two decimal digits each; the architecture has them in hex.
    """
    properties = dict(line.split(maxsplit=1) for line in text.splitlines() if ' ' in line)
    version = int(properties.get('gfx_target_version', 0))
    arch = f'gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}'
    return (f'AMD {arch}', arch) if version else None


def nvidia_links(text: str) -> dict[Pair, Link]:
    """Parse the table of ``nvidia-smi topo -m``. Raises ValueError that names the pair."""
    tables = _tables(text)
    if len(tables) != 1:
        raise ValueError(f'expected one table with columns GPU0, GPU1, ..., found {len(tables)}')
    return {pair: _nvidia_link(pair, label) for pair, label in tables[0][1].items()}


def amd_links(text: str, expected: tuple[str, ...] = _AMD_TABLES) -> dict[Pair, Link]:
    """Parse the tables of ``amd-smi topology`` or ``rocm-smi --showtopo --shownodesbw``.

    The tables `expected` are required. Raises ValueError that names the table or the pair.
    """
    tables: dict[str, dict[Pair, str]] = {}
    for title, cells in _tables(text):
        tables |= {name: cells for name in _AMD_TABLES if name in title.lower().replace('numa bw', 'bandwidth')}
    if missing := [name for name in expected if name not in tables]:
        raise ValueError(f'expected a table of {", ".join(missing)}')
    pairs = list(next(iter(tables.values())))
    ranges = r'\d+-(\d+)', 'two numbers such as 50000-200000'  # the upper end tells the number of links
    bandwidths = {pair: _number(pair, cell, *ranges) or 0 for pair, cell in tables.pop('bandwidth', {}).items()}
    known = any(bandwidths.values())  # all 0: unknown to the driver
    return {
        pair: _amd_link(
            pair, {name: cells[pair] for name, cells in tables.items()}, bandwidths[pair] if known else None
        )
        for pair in pairs
    }


def _nvidia_link(pair: Pair, label: str) -> Link:
    if links := re.fullmatch(r'NV(\d+)', label):
        return Link((0, -int(links[1])), f'{links[1]} NVLink{"s" if int(links[1]) > 1 else ""}')
    if label not in _PCIE:
        raise ValueError(f'{_words(pair)}: expected NV and a number, or one of {", ".join(_PCIE)}, found {label!r}')
    return Link((1, list(_PCIE).index(label)), _PCIE[label])


def _amd_link(pair: Pair, cells: dict[str, str], bandwidth: int | None) -> Link:
    """Return the link of a pair of GPUs from the cells of rocm-smi's tables.

    `bandwidth` in MB/s: 0 without a direct link, None if the driver does not know it.
    """
    kinds = {'XGMI': 'Infinity Fabric', 'PCIE': 'PCIe', 'N/A': 'link'}
    kind = cells.get('link type', 'N/A').upper()
    if kind not in kinds:
        raise ValueError(f'{_words(pair)}: expected XGMI or PCIE, found {kind!r}')
    hops, weight = (_number(pair, cells.get(name, 'N/A')) for name in ('hops', 'weight'))
    words = [kinds[kind]]
    if bandwidth is not None and kind != 'PCIE':
        words.append(f'{bandwidth / 1000:g} GB/s by the driver' if bandwidth else 'not direct')
    if hops is not None:
        words.append(f'{hops} hop{"s" if hops > 1 else ""}')
    if weight is not None:
        words.append(f'weight {weight}')
    return Link((list(kinds).index(kind), -(bandwidth or 0), hops or 0, weight or 0), ', '.join(words))


def _number(pair: Pair, cell: str, pattern: str = r'(\d+)', expected: str = 'a number') -> int | None:
    """Return the number in a cell; None if it is unknown. Raises ValueError."""
    if cell in ('N/A', 'None'):
        return None
    if not (match := re.fullmatch(pattern, cell, re.ASCII)):
        raise ValueError(f'{_words(pair)}: expected {expected}, found {cell!r}')
    return int(match[1])


def _tables(text: str) -> list[tuple[str, dict[Pair, str]]]:
    """Return title and cells above the diagonal of every table with GPUs as columns and rows.

    The title is the line above. Other columns (NICs, affinities) must be right of the GPUs, other rows below. Raises
    ValueError for an incomplete table.
    """
    tables: list[tuple[str, dict[Pair, str]]] = []
    title, size, row, names = '', 0, 0, ['']
    for line in [*_ESCAPE.sub('', text).splitlines(), '']:
        words = line.split()
        devices = len(list(itertools.takewhile(_DEVICE.fullmatch, words)))
        if not devices:
            if row < size:
                raise ValueError(f'expected {size} rows of GPUs, found {row}')
            title, size, row = line.strip(' =:') or title, 0, 0
        elif not size:
            size, names = devices, words[:devices]
            if names[0].startswith('GPU') and names != [f'GPU{number}' for number in range(size)]:
                raise ValueError(f'expected the columns GPU0, GPU1, ..., found {", ".join(names)}')
            tables.append((title, {}))
        elif row < size:
            if words[0] != names[row]:
                raise ValueError(f'expected a row {names[row]}, as the columns are, found {words[0]}')
            if len(words) <= size:
                raise ValueError(f'row {words[0]}: expected {size} columns, found {len(words) - 1}')
            tables[-1][1].update({(row, column): words[column + 1] for column in range(row + 1, size)})
            row += 1
    return tables


def _words(pair: Pair) -> str:
    return f'GPU{pair[0]} and GPU{pair[1]}'
