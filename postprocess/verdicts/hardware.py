# SPDX-License-Identifier: BSD-3-Clause
"""Find jobs that had other CPUs, memory or GPUs than the jobs that their baseline was recorded from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from plumbline.identity import CaseId
from plumbline.units import number_in
from postprocess.results.store import Session, Store
from postprocess.results.tables import NODE, facts_in_sql

#: Fact of the provenance of a case -> the value in words.
HARDWARE = {'cpus': '{} CPUs', 'memory': '{} of memory', 'gpus': '{}'}
_ALIKE = 0.03  # share of the memory by which kernels differ in what they keep: less than one of 32 modules
_FACTS = facts_in_sql(HARDWARE)
_OF_CASES = f'SELECT DISTINCT "partition", environ, "check", params, {_FACTS} AS facts FROM cases WHERE NOT fixture'
_JOBS = f"""
    SELECT night, case_id, number, {NODE} AS node
    FROM (SELECT *, {_FACTS} AS facts FROM cases WHERE NOT fixture) JOIN wanted
        USING ("partition", environ, "check", params, facts)
    ORDER BY night, case_id
"""


class UnlikeJob(NamedTuple):
    """A job that had other hardware; `night`: index of its session; `why`: see :func:`unlike`."""

    night: int
    case_id: int
    case: CaseId
    node: str
    why: str


def unlike(had: Mapping[str, str | None], recorded: Mapping[str, str | None]) -> str:
    """Return what a job had other than `recorded`: ``1 of 2 CPUs (in the baseline 2)``; empty if it is the same.

    A fact that one of the two does not have says nothing. A fact of a baseline may have several values, with `` | ``
    between them.
    """
    parts = []
    for fact, words in HARDWARE.items():
        # what is written into a baseline has no semicolons
        now, before = ((of.get(fact) or '').replace(';', ',') for of in (had, recorded))
        if now and before and not any(_is_same(fact, now, value) for value in before.split(' | ')):
            what = words.format(now).replace('CPUs', 'CPU' if now == '1' else 'CPUs')
            parts.append(f'{what} (in the baseline {before.replace(" | ", " or ")})')
    return ', '.join(parts)


def _is_same(fact: str, now: str, before: str) -> bool:
    """Return True if two values of a fact count as the same."""
    if fact == 'gpus':
        return now == before
    own, recorded = _number(now), _number(before)
    if own is None or recorded is None:
        return now == before
    return own == recorded if fact == 'cpus' else abs(own - recorded) <= max(_ALIKE * recorded, 1.0)


def _number(value: str) -> float | None:
    """Return the number at the beginning of ``64 of 128`` or ``251 GiB``."""
    return number_in(value.partition(' ')[0])


def unlike_jobs(
    store: Store, sessions: Sequence[Session], recorded: Mapping[CaseId, Mapping[str, str]]
) -> Iterator[UnlikeJob]:
    """Yield the jobs of `sessions` with other hardware than `recorded` says of their case.

    Of a case that `recorded` lacks, the jobs with the most CPUs count as recorded.
    """
    of_case: dict[CaseId, list[dict[str, str | None]]] = {}
    for row in store.select(_OF_CASES, sessions):
        of_case.setdefault(row['id'], []).append(dict(zip(HARDWARE, row['facts'], strict=True)))
    wanted = [
        (case, had, why)
        for case, each in of_case.items()
        for had in each
        if (why := unlike(had, recorded.get(case) or max(each, key=lambda facts: _number(facts['cpus'] or '') or 0.0)))
    ]
    if not wanted:
        return
    columns: dict[str, list[Any]] = {
        'id': [case for case, _, _ in wanted],
        'facts': [list(had.values()) for _, had, _ in wanted],
        'number': list(range(len(wanted))),
    }
    for row in store.select(_JOBS, sessions, wanted=columns):
        case, _, why = wanted[row['number']]
        yield UnlikeJob(row['night'], row['case_id'], case, row['node'], why)
