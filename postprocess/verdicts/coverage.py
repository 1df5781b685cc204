"""How well the metrics of a session are guarded: which of them a limit can fail, and what loss each would notice."""

from __future__ import annotations

from collections import Counter
from typing import Any

from postprocess.text import Column, percent, to_csv, to_json, to_markdown, to_table
from postprocess.verdicts.compare import WANTED, Comparison, MetricVerdict

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


def to_text(comparison: Comparison, format: str) -> str:
    """All of it: a table or Markdown under the headline, JSON or CSV."""
    rows = guarded(comparison)
    if format == 'json':
        return to_json({'counts': counts(comparison), 'metrics': [_as_dict(*row) for row in rows]})
    if format == 'csv':
        return to_csv([_as_dict(*row) for row in rows], list(_FIELDS))
    if format == 'markdown':
        return f'{headline(comparison)}\n\n{to_markdown(rows, _SHOWN)}'
    return f'{to_table(rows, _SHOWN)}\n{headline(comparison)}\n'


_FIELDS = (
    'standing', 'partition', 'stack', 'check', 'case', 'metric', 'expected_n', 'detectable', 'repeats', 'limit_why',
    'reference_kind', 'reference_source', 'cause',
)  # fmt: skip
_SHOWN = [
    Column('', lambda pair: pair[0].replace('_', ' ')),
    Column('partition', lambda pair: f'{pair[1].partition}/{pair[1].stack}'),
    Column('check', lambda pair: pair[1].check),
    Column('case', lambda pair: pair[1].case),
    Column('metric', lambda pair: pair[1].metric),
    Column('n', lambda pair: str(pair[1].expected_n or ''), number=True),
    Column('notices', lambda pair: percent(pair[1].detectable and -pair[1].detectable), number=True),
    Column(f'jobs for {WANTED:.0%}', lambda pair: str(pair[1].repeats or ''), number=True),
    Column('limit from', lambda pair: pair[1].limit_why or pair[1].cause),
]


def _as_dict(name: str, row: MetricVerdict) -> dict[str, Any]:
    return {'standing': name} | {field: getattr(row, field) for field in _FIELDS[1:]}
