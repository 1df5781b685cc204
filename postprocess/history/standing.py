# SPDX-License-Identifier: BSD-3-Clause
"""Say where a site stands: its stacks, last session, baseline and incidents, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from plumbline.paths import site_folder
from plumbline.site.sites import UNDESCRIBED, load_site
from postprocess.history import kept
from postprocess.history.digest import Digest, judge
from postprocess.history.kept import Standing
from postprocess.history.narrower import narrower
from postprocess.incidents import FAILING, STATES
from postprocess.incidents.words import with_options
from postprocess.results.store import Store
from postprocess.text import count
from postprocess.verdicts.advice import sessions_of
from postprocess.verdicts.baseline_files import read_baseline
from postprocess.verdicts.candidates import read_doubts


def standing(store: Store, name: str, root: Path | None = None, outcome: Digest | None = None) -> Standing:
    """Return where the site `name` stands; `outcome`: that of its newest session, if it is known.

    Raises InputError, SiteError.
    """
    here = _described(store, name, root)
    if name not in store.sites():
        of_site = '' if name == UNDESCRIBED else f' --site {name}'
        return replace(here, next=f'measure for the first time: `ci/nightly{of_site}`')
    results, before = store.folder.parent, kept.state(store.folder.parent, name, root)
    outcome = outcome or judge(store, site=name, root=root)
    comparison, rows = outcome.comparison, read_baseline(name, root)
    last = comparison.session
    here = replace(
        here, next=next_step(store, outcome, root), sessions=len(store.sessions(name)), red=bool(outcome.exit_code),
        started=last.started, mode=last.mode or '', ran=last.ran, expected=last.expected or last.ran,
        verdicts=comparison.headline, coverage=comparison.guard,
        incidents={state: len(known) for state in STATES if (known := outcome.of_state(state))},
        rows=len(rows), of=sessions_of(rows) if rows else 0,
        recorded=max((row.recorded_at for row in rows), default=''), unknown=outcome.faults,
    )  # fmt: skip
    now = kept.state(results, name, root)
    if not outcome.faults and now.inputs == before.inputs:  # else a file has changed meanwhile
        kept.keep(results, here, now)
    return here


def _described(store: Store, name: str, root: Path | None) -> Standing:
    """Return what is known of a site without judging its sessions.

    A site that only another suite measured is described by its last session.
    """
    sessions = store.sessions(name)
    if sessions and sessions[-1].is_of_another_suite and not (site_folder(name, root) / 'site.yaml').exists():
        partitions = {case.partition for case in store.cases(sessions[-1])}
        return Standing(name, 'measured by another suite', len(partitions), {})
    site = load_site(name, root)
    stacks = {
        f'{environ} of {partition.name}': (partition.name, environ)
        for partition in site.partitions.values()
        for environ in partition.environs
        if name != UNDESCRIBED and site.environs[environ].provider == 'spack'
    }
    return Standing(name, site.descr, len(site.partitions), stacks)


def next_step(store: Store, digest: Digest, root: Path | None = None) -> str:
    """Return what a person has to do after the session of a digest, with the command.

    Or that there is nothing to do.
    """
    site = digest.comparison.session.site
    if digest.faults:
        return digest.faults[0]
    if is_open := digest.of_state(*FAILING):
        command = with_options(f'plumbline incidents show {is_open[0].id}', digest.results, site)
        first = is_open[0].incident
        said = f', first {first.cause}' if first.sort == 'session' else ''
        if first.is_of_a_change:
            planned = store.command(f'record propose --epoch {shlex.quote(first.changed[0])}', site, root)
            said = f', first with {first.changed[0]} (if that was planned: {planned})'
        return f'{count(len(is_open), "incident")} open{said}: `{command}`'
    proposal = store.folder.parent / 'proposals' / f'{site}.csv'
    if proposal.exists():
        return f'a proposed baseline waits in {proposal}: {store.command("record accept", site, root)}'
    propose = store.command('record propose', site, root)
    rows = read_baseline(site, root)
    if not rows:
        sessions = store.sessions(site)
        doubts = read_doubts(store, sessions, {})
        if len({night for night, _ in doubts}) == len(sessions):
            busy = f'there is no baseline yet, and {count(digest.comparison.busy, "case")} ran on busy nodes'
            return f'{busy}: measure again while they are quiet; then {propose}'
        return f'there is no baseline yet; if the machine is as it should be: {propose}'
    if digest.comparison.hints:
        return digest.comparison.hints[0]
    if digest.unjudged:
        return digest.unjudged
    if digest.word == 'NEEDS A LOOK':
        return f'{"; ".join(digest.doubts)}: {store.command("compare --summary", site, root)}'
    return narrower(store, digest.comparison.session, rows, propose, root)
