"""How a node is set, as ``expects`` of a partition states it; `checks/core/job/settings.sh` reads it."""

from typing import Any

from plumbline.machine.node import SETTINGS, Node

_COUNTS = ('numa_domains', 'hugepages', 'gpus', 'nics')
_SWITCHES = ('smt_active', 'turbo', 'gpu_ecc')
_OF_THIS_BOOT = ('BOOT_IMAGE=', 'root=', 'initrd=')  # words that differ between equal nodes
_SHARED = ('lustre', 'gpfs', 'beegfs', 'beegfs_nodev', 'nfs', 'nfs4', 'ceph', 'wekafs', 'panfs')


def of_node(node: Node) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what can be read of a node, and why a key has no value: it differs between its CPUs or devices."""
    try:
        lines = node.output_of(SETTINGS).splitlines()
    except ValueError:
        return {}, {}
    found: dict[str, list[str]] = {}
    for line in lines:
        key, what, value = line.split('\t')
        if what != '!':
            found.setdefault(key, []).append(value)
    expects: dict[str, Any] = {}
    differs: dict[str, str] = {}
    for key, values in found.items():
        known = list(dict.fromkeys(values))
        if key == 'kernel_command_line':
            expects[key] = [word for word in known if not word.startswith(_OF_THIS_BOOT) and word not in ('ro', 'rw')]
        elif key == 'file_systems':
            shared = [mount.rsplit(' ', 1) for mount in known if mount.rpartition(' ')[2] in _SHARED]
            expects |= {key: dict(shared)} if shared else {}
        elif len(known) > 1:
            differs[key] = f'not the same for all: {", ".join(known)}'
        else:
            expects[key] = _value(key, known[0])
    return expects, differs


def _value(key: str, text: str) -> Any:
    if key in _COUNTS:
        return int(text)
    if key in _SWITCHES:
        return text == '1'
    return text.partition('[')[2].partition(']')[0] if key == 'transparent_hugepages' else text
