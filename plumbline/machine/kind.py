# SPDX-License-Identifier: BSD-3-Clause
"""The properties of a machine that make its numbers vary: virtual, shared, SMT, a clock that moves."""

from plumbline.machine.node import Node, kernel_text, this_node

_CPU = 'sys/devices/system/cpu'
#: Beginnings of a product's name that only virtual machines have, for processors without a flag of their own.
_VIRTUAL = ('KVM', 'QEMU', 'Standard PC', 'VirtualBox', 'VMware', 'Virtual Machine', 'Google Compute Engine')
_CONTAINERS = ('.dockerenv', 'run/.containerenv')


def kind_of(node: Node | None = None) -> str:
    """Return in words what makes the numbers of `node` (by default this node) vary, from /proc and /sys alone.

    This only informs the reader of the numbers; how much they really vary is measured.
    """
    node = node or this_node()
    return '; '.join([_machine(node), _threads(node), _clock(node)])


def _machine(node: Node) -> str:
    vendor, product = (_line(node, f'sys/class/dmi/id/{name}') for name in ('sys_vendor', 'product_name'))
    hypervisor = _line(node, 'sys/hypervisor/type') or _line(node, 'proc/device-tree/hypervisor/compatible')
    is_virtual = ' hypervisor' in kernel_text(node.root / 'proc/cpuinfo') or hypervisor or product.startswith(_VIRTUAL)
    name = hypervisor or ' '.join(filter(None, (vendor, product)))
    words = ('virtual machine' if is_virtual else 'no sign of a hypervisor') + (f' ({name})' if name else '')
    if any((node.root / path).exists() for path in _CONTAINERS):
        words = f'container on a {words}' if is_virtual else f'container, {words}'
    return words + (f', of whose CPU time its host took {_stolen(node):.2g} % since it booted' if is_virtual else '')


def _stolen(node: Node) -> float:
    """Return the CPU time that the hypervisor took for others, in % of all since boot: proc(5), field steal."""
    ticks = [int(word) for word in _line(node, 'proc/stat').split()[1:9]]
    return 100 * ticks[7] / max(sum(ticks), 1) if len(ticks) == 8 else 0.0


def _threads(node: Node) -> str:
    siblings = _line(node, f'{_CPU}/cpu0/topology/thread_siblings_list')
    if not siblings:
        return 'threads of a core not shown'
    return 'SMT siblings share its cores' if {',', '-'} & set(siblings) else 'one thread a core'


def _clock(node: Node) -> str:
    names = ('scaling_min_freq', 'scaling_max_freq', 'scaling_governor')
    least, most, governor = (_line(node, f'{_CPU}/cpu0/cpufreq/{name}') for name in names)
    if not (least.isdigit() and most.isdigit()):
        return 'clock not shown'
    if least == most:
        return f'clock fixed at {int(most) // 1000} MHz'
    return f'clock moves between {int(least) // 1000} and {int(most) // 1000} MHz' + (
        f' (governor {governor})' if governor else ''
    )


def _line(node: Node, path: str) -> str:
    """Return the first line of a file; empty where it cannot be read."""
    return kernel_text(node.root / path).partition('\n')[0].strip('\0')
