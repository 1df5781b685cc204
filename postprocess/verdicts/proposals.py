# SPDX-License-Identifier: BSD-3-Clause
"""Keep a proposed baseline until it is accepted, and merge it into the ``baseline.csv`` of its site."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.evidence import keep
from plumbline.files import remove_abandoned, write_text
from plumbline.identity import short_name
from plumbline.paths import site_file, site_folders
from plumbline.references import COLUMNS, FILES, RECORDED, Reference, read_references
from plumbline.site.sites import site_names
from postprocess.results.store import Store
from postprocess.text import digits, to_csv
from postprocess.verdicts.baseline import Proposal
from postprocess.verdicts.baseline_files import is_remembered, known_file, known_rows, lost, read_baseline

_COLUMNS = (*COLUMNS, *RECORDED)


@dataclass(frozen=True)
class Accepted:
    """What an accepted proposal changed in the file at `path`: its rows, and how many are new, changed and kept."""

    path: Path
    rows: list[Reference]
    added: int
    changed: int
    kept: int


def proposal_file(results: Path, site: str) -> Path:
    """Return the path of the proposed rows of a site."""
    return results / 'proposals' / f'{site}.csv'


def save(proposal: Proposal, results: Path) -> Path | None:
    """Write the rows that are not withheld to ``<results>/proposals/<site>.csv`` and return the path.

    Without such a row, return None and remove the file of an earlier proposal.
    """
    path = proposal_file(results, proposal.site)
    rows = [row.new for row in proposal.rows if not row.withheld]
    if not rows:
        path.unlink(missing_ok=True)
        return None
    write_text(path, to_baseline(rows))
    write_text(path.with_suffix('.evidence'), ''.join(f'{name}\n' for name in proposal.evidence))
    return path


def accept(results: Path, site: str | None, root: Path | None) -> Accepted:
    """Merge the proposal for `site` into its ``baseline.csv`` below `root`, then remove the proposal.

    `site` None: the site of the only proposal. Raises InputError if there is no such proposal or site, SiteError if one
    of the files is wrong.
    """
    proposals = {path.stem: path for path in sorted((results / 'proposals').glob('*.csv'))}
    if site is None and len(proposals) == 1:
        site = next(iter(proposals))
    if site is None or site not in proposals:
        if site is None and proposals:
            raise InputError(f'{results / "proposals"}: name one of {", ".join(proposals)} with --site')
        of_site = f' for site {site}' if site else ''
        raise InputError(f'{results / "proposals"}: no proposal{of_site}; `plumbline record propose` makes one')
    of_others = any(session.is_of_another_suite for session in Store(results).sessions(site)[-1:])
    if not (of_others or site_file(site, '', root).is_dir()):
        raise InputError(f'{root}: has no site {site}; it has {", ".join(site_names(root)) or "none"}')
    path = site_folders(root)[0] / site / FILES['baseline']
    proposed = read_references(proposals[site], 'baseline')
    behind = frozenset().union(*(row.sessions for row in proposed))
    for gone in Store(results).forgotten(site):
        if short_name(gone.session) in behind:
            raise InputError(
                f'{proposals[site]}: has numbers that must not count: {gone}; `plumbline record propose` makes another'
            )
    before = {row.id: row for row in read_baseline(site, root)}
    after = before | {row.id: row for row in proposed}
    text = to_baseline(after.values())
    validate(text, path)
    remove_abandoned(path.parent)
    try:
        write_text(path, text)
    except InputError as error:  # such as in a read-only clone
        raise InputError(f'{error}; to keep baselines elsewhere: export PLUMBLINE_SITES=FOLDER') from None
    evidence = proposals[site].with_suffix('.evidence')
    try:
        for name in evidence.read_text(encoding='utf-8').splitlines() if evidence.exists() else ():
            keep(results, name, f'baseline of {site}')
        evidence.unlink(missing_ok=True)
        proposals[site].unlink()
    except OSError as error:
        raise InputError(f'{path} is written, but {proposals[site]} cannot be removed: {error.strerror}') from None
    added = sum(row.id not in before for row in proposed)
    changed = sum(row.id in before and row != before[row.id] for row in proposed)
    return Accepted(path, proposed, added, changed, len(after) - added - changed)


def remember(store: Store, site: str, root: Path | None) -> None:
    """Keep the rows of the baseline, and those that it lost, for later sessions. Raises InputError, SiteError.

    If the file cannot be written, the rows known before stay, and the next judged session keeps these.
    """
    results = store.folder.parent
    if is_remembered(results, site, root):
        return
    rows = lost(store, site, root) | {row.id: row for row in read_baseline(site, root)}
    if rows and rows != known_rows(results, site):
        with suppress(InputError):
            write_text(known_file(results, site), to_baseline(rows.values()))


def to_baseline(rows: Iterable[Reference]) -> str:
    """Return the text of a ``baseline.csv``, sorted by series so that git shows only changed rows."""
    in_order = sorted(rows, key=lambda row: row.id)
    return to_csv(({name: digits(value) for name, value in row.to_row().items()} for row in in_order), _COLUMNS)


def validate(text: str, path: Path) -> None:
    """Check `text` as the content of `path`. Raises SiteError."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / path.name
        trial.write_text(text, encoding='utf-8')
        if (path.parent / 'site.yaml').exists():
            trial.with_name('site.yaml').touch()
        try:
            read_references(trial, 'baseline')
        except SiteError as error:
            raise SiteError(f'{path}: not changed, because the merged file would be wrong: {error}') from None
