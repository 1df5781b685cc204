# SPDX-License-Identifier: BSD-3-Clause
"""The parts of ReFrame's run report that are read, as types; what else is in it is ignored.

`docs/architecture.md` names the function that makes rows of them. Names are ReFrame's; ours begin with ``plumbline_``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from plumbline.record import OWN_CONFIGURATION, Purpose
from postprocess.readers.old_reports import as_version_4
from postprocess.text import one_line


class SessionInfo(msgspec.Struct):
    """What a report says of its session; lists of our drivers are JSON, and absent after a plain ``reframe``."""

    uuid: str
    hostname: str
    version: str
    cmdline: str
    time_start_unix: float
    time_end_unix: float
    user: str | None = None
    plumbline_mode: str | None = None
    plumbline_selection: str | None = None
    plumbline_narrowed_by: str | None = None


class Entry(msgspec.Struct):
    """A test case in a run. `record`: of our checks; other tests may have a variable of that name."""

    unique_name: str
    display_name: str
    system: str
    partition: str
    environ: str
    fixture: bool
    result: str
    fail_phase: str | None = None
    fail_reason: str | None = None
    tags: list[str] | None = None
    scheduler: str | None = None
    jobid: str | int | None = None
    job_exitcode: int | None = None
    job_nodelist: list[str] | str | None = None
    job_completion_time_unix: float | None = None
    time_setup: float | None = None
    time_compile: float | None = None
    time_run: float | None = None
    time_sanity: float | None = None
    time_performance: float | None = None
    time_total: float | None = None
    perfvalues: dict[str, list[Any]] | None = None
    record: Any = msgspec.UNSET
    plumbline_purpose: Purpose = ''
    plumbline_not_run: str = ''

    @property
    def identity(self) -> tuple[str, ...]:
        """What is the same in all runs of a case."""
        return self.unique_name, self.display_name, self.system, self.partition, self.environ

    @property
    def reason(self) -> str:
        """Why it failed, in ReFrame's words; empty if it did not."""
        return reason_of(self.fail_reason)

    @property
    def is_ours(self) -> bool:
        """True if the case is one of our checks, which have a record."""
        is_record = isinstance(self.record, dict) and 'schema' in self.record
        return self.record is not msgspec.UNSET and (not self.perfvalues or is_record)

    @property
    def is_of_own_configuration(self) -> bool:
        """True if the case is one of our checks that ran with a ReFrame configuration of the site's own."""
        provenance = self.record.get('provenance') if isinstance(self.record, dict) else None
        return isinstance(provenance, dict) and provenance.get('configuration') == OWN_CONFIGURATION

    @property
    def is_left_out(self) -> bool:
        """True if a configuration that says too little made ReFrame skip a case of ours: nothing is wrong."""
        return self.result == 'skip' and self.is_of_own_configuration


class Run(msgspec.Struct):
    """A run: the first one, or one of further jobs; `num_cases`: as ReFrame counted them."""

    testcases: list[Entry]
    num_cases: int | None = None


class Restored(msgspec.Struct):
    """A case that ``--restore-session`` took from another session."""

    session_uuid: str | None = None


class Report(msgspec.Struct):
    """A run report of data version 4."""

    session_info: SessionInfo
    runs: list[Run]
    restored_cases: list[Restored] | None = None


class _Versioned(msgspec.Struct):
    data_version: str


class _AnyReport(msgspec.Struct):
    session_info: _Versioned


def report_of(content: Any, digest: str) -> Report:
    """Return a run report from its JSON; `digest`: of the file. Raises ValueError for one of another form."""
    try:
        version = msgspec.convert(content, _AnyReport).session_info.data_version
        if version.startswith('3.'):
            content = as_version_4(content, digest)
        elif not version.startswith('4.'):
            raise ValueError(f'session_info: data_version: expected 3.x or 4.x, found {version}')
        return msgspec.convert(content, Report)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(str(error)) from None


def reason_of(text: str | None) -> str:
    """Return a reason in ReFrame's words on one line; empty without one."""
    return (one_line(text) or '').removeprefix('sanity error: ')
