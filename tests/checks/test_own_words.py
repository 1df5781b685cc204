# SPDX-License-Identifier: BSD-3-Clause
"""The words of the base class that checks use: few, and each in the table of docs/writing-checks.md."""

import ast
import re

import pytest
from scratch import ROOT

BASE = {
    'benchmark': 'Benchmark', 'bounds': 'Bounded', 'budget': 'Budgeted', 'job/assembly': 'Assembled',
    'reading/trials': 'Hooks',
}  # fmt: skip
# ReFrame's own words, a setting of each run, and steps of the base that single checks extend
OTHERS = {'env_vars', 'num_nodes', 'trials', 'slowed'} | {
    'assemble_job', 'choose_budget', 'ending', 'job_spec', 'pass_gpu_buffers',
}  # fmt: skip
TEXT = (ROOT / 'docs/writing-checks.md').read_text(encoding='utf-8').partition("## Our words beside ReFrame's")[2]
ROWS = [set(re.findall(r'`(?:self\.)?(\w+)', row.split('|')[1])) for row in re.findall(r'^\| `.*', TEXT, re.MULTILINE)]


def names_in(body: list[ast.stmt]) -> set[str]:
    """Return the names that a class body assigns or defines."""
    found = {statement.name for statement in body if isinstance(statement, ast.FunctionDef)}
    for statement in body:
        targets = getattr(statement, 'targets', [getattr(statement, 'target', None)])
        found |= {node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)}
    return found


def classes_in(path: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse((ROOT / path).read_text(encoding='utf-8'))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def words_of(leaf: ast.ClassDef) -> set[str]:
    """Return the words of the base that a class states or uses of itself."""
    used = {
        node.attr
        for node in ast.walk(leaf)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == 'self'
    }
    base = set().union(*(names_in(classes_in(f'checks/core/{path}.py')[name].body) for path, name in BASE.items()))
    return (names_in(leaf.body) | used) & base - OTHERS


LEAVES = [
    leaf
    for path in sorted((ROOT / 'checks').glob('*/*.py'))
    if path.parent.name != 'core' and not path.stem.endswith('_output')
    for leaf in classes_in(str(path.relative_to(ROOT))).values()
    if leaf.decorator_list and 'simple_test' in ast.unparse(leaf.decorator_list[0])
]


def test_the_table_has_at_most_14_rows():
    assert 10 < len(ROWS) <= 14


@pytest.mark.parametrize('leaf', LEAVES, ids=lambda leaf: leaf.name)
def test_a_check_uses_at_most_12_rows_of_the_table_and_no_other_word(leaf):
    words = words_of(leaf)
    assert not words - set().union(*ROWS)
    assert len([row for row in ROWS if row & words]) <= 12
