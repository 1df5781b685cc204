# SPDX-License-Identifier: BSD-3-Clause
"""What the verdicts of a session follow from, as a checksum: where it changes, the session is judged again."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from plumbline.paths import site_folders
from postprocess.results.fingerprint import CODE, below, checksum, contents
from postprocess.results.store import Session, Store
from postprocess.verdicts.baseline_files import known_file

#: Parts of our own folders from which verdicts and findings do not follow; the last two are what a wheel adds.
_NOT_OF_VERDICTS = ('cli', 'extras', 'report', 'views', '_checkout', '_library')
_OF_CODE = ('.csv', '.py', '.yaml')


def follows_from(store: Store, session: Session, root: Path | None = None, *others: str) -> str:
    """Return a checksum of what is judged of a session and by what: reports, files of the site, code, and `others`."""
    site = session.site
    folders = [folder / site for folder in dict.fromkeys((*site_folders(root), *site_folders()))]
    files = [file for folder in folders for file in below(folder)]
    texts = [
        code(), store.command('compare', site, root),  # whose options are those of the commands in hints
        *map(str, folders), *contents([*files, known_file(store.folder.parent, site)]), *store.reports_up_to(session),
    ]  # fmt: skip
    return checksum([*texts, *others])


@cache
def code() -> str:
    """Return a checksum of our own code that verdicts and findings follow from."""
    return checksum(
        text
        for folder in CODE
        for file in map(Path, below(folder))
        if file.suffix in _OF_CODE and file.relative_to(folder).parts[0] not in _NOT_OF_VERDICTS
        for text in (str(file.relative_to(folder)), *contents([file]))
    )
