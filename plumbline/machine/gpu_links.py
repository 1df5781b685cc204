# SPDX-License-Identifier: BSD-3-Clause
"""Classify the paths between the GPUs of a node by what the program of their vendor prints.

Devices are numbered as these programs number them: from 0 in the order of PCI addresses. CUDA has the same order only
with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``; its default, ``FASTEST_FIRST``, defines only the first device. HIP has no such
variable and uses the order of the kernel driver, which on Frontier is the order of PCI addresses.
"""

import string
from pathlib import Path
from typing import Any

from plumbline.machine.gpu_tables import Link, Pair
from plumbline.machine.node import Node, kernel_text
from plumbline.machine.vendors import VENDORS, Vendor, vendors_of


def find_link_classes(devices: list[dict[str, Any]], node: Node) -> tuple[dict[str, Any], str | None]:
    """Return ``link_classes`` of site.yaml for the `devices` of a node, and why there are none for two or more GPUs."""
    vendors = [vendor for vendor in vendors_of(device.get('arch', '') for device in devices) if vendor.links]
    number = sum(device['num_devices'] for device in devices)
    if number < 2 or not vendors:
        return {}, None
    if len(vendors) > 1:
        return {}, 'GPUs of two vendors: no program lists both'
    faults = []
    for command, parse in vendors[0].links:
        try:
            links = parse(node.output_of(command))
            if (listed := 1 + max((j for _, j in links), default=0)) != number:
                raise ValueError(f'expected {number} GPUs, found {listed}')
            return link_classes(links), None
        except ValueError as error:
            faults.append(f'{" ".join(command)}: {error}')
    return {}, '; '.join(faults)


def near_numa_domains(number: int, root: Path) -> list[int]:
    """Return the nearest NUMA domain of each GPU in the order of PCI addresses; empty if one is not known."""
    files = [file for vendor in VENDORS.values() for file in _pci_files(vendor, 'numa_node', root)]
    texts = [kernel_text(file) for file in sorted(files, key=lambda file: file.parent.name)]
    domains = [int(text) for text in texts if text.isdigit()]  # -1: not known
    return domains if len(domains) == len(texts) == number else []


def divided(devices: list[dict[str, Any]], root: Path) -> str:
    """Return a sentence if a driver lists more `devices` for programs than it has PCI devices; else nothing."""
    for vendor in vendors_of(device['arch'] for device in devices):
        gpus = _pci_files(vendor, 'numa_node', root)
        number = sum(device['num_devices'] for device in devices if vendor.made(device['arch']))
        if 0 < len(gpus) < number and vendor.in_kernel:
            modes = {kernel_text(file) for file in _pci_files(vendor, vendor.mode, root)} or {'not shown'}
            return (
                f'programs see {number} GPUs of {len(gpus)} PCI devices (partition mode {", ".join(sorted(modes))}): '
                'which NUMA domain is near each is left out'
            )
    return ''


def _pci_files(vendor: Vendor, name: str, root: Path) -> list[Path]:
    """Return the files of a name of the PCI devices of a vendor's driver."""
    return [*(root / 'sys/bus/pci/drivers').glob(f'{vendor.driver}/*:*/{name}')] if vendor.driver and name else []


def link_classes(links: dict[Pair, Link]) -> dict[str, dict[str, Any]]:
    """Return ``link_classes`` of site.yaml: a class for each kind of path, best first, named A, B, ..., Z, A1, ..."""
    return {
        f'{string.ascii_uppercase[i % 26]}{i // 26 or ""}': {
            'pairs': [list(pair) for pair in sorted(links) if links[pair] == kind],
            'descr': kind.descr,
        }
        for i, kind in enumerate(sorted(set(links.values())))
    }
