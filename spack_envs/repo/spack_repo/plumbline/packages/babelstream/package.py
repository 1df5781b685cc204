# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.packages.babelstream.package import Babelstream as BuiltinBabelstream
from spack_repo.builtin.packages.babelstream.package import CMakeBuilder, MakefileBuilder  # noqa: F401  Spack looks here


class Babelstream(BuiltinBabelstream):
    """BabelStream without the options that nvcc does not know before CUDA 10.2.

    Sierra and Lassen needed this patch (appendix A of the US DOE study, 003). -DRELEASE_FLAGS does not replace
    -march=native: upstream's CMakeLists.txt ignores it.
    """

    def patch(self):
        if self.spec.satisfies('+cuda ^cuda@:10.1'):
            filter_file(' -march=native', '', 'CMakeLists.txt', string=True)
            filter_file('-forward-unknown-to-host-compiler', '', 'src/cuda/model.cmake', string=True)
