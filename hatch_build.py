# SPDX-License-Identifier: BSD-3-Clause
"""Put into the wheel what a site needs besides the package `plumbline`; see docs/adr/0015-install.md.

An editable install gets none of it: there the clone is the checkout.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = ('postprocess',)  # imported by the command; not a top-level name of the wheel
CHECKOUT = (  # written by `plumbline init`
    '.gitignore',
    'LICENSE',
    'checks',
    'ci',
    'reframe_settings',
    'site_configs/localhost/published.csv',
    'site_configs/localhost/site.yaml',
    'spack_envs/common',
    'spack_envs/localhost',
    'spack_envs/release.yaml',
    'spack_envs/repo',
)
_OF_A_CLONE = ('ci/test', 'ci/style')  # need the tests


class PartsOfACheckout(BuildHookInterface):
    """Add :data:`LIBRARY` and :data:`CHECKOUT` to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != 'standard':
            return
        for folder, parts in (('_library', LIBRARY), ('_checkout', CHECKOUT)):
            for name in (name for part in parts for name in self._files(part)):
                build_data['force_include'][f'{self.root}/{name}'] = f'plumbline/{folder}/{name}'

    def _files(self, part: str) -> list[str]:
        root = Path(self.root)
        found = [path for path in (root / part).rglob('*') if path.is_file()] or [root / part]
        names = [path.relative_to(root).as_posix() for path in found if '__pycache__' not in path.parts]
        return [name for name in names if name not in _OF_A_CLONE]
