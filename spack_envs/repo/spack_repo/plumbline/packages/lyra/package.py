# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Lyra(Package):
    """Lyra parses command lines in C++11 programs. It consists of headers alone."""

    homepage = 'https://www.bfgroup.xyz/Lyra/'
    git = 'https://github.com/bfgroup/Lyra.git'

    license('BSL-1.0')

    version('1.6.1', tag='1.6.1', commit='ee3c076fa6b9d64c9d249a21f5b9b5a8dae92cd8')
    version('1.4', tag='1.4', commit='28db0e66d7f06b80ada82046971d7e701cfaaa8d')

    def install(self, spec, prefix):
        # 1.4 has no rule to install, and there is nothing to build
        install_tree('include', prefix.include)
