# SPDX-License-Identifier: BSD-3-Clause
"""The part of ReFrame's run report that holds the record of a case."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reframe.core.logging import getlogger

from checks.core.job import node_sweep

if TYPE_CHECKING:
    from checks.core.benchmark import Benchmark


class RecordOf:
    """The record of a case, computed when ReFrame writes its report or the journal.

    ReFrame reads every loggable attribute some 20 times for each case, once for each log line, but writes the record
    once.
    """

    _is_busy = False  # of the class: one record is made at a time

    def __init__(self, check: Benchmark):
        self._check = check

    def __rfm_json_encode__(self) -> dict[str, Any] | None:
        """Return None if the check raises any error, which would lose the report of all other cases.

        Return None also while another record is made, or before the check knows its node: with the log level debug,
        ReFrame asks for the record at each message.
        """
        if RecordOf._is_busy or (self._check.current_partition and not hasattr(self._check, 'topology')):
            return None
        RecordOf._is_busy = True
        try:
            return self._made()
        except Exception as error:
            getlogger().error(f'{self._check.display_name}: has no record: {type(error).__name__}: {error}')
            return None
        finally:
            RecordOf._is_busy = False

    def _made(self) -> dict[str, Any]:
        check = self._check
        if check.result is None and node_sweep.began(check.stagedir):  # the sweep ended before its last place
            check.swept, check.result = node_sweep.read_places(Path(check.stagedir), check.plan(), {})
        record = check.result or check.plan().empty_record()
        if job := check.job:
            record.job = {'id': str(job.jobid), 'state': job.state, 'exitcode': job.exitcode}
            record.job['nodes'] = list(job.nodelist or [])
        return record.to_dict() | ({'swept': check.swept} if check.swept else {})
