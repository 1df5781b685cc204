# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakeBuilder, CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage


class CommScope(CMakePackage, CudaPackage, ROCmPackage):
    """Comm|Scope measures transfers of data within one node: between NUMA domains, and between them and GPUs."""

    homepage = 'https://github.com/c3sr/comm_scope'
    git = 'https://github.com/c3sr/comm_scope.git'

    # Upstream's last release, and its last commit, which has no tag and still calls itself 0.12.0.
    version('0.12.0-20231026', commit='6fe6b46b87409a94f597e948c067ccc997f24e54')
    version('0.12.0', tag='v0.12.0', commit='d744349903b9b99869f3b3e45db0b2628ccc39dc', preferred=True)

    variant('numa', default=True, description='Place memory and threads with libnuma')

    depends_on('cxx', type='build')
    depends_on('cmake@3.18:', type='build')

    # the commits of libscope that upstream's submodule names
    depends_on('libscope@1.1.2-20231026', when='@0.12.0-20231026')
    depends_on('libscope@1.1.2-20230726', when='@=0.12.0')
    # libscope's headers carry the choice into every benchmark: both must have made the same one
    for choice in ('numa', 'cuda', 'rocm'):
        depends_on(f'libscope+{choice}', when=f'+{choice}')
        depends_on(f'libscope~{choice}', when=f'~{choice}')
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f'libscope cuda_arch={arch}', when=f'+cuda cuda_arch={arch}')
    for target in ROCmPackage.amdgpu_targets:
        depends_on(f'libscope amdgpu_target={target}', when=f'+rocm amdgpu_target={target}')

    conflicts('^cuda@13:', msg='CUDA 13 changed the calls that prefetch managed memory')

    def patch(self):
        # libscope is a package of its own here, and upstream has no rules to install.
        filter_file(r'add_subdirectory\(thirdparty/libscope\)', 'find_package(scope REQUIRED)', 'CMakeLists.txt')
        with open('CMakeLists.txt', 'a') as f:
            f.write('\ninstall(TARGETS comm_scope enable-turbo disable-turbo read-turbo set-maximum set-minimum)\n')

    def cmake_args(self):
        args = [
            self.define_from_variant('SCOPE_USE_CUDA', 'cuda'),
            self.define_from_variant('SCOPE_USE_HIP', 'rocm'),
        ]
        if self.spec.satisfies('+cuda'):
            args.append(CMakeBuilder.define_cuda_architectures(self))
        if self.spec.satisfies('+rocm'):
            # Upstream's sources are HIP in .cpp files, not CMake's language HIP: all is compiled by hipcc.
            targets = self.spec.variants['amdgpu_target'].value
            args.append(self.define('CMAKE_CXX_COMPILER', self.spec['hip'].hipcc))
            args.append(self.define('CMAKE_CXX_FLAGS', ' '.join(f'--offload-arch={t}' for t in targets)))
        return args
