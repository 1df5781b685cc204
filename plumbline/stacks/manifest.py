# SPDX-License-Identifier: BSD-3-Clause
"""Read the stacks of the sites: what ``spack_envs/<site>/<stack>`` requests, and what of it is installed."""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError
from plumbline.files import read_yaml
from plumbline.paths import SPACK_ENVS, software_directory
from plumbline.stacks.lock import LOCK, lock_digest

MANIFEST = 'spack.yaml'
LOCK_INPUTS = 'spack.lock.json'  # beside a committed lock: the digest of its manifest
INSTALLED, SCHEMA = 'stack.json', 1
_BENCHMARKS = Path(__file__).with_name('benchmarks.yaml')


@functools.cache
def known_benchmarks() -> dict[str, dict[str, Any]]:
    """Return ``benchmarks.yaml``: for each feature its executables, Debian packages and Spack spec, as far as known."""
    return read_yaml(_BENCHMARKS)


@dataclass(frozen=True)
class Manifest:
    """A ``spack.yaml`` and the local files that it includes. `sections`: (name, content), its own last."""

    path: Path
    sections: tuple[tuple[str, Any], ...]

    @property
    def lock(self) -> Path:
        return self.path.with_name(LOCK)

    @property
    def specs(self) -> list[str]:
        """The root specs, with the lists of ``definitions`` expanded."""
        return list(self._expanded(spec for name, content in self.sections if name == 'specs' for spec in content))

    def _expanded(self, specs: Iterable[Any]) -> Iterator[str]:
        for spec in specs:
            if isinstance(spec, str) and spec.startswith('$'):
                named = [d[spec[1:]] for n, c in self.sections if n == 'definitions' for d in c if spec[1:] in d]
                if not named:
                    raise SiteError(f'{self.path}: specs: {spec}: expected a list of this name in definitions')
                for items in named:
                    yield from self._expanded(items)
            else:
                yield spec if isinstance(spec, str) else json.dumps(spec, sort_keys=True)

    @property
    def target(self) -> str | None:
        """The microarchitecture that ``packages: all: require`` states last; None: that of the host."""
        every = [content.get('all', {}).get('require', []) for name, content in self.sections if name == 'packages']
        stated = re.findall(r'target=([\w.]+)', json.dumps(every))
        return stated[-1] if stated else None

    def fits_host(self) -> bool:
        """Return True if this host can run code for the stated target; a login node may be too old for it."""
        from archspec.cpu import TARGETS, host

        return self.target not in TARGETS or TARGETS[self.target] <= host()

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of what a lock depends on; comments and unused definitions are ignored."""
        content = [self.specs, [item for item in self.sections if item[0] not in ('definitions', 'include', 'specs')]]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def lock_fault(self) -> str | None:
        """Return why the committed lock does not belong to this manifest; None if it does, or if there is no lock."""
        if not self.lock.exists():
            return None
        renew = f'renew it: ci/provision --site {self.path.parent.parent.name} --lock'
        try:
            made_from = json.loads(self.lock.with_name(LOCK_INPUTS).read_text(encoding='utf-8'))['inputs']
        except (OSError, ValueError, KeyError):
            return f'{self.lock}: expected {LOCK_INPUTS} beside it, with the digest of its spack.yaml; {renew}'
        if made_from != self.digest:
            return f'{self.lock}: spack.yaml changed since it was written; {renew}'
        if lock_digest(self.lock) is None:
            return f'{self.lock}: expected the roots and concrete_specs of a lock of Spack; {renew}'
        return None


def manifest_path(site: str, stack: str) -> Path:
    """Return the path of the ``spack.yaml`` of a stack."""
    return SPACK_ENVS / site / stack / MANIFEST


def read_manifest(path: Path) -> Manifest:
    """Return the manifest at `path` with its local includes. Raises SiteError."""
    own = _yaml(path).get('spack')
    if not isinstance(own, dict) or not isinstance(own.get('specs'), list):
        raise SiteError(f'{path}: expected a Spack environment: the key spack with a list of specs')
    return Manifest(path, (*_included(own.get('include', []), path.parent), *own.items()))


def _included(entries: list[Any], folder: Path) -> Iterator[tuple[str, Any]]:
    for entry in entries:
        where = entry if isinstance(entry, str) else entry.get('path', '')
        path = (folder / where).resolve()
        if '://' in where or not where:
            yield 'remote include', entry
        elif path.is_dir():
            for file in sorted(path.glob('*.yaml')):
                yield from _sections(file)
        elif path.exists() or isinstance(entry, str) or not entry.get('optional'):
            yield from _sections(path)


def _sections(path: Path) -> Iterator[tuple[str, Any]]:
    for name, content in _yaml(path).items():
        if name == 'include':
            yield from _included(content, path.parent)
        yield name, content


def _yaml(path: Path) -> dict[str, Any]:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise SiteError(f'{path}: expected sections of Spack configuration, found {type(content).__name__}')
    return content


def package_of(spec: str) -> str:
    """Return ``hpl`` of ``hpl@2.3 +openmp``."""
    return re.split(r'[^\w.-]', spec, maxsplit=1)[0]


def backs(spec: str, feature: str) -> bool:
    """Return True if the root spec `spec` of a manifest provides the benchmark `feature`."""
    wanted = known_benchmarks()[feature].get('spec')
    if wanted is None or package_of(spec) != package_of(wanted):
        return False
    return set(re.findall(r'\+\w+', wanted)) <= set(re.findall(r'\+\w+', spec))


def features_of(specs: list[str]) -> list[str]:
    """Return the benchmarks that the root specs contain."""
    return [feature for feature in known_benchmarks() if any(backs(spec, feature) for spec in specs)]


def spack_not_reached() -> Path:
    """Return the file that is there while the last `ci/provision` could not reach Spack."""
    return software_directory() / 'spack-not-reached'


@dataclass(frozen=True)
class Installed:
    """A stack of a partition: what its files request, what is installed, and whether the two agree."""

    site: str
    partition: str
    stack: str

    @property
    def folder(self) -> Path:
        return software_directory() / self.site / self.partition / self.stack

    @property
    def activation(self) -> Path:
        """The file that jobs source."""
        return self.folder / 'activate.sh'

    @property
    def externals(self) -> Path:
        """The file of what `ci/provision` found on an undescribed machine; part of the manifest if it exists."""
        return software_directory() / self.site / 'externals.yaml'

    def manifest(self) -> Manifest:
        """Return the manifest that the stack is installed from, with its externals. Raises SiteError."""
        manifest = read_manifest(manifest_path(self.site, self.stack))
        if self.externals.exists():
            return Manifest(manifest.path, (*_sections(self.externals), *manifest.sections))
        return manifest

    def description(self) -> dict[str, Any]:
        """Return the content of ``stack.json``; empty if absent or unknown. Raises SiteError for a later schema."""
        path = self.folder / INSTALLED
        try:
            description = json.loads(path.read_text(encoding='utf-8'))
            later = description['schema'] > SCHEMA
        except (OSError, ValueError, TypeError, KeyError):
            return {}
        if later:
            raise SiteError(f'{path}: was written with schema {description["schema"]}: update Plumbline')
        return description if description['schema'] == SCHEMA else {}

    def provenance(self) -> dict[str, str]:
        """Return what the stack adds to the provenance of each number: lock, Spack's version, root specs with hashes.

        Raises SiteError if the stack was removed, such as while a job waited.
        """
        if description := self.description():
            return description['provenance']
        where = self.folder / INSTALLED
        raise SiteError(f'{where}: cannot be read after the job, so what it ran is not known; run ci/provision again')

    def fault(self) -> str | None:
        """Return why the stack must be installed; None if it is up to date. Raises SiteError."""
        manifest, description = self.manifest(), self.description()
        if wrong := manifest.lock_fault():
            raise SiteError(wrong)
        if not description:
            return 'not installed'
        if description['inputs'] != manifest.digest:
            return 'its spack.yaml or a file included there changed'
        committed = lock_digest(manifest.lock)
        if committed not in (None, description['lock']) or lock_digest(self.folder / LOCK) != description['lock']:
            return 'its spack.lock changed'
        lost = [path for path in (self.activation, *map(Path, description['programs'])) if not path.exists()]
        return f'{lost[0]} is missing' if lost else None
