"""Put run reports, ReFrame's results database, or performance logs of other suites into the results store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from plumbline.errors import InputError
from postprocess.results.perflogs import read_perflogs
from postprocess.results.reports import RunReport, clock_problems, is_database, read_report, sessions_in
from postprocess.results.store import Store
from postprocess.text import count


def ingest(
    store: Store, paths: Sequence[Path], site: str | None = None, expected: int | None = None,
    problems: tuple[str, ...] = (), perflogs: bool = False,
) -> Iterator[str | InputError]:  # fmt: skip
    """Yield a sentence for each session, an error for each file or session that cannot be used."""
    sites, found_any = set(), False
    for found in _reports(store, paths, site, expected, problems, perflogs):
        found_any = True
        if isinstance(found, InputError):
            yield found
            continue
        try:
            added = store.add(found)
        except InputError as error:
            yield error
            continue
        sites.add(found.site)
        where, uuid = found.session['report'], found.session['session']
        if added:
            ran, samples = count(found.session['ran'], 'case'), count(len(found.samples), 'sample')
            wrong = clock_problems(found.session['started'], found.session['ended'])
            yield '; '.join([f'{where}: session {uuid} of {found.site}: {ran}, {samples}', *wrong])
        else:
            ignored = '; --expected and --problem are as they were' if expected is not None or problems else ''
            yield f'{where}: session {uuid} of {found.site} is in the store already: nothing changed{ignored}'
    if not found_any:
        yield 'nothing new: the store has all of it already'
    for name in sites:
        store.compact(name)


def _reports(
    store: Store, paths: Sequence[Path], site: str | None, expected: int | None, problems: tuple[str, ...],
    perflogs: bool,
) -> Iterator[RunReport | InputError]:  # fmt: skip
    if perflogs:
        yield from read_perflogs(paths, store)
        return
    for path in paths:
        try:
            if is_database(path):
                yield from sessions_in(path, {session.session for session in store.sessions('*')}, site)
            else:
                yield read_report(path, site, expected, problems)
        except InputError as error:
            yield error
