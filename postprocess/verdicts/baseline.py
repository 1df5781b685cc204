"""Record a baseline: propose rows of ``baseline.csv`` from sessions, and accept the proposal after a review."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.evidence import keep
from plumbline.files import write_text
from plumbline.identity import SeriesId
from plumbline.limits import Limits, Tolerance, limits, spread_of, tolerance_for
from plumbline.record import summarize
from plumbline.references import COLUMNS, FILES, MODES, RECORDED, Reference, read_references
from plumbline.sites import site_names
from plumbline.units import UNITS
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.compare import site_policy
from postprocess.verdicts.measured import Measured, measured_in
from postprocess.verdicts.stats import inliers, mean_of, moderate

_BINARY = 'binary_sha256'  # key in a case's provenance: the program that ran
# Beginnings of the keys whose values are kept with a baseline, as possible causes of a later difference
_FACTS = ('stack_lock', 'kernel', 'driver', 'library_libmpi')
_Group = list[tuple[Session, Measured]]


@dataclass(frozen=True)
class Replacement:
    """A proposed row beside the row of the same series that it replaces."""

    new: Reference
    new_limits: Limits
    old: Reference | None
    old_limits: Limits | None

    @property
    def what(self) -> str:
        """``new``, ``changed`` or ``same``."""
        if self.old is None:
            return 'new'
        old, new = (
            [_digits(row[field]) for field in ('mean', 'std', 'n', 'unit', 'spread', 'df', 'epoch')]
            for row in (self.old.to_row(), self.new.to_row())
        )
        return 'same' if old == new else 'changed'

    @property
    def difference(self) -> float | None:
        """Change of the mean in %; None without an old row in the same unit and direction."""
        if self.old is None or self.old.quantity != self.new.quantity:
            return None
        return 100 * (self.new.mean / self.old.mean - 1)


@dataclass(frozen=True)
class Refusal:
    """A series that becomes no reference; `session` is empty where the cause concerns all sessions together."""

    session: str
    id: SeriesId
    cause: str


@dataclass(frozen=True)
class Proposal:
    """Proposed rows of a site, and what was refused.

    `unusable`: sessions in which nothing can be recorded. `evidence`: archives of the cases behind the rows.
    """

    site: str
    rows: list[Replacement]
    refused: list[Refusal]
    unusable: list[str]
    evidence: list[str]


@dataclass(frozen=True)
class Accepted:
    """What a proposal changed in the file at `path`: its rows, and how many rows are new, changed and as before."""

    path: Path
    rows: list[Replacement]
    added: int
    changed: int
    kept: int


def propose(store: Store, sessions: list[Session], root: Path) -> Proposal:
    """Return new baseline rows from `sessions`, beside those below `root`.

    A value is the mean of the trials of one job; n counts sessions, and the spread is that between sessions. A series
    of a single session has no such spread: its std is that of the trials, and no limit follows from it.

    Raises InputError where the sessions are of several sites, SiteError where a file of the site is wrong.
    """
    import numpy

    sessions = list({session.session: session for session in sessions}.values())  # a session named twice counts once
    sites = sorted({session.site for session in sessions})
    if len(sites) > 1:
        raise InputError(f'the sessions are of several sites, {", ".join(sites)}: a proposal is for one')
    groups: dict[SeriesId, _Group] = {}
    refused, unusable = [], []
    for session in sessions:
        usable = 0
        for row in measured_in(store, session):
            if row.status == 'measured' and not row.judged:
                continue
            if row.status == 'measured':
                groups.setdefault(row.id, []).append((session, row))
                usable += 1
            else:
                refused.append(Refusal(session.session, row.id, f'{row.status}: {row.cause}'))
        if not usable:
            unusable.append(session.session)
    accepted: dict[SeriesId, _Group] = {}
    dropped: dict[SeriesId, int] = {}
    for key, group in sorted(groups.items()):
        if cause := _refuse([row for _, row in group]):
            refused.append(Refusal('', key, cause))
            continue
        near = inliers(numpy.array([row.value for _, row in group]))
        accepted[key] = [pair for pair, stays in zip(group, near, strict=True) if stays]
        dropped[key] = len(group) - len(accepted[key])
    known = _spreads(accepted)
    facts = {session.session: _facts(store, session) for session in sessions}
    current = {row.id: row for row in _read_baseline(_baseline(sites[0], root))}
    policy = site_policy(sites[0], root)
    rows = []
    for key, group in accepted.items():
        new, old = _row(key, group, facts, known.get(key), dropped[key]), current.get(key)
        tolerance = tolerance_for(policy, key, **group[0][1].stated)
        rows.append(_beside(replace(new, epoch=old.epoch) if old else new, old, tolerance))
    if not rows:
        unusable = [session.session for session in sessions]
    used = {(session.session, row.case_id) for group in accepted.values() for session, row in group}
    evidence = [
        case['evidence']
        for session in sessions
        for case in store.rows('cases', session)
        if (session.session, case['case_id']) in used and case['evidence']
    ]
    return Proposal(sites[0], rows, refused, unusable, evidence)


def save(proposal: Proposal, results: Path) -> Path | None:
    """Write the rows to ``<results>/proposals/<site>.csv`` and return it; None, and no file, without rows."""
    if not proposal.rows:
        return None
    path = results / 'proposals' / f'{proposal.site}.csv'
    write_text(path, to_baseline(row.new for row in proposal.rows))
    write_text(path.with_suffix('.evidence'), ''.join(f'{name}\n' for name in proposal.evidence))
    return path


def accept(results: Path, site: str | None, root: Path, epoch: str = '') -> Accepted:
    """Merge the proposal for `site`, or the only one, into its ``baseline.csv`` below `root`; then remove the proposal.

    `epoch` names a planned change of the machine: the means are replaced and the spreads from before are kept, so that
    the gate works after one session.

    Raises InputError where there is no such proposal or site, SiteError where one of the files is wrong.
    """
    proposals = {path.stem: path for path in sorted((results / 'proposals').glob('*.csv'))}
    if site is None and len(proposals) == 1:
        site = next(iter(proposals))
    if site is None or site not in proposals:
        if site is None and proposals:
            raise InputError(f'{results / "proposals"}: name one of {", ".join(proposals)} with --site')
        of_site = f' for site {site}' if site else ''
        raise InputError(f'{results / "proposals"}: no proposal{of_site}; `plumbline record propose` makes one')
    if not (root / site).is_dir():
        raise InputError(f'{root}: has no site {site}; it has {", ".join(site_names(root)) or "none"}')
    path = _baseline(site, root)
    proposed = read_references(proposals[site], 'baseline')
    before = {row.id: row for row in _read_baseline(path)}
    if epoch:
        proposed = [_recentred(row, before.get(row.id), epoch) for row in proposed]
    after = before | {row.id: row for row in proposed}
    text = to_baseline(after.values())
    _validate(text, path)
    write_text(path, text)
    evidence = proposals[site].with_suffix('.evidence')
    try:
        for name in evidence.read_text(encoding='utf-8').splitlines() if evidence.exists() else ():
            keep(results, name, f'baseline of {epoch or site}')
        evidence.unlink(missing_ok=True)
        proposals[site].unlink()
    except OSError as error:
        raise InputError(f'{path} is written, but {proposals[site]} cannot be removed: {error.strerror}') from None
    added = sum(row.id not in before for row in proposed)
    changed = sum(row.id in before and row != before[row.id] for row in proposed)
    policy = site_policy(site, root)
    rows = [_beside(row, before.get(row.id), tolerance_for(policy, row.id)) for row in proposed]
    return Accepted(path, rows, added, changed, len(after) - added - changed)


def to_baseline(rows: Iterable[Reference]) -> str:
    """Return the text of a ``baseline.csv``, sorted by series so that git shows only what changed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    columns = (*COLUMNS, *RECORDED)
    writer.writerow(columns)
    for row in sorted(rows, key=lambda row: row.id):
        values = row.to_row()
        writer.writerow(_digits(values[column]) for column in columns)
    return out.getvalue()


