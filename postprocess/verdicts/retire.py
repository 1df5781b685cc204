# SPDX-License-Identifier: BSD-3-Clause
"""Take rows out of the ``baseline.csv`` of a site, and keep them with the reason in ``retired.csv``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from plumbline.errors import InputError, did_you_mean
from plumbline.files import remove_abandoned, write_text
from plumbline.paths import site_file, site_folders
from plumbline.references import FILES, Reference, read_references
from plumbline.site.sites import site_names
from postprocess.verdicts.baseline_files import RETIRED, read_baseline, read_retired
from postprocess.verdicts.baseline_row import part
from postprocess.verdicts.proposals import proposal_file, to_baseline, validate
from postprocess.verdicts.selection import selected


@dataclass(frozen=True)
class Retired:
    """The rows that were taken out of the file at `path`; `left`: rows it still has.

    `proposed`: rows taken out of a proposal.
    """

    path: Path
    rows: list[Reference]
    left: int
    proposed: int


def retire(results: Path, site: str, patterns: Sequence[str], why: str, root: Path | None, now: datetime) -> Retired:
    """Move the rows that any of `patterns` selects from ``baseline.csv`` to ``retired.csv``; `now` in UTC.

    They are also taken out of a proposal that is not accepted yet. Raises InputError if a pattern selects no row or
    `why` is empty, SiteError if a file is wrong.
    """
    if not why.strip():
        raise InputError('--why: expected a reason, found an empty text')
    if not site_file(site, '', root).is_dir():
        names = site_names(root)
        raise InputError(f'{root}: has no site {site}{did_you_mean(site, names)}; it has {", ".join(names) or "none"}')
    path = site_folders(root)[0] / site / FILES['baseline']
    rows = read_baseline(site, root)
    for pattern in patterns:
        if not any(selected([pattern], row.id) for row in rows):
            names = sorted({name for row in rows for name in (row.id.check, f'{row.id.check} {row.id.metric}')})
            guess = did_you_mean(pattern, names)
            raise InputError(
                f'{path}: {pattern!r} selects none of its {len(rows)} rows{guess}: expected a check, "CHECK METRIC" '
                'or a series as `plumbline compare --coverage` prints it; * stands for any text'
            )
    gone = {row.id: row for row in rows if selected(patterns, row.id)}
    remaining = [row for row in rows if row.id not in gone]
    why, time = ' '.join(part(why).split()), f'{now:%Y-%m-%dT%H:%M:%S}'
    before = {row.id: row for row in read_retired(site, root)}
    noted = {
        id: replace(
            row, note='; '.join(filter(None, [f'retired {time[:10]}: {why}', row.note])),
            provenance='; '.join(filter(None, [f'retired={time}', row.provenance])),
        )
        for id, row in gone.items()
    }  # fmt: skip
    texts = {path.parent / RETIRED: to_baseline((before | noted).values()), path: to_baseline(remaining)}
    for place, text in texts.items():
        validate(text, place)
    remove_abandoned(path.parent)
    for place, text in texts.items():  # first the file of retired rows, so that none is lost
        write_text(place, text)
    return Retired(
        path, sorted(gone.values(), key=lambda row: row.id.sort_key), len(remaining), _drop(results, site, patterns)
    )


def _drop(results: Path, site: str, patterns: Sequence[str]) -> int:
    """Take the selected rows out of the proposal of a site; return how many there were."""
    path = proposal_file(results, site)
    rows = read_references(path, 'baseline') if path.exists() else []
    remaining = [row for row in rows if not selected(patterns, row.id)]
    if rows and not remaining:
        path.unlink()
    elif len(remaining) < len(rows):
        write_text(path, to_baseline(remaining))
    return len(rows) - len(remaining)
