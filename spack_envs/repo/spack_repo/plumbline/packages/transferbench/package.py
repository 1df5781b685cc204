# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.generic import Package
from spack_repo.builtin.build_systems.rocm import ROCmPackage


class Transferbench(Package, CudaPackage, ROCmPackage):
    """TransferBench copies between memories of a node, many at the same time. The builtin recipe is for AMD."""

    homepage = 'https://github.com/ROCm/TransferBench'
    git = 'https://github.com/ROCm/TransferBench.git'

    license('MIT')

    version('1.52', commit='600cf1316aeee1ada38425d0dfdac637ebbad56b')

    depends_on('cxx', type='build')
    depends_on('numactl')
    depends_on('hip', when='+rocm')
    depends_on('hsa-rocr-dev', when='+rocm')
    conflicts('~cuda~rocm', msg='state +cuda or +rocm')
    conflicts('+cuda+rocm', msg='a program is for one kind of GPU')

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        numa = spec['numactl'].prefix
        words = ['-O3', '-Isrc/include', f'-I{numa.include}', f'-L{numa.lib}', '-lnuma', '-lpthread']
        words += ['src/TransferBench.cpp', '-o', prefix.bin.TransferBench]
        if spec.satisfies('+rocm'):
            runtime = spec['hsa-rocr-dev'].prefix
            archs = [f'--offload-arch={arch}' for arch in spec.variants['amdgpu_target'].value]
            Executable(spec['hip'].prefix.bin.hipcc)(*archs, f'-L{runtime.lib}', '-lhsa-runtime64', *words)
        else:
            arch = max(spec.variants['cuda_arch'].value, key=int)
            Executable(spec['cuda'].prefix.bin.nvcc)('-x', 'cu', f'-arch=sm_{arch}', *words)
