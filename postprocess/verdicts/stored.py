# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session once: its verdicts are rows of the store, beside a checksum of all that they follow from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from plumbline.errors import InputError
from plumbline.paths import site_folders
from postprocess.results import judged
from postprocess.results.fingerprint import CODE, below, checksum, contents
from postprocess.results.store import Session, Store
from postprocess.verdicts.baseline_files import known_file
from postprocess.verdicts.compare import judge_session
from postprocess.verdicts.rows import comparison_of, facts_of
from postprocess.verdicts.verdict import Comparison, Verdict

TABLE = 'verdicts'
#: Parts of our own folders from which verdicts and findings do not follow; the last two are what a wheel adds.
_NOT_OF_VERDICTS = ('cli', 'extras', 'report', 'views', '_checkout', '_library')
_OF_CODE = ('.csv', '.py', '.yaml')


def verdicts_of(store: Store, session: Session, root: Path | None = None, reruns: Sequence[Path] = ()) -> Comparison:
    """Return the verdicts of `session` by the references of its site below `root`: stored, else judged and stored.

    With `reruns`, see `judge_session`, nothing is stored. Raises as that does.
    """
    before = '' if reruns else follows_from(store, session, root)
    if before and (known := judged.read(store, TABLE, session, before, partial(judged.from_row, Verdict))):
        facts, verdicts = known
        return comparison_of(session, verdicts, facts)
    comparison = judge_session(store, session, root, reruns)
    if before and follows_from(store, session, root) == before:  # else another process changed a file meanwhile
        rows = map(judged.to_row, comparison.verdicts)
        with suppress(InputError):  # where nothing can be written, the session is judged again the next time
            judged.write(store, TABLE, session, before, rows, facts_of(comparison))
    return comparison


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
