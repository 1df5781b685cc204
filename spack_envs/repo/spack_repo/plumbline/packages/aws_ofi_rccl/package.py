# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.packages.aws_ofi_rccl.package import AwsOfiRccl as BuiltinAwsOfiRccl


class AwsOfiRccl(BuiltinAwsOfiRccl):
    """The plugin by which RCCL of ROCm 5 uses Slingshot, at a fixed commit: the builtin recipe knows branches alone.

    For ROCm 6 and later there is aws-ofi-nccl +rocm. Drop this with the last stack of ROCm 5.
    """

    version('20240301', commit='17d41cbf5618536c4b1076d29748416ab307040f', preferred=True)  # the date of the commit

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        super().setup_run_environment(env)
        env.set('NCCL_NET', 'AWS Libfabric')  # its name in src/nccl_ofi_net.c; without it RCCL falls back to sockets
