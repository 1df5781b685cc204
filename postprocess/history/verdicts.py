# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session once: its verdicts are rows of the store, beside a checksum of all that they follow from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

from plumbline.errors import InputError
from postprocess.incidents.ledger import Ledger, Unreadable, accused_by
from postprocess.results import judged
from postprocess.results.store import Session, Store
from postprocess.verdicts.candidates import Accused
from postprocess.verdicts.compare import judge_session
from postprocess.verdicts.rows import comparison_of, facts_of
from postprocess.verdicts.stand_in import first_sessions
from postprocess.verdicts.stored import follows_from
from postprocess.verdicts.verdict import Comparison, Verdict

TABLE = 'verdicts'


class _Accused:
    """What the incidents before a session accuse in the first sessions of its site; `asked`: whether judging asked."""

    def __init__(self, store: Store, session: Session, ledger: Callable[[], Ledger] | None):
        self.store, self.session, self.asked = store, session, False
        self._ledger = ledger or partial(ledger_of, store, session.site, session)

    def __call__(self) -> Accused:
        """Return session -> node or case -> incident."""
        self.asked = True
        return self._found

    @cached_property
    def _found(self) -> Accused:
        first = first_sessions(self.store, self.session)
        return accused_by(self._ledger().before(self.session).known, first)

    @property
    def names(self) -> str:
        """The sessions with what is accused in each as text, without the words on incidents."""
        return str(sorted((session, sorted(names)) for session, names in self._found.items()))


def verdicts_of(
    store: Store, session: Session, root: Path | None = None, reruns: Sequence[Path] = (),
    ledger: Callable[[], Ledger] | None = None,
) -> Comparison:  # fmt: skip
    """Return the verdicts of `session` by the references of its site below `root`: stored, else judged and stored.

    With `reruns`, see `judge_session`, nothing is stored. `ledger`: returns the ledger of the site; it is read only for
    what has no baseline. Raises as `judge_session` does.
    """
    accused = _Accused(store, session, ledger)
    for state in () if reruns else _states(store, session, root, accused):
        if known := judged.read(store, TABLE, session, state, partial(judged.from_row, Verdict)):
            facts, verdicts = known
            return comparison_of(session, verdicts, facts)
    before = '' if reruns else follows_from(store, session, root)
    comparison = judge_session(store, session, root, reruns, accused)
    # else another process changed a file meanwhile, or the nodes may be compared the next time
    if before and not comparison.fault and follows_from(store, session, root) == before:
        state = follows_from(store, session, root, accused.names) if accused.asked else before
        rows = map(judged.to_row, comparison.verdicts)
        with suppress(InputError):  # where nothing can be written, the session is judged again the next time
            judged.write(store, TABLE, session, state, rows, facts_of(comparison))
    return comparison


def are_stored(store: Store, session: Session, root: Path | None, ledger: Callable[[], Ledger]) -> bool:
    """Return True if the verdicts of a session are stored as they would be today."""
    states = _states(store, session, root, _Accused(store, session, ledger))
    return any(judged.is_stored(store, TABLE, session, state) for state in states)


def ledger_of(store: Store, site: str, judging: Session | None = None) -> Ledger:
    """Return the ledger of a site; one that knows nothing where it cannot be read."""
    try:
        return Ledger(store, site, judging)
    except InputError:
        return Unreadable(store, site)


def _states(store: Store, session: Session, root: Path | None, accused: _Accused) -> Iterator[str]:
    """Yield checksums of what stored verdicts follow from: without sessions that stand in for a baseline, then with."""
    if store.path(TABLE, session).exists():
        yield follows_from(store, session, root)
        yield follows_from(store, session, root, accused.names)
