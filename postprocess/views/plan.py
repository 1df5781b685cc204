# SPDX-License-Identifier: BSD-3-Clause
"""The plan of a night: a table of what runs, and lines of what it does not find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plumbline.units import in_words
from postprocess.text import count
from postprocess.views.table import Column, View

if TYPE_CHECKING:
    from postprocess.history.plan import NightPlan, PossibleCase

_WELL = 0.5  # smallest chance with which a class of faults counts as covered


def plan(found: NightPlan, why: bool) -> View:
    """Return the chosen cases, with `why` also the reason for each, and what they do not cover."""
    spent = sum(look.cost for look in found.chosen)
    whole = sum(look.cost for look in found.looks)
    rows = [
        look.place._asdict() | {'nodes': look.nodes, 'seconds': look.seconds, 'why': found.reason(look)}
        for look in found.chosen
    ]
    known = [covered for covered in found.coverage if covered.measured]
    chances = [
        {'fault': covered.fault.name} | {key: getattr(covered.fault, key) for key in ('where', 'source')}
        | {'tonight': covered.tonight, 'whole': covered.whole}
        for covered in known
    ]  # fmt: skip
    uncovered = (
        (
            'more surely found by the whole night',
            [covered for covered in known if covered.tonight < _WELL <= covered.whole],
        ),
        (
            'not even by the whole night, of one node rather by `ci/node-sweep`',
            [covered for covered in known if covered.whole < _WELL],
        ),
        ('no case here measures it', [covered for covered in found.coverage if not covered.measured]),
    )
    notes = [f'{what}: {", ".join(covered.fault.name for covered in of)}' for what, of in uncovered if of]
    late = f'waits longer than {count(found.longest, "day")}, as the budget is too small'
    for what, looks in ((late, found.late), ('longer than the whole budget', found.too_long)):
        notes += [f'{what}: {_named(looks)}'] * bool(looks)
    if found.unguarded:
        notes.append(f'nothing judges {found.unguarded} series: without a reference of this machine none can fail')
    finds, all_finds = (sum(getattr(covered, of) for covered in known) for of in ('tonight', 'whole'))
    answer = f'finds {finds:.1f} of {len(known)} classes of faults tonight, the whole night {all_finds:.1f}'
    lines = [f'not covered: {note}' for note in notes]
    columns = (
        Column('partition', 'partition'),
        Column('environ', 'environ'),
        Column('name', 'case', priority=1),
        Column('nodes', 'nodes', number=True),
        Column('seconds', 'seconds', '{:.0f}'.format, number=True, priority=1),
        Column('why', 'why' if why else None, width=40),
    )
    return View(
        columns,
        rows,
        before=f'{found.site}: {len(found.chosen)} of {count(len(found.looks), "case")}, {found.rotation} of them by '
        f'rotation; node time {in_words(spent)} of {in_words(whole)}',
        after='\n'.join([*lines, *[''] * bool(lines), _verdict(found, answer)]),
        name='cases',
        document={
            'site': found.site, 'budget': found.budget, 'spent': spent, 'whole': whole, 'rotation': found.rotation,
            'faults': chances, 'not_covered': notes,
        },
    )  # fmt: skip


def _verdict(found: NightPlan, answer: str) -> str:
    """Return the last line: whether the time is enough, and the command that runs the plan."""
    if found.late:
        return f'TOO SHORT: {answer}; give more minutes, or run `ci/nightly` without --minutes tonight'
    nodes = round(found.budget / 60 / found.minutes)
    more = f' --nodes {nodes}' * (nodes != max(look.nodes for look in found.looks))
    return f'OK: {answer}; `ci/nightly --minutes {found.minutes:g}{more}` runs it'


def _named(looks: Sequence[PossibleCase]) -> str:
    """Return the names of the first three cases with their costs, and the number of the others."""
    names = [f'{look.place.name} ({in_words(look.cost)})' for look in looks]
    return ', '.join(names[:3]) + f' and {len(names) - 3} more' * (len(names) > 3)
