# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage


class Coralgemm(CMakePackage, CudaPackage, ROCmPackage):
    """CoralGemm multiplies matrices on all GPUs of a node by cuBLAS, or by hipBLAS and hipBLASLt, for a given time."""

    homepage = 'https://github.com/AMD-HPC/CoralGemm'
    git = 'https://github.com/AMD-HPC/CoralGemm.git'

    license('MIT')

    version('2025.11', commit='738d5b35e108cfc62dd5d2bdb192b5bbc42268f7')

    depends_on('c', type='build')
    depends_on('cxx', type='build')
    for library in ('hip', 'rocblas', 'hipblas', 'hipblaslt', 'rocrand', 'hiprand'):
        depends_on(library, when='+rocm')
    conflicts('~cuda~rocm', msg='state +cuda or +rocm')
    conflicts('+cuda+rocm', msg='a program is for one kind of GPU')

    def patch(self):
        # TF32 is a mode of cuBLAS and no type, which CoralGemm has no word for
        filter_file(
            r'HIPBLAS_CALL\(hipblasCreate\(&hipblas_handle_\)\);',
            '\\g<0>\n#ifdef USE_CUDA\n    if (std::getenv("CORALGEMM_TF32"))\n'
            '        cublasSetMathMode(hipblas_handle_, CUBLAS_TF32_TENSOR_OP_MATH);\n#endif',
            'src/DeviceBatchedGemm.hip.cpp',
        )
        filter_file(r'#include "DeviceBatchedGemm.h"', '\\g<0>\n#include <cstdlib>', 'src/DeviceBatchedGemm.hip.cpp')

    def cmake_args(self):
        archs = 'amdgpu_target' if self.spec.satisfies('+rocm') else 'cuda_arch'
        kind = 'HIP' if self.spec.satisfies('+rocm') else 'CUDA'
        return [
            self.define_from_variant('USE_HIP', 'rocm'),
            self.define_from_variant('USE_CUDA', 'cuda'),
            self.define(f'CMAKE_{kind}_ARCHITECTURES', ';'.join(self.spec.variants[archs].value)),
        ]

    def install(self, spec, prefix):  # it has no install target
        mkdirp(prefix.bin)
        install(join_path(self.build_directory, 'gemm'), prefix.bin)
