"""Locate the checkout, its parts, and the directories of results and software."""

import re
import sys
from pathlib import Path

from plumbline import settings
from plumbline.errors import InputError

# ReFrame runs `$(...)` in paths and replaces $, % and {}; to DuckDB *, ? and [] are patterns, to PATH a colon is an end
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
#: Where site folders and baselines are written: ``$PLUMBLINE_SITES``, so that a clone may be read-only.
SITES = Path(settings.SITES.get()).absolute() if settings.SITES.get() else SUITE_SITES
SPACK_ENVS = ROOT / 'spack_envs'
SCHEMAS = _PACKAGE / 'schemas'
# Only a wheel has these two: the post-processing, and the files that ``plumbline init`` writes.
_LIBRARY = _PACKAGE / '_library'
CHECKOUT_FILES = _PACKAGE / '_checkout'


def add_library() -> None:
    """Make `postprocess` importable where Plumbline was installed from a wheel, which has no such top-level name."""
    if _LIBRARY.is_dir() and str(_LIBRARY) not in sys.path:
        sys.path.insert(0, str(_LIBRARY))


def usable(folder: Path) -> Path:
    """Return a folder of ours that every program takes for a name. Raises InputError."""
    if found := _SPECIAL.findall(str(folder)):
        which = ', '.join(sorted({repr(one) for one in found}))
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
    return usable(Path.home() / f'plumbline-{name}' if ' ' in str(ROOT) else ROOT / name)


def site_folder(site: str, root: Path = SITES, file: str = 'site.yaml') -> Path:
    """Return the folder of `site` below `root`, or the suite's own if `root` holds only references: no `file`."""
    return next(
        (folder / site for folder in (root, SITES, SUITE_SITES) if (folder / site / file).exists()), root / site
    )


def site_file(site: str, file: str, root: Path = SITES) -> Path:
    """Return a file of `site` below `root`; below `SITES`, where there is none, that of the suite."""
    own, suite = root / site / file, SUITE_SITES / site / file
    return suite if root == SITES and suite.exists() and not own.exists() else own
