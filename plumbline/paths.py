# SPDX-License-Identifier: BSD-3-Clause
"""Locate the checkout, its parts, and the directories of results and software."""

import os
import re
import sys
from pathlib import Path

from plumbline import settings
from plumbline.errors import InputError

# ReFrame runs `$(...)` in paths and replaces $, % and {}; DuckDB takes *, ? and [] as patterns; a colon ends a folder
# in PATH
_SPECIAL = re.compile(r"""[\x00-\x1f\x7f$`"'\\:*?\[\]{}%#&;()<>|!^]""")
_PACKAGE = Path(__file__).resolve().parent


def is_checkout(folder: Path) -> bool:
    """Return True if `folder` holds the parts that a site works with: a clone, or what ``plumbline init`` wrote."""
    return (folder / 'reframe_settings' / 'settings.py').is_file() and (folder / 'site_configs').is_dir()


def _find_root() -> Path:
    """Return the clone that this module is in, else ``$PLUMBLINE_ROOT``, else the nearest checkout around the current
    folder, else the current folder."""
    if is_checkout(_PACKAGE.parent):
        return _PACKAGE.parent
    if chosen := settings.ROOT.get():
        return Path(chosen).absolute()
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the current folder was deleted
        return Path('/')
    return next(filter(is_checkout, (here, *here.parents)), here)


ROOT = _find_root()
SUITE_SITES = ROOT / 'site_configs'
SPACK_ENVS = ROOT / 'spack_envs'
SCHEMAS = _PACKAGE / 'schemas'
# Only a wheel has these two: the post-processing, and the files that ``plumbline init`` writes.
_LIBRARY = _PACKAGE / '_library'
CHECKOUT_FILES = _PACKAGE / '_checkout'


def site_folders(root: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that hold site folders; if several have a file, the first one wins.

    Site folders and baselines are written to the first: with ``$PLUMBLINE_SITES`` a clone may be read-only.
    """
    if root:
        return (root,)
    return (*(Path(folder).absolute() for folder in settings.SITES.get().split(':') if folder), SUITE_SITES)


def choose_sites(folders: str) -> None:
    """Use these folders of sites, joined by colons, in this process and its children. Raises InputError."""
    chosen = [Path(text).absolute() for text in folders.split(':')]
    for folder in chosen:
        if not folder.is_dir():
            apart = '; several are joined by colons' if ';' in folders or ',' in folders else ''
            raise InputError(f'--sites: {folder}: expected a folder of site folders{apart}')
    os.environ[settings.SITES.name] = ':'.join(map(str, chosen))


def add_library() -> None:
    """Make `postprocess` importable where Plumbline was installed from a wheel, which has no such top-level name.

    The checks of the wheel, whose parsers read saved outputs, come last, so that the checks of a checkout are found
    first.
    """
    for place, folder in ((0, _LIBRARY), (len(sys.path) + 1, CHECKOUT_FILES)):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(place, str(folder))


def usable(folder: Path) -> Path:
    """Return `folder` if ReFrame, the shell and DuckDB take all its characters literally. Raises InputError."""
    if special := _SPECIAL.findall(str(folder)):
        which = ', '.join(sorted({repr(character) for character in special}))
        raise InputError(
            f'{str(folder)!r}: ReFrame, a shell or DuckDB would not take {which} as part of a name; move or rename it'
        )
    return folder


def results_directory() -> Path:
    """Return ``$PLUMBLINE_RESULTS``, else ``results/`` of the checkout.

    ReFrame cannot start a local job below a path with a blank: such a checkout gets ``~/plumbline-results``.
    """
    return _folder('results', settings.RESULTS)


def software_directory() -> Path:
    """Return ``$PLUMBLINE_SOFTWARE``, else ``software/`` of the checkout, or ``~/plumbline-software`` as for results.

    Compute nodes must see it: it holds the stacks that Spack installs, their activation files and Spack itself.
    """
    return _folder('software', settings.SOFTWARE)


def _folder(name: str, setting: settings.Setting[str]) -> Path:
    if chosen := setting.get():
        return usable(Path(chosen).absolute())
    return usable(_own(name))


def _own(name: str) -> Path:
    return Path.home() / f'plumbline-{name}' if ' ' in str(ROOT) else ROOT / name


def is_elsewhere(results: Path) -> bool:
    """Return True if a command needs ``--results`` to find `results`, whatever the reader's shell has set."""
    return results.absolute() != _own('results')


def site_folder(site: str, root: Path | None = None, file: str = 'site.yaml') -> Path:
    """Return the folder of `site` in the first site folder that has `file`, `root` first.

    `root` may hold references alone, so the usual site folders are searched after it.
    """
    folders = (*site_folders(root), *site_folders())
    return next((folder / site for folder in folders if (folder / site / file).exists()), folders[0] / site)


def site_file(site: str, file: str, root: Path | None = None) -> Path:
    """Return the path of a file of `site`: in the first site folder that has it, else where it would be written."""
    folders = site_folders(root)
    return next((path for folder in folders if (path := folder / site / file).exists()), folders[0] / site / file)
