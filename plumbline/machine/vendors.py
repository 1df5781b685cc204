# SPDX-License-Identifier: BSD-3-Clause
"""What is known of each vendor of GPUs, in one table.

What a job reads of a vendor's GPUs is in ``checks/core/job/parts/gpu_<kind>.sh``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from plumbline.machine.gpu_tables import Link, Pair, amd_links, kfd_device, nvidia_links

Command = tuple[str, ...]


class GpuMeter(NamedTuple):
    """How to read the energy counters of a vendor's GPUs. `name`: as in site.yaml.

    `statements`: Python statements that print ``gpu0 JOULE`` for each GPU. `needs`: the package that they import.
    """

    name: str
    statements: str
    needs: str


@dataclass(frozen=True)
class Vendor:
    """What is known of a vendor's GPUs.

    `kind`: the word for it in benchmarks.yaml, in the names of stacks and in a job. `arch`: what its architectures
    begin with; `archs`: the pattern of a whole one. `driver`: its kernel driver, as ``/sys/bus/pci/drivers`` has it;
    `mode`: the file of its PCI devices that says into how many devices for programs each is divided. `query`: the
    command that prints ``MODEL, COMPUTE CAPABILITY`` for each GPU; `in_kernel`: the files below /sys that say it
    instead, and the parser of one, which returns model and architecture. `links`: commands that print the links
    between GPUs, the best first, each with its parser. `visible`: the variable that says which GPUs a process sees;
    `hides`: other variables with such an effect, which a job unsets. `env_vars`: variables that make programs number
    the GPUs as `query` does. `packages`: Spack's packages of its libraries; `variant`: Spack's variant for its
    architectures, and the prefix that their names lose in it. `collectives`: its library of collectives. `meter`: how
    to read the energy counters of its GPUs.
    """

    kind: str
    arch: str
    archs: str
    driver: str = ''
    mode: str = ''
    query: Command = ()
    in_kernel: tuple[str, Callable[[str], tuple[str, str] | None]] | None = None
    links: tuple[tuple[Command, Callable[[str], dict[Pair, Link]]], ...] = ()
    visible: str = ''
    hides: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    variant: tuple[str, str] = ('', '')
    collectives: str = ''
    meter: GpuMeter | None = None

    @property
    def visibility(self) -> str:
        """What rank.sh shall do with variables: NAME gets the GPUs of a rank, NAME=VALUE is set, -NAME is removed."""
        words = [*(f'{name}={value}' for name, value in self.env_vars.items()), self.visible]
        return ','.join([*words, *(f'-{name}' for name in self.hides)])

    def made(self, arch: str) -> bool:
        """Return True if this vendor makes the GPUs of an architecture."""
        return arch.startswith(self.arch)


NVIDIA = Vendor(
    kind='cuda',
    arch='sm_',
    archs='sm_([2-9][0-9]|1[0-9]{2})[af]?',
    driver='nvidia',
    query=('nvidia-smi', '--query-gpu=name,compute_cap', '--format=csv,noheader'),
    links=((('nvidia-smi', 'topo', '-m'), nvidia_links),),
    visible='CUDA_VISIBLE_DEVICES',
    env_vars={'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'},  # else the fastest GPU is number 0
    packages=('cuda',),
    variant=('cuda_arch', 'sm_'),
    collectives='NCCL',
    # nvmlDeviceGetTotalEnergyConsumption: mJ, of Volta and later
    meter=GpuMeter(
        'nvml',
        'import pynvml as n; n.nvmlInit(); '
        'all_of = map(n.nvmlDeviceGetHandleByIndex, range(n.nvmlDeviceGetCount())); '
        "[print(f'gpu{i}', n.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3) for i, gpu in enumerate(all_of)]",
        '`pip install nvidia-ml-py` (nvml)',
    ),
)
AMD = Vendor(
    kind='rocm',
    arch='gfx',
    archs='gfx[0-9]{1,2}[0-9a-f]{2}',
    driver='amdgpu',
    mode='current_compute_partition',
    in_kernel=('class/kfd/kfd/topology/nodes/*/properties', kfd_device),
    links=((('amd-smi', 'topology'), amd_links), (('rocm-smi', '--showtopo', '--shownodesbw'), amd_links)),
    # HIP counts the GPUs that ROCR_VISIBLE_DEVICES leaves from 0 again: with 1 in both variables, no GPU is left
    visible='ROCR_VISIBLE_DEVICES',
    hides=('HIP_VISIBLE_DEVICES', 'CUDA_VISIBLE_DEVICES', 'GPU_DEVICE_ORDINAL'),
    packages=(
        'hip', 'hipblas', 'hipblaslt', 'hiprand', 'hsa-rocr-dev', 'llvm-amdgpu', 'rccl', 'rocblas', 'rocfft', 'rocrand',
    ),
    variant=('amdgpu_target', ''),
    collectives='RCCL',
    # amdsmi_get_energy_count: its resolution is in uJ; read once in a process (ROCm/rocm_smi_lib issue 180)
    meter=GpuMeter(
        'amdsmi',
        'import amdsmi as n; n.amdsmi_init(); '
        'all_of = map(n.amdsmi_get_energy_count, n.amdsmi_get_processor_handles()); '
        "[print(f'gpu{i}', gpu['energy_accumulator'] * gpu['counter_resolution'] / 1e6) "
        'for i, gpu in enumerate(all_of)]',
        'amdsmi of the ROCm release',
    ),
)  # fmt: skip
INTEL = Vendor(kind='oneapi', arch='intel', archs='(intel|xe)[a-z0-9_-]*')

#: The vendors by kind, in the order in which a node is asked for their GPUs.
VENDORS = {vendor.kind: vendor for vendor in (NVIDIA, AMD, INTEL)}


def vendors_of(archs: Iterable[str]) -> list[Vendor]:
    """Return the vendors of GPUs of these architectures, in the order of the table."""
    known = list(archs)
    return [vendor for vendor in VENDORS.values() if any(vendor.made(arch) for arch in known)]


def spack_packages(archs: list[str]) -> tuple[list[str], list[str]]:
    """Return Spack's packages of the libraries for these architectures, and variants such as ``cuda_arch=80,90``."""
    packages: list[str] = []
    variants: list[str] = []
    for vendor in vendors_of(archs):
        name, prefix = vendor.variant
        packages += vendor.packages
        values = sorted({arch.removeprefix(prefix) for arch in archs if vendor.made(arch)})
        variants += [f'{name}={",".join(values)}'] if name else []
    return packages, variants


def numbering() -> dict[str, str]:
    """Return the variables that make all programs of a job number GPUs as the vendors' tools do."""
    return {name: value for vendor in VENDORS.values() for name, value in vendor.env_vars.items()}


def asked() -> list[str]:
    """Return the commands, and the files of the kernel as shell patterns, that describe the GPUs of a node."""
    commands: list[str] = []
    for vendor in VENDORS.values():
        files = ('numa_node', vendor.mode) if vendor.driver else ()
        commands += [f'/sys/bus/pci/drivers/{vendor.driver}/*:*/{file}' for file in files if file]
        commands += [f'/sys/{vendor.in_kernel[0]}'] if vendor.in_kernel else []
        commands += [
            ' '.join(command) for command in (vendor.query, *(command for command, _ in vendor.links)) if command
        ]
    return commands
