# SPDX-License-Identifier: BSD-3-Clause
"""Real Spack: the localhost stack through real jobs, every manifest concretized, a site without network.

Skipped where no Spack is at hand (SPACK_ROOT or PATH), as in CI. Takes minutes. PLUMBLINE_TEST_SPACK_CONFIG names a
folder of Spack configuration to use, such as mirrors.yaml where sources cannot be downloaded.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from archspec.cpu import TARGETS
from scratch import ROOT, ScratchClone, cases_in

from plumbline.stacks.install import run_spack
from plumbline.stacks.manifest import SPACK_ENVS

pytestmark = pytest.mark.whole_machine

MANIFESTS = sorted(SPACK_ENVS.glob('*/*/spack.yaml'))
GPU_OF_NOBODY = {
    'cuda': 'cuda: {externals: [{spec: cuda@12.4.1, prefix: /opt/cuda}], buildable: false}',
    'rocm': '\n    '.join(
        f'{name}: {{externals: [{{spec: {spec}, prefix: /opt/rocm}}], buildable: false}}'
        for name, spec in (
            ('hip', 'hip@6.2.4'), ('hsa-rocr-dev', 'hsa-rocr-dev@6.2.4'),
            ('llvm-amdgpu', 'llvm-amdgpu@6.2.4 +rocm-device-libs'),
        )
    ),
}  # fmt: skip
OTHER = re.compile(r'target=(power9le|ppc64le|neoverse_v2)')
MODULES = re.compile(r'\n *modules: .*')


@pytest.fixture(scope='module')
def spack_root():
    found = os.environ.get('SPACK_ROOT') or shutil.which('spack')
    if not found:
        pytest.skip('no Spack: neither SPACK_ROOT nor spack on PATH')
    return str(Path(found).resolve().parent.parent) if found.endswith('spack/bin/spack') else found


def with_configuration(clone: ScratchClone):
    if chosen := os.environ.get('PLUMBLINE_TEST_SPACK_CONFIG'):
        shutil.copytree(chosen, clone.software / 'spack-config')


@pytest.fixture(scope='module')
def machine(tmp_path_factory, spack_root):
    """A clone whose localhost CPU stack was installed by ci/provision."""
    clone = ScratchClone(tmp_path_factory.mktemp('machine'))
    with_configuration(clone)
    answer = clone.run(
        sys.executable, '-m', 'ci.provision', '--no-packages',
        timeout=1800, PLUMBLINE_SITE='localhost', SPACK_ROOT=spack_root,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr
    return clone


def test_every_program_of_the_localhost_stack_runs_in_a_job(machine):
    shutil.copy(ROOT / 'tests/data/stack_programs.py', machine.root / 'checks')
    run = machine.reframe(
        '-r', checks='checks/stack_programs.py', PLUMBLINE_SITE='localhost', SPACK_ROOT='/nonexistent'
    )
    assert run.returncode == 0, run.stdout
    for name in ('BabelStream', 'OsuLatency', 'Hpl', 'Hpcg', 'Ior', 'Mdtest'):
        assert re.search(rf'OK\S* \] \(\d/6\) {name} ', run.stdout), run.stdout
    cases = cases_in(max(machine.results.glob('reports/*.json')))
    assert all('/store/' in case['record']['provenance']['binary'] for case in cases)


def test_a_second_provision_starts_no_spack_process(machine):
    """Its SPACK_ROOT does not exist: a process would fail."""
    answer = machine.run(
        sys.executable, '-m', 'ci.provision', '--no-packages', PLUMBLINE_SITE='localhost', SPACK_ROOT='/nonexistent'
    )
    assert answer.returncode == 0
    first, second, *rows = answer.stdout.splitlines()
    assert first == 'plumbline: site localhost: cpu of node: up to date'
    assert second.startswith('plumbline: stack cpu of node: linkage: ') and 'missing' not in answer.stdout
    assert any(re.match(r'  ok +osu_latency +openmpi@\S+, and no other MPI +/', row) for row in rows)


@pytest.mark.parametrize('path', MANIFESTS, ids=lambda path: f'{path.parent.parent.name}/{path.parent.name}')
def test_each_manifest_concretizes_with_a_real_spack(machine, spack_root, tmp_path, monkeypatch, path):
    """Spack concretizes for processors of its host's family only: sites of others are tried with that of the host.

    Spack 1.2 loads the modules of a compiler while it concretizes, which are on the machine alone.
    """
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(machine.software))
    monkeypatch.setenv('SPACK_ROOT', spack_root)
    site, stack = path.parts[-3:-1]
    text = path.read_text().replace('../../common', str(SPACK_ENVS / 'common'))
    text = MODULES.sub('', text)
    if (stated := OTHER.search(text)) and TARGETS[stated[1]].family != TARGETS[platform.machine()]:
        text = OTHER.sub(f'target={platform.machine()}', text)
    if site == 'localhost':
        text = text.replace('common\n', f'common\n    - {machine.software}/localhost/externals.yaml\n')
        variant = {'cuda': 'cuda_arch=90', 'rocm': 'amdgpu_target=gfx90a'}.get(stack)
        if variant:
            text += f'  packages:\n    all: {{variants: [{variant}]}}\n    {GPU_OF_NOBODY[stack]}\n'
    (tmp_path / 'spack.yaml').write_text(text)
    other_processors = ['-c', 'concretizer:targets:host_compatible:false']
    run_spack(*other_processors, '-e', str(tmp_path), 'concretize', log=tmp_path / 'log', show=False)
    assert json.loads((tmp_path / 'spack.lock').read_text())['roots']


def test_babelstream_of_sierra_has_no_option_that_its_nvcc_does_not_know(machine, spack_root, tmp_path, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(machine.software))
    monkeypatch.setenv('SPACK_ROOT', spack_root)
    text = (SPACK_ENVS / 'sierra/cuda/spack.yaml').read_text().replace('../../common', str(SPACK_ENVS / 'common'))
    text = re.sub('- \\$doe2023_cuda\n *- .*', '- babelstream@4.0 +cuda', MODULES.sub('', text))
    (tmp_path / 'spack.yaml').write_text(OTHER.sub(f'target={platform.machine()}', text))
    words = ['-c', 'concretizer:targets:host_compatible:false', '-e', str(tmp_path)]
    for command in (['concretize'], ['patch', 'babelstream']):
        run_spack(*words, *command, log=tmp_path / 'log', show=False)
    said = run_spack(*words, 'location', '--source-dir', 'babelstream', log=tmp_path / 'log', show=False)
    source = Path(said.splitlines()[-1])
    assert '-march=native' not in (source / 'CMakeLists.txt').read_text()
    assert '-forward-unknown' not in (source / 'src/cuda/model.cmake').read_text().partition('set(CMAKE_CUDA_FLAGS')[2]


ASK = """
import inspect, spack.repo
theirs, *_ = [one for one in spack.repo.PATH.repos if one.namespace == 'builtin']
print('enabled:', "--enable-rocm" in inspect.getsource(theirs.get_pkg_class('osu-micro-benchmarks')))
"""


def test_the_pinned_recipes_still_need_our_line_for_osu_with_rocm(machine, spack_root, tmp_path, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(machine.software))
    monkeypatch.setenv('SPACK_ROOT', spack_root)
    (tmp_path / 'ask.py').write_text(ASK)
    (tmp_path / 'spack.yaml').write_text(f'spack: {{include: [{SPACK_ENVS / "common"}], specs: []}}')
    said = run_spack('-e', str(tmp_path), 'python', str(tmp_path / 'ask.py'), log=tmp_path / 'log')
    assert 'enabled: False' in said, (
        'the pinned recipes contain spack-packages#5613: drop --enable-rocm from our recipe of osu-micro-benchmarks'
    )


SMALL_SITE = """\
descr: one small stack
hostnames: [nowhere]
partitions:
  - {{name: node, scheduler: local, launcher: local, environs: [cpu]}}
