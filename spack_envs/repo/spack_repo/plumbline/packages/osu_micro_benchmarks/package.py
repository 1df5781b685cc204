# SPDX-License-Identifier: BSD-3-Clause
from spack.package import *
from spack_repo.builtin.packages.osu_micro_benchmarks.package import OsuMicroBenchmarks as BuiltinOsuMicroBenchmarks
from spack_repo.plumbline.gtl import gtl_flags


class OsuMicroBenchmarks(BuiltinOsuMicroBenchmarks):
    """OSU Micro-Benchmarks with buffers on AMD GPUs, and with the GTL of Cray MPICH.

    Without --enable-rocm its configure script ignores --with-rocm and no program takes device buffers.
    github.com/spack/spack-packages#3870 lost the option, #5613 (2026-07-16) brought it back: once the pinned recipes
    contain #5613, drop that line here. The GTL: see gtl.py.
    """

    def configure_args(self):
        args = super().configure_args()
        if self.spec.satisfies('+rocm') and '--enable-rocm' not in args:
            args.append('--enable-rocm')
        if self.spec.satisfies('+cuda') or self.spec.satisfies('+rocm'):
            flags, library = gtl_flags(self.spec)
            if library:
                args = [f'{arg} {flags}' if arg.startswith('LDFLAGS=') else arg for arg in args]
                args.append(f'LIBS={library}')
        return args
