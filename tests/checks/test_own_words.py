# SPDX-License-Identifier: BSD-3-Clause
"""The words of the base class that checks use: few, and each in the table of docs/writing-checks.md."""

import ast
import functools
import inspect
import re
from pathlib import Path

from scratch import ROOT

from checks.core.benchmark import Benchmark
from checks.core.bounds import Bounded
from checks.core.budget import Budgeted
from checks.core.reading.trials import Hooks
from checks.core.recorded import Recorded
from checks.core.selection import Selected

# ReFrame's own words, settings of each run, and steps of the base that single checks extend
OTHERS = {'env_vars', 'num_nodes', 'trial_time_limit'} | {'assemble_job', 'choose_budget', 'job_spec'}
CORE = ROOT / 'checks/core'
TEXT = (ROOT / 'docs/writing-checks.md').read_text(encoding='utf-8').partition("## Our words beside ReFrame's")[2]
ROWS = [set(re.findall(r'`(?:self\.)?(\w+)', row.split('|')[1])) for row in re.findall(r'^\| `.*', TEXT, re.MULTILINE)]
MOST = 12  # words of one check with its bases


@functools.cache
def body_of(cls: type) -> ast.ClassDef:
    return ast.parse(inspect.getsource(cls)).body[0]


def names_in(cls: type) -> set[str]:
    """Return the names that a class body assigns or defines."""
    body = body_of(cls).body
    targets = [target for one in body for target in getattr(one, 'targets', [getattr(one, 'target', None)]) if target]
    assigned = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return assigned | {one.name for one in body if isinstance(one, ast.FunctionDef)}


WORDS = {
    name for cls in (Benchmark, Selected, Recorded, Bounded, Budgeted, Hooks) for name in names_in(cls)
} - OTHERS | {'runs'}


def words_of(check: type) -> set[str]:
    """Return the words of the base that a check and its bases outside of the core define or use."""
    own = [
        base
        for base in check.__mro__
        if 'checks.' in base.__module__ and CORE not in Path(inspect.getfile(base)).parents
    ]
    used = {name for base in own for name in re.findall(r'\bself\.(\w+)', ast.unparse(body_of(base)))}
    return (used | {name for base in own for name in names_in(base)}) & WORDS


def test_a_check_uses_few_words_and_each_stands_in_the_table(classes):
    leaves = [check for check in classes.values() if not check.__subclasses__()]
    assert len(leaves) > 20 and 10 < len(ROWS) <= 12
    used = {check.__name__: words_of(check) for check in leaves}
    for name, words in used.items():
        assert not words - set().union(*ROWS), name
        assert len(words) <= MOST, (name, sorted(words))
    assert set().union(*ROWS) <= set().union(*used.values()), 'a word that no check uses'
