"""The kinds of path between the GPUs of a node, from what ``nvidia-smi``, ``amd-smi`` or ``rocm-smi`` print of them.

Devices have the numbers that these programs give them, from 0 in the order of PCI addresses. CUDA numbers them so with
``CUDA_DEVICE_ORDER=PCI_BUS_ID`` alone: its default, ``FASTEST_FIRST``, promises no more than which is first. HIP has no
such variable and numbers them as the kernel driver does; on Frontier that is the order of PCI addresses, too.
"""

from __future__ import annotations

import itertools
import json
import re
import string
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Pair = tuple[int, int]
_LIMIT = 60  # seconds for a program that asks a driver

_ESCAPE = re.compile(r'\x1b\[[0-9;]*[A-Za-z]')
_DEVICE = re.compile(r'GPU\d+|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]')
_SELF = ('X', 'SELF', '0', 'N/A')  # what the tables say of a device and itself
_PCIE = {  # labels of nvidia-smi, best first
    'PIX': 'PCIe, at most one bridge',
    'PXB': 'PCIe, several bridges',
    'PHB': 'PCIe, through a host bridge',
    'NODE': 'PCIe, between host bridges of a NUMA domain',
    'SYS': 'PCIe and the link between NUMA domains',
}
# What the titles of AMD's tables have in them, and how amd-smi names the same in JSON.
_AMD_TABLES = {'link type': 'link_type', 'bandwidth': 'bandwidth', 'hops': 'num_hops', 'weight': 'weight'}


@dataclass(frozen=True, order=True)
class Link:
    """A kind of path; of two the better sorts first."""

    rank: tuple[int, ...]
    descr: str


def find_link_classes(devices: list[dict[str, Any]]) -> tuple[dict[str, Any], str | None]:
    """``link_classes`` of a partition of site.yaml for the `devices` of this machine, and why there are none: None
    where there are, and for fewer than two GPUs."""
    counts = {vendor: _count(devices, prefix) for vendor, prefix in (('NVIDIA', 'sm_'), ('AMD', 'gfx'))}
    if sum(counts.values()) < 2:
        return {}, None
    if all(counts.values()):
        return {}, 'GPUs of two vendors, which no program numbers together'
    faults = []
    for command, parse in _WAYS['NVIDIA' if counts['NVIDIA'] else 'AMD']:
        try:
            links = parse(answer(command))
            if (found := 1 + max((j for _, j in links), default=0)) != sum(counts.values()):
                raise ValueError(f'expected {sum(counts.values())} GPUs, found {found}')
            return link_classes(links), None
        except ValueError as error:
            faults.append(f'{" ".join(command)}: {error}')
    return {}, '; '.join(faults)


def near_numa_domains(number: int, sys: Path = Path('/sys')) -> list[int]:
    """The NUMA domain near each GPU, in the order of PCI addresses, as the kernel has it of the drivers' devices; none
    where these are not that `number`, or the kernel knows of no domain."""
    drivers = sys / 'bus/pci/drivers'
    nodes = [*drivers.glob('nvidia/*:*/numa_node'), *drivers.glob('amdgpu/*:*/numa_node')]
    domains = [int(node.read_text()) for node in sorted(nodes, key=lambda node: node.parent.name)]
    return domains if len(domains) == number and min(domains, default=-1) >= 0 else []


def _count(devices: list[dict[str, Any]], prefix: str) -> int:
    return sum(device['num_devices'] for device in devices if device.get('arch', '').startswith(prefix))


