# SPDX-License-Identifier: BSD-3-Clause
"""The words of the base class that checks use: few, and each in the table of docs/writing-checks.md."""

import ast
import re
from pathlib import Path

from scratch import ROOT

BASE = {'benchmark': 'Benchmark', 'bounds': 'Bounded', 'budget': 'Budgeted', 'reading/trials': 'Hooks'}
# ReFrame's own words, a setting of each run, and steps of the base that single checks extend
OTHERS = {'env_vars', 'num_nodes', 'trials', 'assemble_job', 'choose_budget', 'job_spec'}
TEXT = (ROOT / 'docs/writing-checks.md').read_text(encoding='utf-8').partition("## Our words beside ReFrame's")[2]
ROWS = [set(re.findall(r'`(?:self\.)?(\w+)', row.split('|')[1])) for row in re.findall(r'^\| `.*', TEXT, re.MULTILINE)]


def names_in(of: ast.ClassDef) -> set[str]:
    """Return the names that a class body assigns or defines."""
    found = {statement.name for statement in of.body if isinstance(statement, ast.FunctionDef)}
    for statement in of.body:
        targets = getattr(statement, 'targets', [getattr(statement, 'target', None)])
        found |= {node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)}
    return found


def classes_in(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.parse(path.read_text(encoding='utf-8')).body if isinstance(node, ast.ClassDef)]


WORDS = {
    name
    for path, base in BASE.items()
    for one in classes_in(ROOT / f'checks/core/{path}.py') if one.name == base
    for name in names_in(one)
} - OTHERS  # fmt: skip


def test_a_check_uses_at_most_12_of_14_rows_of_the_table_and_no_other_word():
    assert 10 < len(ROWS) <= 14
    leaves = [
        one for path in (ROOT / 'checks').glob('*/*.py') for one in classes_in(path)
        if any('simple_test' in ast.unparse(decorator) for decorator in one.decorator_list)
    ]  # fmt: skip
    assert len(leaves) > 20
    for leaf in leaves:
        used = set(re.findall(r'\bself\.(\w+)', ast.unparse(leaf)))
        words = (names_in(leaf) | used) & WORDS
        assert not words - set().union(*ROWS), leaf.name
        assert len([row for row in ROWS if row & words]) <= 12, leaf.name
