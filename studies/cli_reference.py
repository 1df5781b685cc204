# SPDX-License-Identifier: BSD-3-Clause
"""Write docs/cli.md: every command with its arguments and options, read from the code.

python studies/cli_reference.py
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs/cli.md'
#: The programs of ci/ for those who measure.
DRIVERS = [
    path.name for path in sorted((ROOT / 'ci').iterdir())
    if not path.suffix and path.is_file() and ' -m ci.' in path.read_text(encoding='utf-8')
]  # fmt: skip
_HEAD = """\
# Commands

Made from the code by `python studies/cli_reference.py`; `--help` of each command says the same. Input errors are one
line on standard error with file, line and what was expected, and exit code 2; a command for which no code is named
ends with 0 otherwise. `plumbline --install-completion` makes the shell complete commands and options of `plumbline`;
`plumbline --show-completion` prints what it would add.

```text
plumbline: results/store: holds no session whose uuid begins with 'nosuch'
```
"""

_COMMON = 'The section of a command names those that it has. What has no meaning here is as in ReFrame.'
_OFTEN = 5  # commands that have an option with the same meaning: then it is explained once


class Section(NamedTuple):
    """A command: its name, what its help says, and its arguments, each with its meaning."""

    name: str
    texts: list[str]
    rows: list[tuple[str, str]]


def page() -> str:
    """Return the text of docs/cli.md."""
    sys.path.insert(0, str(ROOT))
    import typer.main

    from postprocess.cli import app

    parts = [_HEAD]
    for family, sections in (
        ('ci', [*map(_driver, DRIVERS)]),
        ('plumbline', [*_commands(typer.main.get_command(app), 'plumbline')]),
    ):
        times = Counter(row for section in sections for row in section.rows)
        common = {row for row, n in times.items() if n >= _OFTEN}
        shared = Section(f'Options of many commands of {family}', [_COMMON], [row for row in times if row in common])
        parts += [_text(shared, set()), *(_text(section, common) for section in sections)]
    return '\n'.join(parts)


def _driver(name: str) -> Section:
    module, stop = module_of(name), InterruptedError
    patch = mock.patch.object(argparse.ArgumentParser, 'parse_known_args', autospec=True, side_effect=stop)
    with patch as parse, contextlib.suppress(stop):
        module.parse([])
    parser = parse.call_args.args[0]
    rows = []
    for action in parser._actions:
        words = ' '.join([', '.join(action.option_strings), _value(action)]).strip()
        if action.dest not in ('help', 'version'):
            rows.append((words, (action.help or '') % {'default': action.default}))
    return Section(f'ci/{name}', [parser.description or '', parser.epilog or ''], rows)


def module_of(name: str) -> Any:
    """Return the module that the script of this name in ci/ starts."""
    (found,) = re.findall(r'-m (ci\.[\w.]+)', (ROOT / 'ci' / name).read_text(encoding='utf-8'))
    return importlib.import_module(found)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ''
    choices = '|'.join(map(str, action.choices or ()))
    return str(action.metavar or choices or action.dest.upper())


def _commands(command: Any, name: str) -> Iterator[Section]:
    """Yield the sections of a command of Typer and of the commands below it."""
    if not hasattr(command, 'commands') or command.invoke_without_command:
        options = [_row(one) for one in command.params if one.name != 'help']
        yield Section(name, (command.help or '').replace('\f', '').split('\n\n'), options)
    for below, one in getattr(command, 'commands', {}).items():
        yield from _commands(one, f'{name} {below}')


def _row(parameter: Any) -> tuple[str, str]:
    names = ', '.join((*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == 'argument':
        return str(parameter.metavar), parameter.help or ''
    value = '' if parameter.is_flag else parameter.metavar or parameter.name.upper()
    return f'{names} {value}'.strip(), parameter.help or ''


def _text(section: Section, common: set[tuple[str, str]]) -> str:
    """Return a section of the page; the `common` arguments are only named."""
    prose = [' '.join(text.split()).replace('<', '\\<') for text in section.texts if text.strip()]
    rows = [row for row in section.rows if row not in common]
    if also := [f'`{_cell(words.split()[-2 if words.startswith("-") and " " in words else -1])}`'
                for words, meaning in section.rows if (words, meaning) in common]:  # fmt: skip
        prose.append(f'Also {", ".join(also)}.')
    lines = [f'| `{_cell(words)}` | {_cell(meaning)} |' for words, meaning in rows]
    table = '\n'.join(['| argument | meaning |', '|---|---|', *lines]) if lines else ''
    return f'## {section.name}\n\n' + '\n\n'.join(prose) + '\n' + (f'\n{table}\n' if table else '')


def _cell(text: str) -> str:
    return ' '.join(text.split()).replace('|', '\\|').replace('<', '\\<')


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
