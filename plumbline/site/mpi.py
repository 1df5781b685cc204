# SPDX-License-Identifier: BSD-3-Clause
"""The settings that make each family of MPI pass GPU buffers without a copy through the host, or switch this off."""

from dataclasses import dataclass, field

from plumbline.machine.vendors import VENDORS


@dataclass(frozen=True)
class GpuAware:
    """How a family of MPI passes GPU buffers without a copy through the host.

    `env_vars`: variables of the job by kind of GPU, such as ``cuda``. `options`: options by launcher. `off`: variables
    that switch it off for programs that hand MPI no GPU buffers: if a module of the site has switched it on, a program
    that was not linked for it fails in MPI_Init. `needs`: what else the library must have; a message says so where
    buffers are copied through the host nevertheless.
    """

    env_vars: dict[str, dict[str, str]] = field(default_factory=dict)
    options: dict[str, list[str]] = field(default_factory=dict)
    off: dict[str, str] = field(default_factory=dict)
    needs: str = ''


def _on_all(**variables: str) -> dict[str, dict[str, str]]:
    return dict.fromkeys(VENDORS, variables)


#: By family, as `environments[].mpi` of site.yaml names it. Support that is built in or found at run time needs no
#: entry.
FAMILIES: dict[str, GpuAware] = {
    # docs.olcf.ornl.gov/systems/frontier_user_guide.html, "GPU-Aware MPI"; nccl-tests end with an error where it is on
    # without GTL: github.com/LLNL/benchpark/pull/1226
    'cray-mpich': GpuAware(
        _on_all(MPICH_GPU_SUPPORT_ENABLED='1'),
        off={'MPICH_GPU_SUPPORT_ENABLED': '0'},
        needs='a program linked with its library GTL: `ldd` of it shows libmpi_gtl_cuda or libmpi_gtl_hsa',
    ),
    # docs.olcf.ornl.gov/systems/summit_user_guide.html, "CUDA-Aware MPI"
    'spectrum-mpi': GpuAware(options={'jsrun': ['--smpiargs="-gpu"']}, needs='jsrun with --smpiargs="-gpu"'),
    # docs.open-mpi.org, "GPU support": UCX passes the buffers; without it Open MPI may stage them through the host
    'openmpi': GpuAware(
        _on_all(OMPI_MCA_pml='ucx', OMPI_MCA_osc='ucx'),
        needs='UCX with cuda_ipc or rocm_ipc: see `ucx_info -d` on a node, and UCX_TLS',
    ),
    # mvapich.cse.ohio-state.edu/userguide/gdr: off unless it is 1
    'mvapich2': GpuAware(
        {'cuda': {'MV2_USE_CUDA': '1'}, 'rocm': {'MV2_USE_ROCM': '1'}},
        off={'MV2_USE_CUDA': '0', 'MV2_USE_ROCM': '0'},
        needs='a library built for GPUs: see `mpiname -a`',
    ),
    # github.com/pmodels/mpich, README.envvar: on unless it is 0; stated for the record of the job
    'mpich': GpuAware(
        _on_all(MPIR_CVAR_ENABLE_GPU='1'),
        off={'MPIR_CVAR_ENABLE_GPU': '0'},
        needs='a library built for GPUs: see `mpichversion` for --with-cuda or -hip',
    ),
    # Intel MPI Library Developer Reference, "GPU Buffers Support": up to 2021.10 for Intel's GPUs alone, from 2021.13
    # on for NVIDIA's, too; off unless I_MPI_OFFLOAD is 1. The version of a site is not known, so its environment sets
    # it.
    'intel-oneapi-mpi': GpuAware(off={'I_MPI_OFFLOAD': '0'}, needs='a version from 2021.13 on, and I_MPI_OFFLOAD=1'),
}
