"""Tell how well the series of a session are guarded: which of them a limit can fail, and what loss each notices."""

from __future__ import annotations

from collections import Counter

from postprocess.verdicts.verdict import Comparison, Verdict

#: What a loss in a series leads to: a failure; a warning, for one of three reasons; nothing, as there is no reference,
#: as it is not measured any more, or as it is informational.
STANDINGS = ('gated', 'provisional', 'too_noisy', 'elsewhere', 'no_reference', 'vanished', 'informational')
FALSE_SHARE = 0.05  # of the flags that stand among all series of a session
HOW_TO_RECORD = (
    'No metric of this session has a reference, so nothing was judged. If the machine is as it should be, record '
    'this session as the baseline: `plumbline record propose`, read what it prints, then `plumbline record accept`.'
)


def standing(row: Verdict) -> str:
    """Return which of `STANDINGS` a series has."""
    if row.limits and row.value is None:
        return 'vanished'
    if row.verdict == 'informational':
        return row.verdict
    return row.limits.gate if row.limits else 'no_reference'


def guarded(comparison: Comparison) -> list[tuple[str, Verdict]]:
    """Return each series with its standing, the least guarded first; equal ones by the loss they notice."""
    rows = [(standing(row), row) for row in comparison.verdicts if row.id.metric != '*']
    least_first = [*reversed(STANDINGS[:-1]), STANDINGS[-1]]

    def detectable(row: Verdict) -> float:
        return (row.limits and row.limits.detectable) or 0.0

    return sorted(rows, key=lambda pair: (least_first.index(pair[0]), -detectable(pair[1])))


def counts(comparison: Comparison) -> dict[str, int]:
    """Return how many series have each standing, without standings that none has."""
    found = Counter(name for name, _ in guarded(comparison))
    return {name: found[name] for name in STANDINGS if found[name]}


def counted(comparison: Comparison) -> str:
    """Return the counts as ``180 gated, 14 provisional, 9 too noisy, 9 no reference``."""
    return ', '.join(f'{n} {name.replace("_", " ")}' for name, n in counts(comparison).items()) or 'no metric'


def guard(comparison: Comparison) -> str:
    """Return how many series are gated, and how many flags are chance: of many series some are always beyond 99 %."""
    tested = [row for row in comparison.verdicts if row.q is not None]
    lines = [f'Guarded: {counted(comparison)}.']
    if tested:
        flags = sum(row.verdict == 'regressed' for row in tested)
        certain = sum(row.verdict == 'regressed' and (row.q or 0.0) <= FALSE_SHARE for row in tested)
        chance = f'{comparison.false_flags:.2g}' if comparison.false_flags < 10 else f'{comparison.false_flags:.0f}'
        lines.append(
            f'Flagged: {flags} of the {len(tested)} gated with a known spread; {chance} expected '
            f'by chance before reruns; {certain} stand among all (Benjamini-Hochberg, {FALSE_SHARE:.0%}).'
        )
    return ' '.join(lines)
