# SPDX-License-Identifier: BSD-3-Clause
"""Find what Spack need not build on an undescribed machine: compiler, MPI, BLAS, build tools, GPU libraries.

Spack finds most of it, but not an MPI and BLAS that a distribution spreads over ``/usr``; HPL's configure script does
not find an MPI below ``/usr`` either. These two get a prefix of links: bin, include and lib.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from plumbline.files import read_yaml, to_yaml
from plumbline.paths import SPACK_ENVS
from plumbline.programs import output_of
from plumbline.stacks.install import run_spack

_TOOLS = ('gcc', 'cmake', 'gmake', 'autoconf', 'automake', 'libtool', 'm4', 'perl', 'pkgconf', 'ncurses', 'gettext')
_MPI_PROGRAMS = ('mpicc', 'mpicxx', 'mpic++', 'mpif77', 'mpif90', 'mpifort', 'mpirun', 'mpiexec')
_ARCHIVE = Path('/usr/share/aclocal/ax_prog_cc_mpi.m4')  # a macro that HPL's configure script needs


def find_externals(libraries: list[str], variants: list[str], path: Path) -> list[str]:
    """Write the ``packages`` section to `path`; return a sentence for each package that Spack must build.

    `libraries`: packages of GPU vendors. `variants`: variants of all packages, such as ``cuda_arch=90``.
    """
    links = path.parent / 'externals'
    links.mkdir(parents=True, exist_ok=True)
    packages = _found_by_spack(links, [*_TOOLS, *libraries])
    # autoconf-archive has no program for Spack to find
    archive = {'spec': 'autoconf-archive@2022.09.03', 'prefix': '/usr'} if _ARCHIVE.exists() else None
    own = {'openmpi': _openmpi(links), 'openblas': _openblas(links), 'autoconf-archive': archive}
    packages |= {name: {'externals': [external], 'buildable': False} for name, external in own.items() if external}
    for virtual, package in (('mpi', 'openmpi'), ('blas', 'openblas'), ('lapack', 'openblas')):
        if packages.get(package, {}).get('externals'):
            packages[virtual] = {'require': package}
    packages['all'] = {'variants': variants} if variants else {}
    comment = '# What ci/provision found on this machine; written again whenever a stack is installed.\n'
    path.write_text(comment + to_yaml({'packages': packages}), encoding='utf-8')
    return [f'{name}: not found on this machine; Spack builds it' for name, external in own.items() if not external]


def _found_by_spack(folder: Path, names: list[str]) -> dict[str, Any]:
    """Return what ``spack external find`` writes into the manifest of an environment that is made in `folder`."""
    manifest = folder / 'spack.yaml'
    content = {'spack': {'include': [str(SPACK_ENVS / 'common')], 'specs': []}}
    manifest.write_text(to_yaml(content), encoding='utf-8')
    run_spack('-e', str(folder), 'external', 'find', *names, log=folder / 'log.txt')
    return read_yaml(manifest)['spack'].get('packages', {})


def _openmpi(links: Path) -> dict[str, str] | None:
    printed = _answer('ompi_info', '--parsable', '--path', 'bindir', '--path', 'incdir', '--path', 'libdir')
    where = dict(line.split(':', 2)[1:] for line in printed.splitlines() if line.startswith('path:'))
    version = re.search(r'v([\d.]+)', _answer('ompi_info', '--version'))
    if not version or not Path(where.get('incdir', ''), 'mpi.h').exists() or shutil.which('mpicc') is None:
        return None
    prefix = links / f'openmpi-{version[1]}'
    (prefix / 'bin').mkdir(parents=True, exist_ok=True)
    for name in _MPI_PROGRAMS:
        if (program := Path(where['bindir'], name)).exists():
            _link(prefix / 'bin' / name, program)
    _link(prefix / 'include', Path(where['incdir']))
    _link(prefix / 'lib', Path(where['libdir']))
    return {'spec': f'openmpi@{version[1]}', 'prefix': str(prefix)}


def _openblas(links: Path) -> dict[str, str] | None:
    version = _answer('pkg-config', '--modversion', 'openblas').strip()
    library = Path(_answer('pkg-config', '--variable=libdir', 'openblas').strip() or '/nonexistent')
    if not version or not (library / 'libopenblas.so').exists():
        return None
    prefix = links / f'openblas-{version}'
    prefix.mkdir(parents=True, exist_ok=True)
    _link(prefix / 'include', Path(_answer('pkg-config', '--variable=includedir', 'openblas').strip()))
    _link(prefix / 'lib', library)
    threads = 'openmp' if 'openmp' in str(library.resolve()) else 'pthreads'
    return {'spec': f'openblas@{version} threads={threads}', 'prefix': str(prefix)}


def _link(path: Path, target: Path) -> None:
    if not path.is_symlink() or path.readlink() != target:
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def _answer(*command: str) -> str:
    try:
        return output_of(command)
    except ValueError:
        return ''  # not installed
