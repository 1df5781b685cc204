# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.packages.rccl_tests.package import RcclTests as BuiltinRcclTests


class RcclTests(BuiltinRcclTests):
    """The tests of RCCL at a fixed commit: the builtin recipe knows branches alone."""

    version('20240910', commit='ae3e6357cb3514d5649b3b5dfaa80cb2d2af3532', preferred=True)  # the date of the commit
