# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakeBuilder, CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

# Upstream has no rules to install: its users build it as a part of themselves.
INSTALL_RULES = """
install(TARGETS scope EXPORT scope INCLUDES DESTINATION include)
install(EXPORT scope NAMESPACE scope:: FILE scope-targets.cmake DESTINATION lib/cmake/scope)
install(TARGETS system-graph)
install(DIRECTORY include/scope ${PROJECT_BINARY_DIR}/include/scope DESTINATION include
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.hu")
install(FILES cmake/modules/Git.cmake scope-config.cmake DESTINATION lib/cmake/scope)
"""

# What find_package(scope) reads: the packages that the library's target names, and the functions that its users call.
CONFIG = """
include(CMakeFindDependencyMacro)
find_dependency(benchmark)
find_dependency(spdlog)
find_dependency(OpenMP)
if(SCOPE_USE_CUDA)
  find_dependency(CUDAToolkit)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/Git.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/scope-targets.cmake)
"""


class Libscope(CMakePackage, CudaPackage, ROCmPackage):
    """libscope is the common part of the SCOPE benchmarks: it knows a node's NUMA domains and GPUs, and runs
    Google Benchmark over them."""

    homepage = 'https://github.com/cwpearson/libscope'
    git = 'https://github.com/cwpearson/libscope.git'

    # Upstream's last tag is v1.1.2 of 2020, and CMakeLists.txt has said 1.1.2 ever since: the dates are those of
    # the commits.
    version('1.1.2-20231026', commit='8a24547d4628e29aeffc607fd40bdc9b1bcc1ff3')
    version('1.1.2-20230726', commit='124999dc0017b437adcbebeaded52cf9d973ac28')

    variant('numa', default=True, description='Place memory and threads with libnuma')

    depends_on('cxx', type='build')
    depends_on('cmake@3.18:', type='build')
    depends_on('lyra@1.4:1.6', type='build')
    # Upstream's submodule is between 1.7.1 and 1.8.0, and built without libpfm.
    depends_on('benchmark@1.7.1:1.8~performance_counters')
    # Spack patches 1.11 and 1.13 with files from the network, and before 1.11 it would choose a fmt that is too new.
    depends_on('spdlog@1.12')
    depends_on('numactl', when='+numa')

    conflicts('+cuda', when='+rocm', msg='libscope is built for one kind of GPU')
    conflicts('cuda_arch=none', when='+cuda', msg='say for which GPU: cuda_arch=')
    conflicts('amdgpu_target=none', when='+rocm', msg='say for which GPU: amdgpu_target=')

    def patch(self):
        cmake = FileFilter('CMakeLists.txt')
        # The submodules are packages of their own here.
        cmake.filter(r'add_subdirectory\(thirdparty/(benchmark|spdlog)\)', r'find_package(\1 REQUIRED)')
        cmake.filter(
            r'add_subdirectory\(thirdparty/Lyra\)',
            'find_path(LYRA_INCLUDE_DIR lyra/lyra.hpp REQUIRED)\ninclude_directories(SYSTEM ${LYRA_INCLUDE_DIR})',
        )
        cmake.filter(r'target_link_libraries_system\(scope BFG::Lyra\)', '')
        # CMake refuses to install a target that refers to folders of its own build.
        cmake.filter(r'^\s+include$', '$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>')
        cmake.filter(r'\$\{PROJECT_BINARY_DIR\}/include/\)', '$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)')
        # As root it would turn the CPUs' turbo off and set their governor, and leave them so where it is killed.
        filter_file(r'^  stabilize_system_state\(\);$', '', 'src/init.cpp')
        with open('CMakeLists.txt', 'a') as f:
            f.write(INSTALL_RULES)
        with open('scope-config.cmake', 'w') as f:
            f.write(CONFIG)

    def cmake_args(self):
        args = [
            self.define_from_variant('SCOPE_USE_CUDA', 'cuda'),
            self.define_from_variant('SCOPE_USE_HIP', 'rocm'),
            self.define_from_variant('SCOPE_USE_NUMA', 'numa'),
            self.define('SCOPE_TRY_DOWNLOAD_NUMA', False),
            # does not compile without it
            self.define('SCOPE_USE_OPENMP', True),
            # marks for a profiler, which need one more library of CUDA
            self.define('SCOPE_USE_NVTX', False),
        ]
        if self.spec.satisfies('+cuda'):
            args.append(CMakeBuilder.define_cuda_architectures(self))
        if self.spec.satisfies('+rocm'):
            # Upstream's sources are HIP in .cpp files, not CMake's language HIP: all is compiled by hipcc.
            targets = self.spec.variants['amdgpu_target'].value
            args.append(self.define('CMAKE_CXX_COMPILER', self.spec['hip'].hipcc))
            args.append(self.define('CMAKE_CXX_FLAGS', ' '.join(f'--offload-arch={t}' for t in targets)))
        return args
