# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session: join what it measured with what it should have measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.references import load_references
from postprocess.results.store import Session, Store
from postprocess.verdicts import baseline_files
from postprocess.verdicts.advice import with_advice
from postprocess.verdicts.candidates import Accused, number_of_cases, read_doubts
from postprocess.verdicts.decide import decide
from postprocess.verdicts.facts import candidates_of, facts_of
from postprocess.verdicts.missing import not_measured, recorded_together, without_judgement
from postprocess.verdicts.policy import site_policy
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.reruns import with_reruns
from postprocess.verdicts.stand_in import with_stand_ins
from postprocess.verdicts.together import judge_together
from postprocess.verdicts.verdict import Common, Comparison, worst_first


def judge_session(
    store: Store, session: Session, root: Path | None = None, reruns: Sequence[Path] = (),
    accused: Callable[[], Accused] = dict,
) -> Comparison:  # fmt: skip
    """Judge `session` by the references of its site below `root`.

    `reruns`: run reports of the same cases, run again; a report that is given twice counts once. `accused`: returns
    what was wrong in the sessions that may stand in for a baseline, see `stand_in.first_sessions`. Raises SiteError if
    a file of the site is wrong, InputError if the store or a report cannot be read or a report is of another site.
    """
    stored = store.rows(session)
    cases = stored.cases
    lookup = load_references(session.site, root)
    rows = without_judgement(with_reruns(stored, reruns), lookup)
    policy = site_policy(session, root)
    facts, of_hardware = facts_of(session, rows, cases, lookup, policy, root)
    candidates = candidates_of(facts, lookup)
    share = policy.get('further_jobs')
    facts, common, again, left_out = judge_together(store, session, facts, candidates, cases, share)
    in_common: list[Common] = []
    fault = ''
    try:
        facts, in_common = with_stand_ins(store, session, facts, cases, policy, accused, root)
    except (InputError, SiteError) as error:
        fault = f'the nodes were not compared: {error}'
    facts += not_measured(lookup, rows, cases, session, policy, recorded_together(store, session, lookup, rows))
    verdicts = [decide(of) for of in facts]
    problems = [*of_hardware, *problems_of(session, cases, rows)]
    problems += baseline_files.problems(store, session.site, root)
    command = partial(store.command, site=session.site, root=root)
    busy = read_doubts(store, [session], {})
    comparison = Comparison(
        session, None, worst_first(verdicts), problems, common=common, again=tuple(again), left_out=left_out,
        busy=number_of_cases(busy.values()), busy_jobs=frozenset(case_id for _, case_id in busy),
        common_by_stand_in=in_common, fault=fault,
    )  # fmt: skip
    return with_advice(comparison, cases, lookup.exact.values(), command)
