# SPDX-License-Identifier: BSD-3-Clause
"""The part of ReFrame's run report that holds the record of a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reframe.core.logging import getlogger


class RecordOf:
    """The record of the case `name`, made by `make` when ReFrame writes its report or the journal.

    ReFrame reads every loggable attribute some 20 times for each case, once for each log line, but writes the record
    once.
    """

    _is_busy = False  # of the class: one record is made at a time

    def __init__(self, name: str, make: Callable[[], dict[str, Any] | None]):
        self._name, self._make = name, make

    def __rfm_json_encode__(self) -> dict[str, Any] | None:
        """Return None if `make` raises any error, which would lose the report of all other cases.

        Return None also while another record is made: with the log level debug, ReFrame asks for it at each message.
        """
        if RecordOf._is_busy:
            return None
        RecordOf._is_busy = True
        try:
            return self._make()
        except Exception as error:
            getlogger().error(f'{self._name}: has no record: {type(error).__name__}: {error}')
            return None
        finally:
            RecordOf._is_busy = False