def _refuse(rows: list[Measured]) -> str | None:
    """Return why the measurements of one series make no reference; None where they do."""
    units = sorted({f'{row.quantity.unit}, {row.quantity.better} is better' for row in rows})
    if len(units) > 1:
        return f'its unit or direction differs between the sessions: {"; ".join(units)}'
    if rows[0].quantity.unit not in UNITS:
        return f'unit {rows[0].quantity.unit!r} is none of {", ".join(UNITS)}'
    if sum(row.summary.n for row in rows) < 2:
        return 'one sample shows no spread: at least two are needed'
    least = min(row.value for row in rows)
    if not float(_digits(least)) > 0:
        return f'mean {least:.6g}: a reference must be above 0'
    return None


def _spreads(groups: dict[SeriesId, _Group]) -> dict[SeriesId, tuple[float, float]]:
    """Return the standard deviation of the logarithm of one value and its degrees of freedom, by series.

    Only of series with at least two sessions; shrunk towards those of the other series (`moderate`). Where several
    nodes ran in a session, all their values count for the spread, and the sessions for the degrees of freedom.
    """
    import numpy

    counts = {key: len({session.session for session, _ in group}) for key, group in groups.items()}
    keys = [key for key, n in counts.items() if n > 1]
    if not keys:
        return {}
    own = numpy.array([numpy.log([row.value for _, row in groups[key]]).var(ddof=1) for key in keys])
    variances, df = moderate(own, numpy.array([counts[key] - 1.0 for key in keys]))
    return {key: (float(s), float(d)) for key, s, d in zip(keys, numpy.sqrt(variances), df, strict=True)}


