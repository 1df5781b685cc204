# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Clpeak(CMakePackage):
    """clpeak measures what an OpenCL device reaches: bandwidth, arithmetic, copies and kernel launch."""

    homepage = 'https://github.com/krrishnarraj/clpeak'
    git = 'https://github.com/krrishnarraj/clpeak.git'

    license('Apache-2.0')

    # The release of Debian 12. From 2.0 on it has other options and another output.
    version('1.1.2', commit='a4d617d7d054450aa83965d0fd9d62ee2009957f')

    depends_on('cxx', type='build')
    depends_on('opencl-c-headers', type='build')
    depends_on('opencl-clhpp', type='build')  # without it CMake fetches an SDK
    depends_on('opencl-icd-loader')  # takes the drivers of the node from /etc/OpenCL/vendors
