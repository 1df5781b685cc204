# SPDX-License-Identifier: BSD-3-Clause
"""Stacks for a machine without network, and what a machine has for Spack; Spack and the programs are stand-ins."""

import json
import shutil
from types import SimpleNamespace

import pytest
import yaml
from rows import each_row

from plumbline.stacks import airgap, externals
from plumbline.stacks.install import StackError


def stack(name, folder, locked=True):
    (lock := folder / f'{name}.lock').touch()
    if not locked:
        lock.unlink()
    return SimpleNamespace(
        stack=name, site='box', partition='cpu', folder=folder / name, manifest=lambda: SimpleNamespace(lock=lock)
    )


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A Spack, recipes and the steps that were asked for."""
    asked = []
    spack, recipes = tmp_path / 'opt/spack', tmp_path / 'software/spack-cache/recipes-1.0'
    for name in ('bin/spack', 'opt/gcc', '.git/HEAD', 'var/cache/x', 'etc/spack/defaults/a', 'etc/spack/site/b',
                 'etc/spack/include.yaml', 'etc/other/c', 'lib/__pycache__/d', 'lib/e'):  # fmt: skip
        (spack / name).parent.mkdir(parents=True, exist_ok=True)
        (spack / name).write_text(name)
    (recipes / '__pycache__').mkdir(parents=True)
    (recipes / 'package.py').write_text('recipe')

    class BringUp:
        def __init__(self, of):
            self.of = of

        def concretize(self):
            asked.append(f'concretize {self.of.stack}')

        def run(self):
            asked.append(f'install {self.of.stack}')

    def output_of(command, time_limit):
        assert time_limit == 3600
        asked.append(' '.join(command[1:]))
        if (tmp_path / 'no-network').exists():
            raise ValueError('ended with 1 and printed: ERROR: no network')

    for name, value in {
        'BringUp': BringUp, 'needed_spack': lambda: spack / 'bin/spack', 'recipes': lambda: recipes,
        'run_spack': lambda *words, log: asked.append(' '.join(map(str, words))), 'output_of': output_of,
        'release': lambda: {'tag': 'v1.1'}, 'software_directory': lambda: tmp_path / 'software', 'ROOT': tmp_path,
    }.items():  # fmt: skip
        monkeypatch.setattr(airgap, name, value)
    monkeypatch.setattr(airgap.checkout, 'pip_requirement', lambda extra: ['--editable', f'/clone[{extra}]'])
    return asked


PIP = '-m pip download --quiet --disable-pip-version-check --dest'


@pytest.mark.parametrize('binaries', [False, True])
def test_a_folder_for_a_machine_without_network_has_all_that_it_needs(tmp_path, machine, binaries):
    out, stacks = tmp_path / 'out', [stack('b', tmp_path), stack('a', tmp_path)]
    airgap.export_folder(out, stacks, binaries)
    steps = []
    for name in ('b', 'a'):
        steps += [f'concretize {name}', f'-e {tmp_path / name} mirror create -d {out / "mirror"} --all']
        if binaries:
            push = f'-e {tmp_path / name} buildcache push --unsigned --update-index {out / "build_cache"}'
            steps += [f'install {name}', push]
    wheels = f'{PIP} {out / "wheels"} /clone[spack,build]'
    assert machine == [*steps, wheels, wheels]  # without a list of hashes both ask for the same
    index = {'schema': 1, 'site': 'box', 'stacks': ['a', 'b'], 'binaries': binaries, 'spack': 'v1.1'}
    assert json.loads((out / 'plumbline-export.json').read_text()) == index | {'recipes': 'recipes-1.0'}
    core = [path.relative_to(out / 'spack').as_posix() for path in (out / 'spack').rglob('*') if path.is_file()]
    assert sorted(core) == [
        'bin/spack', 'etc/other/c', 'etc/spack/defaults/a', 'etc/spack/include.yaml', 'lib/e',
    ]  # fmt: skip
    assert [path.name for path in (out / 'recipes').iterdir()] == ['package.py']
    with pytest.raises(StackError, match='exists already; expected a new folder'):
        airgap.export_folder(out, stacks, binaries)


def test_python_packages_are_those_of_the_locked_hashes(tmp_path, machine, monkeypatch):
    (tmp_path / 'requirements.txt').touch()
    airgap.export_folder(tmp_path / 'out', [stack('a', tmp_path)], False)
    locked = f'--no-deps --require-hashes --requirement {tmp_path / "requirements.txt"}'
    assert machine[-2:] == [f'{PIP} {tmp_path / "out/wheels"} {more}' for more in (locked, '/clone[spack,build]')]
    (tmp_path / 'no-network').touch()
    with pytest.raises(StackError, match='ended with 1 and printed: ERROR: no network'):
        airgap.export_folder(tmp_path / 'again', [stack('a', tmp_path)], False)


def test_built_packages_are_exported_only_with_a_lock(tmp_path, machine):
    stacks = [stack('b', tmp_path, locked=False), stack('c', tmp_path), stack('a', tmp_path, locked=False)]
    with pytest.raises(StackError, match=r'^--binaries: the stacks a, b have no spack\.lock'):
        airgap.export_folder(tmp_path / 'out', stacks, True)
    assert not (tmp_path / 'out').exists() and machine == []
    airgap.export_folder(tmp_path / 'out', stacks, False)


@pytest.mark.parametrize('binaries', [False, True])
def test_an_exported_folder_is_where_spack_looks_for_it(tmp_path, machine, binaries):
    airgap.export_folder(tmp_path / 'out', [stack('a', tmp_path)], binaries)
    (tmp_path / 'out/mirror').mkdir()
    (tmp_path / 'out/mirror/source.tar').touch()
    software = tmp_path / 'software'
    shutil.rmtree(software)  # as on another machine
    for _ in range(2):  # also over an earlier one
        airgap.import_folder(tmp_path / 'out')
    assert (software / 'spack-v1.1/bin/spack').exists() and (software / 'mirror/source.tar').exists()
    assert (software / 'spack-cache/recipes-1.0/package.py').exists() and not (software / 'build_cache').exists()
    mirrors = {'plumbline-sources': {'url': f'file://{software}/mirror', 'binary': False}}
    if binaries:
        of_binaries = {'url': f'file://{software}/build_cache', 'source': False, 'signed': False}
        mirrors['plumbline-binaries'] = of_binaries
    config = software / 'spack-config'
    assert yaml.safe_load((config / 'mirrors.yaml').read_text()) == {'mirrors': mirrors}
    assert yaml.safe_load((config / 'bootstrap.yaml').read_text()) == {'bootstrap': {'sources': []}}


@each_row(
    ('index', 'words'),
    [
        (None, 'expected a complete folder of ci/provision --export, with plumbline-export.json'),
        ('{', 'expected a complete folder of ci/provision --export'),
        ('{"schema": 2}', 'was exported with schema 2: update Plumbline'),
        ('{"schema": 1, "recipes": "recipes-0.9"}', 'expected recipes-1.0, found recipes-0.9; export it again'),
    ],
)
def test_a_folder_that_is_not_whole_or_of_another_version_is_refused(tmp_path, machine, index, words):
    (folder := tmp_path / 'in').mkdir(exist_ok=True)
    if index:
        (folder / 'plumbline-export.json').write_text(index)
    with pytest.raises(StackError, match=words):
        airgap.import_folder(folder)
    assert [path.name for path in (tmp_path / 'software').iterdir()] == ['spack-cache'], 'nothing came from it'


# What a machine has


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """The machine has Open MPI 4.1.4 and OpenBLAS 0.3.21, below tmp_path; Spack finds cmake."""
    for name in ('mpi/bin/mpicc', 'mpi/bin/mpirun', 'mpi/include/mpi.h', 'mpi/lib/libmpi.so', 'blas/lib/libopenblas.so',
                 'blas/include/cblas.h'):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    where = ''.join(
        f'path:{name}dir:{tmp_path}/mpi/{of}\n' for name, of in (('bin', 'bin'), ('inc', 'include'), ('lib', 'lib'))
    )
    answers = tmp_path / 'answers'
    answers.mkdir()
    for name, text in {
        'ompi_info--parsable': where, 'ompi_info--version': 'Open MPI v4.1.4\n',
        'pkg-config--modversion': '0.3.21\n', 'pkg-config--variable=libdir': f'{tmp_path}/blas/lib\n',
        'pkg-config--variable=includedir': f'{tmp_path}/blas/include\n',
    }.items():  # fmt: skip
        (answers / name).write_text(text)
    cmake = '  packages: {cmake: {externals: [{spec: cmake@3.25, prefix: /usr}]}}'
    (tmp_path / 'bin').mkdir()
    for name, script in {
        'spack': f'case "$*" in *" external find gcc "*" cuda") echo "{cmake}" >> "$3/spack.yaml" ;; *) exit 1 ;; esac',
        'ompi_info': f'exec cat "{answers}/ompi_info$1"', 'pkg-config': f'exec cat "{answers}/pkg-config$1"',
        'mpicc': '',
    }.items():  # fmt: skip
        (tmp_path / 'bin' / name).write_text(f'#!/bin/sh\n{script}\n')
        (tmp_path / 'bin' / name).chmod(0o755)
    monkeypatch.setenv('SPACK_ROOT', str(tmp_path))
    monkeypatch.setenv('PATH', f'{tmp_path}/bin:/usr/bin:/bin')
    monkeypatch.setattr(externals, '_ARCHIVE', tmp_path / 'archive.m4')
    return answers


def test_what_a_machine_has_is_not_built(tmp_path, answers):
    (tmp_path / 'archive.m4').touch()
    path = tmp_path / 'stack/externals.yaml'
    assert externals.find_externals(['cuda'], ['cuda_arch=90'], path) == []
    links = path.parent / 'externals'

    def external(spec, prefix):
        return {'externals': [{'spec': spec, 'prefix': str(prefix)}], 'buildable': False}

    assert yaml.safe_load(path.read_text()) == {'packages': {
        'cmake': {'externals': [{'spec': 'cmake@3.25', 'prefix': '/usr'}]},
        'openmpi': external('openmpi@4.1.4', links / 'openmpi-4.1.4'),
        'openblas': external('openblas@0.3.21 threads=pthreads', links / 'openblas-0.3.21'),
        'autoconf-archive': external('autoconf-archive@2022.09.03', '/usr'),
        'mpi': {'require': 'openmpi'}, 'blas': {'require': 'openblas'}, 'lapack': {'require': 'openblas'},
        'all': {'variants': ['cuda_arch=90']},
    }}  # fmt: skip
    assert path.read_text().startswith('# What ci/provision found on this machine')
    assert sorted(one.name for one in (links / 'openmpi-4.1.4/bin').iterdir()) == ['mpicc', 'mpirun']
    assert (links / 'openmpi-4.1.4/include/mpi.h').exists() and (links / 'openmpi-4.1.4/lib/libmpi.so').exists()
    assert (links / 'openblas-0.3.21/lib/libopenblas.so').exists()
    (links / 'openblas-0.3.21/lib').unlink()
    (links / 'openblas-0.3.21/lib').symlink_to('/elsewhere')  # of an earlier one
    externals.find_externals(['cuda'], [], path)
    assert (links / 'openblas-0.3.21/lib').readlink() == tmp_path / 'blas/lib'
    assert yaml.safe_load(path.read_text())['packages']['all'] == {}


def test_the_threads_of_openblas_are_known_by_its_library(tmp_path, answers):
    (tmp_path / 'openblas-openmp').mkdir()
    (tmp_path / 'openblas-openmp/libopenblas.so').touch()
    (answers / 'pkg-config--variable=libdir').write_text(f'{tmp_path}/openblas-openmp\n')
    path = tmp_path / 'stack/externals.yaml'
    externals.find_externals(['cuda'], [], path)
    (openblas,) = yaml.safe_load(path.read_text())['packages']['openblas']['externals']
    assert openblas['spec'] == 'openblas@0.3.21 threads=openmp'


@each_row(
    ('absent', 'built'),
    [
        ('ompi_info--version', 'openmpi'), ('ompi_info--parsable', 'openmpi'),
        ('pkg-config--modversion', 'openblas'), ('pkg-config--variable=libdir', 'openblas'),
    ],
)  # fmt: skip
def test_what_a_machine_lacks_is_built(tmp_path, answers, absent, built):
    (answers / absent).rename(tmp_path / 'kept')
    path = tmp_path / 'stack/externals.yaml'
    assert externals.find_externals(['cuda'], [], path) == [
        f'{name}: not found on this machine; Spack builds it' for name in (built, 'autoconf-archive')
    ]
    (tmp_path / 'kept').rename(answers / absent)
    packages = yaml.safe_load(path.read_text())['packages']
    assert built not in packages and ('mpi' in packages) is (built != 'openmpi')
    assert ('blas' in packages, 'lapack' in packages) == (built != 'openblas',) * 2
