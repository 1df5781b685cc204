# SPDX-License-Identifier: BSD-3-Clause
"""Read the lines of a performance log by its header, for any format string of ReFrame.

The header is the format string with the names of fields: ``jobid=jobid|perf_var=perf_value|ref=perf_ref``. ReFrame
leaves out the text before the first field, and closing brackets after the last performance variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NOTHING = ('', 'null', 'None')
_DELIMITERS = ('|', '\t', ';', ',')
_OF_VALUE = ('value', 'unit', 'ref', 'lower_thres', 'upper_thres', 'result', 'var')
_NUMBERS = ('value', 'ref', 'lower_thres', 'upper_thres')
_FIELDS = (
    'asctime', 'version', 'hostname', 'osuser', 'osgroup', 'message', 'levelname', 'job_completion_time_unix',
    'job_completion_time', 'job_submit_time', 'job_exitcode', 'job_nodelist', 'jobid', 'display_name', 'unique_name',
    'short_name', 'name', 'system', 'partition', 'environ', 'info', 'result', 'descr', 'tags', 'maintainers', 'modules',
    'env_vars', 'extra_resources', 'num_tasks_per_node', 'num_tasks_per_core', 'num_tasks_per_socket', 'num_tasks',
    'num_cpus_per_task', 'num_gpus_per_node', 'exclusive_access', 'use_multithreading', 'fail_phase', 'fail_reason',
)  # fmt: skip
_TOKEN = re.compile(
    rf'(?<![\w-])(?:(?P<metric>[^\s=:,;()\[\]]+)_(?P<of>{"|".join(_OF_VALUE)})|(?P<field>{"|".join(_FIELDS)}))(?![\w-])'
)
_END = re.compile(rf'_({"|".join(_OF_VALUE)})(?![\w-])')
_NUMBER = r'([-+.\deE]+|[-+]?(?:nan|inf)|None|null|)'
_LABEL = re.compile(r'[\w ]+[=:]\s*')
#: The field that ReFrame calls ``info``: name, an optional hash, and the place.
_INFO = re.compile(
    r'(?P<name>.*?)(?: /[0-9a-f]{6,})? '
    r'(?:@|on )(?P<system>[^\s:]+):(?P<partition>[^\s+]+)(?:\+| using )(?P<environ>\S+)'
)


def reader_of(header: str) -> Callable[[str], dict[str, str] | None]:
    """Return a function that returns the fields of a line by name, without empty ones; None for a line of another form.

    The columns of a performance variable become ``triad_value``, ``triad_unit``, ``triad_ref``, also if each variable
    has a line of its own.
    """
    delimiter = next((mark for mark in _DELIMITERS if mark in header), None)
    parts = header.split(delimiter) if delimiter else [header]
    columns = [_column(part.strip(), first=not place) for place, part in enumerate(parts)]

    def read(line: str) -> dict[str, str] | None:
        values = line.split(delimiter) if delimiter else [line]
        if len(values) != len(columns):
            return None
        fields: dict[str, str] = {}
        for column, value in zip(columns, values, strict=True):
            fields_of_column = column(value.strip())
            if fields_of_column is None:
                return None
            fields |= {name: text for name, text in fields_of_column.items() if text not in NOTHING}
        return _of_one_variable(_with_info(fields))

    return read


def _column(header: str, first: bool) -> Callable[[str], dict[str, str] | None]:
    """Return a function that reads one column: a column that is a field, or a text that contains fields."""
    tokens = list(_TOKEN.finditer(header))
    of_one = _of_one_metric(header)
    if not of_one and (not tokens or (len(tokens) == 1 and _is_name(header, tokens[0]))):
        return lambda text: {header: _LABEL.sub('', text, count=1) if first and _LABEL.match(text) else text}
    places = of_one or [(token.start(), token.end(), token[0], token['of'] or '') for token in tokens]
    pattern, end = '', 0
    for start, stop, _, of in places:
        group = _NUMBER if of in _NUMBERS else '(.*)' if of == 'var' else '(.*?)'
        pattern, end = pattern + re.escape(header[end:start]) + group, stop
    whole = re.compile(pattern + (re.escape(header[end:]) or r'\W*'))
    names = [name for _, _, name, _ in places]

    def read(text: str) -> dict[str, str] | None:
        if not (match := whole.fullmatch(text)):
            return None if text not in NOTHING else {}
        # a value equal to its name was a label in the header: `jobid=jobid`
        return {name: value for name, value in zip(names, match.groups(), strict=True) if value != name}

    return read


def _of_one_metric(header: str) -> list[tuple[int, int, str, str]] | None:
    """Return (start, end, name, key) of each value of one variable; None if the header has several variables or none.

    The name of the variable, which may contain blanks and more, is the common beginning of all values.
    """
    ends = list(_END.finditer(header))
    begins = [0, *(end.end() for end in ends)]
    texts = [header[begin : end.start()] for begin, end in zip(begins, ends, strict=False)]
    name = _common_end(texts).lstrip(' =:([,;') if len(ends) > 1 else ''
    if not name:
        return None
    return [(end.start() - len(name), end.end(), f'{name}{end[0]}', end[1]) for end in ends]


def _common_end(texts: list[str]) -> str:
    """Return the longest text with which all `texts` end."""
    first = texts[0]
    return next(first[at:] for at in range(len(first) + 1) if all(text.endswith(first[at:]) for text in texts))


def _is_name(header: str, token: re.Match[str]) -> bool:
    """Return True if a column is only a name; the name of a performance variable may contain blanks and more."""
    return token[0] == header or bool(token['of'] and token.end() == len(header) and not re.match(r'\w+[=:] ?', header))


def _with_info(fields: dict[str, str]) -> dict[str, str]:
    """Return the fields, with the name and place that ``info`` contains."""
    match = _INFO.fullmatch(fields.get('info', ''))
    return (match.groupdict() if match else {}) | fields


def _of_one_variable(fields: dict[str, str]) -> dict[str, str]:
    """Return the fields with the name of the variable in place of ``perf``, for a line with one variable."""
    name = fields.get('perf_var')
    if name is None:
        return fields
    return {
        f'{name}_{key.removeprefix("perf_")}' if key.startswith('perf_') else key: value
        for key, value in fields.items()
    }
