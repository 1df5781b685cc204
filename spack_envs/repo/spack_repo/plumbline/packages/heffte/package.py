from spack.package import *
from spack_repo.builtin.packages.heffte.package import Heffte as BuiltinHeffte


class Heffte(BuiltinHeffte):
    """heFFTe with its benchmarks, which the builtin recipe builds and does not install."""

    version('2.4.1', sha256='de2cf26df5d61baac7841525db3f393cb007f79612ac7534fd4757f154ba3e6c', preferred=True)

    @run_after('install')
    def install_benchmarks(self):
        mkdirp(self.prefix.bin)
        install(join_path(self.builder.build_directory, 'benchmarks', 'speed3d_c2c'), self.prefix.bin)
