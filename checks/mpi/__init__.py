# SPDX-License-Identifier: BSD-3-Clause
"""OSU's micro-benchmarks between cores, nodes and GPUs, with whole curves over message sizes.

Never here: how an MPI library is made to pass GPU buffers, which `plumbline.site.mpi` knows.
"""
