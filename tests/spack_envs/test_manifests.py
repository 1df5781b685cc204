# SPDX-License-Identifier: BSD-3-Clause
"""Every manifest of spack_envs/: it reads, its includes are there, and its specs exist in the pinned recipes."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from data.recipes import packages_of
from rows import each_row

from plumbline.errors import SiteError
from plumbline.site.sites import load_site, site_names
from plumbline.stacks.manifest import SPACK_ENVS, backs, features_of, known_benchmarks, package_of, read_manifest

MANIFESTS = sorted(SPACK_ENVS.glob('*/*/spack.yaml'))
RECIPES = json.loads((Path(__file__).parent.parent / 'data/recipes.json').read_text())  # made by data/recipes.py
VARIANT = re.compile(r'[+~]([a-z][\w-]*)|\b([a-z][\w-]*):?=')


each_manifest = each_row('manifest', [read_manifest(path) for path in MANIFESTS])


def versions_and_variants_exist(spec: str, external: bool = False):
    known = RECIPES[package_of(spec)]
    version = re.search(r'@=?([\w.-]+)', spec)
    assert version, f'{spec}: has no version'
    if not external:  # an external may be older or newer than all that the recipe builds
        assert version[1] in known['versions'], f'{spec}: the recipes know no such version'
    for names in VARIANT.findall(spec.split(' ', 1)[1] if ' ' in spec else ''):
        assert ''.join(names) in known['variants'], f'{spec}: the recipes know no such variant'


@each_manifest
def test_root_specs_are_exact_and_exist(manifest):
    assert manifest.specs
    for spec in manifest.specs:
        versions_and_variants_exist(spec)


@each_manifest
def test_externals_name_packages_with_prefixes(manifest):
    for settings in packages_of(manifest).values():
        for external in settings.get('externals', []):
            versions_and_variants_exist(external['spec'], external=True)
            assert external['prefix'].startswith('/')


@each_manifest
def test_a_described_site_states_target_compiler_mpi_and_the_architecture_of_its_gpus(manifest):
    """`+cuda` without cuda_arch, and likewise ROCm, does not concretize."""
    if manifest.path.parent.parent.name == 'localhost':
        return  # found by ci/provision
    packages = packages_of(manifest)
    assert packages['all']['require'][0].startswith('target=')
    for virtual in ('c', 'cxx', 'fortran', 'mpi'):
        (required,) = packages[virtual]['require']
        assert packages[package_of(required)]['buildable'] is False
        (external,) = packages[package_of(required)]['externals']
        assert external['spec'].split(' ')[0] == required
    for kind, variant in (('+cuda', r'cuda_arch=\d\d'), ('+rocm', r'amdgpu_target=gfx\w+')):
        if any(kind in spec for spec in manifest.specs):
            (stated,) = packages['all']['variants']
            assert re.fullmatch(variant, stated)


@each_manifest
def test_a_stack_with_comm_scope_has_a_cuda_that_its_recipe_takes(manifest):
    recipe = SPACK_ENVS / 'repo/spack_repo/plumbline/packages/comm_scope/package.py'
    (first,) = re.findall(r"conflicts\('\^cuda@([0-9]+):'", recipe.read_text())
    for external in packages_of(manifest).get('cuda', {}).get('externals', ()):
        version = int(external['spec'].partition('@')[2].partition('.')[0])
        assert version < int(first) or not any(spec.startswith('comm-scope') for spec in manifest.specs)


@each_manifest
def test_every_committed_lock_belongs_to_its_manifest(manifest):
    assert manifest.lock_fault() is None


def test_the_list_of_recipes_is_of_the_pinned_ones():
    repos = yaml.safe_load((SPACK_ENVS / 'common/repos.yaml').read_text())['repos']
    assert RECIPES['recipes'] == repos['builtin']['tag']
    assert repos['builtin']['tag'] in repos['builtin']['destination']


def test_every_feature_that_a_site_promises_is_backed_by_a_spec():
    for name in site_names():
        for stack in load_site(name).environs.values():
            if stack.provider == 'spack':
                specs = read_manifest(SPACK_ENVS / name / stack.name / 'spack.yaml').specs
                for feature in stack.features:
                    assert any(backs(spec, feature) for spec in specs), f'{name}: {stack.name} promises {feature}'


def test_the_stack_of_each_kind_has_its_benchmarks():
    for kind, expected in {
        'cpu': {'babelstream-omp', 'osu', 'hpl', 'hpcg', 'ior', 'mdtest', 'hpcc'},
        'cuda': {'babelstream-cuda', 'osu-cuda', 'comm-scope-cuda'},
        'rocm': {'babelstream-hip', 'osu-rocm', 'comm-scope-hip'},
    }.items():
        assert expected <= set(features_of(read_manifest(SPACK_ENVS / f'localhost/{kind}/spack.yaml').specs))
    for feature, wants in known_benchmarks().items():
        assert 'executables' in wants or 'spec' in wants, feature


@each_row(
    ('spec', 'feature', 'does'),
    [
        ('babelstream@5.0 +omp', 'babelstream-omp', True),
        ('osu-micro-benchmarks@7.4 +cuda ~xccl', 'osu-cuda', True),
        ('osu-micro-benchmarks@7.4 ~cuda', 'osu-cuda', False),
        ('hpl-more@2.3', 'hpl', False),
    ],
)
def test_a_spec_backs_a_feature_only_with_its_variant(spec, feature, does):
    assert backs(spec, feature) is does


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        (None, 'cannot be read: No such file'),
        ('spack: {}', 'expected a Spack environment: the key spack with a list of specs'),
        ('- 1', 'expected sections of Spack configuration, found list'),
        ('spack: [', 'not valid YAML'),
        ('spack: {include: [nowhere], specs: [hpl@2.3]}', 'nowhere: cannot be read'),
        ('spack: {specs: [$cpu]}', 'specs: $cpu'),
    ],
)
def test_a_wrong_manifest_is_a_sentence_with_its_file(tmp_path, text, says):
    path = tmp_path / 'spack.yaml'
    if text:
        path.write_text(text)
    with pytest.raises(SiteError) as raised:
        print(read_manifest(path).specs)
    assert says in str(raised.value) and str(tmp_path) in str(raised.value)


def test_remote_and_optional_includes_are_left_to_spack_and_others_are_read(tmp_path):
    (tmp_path / 'there.yaml').write_text('packages: {all: {target: [zen4]}}\n')
    path, remote, optional = tmp_path / 'spack.yaml', 'https://a.org/x.yaml', '{path: no.yaml, optional: true}'
    path.write_text(f'spack: {{include: [{remote}, {optional}, {{path: there.yaml}}], specs: [hpl@2.3]}}')
    assert read_manifest(path).specs == ['hpl@2.3'] and 'packages' in dict(read_manifest(path).sections)


# The lines of BabelStream 4.0 with options that nvcc does not know before CUDA 10.2
OF_BABELSTREAM = {
    'CMakeLists.txt': 'set(DEFAULT_RELEASE_FLAGS -O3 -march=native)\n',
    'src/cuda/model.cmake': 'set(CMAKE_CUDA_FLAGS "-forward-unknown-to-host-compiler -arch=${CUDA_ARCH}")\n',
}


@pytest.mark.parametrize(('cuda', 'drops'), [('10.1.243', True), ('11.4.2', False)])
def test_babelstream_is_patched_where_nvcc_does_not_know_its_options(tmp_path, cuda, drops):
    """As on Sierra and Lassen, see appendix A of the US DOE study; `satisfies` stands in for Spack's."""
    recipe = SPACK_ENVS / 'repo/spack_repo/plumbline/packages/babelstream/package.py'
    lines = [line for line in recipe.read_text().splitlines() if not line.startswith('from ')]

    def filter_file(pattern, replacement, name, string):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace(pattern, replacement))

    def satisfies(wanted):
        model, limit = wanted.split(' ^cuda@:')
        return model == '+cuda' and tuple(map(int, cuda.split('.')))[:2] <= tuple(map(int, limit.split('.')))

    (tmp_path / 'src/cuda').mkdir(parents=True)
    for name, line in OF_BABELSTREAM.items():
        (tmp_path / name).write_text(line)
    names = {'BuiltinBabelstream': object, 'filter_file': filter_file}
    exec('\n'.join(lines), names)
    package = names['Babelstream']()
    package.spec = SimpleNamespace(satisfies=satisfies)
    package.patch()
    left = {name: (tmp_path / name).read_text() for name in OF_BABELSTREAM}
    assert (left == OF_BABELSTREAM) is not drops
    for option in ('-march=native', '-forward-unknown-to-host-compiler'):
        assert any(option in text for text in left.values()) is not drops
    assert '-O3' in left['CMakeLists.txt'] and '-arch=${CUDA_ARCH}' in left['src/cuda/model.cmake']