def _row(
    key: SeriesId,
    group: _Group,
    facts: dict[str, dict[int, dict[str, str]]],
    spread: tuple[float, float] | None,
    dropped: int,
) -> Reference:
    from reframe.utility import nodelist_abbrev

    first = group[0][1]
    jobs = summarize([row.value for _, row in group])
    nodes = sorted({node for _, row in group for node in row.nodes})
    sessions = list({session.session: session for session, _ in group}.values())
    days = sorted(f'{session.started:%Y-%m-%d}' for session in sessions)
    known: dict[str, set[str]] = {}
    for session, row in group:
        for name, value in facts[session.session].get(row.case_id, {}).items():
            known.setdefault(name, set()).add(value)
    binaries = sorted(known.pop(_BINARY, ()))
    note = [f'binary {", ".join(binary[:12] for binary in binaries)}'] if binaries else []
    note += [count(len(nodes), 'node')] + ([f'{count(dropped, "outlying value")} dropped'] if dropped else [])
    dates = days[0] if days[0] == days[-1] else f'{days[0]}..{days[-1]}'
    names = ', '.join(session.session[:8] for session in sessions)
    hosts = ', '.join(sorted({session.hostname for session in sessions}))
    source = f'session {names}' if len(sessions) < 3 else f'{len(sessions)} sessions of {dates}'
    known |= {'dates': {dates}, 'nodes': {nodelist_abbrev(nodes)}, 'sessions': {names}}
    deviation, df = spread or (None, None)
    return Reference(
        id=key, quantity=first.quantity, mean=mean_of(jobs), std=jobs.std if len(group) > 1 else first.summary.std,
        n=len(sessions), kind='baseline', source=f'{source} on {hosts}', recorded_at=days[-1],
        mode=min((row.mode for _, row in group if row.mode), key=MODES.index, default=''),
        note='; '.join(note), spread=deviation, df=df, spread_n=len(sessions) if spread else None,
        provenance='; '.join(f'{name}={" | ".join(sorted(values))}' for name, values in sorted(known.items())),
    )  # fmt: skip


def _recentred(new: Reference, old: Reference | None, epoch: str) -> Reference:
    """Return `new` with the spread of `old`, the row of its series before the change, if that has a spread."""
    if old and old.quantity == new.quantity:
        spread, df = spread_of(old)
        if spread is not None:
            new = replace(new, spread=spread, df=df, spread_n=old.spread_n or old.n)
    return replace(new, epoch=epoch)


def _beside(new: Reference, old: Reference | None, tolerance: Tolerance) -> Replacement:
    return Replacement(new, limits(new, tolerance), old, limits(old, tolerance) if old else None)


def _facts(store: Store, session: Session) -> dict[int, dict[str, str]]:
    """Return the provenance that is kept with a baseline, by case."""
    found = {}
    for case in store.rows('cases', session):
        provenance = json.loads(case['provenance'])
        found[case['case_id']] = {
            name: str(value) for name, value in provenance.items() if name.startswith((_BINARY, *_FACTS))
        }
    return found


def _baseline(site: str, root: Path) -> Path:
    return root / site / FILES['baseline']


def _read_baseline(path: Path) -> list[Reference]:
    return read_references(path, 'baseline') if path.exists() else []


def _validate(text: str, path: Path) -> None:
    """Check `text` as the content of `path`. Raises SiteError."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / path.name
        trial.write_text(text, encoding='utf-8')
        try:
            read_references(trial, 'baseline')
        except SiteError as error:
            raise SiteError(f'{path}: not changed, because the merged file would be wrong: {error}') from None


def _digits(value: object) -> str:
    """Format a value for the file: numbers with six significant digits, nothing for None."""
    if value is None:
        return ''
    return f'{value:.6g}' if isinstance(value, float) else str(value)
