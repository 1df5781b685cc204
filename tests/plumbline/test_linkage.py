# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of a stack are linked with, on small programs that gcc builds here."""

import importlib.util
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from spack_stand_in import StandIn

from plumbline.paths import SPACK_ENVS
from plumbline.stacks import linkage
from plumbline.stacks.install import BringUp, StackError
from plumbline.stacks.linkage import MISSING, OK, UNKNOWN, Finding
from plumbline.stacks.manifest import Installed, Manifest

pytestmark = pytest.mark.skipif(not shutil.which('gcc') or not shutil.which('ldd'), reason='no gcc, or no ldd')

OSU = 'int MPI_Init(void); int hipFree(void); int main(void) { return MPI_Init() + (ROCM ? hipFree() : 0); }\n'
HIP = 'int hipFree(void); int main(void) { return hipFree(); }\n'
PLAIN = 'int main(void) { return 0; }\n'


@dataclass
class Built:
    """A stack folder with stand-in libraries, each in a folder of its own below it, and programs that gcc links."""

    folder: Path
    specs: list[str]

    def library(self, path: str, function: str = '', *needs: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        code = f'int {function}(void) {{ return 0; }}' if function else ''
        self.gcc(code, '-shared', '-fPIC', f'-Wl,-soname,{file.name}', '-o', str(file), '-Wl,--no-as-needed', *needs)
        return file

    def program(self, name: str, code: str, *flags: str) -> Path:
        (self.folder / 'bin').mkdir(exist_ok=True)
        self.gcc(code, '-o', str(self.folder / 'bin' / name), *flags)
        return self.folder / 'bin' / name

    def gcc(self, code: str, *words: str):
        subprocess.run(
            ['gcc', '-x', 'c', '-', '-x', 'none', *words], input=code, text=True, check=True, cwd=self.folder
        )

    def osu(self, *flags: str, rocm: bool = True, mpi: str = 'cray/ofi/amd/lib/libmpi_amd.so.12'):
        needs = [*self.linked(mpi), *(self.linked('rocm/lib/libamdhip64.so.6') if rocm else ())]
        self.program('osu_latency', OSU, f'-DROCM={int(rocm)}', '-Wl,--as-needed', *flags, *needs)

    def linked(self, path: str) -> list[str]:
        return [str(self.folder / path), f'-Wl,-rpath,{(self.folder / path).parent}']

    def look(self, activation: str = '', **mpi) -> list[Finding]:
        external = {'external': {'path': str(self.folder / 'cray/ofi/amd')}}
        nodes = {
            'z': {'name': 'zlib', 'version': '1.3', 'hash': 'z'},
            'o': {'name': 'osu', 'hash': 'o', 'dependencies': [
                {'hash': of, 'parameters': {'virtuals': [virtual]}} for of, virtual in (('z', 'zlib-api'), ('m', 'mpi'))
            ]},
            'm': {'name': 'cray-mpich', 'version': '8.1.31', 'hash': 'm', **external, **mpi},
        }  # fmt: skip
        (self.folder / 'spack.lock').write_text(json.dumps({'roots': [], 'concrete_specs': nodes}))
        (self.folder / 'activate.sh').write_text(f'{activation}\nreturn 0\n')
        manifest = Manifest(self.folder / 'spack.yaml', (('specs', self.specs),))
        return linkage.look(self.folder, manifest, self.folder / 'activate.sh', [str(self.folder / 'bin')])


@pytest.fixture
def rocm(tmp_path):
    """A stack of OSU for ROCm and Cray MPICH; `bin` is still empty."""
    built = Built(tmp_path, ['osu-micro-benchmarks@7.4 +rocm ~xccl'])
    built.library('cray/ofi/amd/lib/libmpi_amd.so.12', 'MPI_Init')
    built.library('other/lib/libmpi.so.40', 'MPI_Init')
    built.library('rocm/lib/libamdhip64.so.6', 'hipFree')
    built.library('cray/gtl/lib/libmpi_gtl_hsa.so')
    return built


def gtl_flags(spec):
    """The flags that our recipes pass."""
    module = importlib.util.spec_from_file_location('gtl', SPACK_ENVS / 'repo/spack_repo/plumbline/gtl.py')
    gtl = importlib.util.module_from_spec(module)
    module.loader.exec_module(gtl)
    return [word for words in gtl.gtl_flags(spec) for word in words.split()]


class Spec(dict):
    """The part of a spec of Spack that gtl.py asks."""

    def __init__(self, satisfied, **more):
        self.satisfied = satisfied
        self.__dict__ |= more

    def satisfies(self, what):
        return what in self.satisfied


def states(rows: list[Finding]) -> dict[tuple[str, str], str]:
    return {(row.program, row.wanted): row.state for row in rows}


def test_osu_with_the_flags_of_our_recipe_has_the_gtl_although_it_uses_no_symbol_of_it(rocm):
    folder = f'{rocm.folder}/cray/gtl/lib'
    mpi = Spec(['+rocm'], extra_attributes={'gtl': folder})
    spec = Spec(['^[virtuals=mpi] cray-mpich'])
    spec['mpi'] = mpi
    rocm.osu(*gtl_flags(spec))
    rows = rocm.look()
    assert linkage.missing(rows) is None
    assert states(rows) == {
        ('osu_latency', 'cray-mpich@8.1.31, and no other MPI'): OK, ('osu_latency', 'libamdhip64.so'): OK,
        ('osu_latency', 'libmpi_gtl_hsa.so'): OK,
    }  # fmt: skip
    assert f'{folder}/libmpi_gtl_hsa.so' in linkage.table(rows)
    assert linkage.summary(rows) == '3 ok'


def test_the_gtl_of_another_place_is_asked_of_the_recipe_of_cray_mpich():
    class Package:
        gtl_lib = {'ldflags': ['-L/gtl', '-Wl,-rpath,/gtl'], 'ldlibs': ['-lmpi_gtl_cuda']}

    spec = Spec(['^[virtuals=mpi] cray-mpich'])
    spec['mpi'] = Spec(['+cuda'], package=Package())
    assert gtl_flags(spec) == ['-L/gtl', '-Wl,-rpath,/gtl', '-Wl,--no-as-needed', '-lmpi_gtl_cuda']
    Package.gtl_lib = {}  # of one without +cuda
    assert gtl_flags(spec) == []
    assert gtl_flags(Spec([])) == []


def test_a_gtl_that_the_linker_dropped_is_missing(rocm):
    rocm.osu(*rocm.linked('cray/gtl/lib/libmpi_gtl_hsa.so'))
    assert 'osu_latency: expected libmpi_gtl_hsa.so' in linkage.missing(rocm.look())
    assert linkage.missing(rocm.look(name='openmpi')) is None  # which has no such library


def test_osu_that_was_built_without_rocm_is_told(rocm):
    rocm.osu('-Wl,--no-as-needed', *rocm.linked('cray/gtl/lib/libmpi_gtl_hsa.so'), rocm=False)
    assert linkage.missing(rocm.look()) == 'osu_latency: expected libamdhip64.so, found none'


def test_another_mpi_and_a_second_mpi_are_told(rocm):
    gtl = ['-Wl,--no-as-needed', *rocm.linked('cray/gtl/lib/libmpi_gtl_hsa.so')]
    rocm.osu(*gtl, mpi='other/lib/libmpi.so.40')
    other = f'{rocm.folder}/other/lib/libmpi.so.40'
    said = linkage.missing(rocm.look())
    assert 'cray-mpich@8.1.31' in said and other in said
    rocm.osu(*gtl, *rocm.linked('other/lib/libmpi.so.40'))
    said = linkage.missing(rocm.look())
    assert other in said and f'{rocm.folder}/cray/ofi/amd/lib/libmpi_amd.so.12' in said


@pytest.mark.parametrize('link', ['libmpi.so.40', 'libmpi.so'])  # of Debian 12, and of Debian 13
def test_an_mpi_whose_prefix_holds_a_link_to_its_library_is_that_mpi(rocm, link):
    """As Debian's alternatives and Cray's `default` folders have it."""
    rocm.osu(mpi='other/lib/libmpi.so.40')
    prefix = rocm.folder / 'prefix'
    (prefix / 'lib64').mkdir(parents=True)
    wanted = ('osu_latency', 'openmpi@5.0.5, and no other MPI')
    mpi = {'name': 'openmpi', 'version': '5.0.5', 'external': {'path': str(prefix)}}
    assert states(rocm.look(**mpi))[wanted] == MISSING
    (prefix / 'lib64' / link).symlink_to(rocm.folder / 'other/lib/libmpi.so.40')
    assert states(rocm.look(**mpi))[wanted] == OK


def test_an_mpi_of_spack_is_known_by_its_hash(rocm):
    rocm.library(f'store/openmpi-5.0.5-{"k" * 32}/lib/libmpi.so.40', 'MPI_Init')
    rocm.osu(mpi=f'store/openmpi-5.0.5-{"k" * 32}/lib/libmpi.so.40')
    mpi = {'name': 'openmpi', 'version': '5.0.5', 'external': None}
    wanted = ('osu_latency', 'openmpi@5.0.5, and no other MPI')
    assert states(rocm.look(**mpi, hash='k' * 32))[wanted] == OK
    assert states(rocm.look(**mpi, hash='j' * 32))[wanted] == MISSING


def test_a_library_that_is_gone_is_named(rocm):
    rocm.osu('-Wl,--no-as-needed', *rocm.linked('cray/gtl/lib/libmpi_gtl_hsa.so'))
    shutil.rmtree(rocm.folder / 'cray/gtl')
    assert 'libmpi_gtl_hsa.so, which is not on this node' in linkage.missing(rocm.look())


def test_a_library_that_no_benchmark_requires_may_be_of_the_compute_nodes_alone(rocm):
    rocm.library('driver/libcuda.so.1')
    needs = ['-Wl,--no-as-needed', *rocm.linked('cray/gtl/lib/libmpi_gtl_hsa.so'), *rocm.linked('driver/libcuda.so.1')]
    rocm.osu(*needs)
    shutil.rmtree(rocm.folder / 'driver')
    assert linkage.missing(rocm.look()) is None


def test_programs_that_ldd_cannot_look_at_are_not_taken_for_static_ones(rocm):
    rocm.osu('-Wl,--no-as-needed', *rocm.linked('cray/gtl/lib/libmpi_gtl_hsa.so'))
    for fails in ('return 1', 'export PATH=/nowhere'):
        said = linkage.missing(rocm.look(activation=fails))
        assert said == 'osu_latency: expected to be looked at by ldd, found no answer in the environment of jobs'


def test_the_plugin_of_nccl_is_found_as_a_job_finds_it(rocm):
    rocm.specs = ['aws-ofi-nccl@1.19.0 ~cuda +rocm']
    plugin, fabric, variable = linkage.missing(rocm.look()).split('; ')
    assert 'ccl-net.so' in plugin and 'libfabric.so' in fabric and 'NCCL_NET' in variable
    rocm.library('libfabric/lib/libfabric.so.1', 'fi_getinfo')
    rocm.library('plugin/lib/librccl-net.so', '', *rocm.linked('libfabric/lib/libfabric.so.1'))
    set_up = f"export LD_LIBRARY_PATH={rocm.folder}/plugin/lib NCCL_NET='AWS Libfabric'"
    assert linkage.missing(rocm.look(set_up)) is None


def test_a_script_is_not_looked_at_and_a_program_that_is_not_there_is_missing(rocm):
    rocm.specs = ['ior@4.0.0', 'coralgemm@2025.11 +rocm']
    (rocm.folder / 'bin').mkdir()
    script = rocm.folder / 'bin/ior'
    script.write_text('#!/bin/sh\n')
    script.chmod(0o755)
    rows = rocm.look()
    assert states(rows)['ior', 'shared libraries'] == UNKNOWN
    assert 'gemm: expected the program' in linkage.missing(rows)


def test_a_stack_whose_program_lacks_its_library_is_not_up_and_the_sentence_names_it(rocm, monkeypatch):
    """Later the library comes, and goes again: the installed stack says so without a Spack process."""
    stand_in = StandIn(rocm.folder)
    envs = rocm.folder / 'spack_envs'
    manifest = envs / 'here/rocm/spack.yaml'
    manifest.parent.mkdir(parents=True)
    manifest.write_text('spack: {specs: [babelstream@5.0 +hip +rocm]}')
    stand_in.serves(monkeypatch, rocm.folder / 'software', envs)
    stack = Installed('here', 'node', 'rocm')
    stand_in.more(rocm.program('hip-stream', PLAIN))
    with pytest.raises(StackError, match=r'stack rocm of here:node: .*hip-stream: expected libamdhip64'):
        BringUp(stack).run()
    assert stack.fault() == 'not installed'
    stand_in.more(rocm.program('hip-stream', HIP, *rocm.linked('rocm/lib/libamdhip64.so.6')))
    BringUp(stack).run()
    assert stack.provenance()['stack_linkage'] == '1 ok'
    calls = len(stand_in.calls())
    (rocm.folder / 'rocm/lib/libamdhip64.so.6').unlink()
    assert 'hip-stream: expected libamdhip64.so, found libamdhip64.so.6' in linkage.missing(linkage.look_again(stack))
    assert len(stand_in.calls()) == calls
