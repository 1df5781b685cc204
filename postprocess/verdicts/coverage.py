"""Tell how well series are guarded: which of them a limit can fail, and what loss each notices."""

from __future__ import annotations

from collections import Counter

from postprocess.verdicts.verdict import Comparison, Verdict

#: What a loss in a series leads to: a failure; a warning, as its number is of another machine; nothing, as there is no
#: reference, as it is not measured any more, or as it is informational.
STANDINGS = ('gated', 'elsewhere', 'no_reference', 'vanished', 'informational')


def standing(row: Verdict) -> str:
    """Return which of `STANDINGS` a series has."""
    if row.limits and row.value is None:
        return 'vanished'
    if row.verdict == 'informational':
        return row.verdict
    return row.limits.gate if row.limits else 'no_reference'


def guarded(comparison: Comparison) -> list[tuple[str, Verdict]]:
    """Return each series with its standing, the least guarded first; equal ones by the loss they notice."""
    rows = [(standing(row), row) for row in comparison.series if row.id.metric != '*']
    least_first = [*reversed(STANDINGS[:-1]), STANDINGS[-1]]

    def detectable(row: Verdict) -> float:
        return (row.limits and row.limits.detectable) or 0.0

    return sorted(rows, key=lambda pair: (least_first.index(pair[0]), -detectable(pair[1])))


def counts(comparison: Comparison) -> dict[str, int]:
    """Return how many series have each standing, without standings that none has."""
    found = Counter(name for name, _ in guarded(comparison))
    return {name: found[name] for name in STANDINGS if found[name]}


def counted(comparison: Comparison) -> str:
    """Return the counts as ``180 gated, 9 no reference``."""
    return ', '.join(f'{n} {name.replace("_", " ")}' for name, n in counts(comparison).items()) or 'no metric'


def guard(comparison: Comparison) -> str:
    """Return how many series are gated, and what losses they notice within one session."""
    noticed = sorted(
        row.limits.detectable
        for name, row in guarded(comparison)
        if name == 'gated' and row.limits and row.limits.detectable
    )
    text = f'Guarded: {counted(comparison)}.'
    if noticed:
        half, every = (f'{100 * loss:.1f} %' for loss in (noticed[len(noticed) // 2], noticed[-1]))
        when = 'Half' if comparison.scope else 'Within one session half'
        text += f' {when} of them notice losses above {half}, all of them losses above {every}.'
    return text
