# SPDX-License-Identifier: BSD-3-Clause
"""Refuse options ``-S`` that set nothing; ReFrame warns of them in its output, and runs everything without them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence

from plumbline.checkout import checks_of
from plumbline.errors import InputError, did_you_mean
from plumbline.paths import ROOT

_LISTED = re.compile(r'^\s*[-^] ?(\w+).* @\S+')
_NOT_SET = re.compile(r"test '(\w+)': the following variables were not set: (.*)")


def refuse_unset(words: Sequence[str], listing: Iterable[str], narrowed: bool) -> None:
    """Raise InputError for the first ``-S`` in ReFrame's options `words` that no check of its `listing` takes.

    `narrowed`: whether others are left out, which may take it.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('-S', '--setvar', action='append', default=[])
    listed: set[str] = set()
    unset: dict[str, list[str]] = {}
    for line in listing:
        if match := _NOT_SET.search(line):
            unset[match[1]] = re.findall(r"'([^']+)'", match[2])
        elif match := _LISTED.match(line):
            listed.add(match[1])
    for assignment in parser.parse_known_args(words)[0].setvar:
        name, equals, _ = assignment.partition('=')
        check, of_one_check, variable = name.partition('.')
        if not equals:
            raise InputError(f'-S {assignment}: expected NAME=VALUE or CHECK.NAME=VALUE')
        if of_one_check and check not in listed and check not in (known := checks_of(ROOT / 'checks')):
            raise InputError(f'-S {assignment}: no such check: {check}{did_you_mean(check, known)}')
        if of_one_check and variable in unset.get(check, ()):
            raise InputError(f'-S {assignment}: {check} has no variable {variable}')
        if not of_one_check and listed and not narrowed and all(name in unset.get(one, ()) for one in listed):
            raise InputError(f'-S {assignment}: no selected check has a variable {name}')
