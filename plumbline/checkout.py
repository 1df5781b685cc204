# SPDX-License-Identifier: BSD-3-Clause
"""Write the checkout that a site works in from an installed wheel, and name the version of the suite."""

import functools
import hashlib
import json
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from plumbline import __version__
from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.paths import CHECKOUT_FILES, ROOT, is_checkout
from plumbline.programs import output_of

DISTRIBUTION = 'plumbline-hpc'  # as pip knows it; the package index holds an unrelated `plumbline`
_SIMPLE_TEST = re.compile(r'^@(?:\w+\.)?simple_test\b.*\nclass (\w+)', re.MULTILINE)
_MARKER = '.plumbline.json'  # in a checkout that `write` made: its version, and the digest of each file as written


@functools.cache
def version() -> str:
    """Return the version of the suite, such as ``1.0.0``; in a clone with its commit: ``1.0.0 (68b1365-dirty)``."""
    if not (ROOT / '.git').exists() or CHECKOUT_FILES.is_dir():
        return __version__
    with suppress(ValueError):
        return f'{__version__} ({output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip()})'
    return __version__


@functools.cache
def checks_of(folder: Path) -> frozenset[str]:
    """Return the names of the checks in the files of a folder; ReFrame would take seconds to list them."""
    texts = (path.read_text(encoding='utf-8') for path in folder.rglob('*.py'))
    return frozenset(name for text in texts for name in _SIMPLE_TEST.findall(text))


def fault() -> str | None:
    """Return why the commands that need a checkout cannot work here and what to do; None if they can."""
    if not is_checkout(ROOT):
        return f'{ROOT}: is not in a checkout of Plumbline; change to one, or write one with: plumbline init DIR'
    made_by = _marker(ROOT).get('version', __version__)
    if CHECKOUT_FILES.is_dir() and made_by != __version__:
        return f'{ROOT}: was written by version {made_by}, this is {__version__}; renew it with: plumbline init {ROOT}'
    return None


def pip_requirement(extra: str) -> list[str]:
    """Return the arguments of ``pip install`` that install Plumbline with its optional dependencies `extra`."""
    if CHECKOUT_FILES.is_dir():
        return [f'{DISTRIBUTION}[{extra}]=={__version__}']
    return ['--editable', f'{ROOT}[{extra}]']


def write(folder: Path) -> list[Path]:
    """Write or renew the checkout `folder`; return the files in it that the user has edited. Raises InputError.

    An edited file stays as it is; the new version is written beside it as ``<name>.new``.
    """
    if not CHECKOUT_FILES.is_dir():
        raise InputError(f'{ROOT}: is a clone, which is a checkout already; work in it, or clone once more')
    before: dict[str, str] = _marker(folder).get('files', {})
    if not before and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f'{folder}: expected a new or empty folder, or one that plumbline init wrote')
    written, edited = {}, []
    for source in sorted(path for path in CHECKOUT_FILES.rglob('*') if path.is_file() and path.suffix != '.pyc'):
        name = source.relative_to(CHECKOUT_FILES).as_posix()
        target = folder / name
        written[name] = _digest(source)
        if target.exists() and _digest(target) not in (before.get(name), written[name]):
            edited.append(target)
            target = target.with_name(f'{target.name}.new')
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    for name in before.keys() - written.keys():
        if (folder / name).exists() and _digest(folder / name) == before[name]:
            (folder / name).unlink()  # no longer part of the suite; ReFrame would go on running it
    environment = folder / '.venv'  # where ci/nightly and its siblings look for Python
    if sys.prefix != sys.base_prefix and not environment.exists():
        environment.unlink(missing_ok=True)
        environment.symlink_to(sys.prefix)
    write_text(folder / _MARKER, json.dumps({'version': __version__, 'files': written}, indent=1) + '\n')
    return edited


def _marker(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / _MARKER).read_text(encoding='utf-8'))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f'{folder / _MARKER}: expected what plumbline init writes: {error}') from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
