"""Tell where a site stands: its stacks, last session, baseline and incidents, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from plumbline.limits import tolerance_for
from plumbline.paths import SITES
from plumbline.references import Reference
from plumbline.sites import UNDESCRIBED, Site, load_site
from plumbline.stacks.manifest import Installed
from postprocess.history.digest import Digest, digest
from postprocess.history.incidents import FAILING
from postprocess.history.incidents.known import with_options
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.advice import narrowing
from postprocess.verdicts.baseline import read_baseline
from postprocess.verdicts.candidates import read_doubts
from postprocess.verdicts.compare import judge_session, site_policy


@dataclass(frozen=True)
class Standing:
    """Where a site stands. `stacks`: of those that Spack installs, the fault of each, empty where it has none.

    `digest`: of the last session, None before the first of so many `sessions`. `next`: what to do, with its command in
    backquotes.
    """

    site: Site
    stacks: dict[str, str]
    next: str
    digest: Digest | None = None
    sessions: int = 0
    baseline: list[Reference] = field(default_factory=list)


def standing(store: Store, name: str, root: Path = SITES) -> Standing:
    """Return where the site `name` stands. Raises InputError, SiteError."""
    site = load_site(name, root)
    stacks = {
        f'{environ} of {partition.name}': Installed(name, partition.name, environ).fault() or ''
        for partition in site.partitions.values()
        for environ in partition.environs
        if name != UNDESCRIBED and site.environs[environ].provider == 'spack'
    }
    if name not in store.sites():
        of_site = '' if name == UNDESCRIBED else f' --site {name}'
        return Standing(site, stacks, f'measure for the first time: `ci/nightly{of_site}`')
    found = digest(store, judge_session(store, store.find('latest', name), root), root)
    step = next_step(store, found, root)
    return Standing(site, stacks, step, found, len(store.sessions(name)), read_baseline(name, root))


def next_step(store: Store, digest: Digest, root: Path = SITES) -> str:
    """Return what a person has to do after the session of a digest, with the command; or that there is nothing."""
    site = digest.comparison.session.site
    if is_open := digest.of_state(*FAILING):
        command = with_options(f'plumbline incidents show {is_open[0].id}', is_open[0].results, site)
        return f'{count(len(is_open), "incident")} open: `{command}`'
    proposal = store.folder.parent / 'proposals' / f'{site}.csv'
    if proposal.exists():
        return f'a proposed baseline waits in {proposal}: {store.command("record accept", site, root)}'
    propose = store.command('record propose', site, root)
    rows = read_baseline(site, root)
    if not rows:
        sessions = store.sessions(site)
        doubts = read_doubts(store, sessions, {})
        if len({night for night, _ in doubts}) == len(sessions):
            busy = f'there is no baseline yet, and {count(len(doubts), "case")} ran on busy nodes'
            return f'{busy}: run `ci/nightly` again while they are quiet; then {propose}'
        return f'there is no baseline yet; if the machine is as it should be: {propose}'
    if digest.comparison.hints:
        return digest.comparison.hints[0]
    policy = site_policy(site, root)
    recorded, wanted = narrowing([(row, tolerance_for(policy, row.id, **row.stated)) for row in rows])
    if digest.word == 'NEEDS A LOOK':
        return f'{"; ".join(digest.doubts)}: {store.command("compare --summary", site, root)}'
    if wanted is None:
        return 'the limits are as narrow as they get; nothing to do'
    available = min(recorded + _since(store.sessions(site), rows), wanted)
    words = f'{available} of {count(wanted, "session")} for narrow limits'
    return f'{words}; nothing to do' if available < wanted else f'{words}: {propose}'


def _since(sessions: Sequence[Session], rows: Sequence[Reference]) -> int:
    """Return how many whole sessions began after the last one that a baseline was recorded from."""
    behind = frozenset().union(*(row.sessions for row in rows))
    day = max(row.recorded_at for row in rows)
    last = max((one.started for one in sessions if one.session[:8] in behind), default=None)
    if last is None:  # recorded in another store, or written by hand
        last = datetime.fromisoformat(f'{day}T23:59:59') if day else datetime.min
    return sum(one.started > last and not one.narrowed_by for one in sessions)
