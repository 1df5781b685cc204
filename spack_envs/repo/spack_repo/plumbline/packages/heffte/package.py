# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage
from spack_repo.plumbline.gtl import gtl_flags


class Heffte(CMakePackage, CudaPackage, ROCmPackage):
    """heFFTe with its benchmark, which the builtin recipe does not install; that one also wants a Fortran compiler."""

    homepage = 'https://github.com/icl-utk-edu/heffte'
    url = 'https://github.com/icl-utk-edu/heffte/archive/refs/tags/v2.4.1.tar.gz'

    license('BSD-3-Clause')

    version('2.4.1', sha256='de2cf26df5d61baac7841525db3f393cb007f79612ac7534fd4757f154ba3e6c')

    variant('fftw', default=False, description='Transforms on cores by FFTW')

    depends_on('c', type='build')
    depends_on('cxx', type='build')
    depends_on('cmake@3.21:', type='build')
    depends_on('mpi')
    depends_on('fftw-api@3', when='+fftw')
    depends_on('rocfft', when='+rocm')

    def cmake_args(self):
        args = [
            self.define('Heffte_ENABLE_TESTING', True),  # and with it the benchmarks
            self.define_from_variant('Heffte_ENABLE_FFTW', 'fftw'),
            self.define_from_variant('Heffte_ENABLE_CUDA', 'cuda'),
            self.define_from_variant('Heffte_ENABLE_ROCM', 'rocm'),
        ]
        if self.spec.satisfies('+cuda'):
            args.append(self.define('CMAKE_CUDA_ARCHITECTURES', ';'.join(self.spec.variants['cuda_arch'].value)))
        if self.spec.satisfies('+rocm'):
            archs = self.spec.variants['amdgpu_target'].value
            args.append(self.define('CMAKE_CXX_COMPILER', self.spec['hip'].hipcc))
            args.append(self.define('CMAKE_CXX_FLAGS', ' '.join(f'--offload-arch={arch}' for arch in archs)))
        if self.spec.satisfies('+cuda') or self.spec.satisfies('+rocm'):
            flags, library = gtl_flags(self.spec)  # speed3d_c2c passes device memory to MPI
            args.append(self.define('CMAKE_EXE_LINKER_FLAGS', f'{flags} {library}'.strip()))
        return args

    @run_after('install')
    def install_benchmarks(self):
        mkdirp(self.prefix.bin)
        install(join_path(self.builder.build_directory, 'benchmarks', 'speed3d_c2c'), self.prefix.bin)
