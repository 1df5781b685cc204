# SPDX-License-Identifier: BSD-3-Clause
"""How the numbers of other suites are judged: direction, floor, usual spread and dims, as ``suite.yaml`` states them.

The file is next to the folders of the sites and is optional: without a rule, bounds and units decide.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plumbline.causes import Cause
from plumbline.errors import InputError, SiteError
from plumbline.files import read_yaml
from plumbline.identity import Pairs, Quantity, pairs
from plumbline.paths import SCHEMAS, site_folders
from plumbline.units import UNITS, dimension, factor, plain
from plumbline.yaml_faults import Fault, explain, first_of, items, messages, within
from postprocess.readers import values
from postprocess.results.rows import CaseRow, MetricRow

NAME = 'suite.yaml'
_PATTERNS = ('check', 'metric', 'unit')


@dataclass(frozen=True)
class Rules:
    """The rules of a ``suite.yaml``; for each key, the last matching rule that has it counts."""

    rules: tuple[Mapping[str, Any], ...] = ()

    def of(self, check: str, metric: str, unit: str) -> dict[str, Any]:
        """Return the keys that apply to a performance variable."""
        texts = {'check': check, 'metric': metric, 'unit': unit}
        keys: dict[str, Any] = {}
        for rule in self.rules:
            named = 'name' not in rule or re.fullmatch(rule['name'], metric)
            if named and all(fnmatchcase(texts[key], rule[key]) for key in _PATTERNS if key in rule):
                keys |= {key: value for key, value in rule.items() if key not in _PATTERNS}
        return keys

    def metric(self, check: str, name: str, unit: str, better: str = '') -> tuple[MetricRow, float]:
        """Return a metric without a number, and the factor of its values.

        `better`: the direction that the file states; a rule overrides it. Else the unit decides.
        """
        unit = plain(unit)
        known = better or values.by_unit(unit)
        rule = self.of(check, name, unit)
        wanted = rule.get('convert_to', unit)
        row = MetricRow(name, (), Quantity(wanted, rule.get('better', known or 'higher')))
        if unit in UNITS and dimension(unit) == 'time':
            row = row._replace(floor=values.FLOOR_OF_TIMES)
        row = row._replace(**{key: rule[key] for key in ('floor', 'usual_spread', 'judged') if key in rule})
        if 'name' in rule and (match := re.fullmatch(rule['name'], name)):
            groups = match.groupdict('')
            row = row._replace(metric=groups.pop('metric'), dims=pairs(groups))
        by = 1.0 if wanted == unit else factor(unit, wanted)
        if by is None:
            raise InputError(
                f'{check} {name}: convert_to of {NAME}: {unit or "no unit"} is not of the same kind as {wanted}'
            )
        return row._replace(is_decided=bool(known) or 'better' in rule or not row.judged), by

    def value(
        self, case: CaseRow, name: str, unit: str, value: float | None, bounds: Sequence[float | None],
        is_within: bool | None = None,
    ) -> tuple[MetricRow, Cause | None]:  # fmt: skip
        """Return a performance value of a case, and as the cause of a failure that it is beyond its `bounds`.

        `bounds`: reference, and lower and upper bound as parts of it. `is_within`: see `values.beyond`.
        """
        reference, lower, upper = bounds
        row, factor = self.metric(case.check, name, unit, values.by_bounds(lower, upper))
        cause = values.beyond(row.metric, unit, value, reference, (lower, upper), is_within)
        _, of_case = self.split(case.check, case.params)
        row = row._replace(dims=pairs(dict(row.dims) | dict(of_case)))
        if value is None:
            return row, cause
        fault = values.fault(value * factor, row)
        sample = 1, ','.join(case.nodes), value * factor
        return row._replace(missing=fault or None, samples=[] if fault else [sample]), cause

    def split(self, check: str, params: Pairs) -> tuple[Pairs, Pairs]:
        """Return the params of a case without those that are dims of its metrics, and these dims."""
        names: set[str] = set()
        for rule in self.rules:
            if 'dims' in rule and fnmatchcase(check, rule.get('check', '*')):
                names |= set(rule['dims'])
        rest, moved = (tuple(pair for pair in params if (pair[0] in names) == wanted) for wanted in (False, True))
        return rest, moved


NO_RULES = Rules()


def place() -> Path:
    """Return the path where the rules are, or would be written."""
    folders = site_folders()
    return next((folder / NAME for folder in folders if (folder / NAME).exists()), folders[0] / NAME)


def read_rules(path: Path) -> Rules:
    """Return the rules in `path`; no rules without a file. Raises InputError for the first mistake."""
    if not path.exists():
        return NO_RULES
    try:
        content = read_yaml(path)
        for message in messages(path, _faults(content)):
            raise InputError(message)
    except SiteError as error:
        raise InputError(str(error)) from None
    return Rules(tuple(content['rules'] or ()))


def _faults(content: Any) -> list[Fault]:
    """Return the mistakes in the content of a ``suite.yaml``."""
    of_rules = (fault for place, rule in items(content, 'rules') for fault in within(place, _of_rule(rule)))
    return first_of([explain(_validator().iter_errors(content)), of_rules])


def _of_rule(rule: dict[str, Any]) -> Iterator[Fault]:
    if 'name' in rule and 'metric' not in re.compile(rule['name']).groupindex:
        yield (
            ['name'],
            rf'expected a group of the name metric, such as (?P<metric>\w+)_(?P<size>\d+); found {rule["name"]!r}',
        )
    if 'dims' in rule and (others := {'metric', 'unit'} & rule.keys()):
        yield ['dims'], f'are of whole tests; expected no {" and ".join(sorted(others))} beside it'


@functools.cache
def _validator() -> Any:
    """Return the validator of ``suite.yaml``."""
    import jsonschema

    schema = json.loads((SCHEMAS / 'suite.schema.json').read_text(encoding='utf-8'))
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker(['regex']))
