# SPDX-License-Identifier: BSD-3-Clause
"""Read the tolerances of a site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.paths import site_file, site_folder
from plumbline.site.file import read_site_file
from postprocess.results.store import Session


def site_policy(session: Session, root: Path | None = None) -> dict[str, Any]:
    """Return the tolerances in the ``site.yaml`` of the session's site below `root`, else in the suite's own file.

    A site where only another suite measured, or nothing did, needs no such file. Raises InputError, SiteError.
    """
    site = session.site
    path = site_folder(site, root) / 'site.yaml'
    if not path.exists() and (session.is_of_another_suite or not session.ran):
        return {}
    if not path.exists():
        raise InputError(f'site {site} is not described: expected {path}')
    if not site_file(site, '', root).is_dir():
        raise InputError(f'{root}: expected a folder {site} with the references of that site, found none')
    return read_site_file(path).get('tolerance', {})
