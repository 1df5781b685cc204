# SPDX-License-Identifier: BSD-3-Clause
"""Compute a digest that tells whether a check still is as it was when a baseline was recorded."""

import ast
import functools
import hashlib
import inspect
from pathlib import Path

_CORE = Path(__file__).resolve().parent
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


@functools.cache
def digest(check: type) -> str:
    """Return a digest of the code of a check and of its base classes; without comments, docstrings and `checks/core`.

    The version of the suite in the provenance covers the core.
    """
    files = sorted({Path(inspect.getfile(base)).resolve() for base in check.__mro__ if base is not object})
    own = [path for path in files if _CORE.parent in path.parents and _CORE not in path.parents]
    return hashlib.sha256('\n'.join(map(code_of, own)).encode()).hexdigest()[:12]


@functools.cache
def code_of(path: Path) -> str:
    # lines, not ast.dump: its text differs between versions of Python
    source = path.read_text(encoding='utf-8')
    prose = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = (line for number, line in enumerate(source.splitlines(), 1) if number not in prose)
    return '\n'.join(line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith('#'))
