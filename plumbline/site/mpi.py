# SPDX-License-Identifier: BSD-3-Clause
"""What makes each family of MPI pass buffers of GPUs to the network without a copy through the host."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GpuAware:
    """Variables of the job by the kind of GPU, ``cuda`` or ``rocm``; options of launchers by their name.

    `needs`: what the library must have beside them, for an administrator whose buffers are staged all the same.
    """

    env_vars: dict[str, dict[str, str]] = field(default_factory=dict)
    options: dict[str, list[str]] = field(default_factory=dict)
    needs: str = ''


def _on_both(**variables: str) -> dict[str, dict[str, str]]:
    return {kind: variables for kind in ('cuda', 'rocm')}


#: By family, the word of `environments[].mpi` in site.yaml. What is built in or found at run time needs nothing.
FAMILIES: dict[str, GpuAware] = {
    # docs.olcf.ornl.gov/systems/frontier_user_guide.html, "GPU-Aware MPI"
    'cray-mpich': GpuAware(
        _on_both(MPICH_GPU_SUPPORT_ENABLED='1'),
        needs='a program linked with its library GTL: external cray-mpich with +rocm or +cuda in spack.yaml',
    ),
    # docs.olcf.ornl.gov/systems/summit_user_guide.html, "CUDA-Aware MPI"
    'spectrum-mpi': GpuAware(options={'jsrun': ['--smpiargs="-gpu"']}, needs='jsrun with --smpiargs="-gpu"'),
    # docs.open-mpi.org, "GPU support": UCX passes the buffers; without it Open MPI may stage them through the host
    'openmpi': GpuAware(
        _on_both(OMPI_MCA_pml='ucx', OMPI_MCA_osc='ucx'),
        needs='UCX with cuda_ipc or rocm_ipc: see `ucx_info -d` on a node, and UCX_TLS',
    ),
    # mvapich.cse.ohio-state.edu/userguide/gdr
    'mvapich2': GpuAware(
        {'cuda': {'MV2_USE_CUDA': '1'}, 'rocm': {'MV2_USE_ROCM': '1'}},
        needs='a library built for GPUs: see `mpiname -a`',
    ),
    # github.com/pmodels/mpich, README.envvar: on unless it is 0; stated for the record of the job
    'mpich': GpuAware(
        _on_both(MPIR_CVAR_ENABLE_GPU='1'), needs='a library built for GPUs: see `mpichversion` for --with-cuda or -hip'
    ),
    # Intel MPI Library Developer Reference, "GPU support": for Intel's GPUs alone, so none of ours
    'intel-oneapi-mpi': GpuAware(),
}
