# SPDX-License-Identifier: BSD-3-Clause
"""Tests over the rows of a table: one test each, which reports every row that fails."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence


def each_row(names: str | Sequence[str], rows: Iterable) -> Callable:
    """Run a test on each row, as `pytest.mark.parametrize` does, but as one test with a subtest for each row.

    The rows share their fixtures: for tests that leave no trace in them.
    """
    names = [name.strip() for name in names.split(',')] if isinstance(names, str) else list(names)
    rows = [row if len(names) > 1 else (row,) for row in rows]

    def decorate(test: Callable) -> Callable:
        parameters = inspect.signature(test).parameters
        fixtures = [parameter for name, parameter in parameters.items() if name not in names]
        if wants_subtests := 'subtests' not in parameters:
            fixtures.append(inspect.Parameter('subtests', inspect.Parameter.POSITIONAL_OR_KEYWORD))

        @functools.wraps(test)
        def run(**given):
            subtests = given.pop('subtests') if wants_subtests else given['subtests']
            assert rows, 'the table is empty, so nothing was tested'
            for row in rows:
                values = dict(zip(names, row, strict=True))
                with subtests.test(**values):
                    test(**given, **values)

        run.__signature__ = inspect.Signature(fixtures)
        return run

    return decorate