def answer(command: list[str]) -> str:
    """What a program prints. Raises ValueError where it is absent, fails or does not end."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors='replace', timeout=_LIMIT, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise ValueError(f'cannot be run: {error.strerror}') from None
    except subprocess.TimeoutExpired:
        raise ValueError(f'did not end within {_LIMIT} s') from None
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines() or ['nothing']
        raise ValueError(f'ended with {done.returncode} and said: {said[-1]}')
    return done.stdout


def link_classes(links: dict[Pair, Link]) -> dict[str, dict[str, Any]]:
    """Pairs of one kind as a class of site.yaml each, best first, named A, B, ..., Z, A1, ..."""
    return {
        f'{string.ascii_uppercase[i % 26]}{i // 26 or ""}': {
            'pairs': [list(pair) for pair in sorted(links) if links[pair] == kind],
            'descr': kind.descr,
        }
        for i, kind in enumerate(sorted(set(links.values())))
    }


def nvidia_links(text: str) -> dict[Pair, Link]:
    """From ``nvidia-smi topo -m``. Raises ValueError, with the pair named where it is one."""
    tables = _tables(text)
    if len(tables) != 1:
        raise ValueError(f'expected one table with columns GPU0, GPU1, ..., found {len(tables)}')
    (_, names, cells) = tables[0]
    return {pair: _nvidia_link(pair, label) for pair, label in _one_way(names, cells).items()}


def amd_links(text: str, expected: tuple[str, ...] = tuple(_AMD_TABLES)) -> dict[Pair, Link]:
    """From the tables of ``amd-smi topology`` or ``rocm-smi --showtopo --shownodesbw``, of which `expected` must be
    there. Raises ValueError, with the pair named where it is one."""
    found: dict[str, dict[Pair, str]] = {}
    for title, names, cells in _tables(text):
        for name in _AMD_TABLES:
            if name in title.lower().replace('numa bw', 'bandwidth'):
                if name in found:
                    raise ValueError(f'two tables of {name}')
                found[name] = _one_way(names, cells)
    if missing := [name for name in expected if name not in found]:
        raise ValueError(f'no table of {", ".join(missing)}')
    return _amd_links(found)


def amd_links_from_json(text: str) -> dict[Pair, Link]:
    """From ``amd-smi topology --json``, not in its form up to ROCm 6.1.0. Raises ValueError, with the pair named where
    it is one."""
    found: dict[str, dict[Pair, str]] = {}
    try:
        said = json.loads(text)
        rows = {row['gpu']: {link['gpu']: link for link in row['links']} for row in said}
        numbers = range(len(said))
        for table, key in _AMD_TABLES.items():
            if any(key in link for row in rows.values() for link in row.values()):
                cells = [[str(rows[i][j][key]) for j in numbers] for i in numbers]
                found[table] = _one_way([f'GPU{i}' for i in numbers], cells)
    except (KeyError, TypeError, AttributeError):
        raise ValueError('expected a link from each GPU to each, found something else') from None
    if 'link type' not in found:
        raise ValueError('no link_type')
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
        raise ValueError('the tables have different numbers of GPUs')
    unknown = {pair: 'N/A' for pair in pairs}
    bandwidths = {pair: _most(pair, tables.get('bandwidth', unknown)[pair]) for pair in pairs}
    return {
        pair: _amd_link(
            pair,
            tables.get('link type', unknown)[pair],
            bandwidths[pair] if any(bandwidths.values()) else None,  # all 0: the driver does not know
            *(_number(pair, tables.get(name, unknown)[pair]) for name in ('hops', 'weight')),
        )
        for pair in pairs
    }


def _amd_link(pair: Pair, kind: str, bandwidth: int | None, hops: int | None, weight: int | None) -> Link:
    """Bandwidth in MB/s; it, and not the hops, tells how many links there are, and 0 that there is none directly."""
    kinds = {'XGMI': 'Infinity Fabric', 'PCIE': 'PCIe', 'N/A': 'link'}
    if kind.upper() not in kinds:
        raise ValueError(f'{_words(pair)}: expected XGMI or PCIE, found {kind!r}')
    said = [kinds[kind.upper()]]
    if bandwidth is not None and kind.upper() != 'PCIE':
        said.append(f'{bandwidth / 1000:g} GB/s by the driver' if bandwidth else 'not direct')
    said += [f'{hops} hop{"s" if hops > 1 else ""}'] if hops is not None else []
    said += [f'weight {weight}'] if weight is not None else []
    rank = (list(kinds).index(kind.upper()), -(bandwidth or 0), hops or 0, weight or 0)
    return Link(rank, ', '.join(said))


def _most(pair: Pair, cell: str) -> int:
    """The larger one of ``50000-200000``; 0 where it is not known."""
    if cell in ('N/A', 'None'):
        return 0
    if not (found := re.fullmatch(r'(\d+)-(\d+)', cell)):
        raise ValueError(f'{_words(pair)}: expected two numbers such as 50000-200000, found {cell!r}')
    return int(found[2])


def _number(pair: Pair, cell: str) -> int | None:
    if cell in ('N/A', 'None'):
        return None
    if not cell.isdecimal():
        raise ValueError(f'{_words(pair)}: expected a number, found {cell!r}')
    return int(cell)


def _tables(text: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title (the last line before it), GPUs and rows of every table whose columns and rows are GPUs.

    Other columns must be right of them (NICs, affinities), other rows below.
    """
    tables: list[tuple[str, list[str], list[list[str]]]] = []
    title, names = '', []
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
    """The cells of one direction, after a look at the others. Raises ValueError where they are not symmetric."""
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
