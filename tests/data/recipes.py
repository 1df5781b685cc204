# SPDX-License-Identifier: BSD-3-Clause
"""Writes ``recipes.json`` anew: the versions and variants that the pinned recipes know of our manifests' packages.

python tests/data/recipes.py        with SPACK_ROOT, spack on PATH, or the Spack that ci/provision got
"""

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from plumbline.stacks.install import run_spack  # noqa: E402
from plumbline.stacks.manifest import SPACK_ENVS, Manifest, package_of, read_manifest  # noqa: E402

LIST = Path(__file__).with_name('recipes.json')
ASK = """
import json, sys, spack.repo
found = {}
for name in sys.argv[1:]:
    package = spack.repo.PATH.get_pkg_class(name)
    found[name] = {
        'versions': sorted(map(str, package.versions)),
        'variants': sorted(package.variant_names()),
    }
print('recipes: ' + json.dumps(found))
"""


def packages_of(manifest: Manifest) -> dict[str, dict]:
    """The `packages` sections of a manifest and its includes merged; a key of a later one wins."""
    merged: dict[str, dict] = {}
    for name, content in manifest.sections:
        for package, settings in content.items() if name == 'packages' else ():
            merged[package] = merged.get(package, {}) | settings
    return merged


def packages() -> list[str]:
    """Every package of a root spec or a `packages` section, without virtual ones."""
    names = set()
    for path in SPACK_ENVS.glob('*/*/spack.yaml'):
        manifest = read_manifest(path)
        names |= {package_of(spec) for spec in manifest.specs}
        for settings in packages_of(manifest).values():
            names |= {package_of(external['spec']) for external in settings.get('externals', [])}
    return sorted(names)


def main():
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, 'ask.py')
        script.write_text(ASK)
        Path(folder, 'spack.yaml').write_text(f'spack: {{include: [{SPACK_ENVS / "common"}], specs: []}}')
        said = run_spack('-e', folder, 'python', str(script), *packages(), log=Path(folder, 'log'))
    (line,) = [line for line in said.splitlines() if line.startswith('recipes: ')]
    tag = next(c for n, c in read_manifest(SPACK_ENVS / 'localhost/cpu/spack.yaml').sections if n == 'repos')
    found = {'recipes': tag['builtin']['tag'], **json.loads(line.removeprefix('recipes: '))}
    lines = (f'{json.dumps(name)}: {json.dumps(content)}' for name, content in found.items())
    LIST.write_text('{\n' + ',\n'.join(lines) + '\n}\n')


if __name__ == '__main__':
    main()
