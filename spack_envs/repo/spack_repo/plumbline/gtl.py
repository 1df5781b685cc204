# SPDX-License-Identifier: BSD-3-Clause
"""Link HPE's GPU transport layer (GTL) into what passes device memory to Cray MPICH.

The recipe of an MPI program has to do this: github.com/spack/spack-packages#1164 (closed) and #2097 (``+gtl``, open).
Without it MPI_Init ends with "GPU_SUPPORT_ENABLED is requested, but GTL library is not linked".
Drop this file once cray-mpich's own compiler wrapper links it.
"""


def gtl_flags(spec):
    """Return (flags of the linker, library) of the GTL, ('', '') where the MPI of `spec` is not Cray MPICH for GPUs.

    No program uses a symbol of the GTL, and a linker that keeps only what is used drops it: hence --no-as-needed.
    ``extra_attributes: {gtl: FOLDER}`` of the external says where it is if not where HPE puts it, beside `prefix`.
    """
    if not spec.satisfies('^[virtuals=mpi] cray-mpich'):
        return '', ''
    mpi = spec['mpi']
    if folder := (getattr(mpi, 'extra_attributes', None) or {}).get('gtl'):
        library = '-lmpi_gtl_hsa' if mpi.satisfies('+rocm') else '-lmpi_gtl_cuda'
        flags = {'ldflags': [f'-L{folder}', f'-Wl,-rpath,{folder}'], 'ldlibs': [library]}
    else:
        flags = mpi.package.gtl_lib
    if not flags:
        return '', ''
    return ' '.join([*flags['ldflags'], '-Wl,--no-as-needed']), ' '.join(flags['ldlibs'])
