# SPDX-License-Identifier: BSD-3-Clause
"""Judge and show a session, each step in a process beside the command; it imports what it needs itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.isolated import FAULTS, isolated
from postprocess.incidents import FAILING

if TYPE_CHECKING:
    from postprocess.history.digest import Digest
    from postprocess.results.store import Store
    from postprocess.verdicts.verdict import VerdictName

_READING = 5.0  # seconds for reading files of the store each night; a year's files take less


@dataclass(frozen=True)
class Outcome:
    """The outcome of a session. `counts`: series by verdict; `summary`: the text for people; `incidents`: as in JSON.

    `hints`: sentences on what to do next if hardly anything was judged. `next`: where the site stands, and what a
    person has to do, with the command.
    """

    site: str
    mode: str | None
    exit_code: int
    counts: Mapping[VerdictName, int]
    problems: list[str]
    summary: str
    incidents: list[dict[str, Any]]
    hints: list[str]
    next: str

    @property
    def title(self) -> str:
        """What to act on first, in a few words."""
        failing = [incident for incident in self.incidents if incident['state'] in FAILING]
        if not failing:
            return f'{self.site} is as it was' if self.exit_code == 0 else f'{self.site} is not as it was'
        more = f' and {len(failing) - 1} more' if len(failing) > 1 else ''
        return f'{self.site}: {failing[0]["kind"]} {failing[0]["where"]}{more}'


@dataclass(frozen=True)
class LookBack:
    """What the nodes and the history of a session show. `faults`: why a part could not be looked at."""

    lines: list[str]
    faults: list[str]
    needs_attention: bool

    def show(self) -> list[str]:
        """Print the lines, and the faults on standard error; return all of them."""
        lines, faults = ([f'plumbline: {line}\n' for line in part] for part in (self.lines, self.faults))
        print(*lines, sep='', end='', flush=True)
        print(*faults, sep='', end='', file=sys.stderr, flush=True)
        return lines + faults


@isolated
def outcome_of(results: Path, uuid: str, junit: Path, markdown: Path | None = None, strict: bool = False) -> Outcome:
    """Judge a session by the references of its site; write its verdicts as JUnit XML, and the faults as Markdown.

    The evidence of cases that are not ok is kept longer. `strict`: see `Digest`.
    """
    from plumbline.evidence import keep
    from plumbline.files import write_text, write_whole
    from postprocess.history.standing import next_step, standing
    from postprocess.report.junit import to_junit
    from postprocess.verdicts.verdict import BAD
    from postprocess.views.incidents import to_row
    from postprocess.views.verdicts import published, summary

    store, whole = _answer_on(results, uuid)
    whole.strict = strict
    compared, session = whole.comparison, whole.comparison.session
    wrong = {row.case_id: row.verdict for row in compared.verdicts if row.verdict in BAD or row.verdict == 'warning'}
    for case in store.cases(session):
        if case.case_id in wrong:
            keep(results, case.evidence, wrong[case.case_id])
    write_whole({junit: lambda stream: stream.write(to_junit(compared, whole))})
    if markdown:
        write_text(markdown, published(compared, whole))
    step = next_step(store, whole)
    if store.find('latest', session.site) == session:
        # this keeps it, so that `plumbline status` is quick in the morning
        step = standing(store, session.site, outcome=whole).next
    return Outcome(
        session.site, session.mode, whole.exit_code, compared.counts, [*map(str, compared.problems), *whole.faults],
        summary(compared, whole), [dict(to_row(one, whole.day, results)) for one in whole.known], compared.hints, step,
    )  # fmt: skip


def look_back(results: Path, uuid: str) -> LookBack:
    """Write the page of a session, ``report.html``, with its nodes and its history.

    Errors become faults of the result, so that the verdict, which is known already, is not lost.
    """
    try:
        return _look_back(results, uuid)
    except FAULTS as error:
        return LookBack([], [f'the page was not written: {error}'], False)


@isolated
def _look_back(results: Path, uuid: str) -> LookBack:
    from postprocess.readers import check
    from postprocess.report.page import write_page

    store, digest = _answer_on(results, uuid)
    write_page(results / 'report.html', store, digest)
    faults = [
        *digest.faults,
        *(f'the store: {fault}; see `plumbline store check`' for fault in check.part(store, _READING)),
    ]
    return LookBack(list(digest.lines()), faults, bool(digest.new or digest.absent))


def _answer_on(results: Path, uuid: str) -> tuple[Store, Digest]:
    from postprocess.history.digest import judge
    from postprocess.results.store import Store

    store = Store(results)
    return store, judge(store, uuid)