environments:
  - {{name: cpu, provider: spack, features: [babelstream-omp]}}
"""
SMALL_STACK = """\
spack:
  include: [../../common]
  specs: [babelstream@5.0 +omp]
  packages:
    all: {{require: [target={machine}]}}
    cmake: {{externals: [{{spec: cmake@{cmake}, prefix: /usr}}], buildable: false}}
    gmake: {{externals: [{{spec: gmake@4, prefix: /usr}}], buildable: false}}
    gcc:
      externals:
        - spec: gcc@{gcc} languages:='c,c++'
          prefix: /usr
          extra_attributes: {{compilers: {{c: /usr/bin/gcc, cxx: /usr/bin/g++}}}}
"""


def says(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def small_clone(folder: Path) -> ScratchClone:
    clone = ScratchClone(folder)
    clone.site_file.write_text(SMALL_SITE.format())
    gcc, cmake = says('/usr/bin/gcc', '-dumpfullversion').strip(), says('/usr/bin/cmake', '--version').split()[2]
    manifest = clone.root / 'spack_envs/demo/cpu/spack.yaml'
    manifest.parent.mkdir(parents=True)
    manifest.write_text(SMALL_STACK.format(gcc=gcc, cmake=cmake, machine=platform.machine()))
    return clone


@pytest.mark.parametrize('binaries', [False, True], ids=['sources', 'binaries'])
def test_a_site_without_network_installs_what_another_machine_exported(tmp_path, spack_root, binaries):
    there, here = small_clone(tmp_path / 'there'), small_clone(tmp_path / 'a-longer-name-for-here')
    with_configuration(there)
    carried = tmp_path / 'carried'
    locked = there.run(sys.executable, '-m', 'ci.provision', '--lock', SPACK_ROOT=spack_root)
    assert locked.returncode == 0, locked.stdout + locked.stderr
    export = ['--export', str(carried), *(['--binaries'] if binaries else [])]
    exported = there.run(sys.executable, '-m', 'ci.provision', *export, SPACK_ROOT=spack_root, timeout=900)
    assert exported.returncode == 0, exported.stdout + exported.stderr
    for name in ('spack.lock', 'spack.lock.json'):
        shutil.copy(there.root / 'spack_envs/demo/cpu' / name, here.root / 'spack_envs/demo/cpu')
    no_network = {
        'SPACK_ROOT': '', 'GIT_CONFIG_GLOBAL': '/dev/null', 'GIT_CONFIG_COUNT': '1', 'GIT_CONFIG_VALUE_0': 'https://',
        'GIT_CONFIG_KEY_0': 'url.file:///nonexistent/.insteadOf', 'https_proxy': 'http://127.0.0.1:9',
        'PATH': f'{Path(sys.executable).parent}:/usr/bin:/bin',
    }  # fmt: skip
    imported = here.run(sys.executable, '-m', 'ci.provision', '--import', str(carried), timeout=900, **no_network)
    assert imported.returncode == 0, imported.stdout + imported.stderr
    log = (here.software / 'demo/node/cpu/log.txt').read_text()
    built = re.search(r"babelstream: Executing phase: 'build'", log)
    assert bool(built) is not binaries, log
    activation = here.software / 'demo/node/cpu/activate.sh'
    run = subprocess.run(
        ['bash', '-c', f'source "{activation}" && omp-stream --arraysize 1024 --numtimes 2'], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert 'Triad' in run.stdout, run.stdout + run.stderr
    incomplete = here.run(sys.executable, '-m', 'ci.provision', '--import', str(tmp_path), **no_network)
    assert incomplete.returncode == 2
    assert 'expected a complete folder of ci/provision --export' in incomplete.stderr
