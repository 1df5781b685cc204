# SPDX-License-Identifier: BSD-3-Clause
"""The environment variables that jobs need; the others, among them all secrets, reach no benchmark."""

import os
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase, translate

from plumbline import settings

#: What for -> shell patterns of names, case-sensitive. A variable that modules, MPI, a GPU runtime or a scheduler reads
#: belongs here; one of a single site belongs to `env_keep` of its site.yaml.
_NEEDED = {
    'user, shell, temporary folders': """
        HOME USER LOGNAME SHELL HOSTNAME HOST PWD OLDPWD SHLVL TERM COLUMNS LINES NO_COLOR _ BASH_ENV ENV FPATH
        BASH_FUNC_* TMP TEMP TMPDIR XDG_RUNTIME_DIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_DATA_DIRS
        XDG_CONFIG_DIRS LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME
        LC_PAPER LC_NAME LC_ADDRESS LC_TELEPHONE LC_MEASUREMENT LC_IDENTIFICATION TZ TZDIR
    """,
    'software: folders, modules, compilers': """
        *PATH *ROOT *_HOME *_DIR *_PREFIX *_LIB *_INC *SCRATCH LD_* GLIBC_TUNABLES MALLOC_* HUGETLB_*
        LIBHUGETLBFS_* TCMALLOC_* MODULE* LOADEDMODULES* _LMFILES_* LMOD_* __LMOD_* _ModuleTable* __MODULES_*
        __Init_Default_Modules EB* EESSI_* SPACK_* CC CXX FC F77 F90 *CFLAGS *CXXFLAGS *FFLAGS *FCFLAGS *LDFLAGS
        *LICENSE_FILE CRAY* PE_* PRGENV* PYTHON* VIRTUAL_ENV RFM_* COVERAGE_* OPENSSL_CONF OPENSSL_*cap
        DARSHAN_* HDF5_*
    """,
    'scheduler': """
        SLURM* SBATCH_* SRUN_* SALLOC_* SQUEUE_* SINFO_* SACCT_* SCANCEL_* SPRIO_* PBS* TORQUE_* PALS_* APRUN_*
        ALPS_* LSB_* LSF_* LS_JOBPID LS_SUBCWD XLSF_* JSM_* CSM_* FLUX_* OAR_* SGE_* PJM_* COBALT_*
    """,
    'MPI and network': """
        OMPI_* OPAL_* ORTE_* PRTE_* PMIX_* PMI_* PMI2_* PAMI_* MPI_* MPIR_* MPICH_* MPIEXEC_* HYDRA_* I_MPI_*
        MV2_* MVP_* MP_* SHMEM_* OSHMEM_* SMA_* ROMIO_* UCX_* UCC_* UCS_* HCOLL_* SHARP_* MXM_* FI_* OFI_* CXI_*
        PSM2_* PSM3_* HFI_* GNI_* UGNI_* DMAPP_* XPMEM_* IBV_* MLX4_* MLX5_* RDMAV_* RDMA_* BXI_* PORTALS4_*
        EFA_* DAOS_* GASNET_*
    """,
    'CPUs and their libraries': """
        OMP_* GOMP_* KMP_* LIBOMP* OPENBLAS_* GOTO_* BLIS_* BLAS_* AOCL_* MKL_* CRAYBLAS_* FFTW_* TBB* KOKKOS_*
        HWLOC_* NUMA_* MEMKIND_* NUMEXPR_* FLIB_* XOS_* VE_* LIKWID_* PAPI_* GEOPM_* EAR_* ACC_* NVCOMPILER_*
    """,
    'GPUs': """
        CUDA_* CUBLAS_* CUFFT_* CUDNN_* NVIDIA_* NVSHMEM_* NVHPC* NCCL_* GDRCOPY_* HIP_* HSA_* ROCR_* ROCM_*
        ROCBLAS_* ROCFFT_* HIPBLASLT_* TENSILE_* RCCL_* AMD_* AMDGPU_* GPU_* ONEAPI_* SYCL_* ZE_* ZES_* ZET_*
        CCL_* IGC_* UR_* EnableImplicitScaling NEOReadDebugKeys LIBOMPTARGET_* INTEL_* SETVARS_* OCL_* OPENCL_*
        POCL_*
    """,
    'proxies, certificates, containers': """
        http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
        SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE APPTAINER_BIND APPTAINER_CACHEDIR SINGULARITY_BIND
        SINGULARITY_CACHEDIR
    """,
}
_LOGIN_IN_URL = re.compile(r'://[^/\s]*@')


def of_jobs(variables: Mapping[str, str], keep: Collection[str] = ()) -> dict[str, str]:
    """Return those of `variables` that jobs need, and those whose names match `keep`, shell patterns.

    None that was not asked for by `keep` has a login in an address, such as that of a proxy. ``SLURM_JWT`` stays for
    Slurm's commands; rank.sh takes it from the program. Of the suite's own settings those stay that hold no secret.
    """
    own = [setting.name for setting in settings.all_settings() if not setting.is_secret]
    needed = re.compile('|'.join(map(translate, [*' '.join(_NEEDED.values()).split(), *own])))
    asked = {name for name in variables for pattern in keep if fnmatchcase(name, pattern)}
    return {
        name: value
        for name, value in variables.items()
        if name in asked or (needed.match(name) and not _has_login(name, value))
    }


def drop_others(keep: Collection[str]) -> None:
    """Remove from the environment of this process, which jobs inherit, what :func:`of_jobs` leaves out."""
    stays = of_jobs(os.environ, keep)
    for name in os.environ.keys() - stays.keys():
        del os.environ[name]


def _has_login(name: str, value: str) -> bool:
    return bool(_LOGIN_IN_URL.search(value)) or (name.lower().endswith('_proxy') and '@' in value)
