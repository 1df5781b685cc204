"""How well the metrics of a session are guarded: which of them a limit can fail, and what loss each would notice."""

from __future__ import annotations

from collections import Counter

from postprocess.verdicts.compare import Comparison, MetricVerdict

#: What becomes of a loss of the metric: it fails; it only warns, for one of three reasons; it is compared with nothing;
#: nobody measures the metric any more; it is only shown.
STANDINGS = ('gated', 'provisional', 'too_noisy', 'elsewhere', 'no_reference', 'vanished', 'not_judged')


def standing(row: MetricVerdict) -> str:
    if row.gate and row.value is None:
        return 'vanished'
    if row.verdict == 'not_judged':
        return row.verdict
    return row.gate or 'no_reference'


def guarded(comparison: Comparison) -> list[tuple[str, MetricVerdict]]:
    """Each metric with its standing, the least guarded first; those of a kind by what they notice, the least first."""
    rows = [(standing(row), row) for row in comparison.verdicts if row.metric != '*']
    least_first = [*reversed(STANDINGS[:-1]), STANDINGS[-1]]
    return sorted(rows, key=lambda pair: (least_first.index(pair[0]), -(pair[1].detectable or 0)))


def counts(comparison: Comparison) -> dict[str, int]:
    found = Counter(name for name, _ in guarded(comparison))
    return {name: found[name] for name in STANDINGS if found[name]}


def headline(comparison: Comparison) -> str:
    """``180 gated, 14 provisional, 9 too noisy, 9 no reference``."""
    return ', '.join(f'{n} {name.replace("_", " ")}' for name, n in counts(comparison).items()) or 'no metric'
