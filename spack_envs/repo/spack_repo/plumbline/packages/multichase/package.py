# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.build_systems.makefile import MakefilePackage


class Multichase(MakefilePackage):
    """multichase measures the latency of memory with chains of dependent loads, on a chosen NUMA domain."""

    homepage = 'https://github.com/google/multichase'
    git = 'https://github.com/google/multichase.git'

    license('Apache-2.0')

    # Upstream has no releases: the date of the commit.
    version('20250815', commit='a1ffd89b20d033f28fa44d6ee92d7a378b1b1dca')

    depends_on('c', type='build')

    def patch(self):
        # Few systems have a static C library, and a newer compiler has newer warnings.
        filter_file(' -static', '', 'Makefile', string=True)
        filter_file(' -Werror', '', 'Makefile', string=True)

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        for program in ('multichase', 'multiload', 'fairness', 'pingpong'):
            install(program, prefix.bin)
