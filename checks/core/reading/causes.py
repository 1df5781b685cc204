# SPDX-License-Identifier: BSD-3-Clause
"""Why a job or a program of it failed: one sentence for each cause. Imports no ReFrame."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checks.core.reading import signatures
from checks.core.reading.outputs import JOB_ENDED, LONGEST, first_words, last_words, own_words, text_of
from plumbline.causes import Cause

# The words of Slurm, the local scheduler and OAR for a job that ended well. LSF, SGE, PBS and Flux say COMPLETED of a
# job that ended in any way
_DONE = ('COMPLETED', 'SUCCESS', 'Terminated')
_OWN_FAULT = ('FAILED', 'FAILURE', *_DONE)  # the job script ended by itself; its exit code tells how
_LOOKED_AT = 2**20  # characters at the beginning and at the end of an output that are searched for a signature


@dataclass(frozen=True)
class Ending:
    """How a job ended: state and exit code of the scheduler.

    Where the scheduler tells no exit code of a job that is done, as LSF never does, the job script tells it: 0 if the
    script came to its end.

    `limit`: its time limit in seconds. `errors`: its standard error. `refused`: why it did not run its trials, from the
    file ``refused`` that it then wrote. `remark`: what the scheduler said of it.
    """

    state: str = 'COMPLETED'
    exitcode: int | None = 0
    name: str = 'the job'
    limit: float | None = None
    errors: str = ''
    refused: str = ''
    remark: str = ''

    @classmethod
    def of(cls, job: Any, stage: Path, patience: float | None) -> Ending:
        """Return how a ReFrame job ended. `patience`: its longest allowed pending time in s."""
        code, remark = job.exitcode, ''
        if code is None and getattr(job, 'signal', None):  # of a local job
            code = 128 + job.signal
        if code is None and job.state in _DONE and (stage / JOB_ENDED).exists():
            code = 0
        if job.state == 'CANCELLED' and not job.nodelist and patience:
            remark = f'it may be pending for at most {patience:.0f} s'
            if waits_for := getattr(job, 'waits_for', ''):
                remark += f", and Slurm's reason was {waits_for}"
        remark = getattr(job, 'lost', remark)
        name, errors, refused = f'job {job.jobid}', text_of(stage / job.stderr), text_of(stage / 'refused').strip()
        return cls(job.state, code, name, job.time_limit, errors, refused and f'refused: {refused}', remark)

    @property
    def well(self) -> bool:
        """True if the job script ran to its end."""
        return self.state in _DONE and self.exitcode == 0

    @property
    def own_fault(self) -> bool:
        """True if the job script failed by itself, as it does because a program failed."""
        return not self.well and not self.refused and self.state in _OWN_FAULT


WELL = Ending()


@dataclass(frozen=True)
class Run:
    """One execution of the program in a trial, in a folder of its own.

    `output`, `errors`: what it printed, once that is read. `who`: its program, such as ``likwid-bench (triad)``.

    A check adds what it learns from an output: to `provenance` of the case, such as a version; to `devices` the GPUs on
    which the program says that it ran, each as ``name`` or ``name at PCI address``; to `invalid` why its numbers cannot
    be trusted.
    """

    name: str
    output: str = ''
    errors: str = ''
    trial: int = 1
    folder: Path = Path()
    provenance: dict[str, str] = field(default_factory=dict, compare=False)
    who: str = ''
    devices: list[str] = field(default_factory=list, compare=False)
    invalid: list[str] = field(default_factory=list, compare=False)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program; None if it did not end, or did not start."""
        text = text_of(self.folder / 'exit_code').strip()
        return int(text) if text.isdecimal() and len(text) < 4 else None

    @property
    def time_limit(self) -> str:
        """The seconds after which its trial was ended while it ran; empty if it was not."""
        return text_of(self.folder / 'time_limit').strip()

    @property
    def running(self) -> bool:
        """True if the run had started and was still running when its job ended."""
        return self.folder.is_dir() and self.exit_code is None


def how_it_ended(code: int | None) -> tuple[str, str]:
    """Return the words for an exit code of a shell, and the name of the signal that it stands for, if any."""
    if code is not None and code > 128 and code - 128 in signal.valid_signals():
        name = signal.Signals(code - 128).name if code - 128 in set(signal.Signals) else f'signal {code - 128}'
        return f'was killed by {name} (exit code {code})', name
    return f'ended with exit code {code}', ''


def what_it_said(errors: str, output: str, environ: str, code: int | None) -> Cause:
    """Return what standard error or output means, without what happened: code, the line that shows it, the remedy.

    `code`: the exit code, used if no line is known.
    """
    own = next(iter(own_words(errors)), '')
    if own and not signatures.of_text(own, environ):
        return Cause('refused', '', detail=f': {own}')
    errors, output = (f'{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}' for text in (own or errors, output))
    if meaning := signatures.of_text(errors, environ) or signatures.of_text(output, environ):
        shown = f': {meaning.means} ("{meaning.line[:LONGEST]}")'
        return Cause(meaning.code, '', detail=shown, remedy=meaning.remedy)
    says = f': "{words}"' if (words := first_words(errors)) else '; it printed no error'
    if not words and (last := last_words(output)):
        says += f', its output ends "{last}"'
    _, name = how_it_ended(code)
    usual = signatures.of_signal(name) or signatures.of_exit_code(code, environ)
    if usual:
        return Cause(usual.code, '', detail=f'{says}; {usual.means}', remedy=usual.remedy)
    return Cause('crash' if name else 'exit-code', '', detail=says)


class Said(str):
    """A fault that a program reported itself: it tells why the program failed, if it did."""


def said(faults: Iterable[str]) -> list[str]:
    """Return what a program reported of itself, for the faults of its run."""
    return [*map(Said, faults)]


def of_program(run: Run, of_trials: int, nodes: str, environ: str, faults: Sequence[str]) -> Cause | None:
    """Return why the program of a run failed; None if it exited with 0, or did not start or end.

    `faults`: what the check finds wrong with its output.
    """
    code = run.exit_code
    if not code:
        return None
    how, _ = how_it_ended(code)
    errors, output = (text_of(run.folder / name) for name in ('stderr', 'stdout'))
    if limit := run.time_limit:
        words = first_words(errors) or last_words(output)
        usual = signatures.of_state('TIMEOUT', f' of the trial, {limit} s,')
        detail = f': "{words}"' if words else '; it printed nothing'
        what = f'{usual.means} while {run.who} ran'
        return Cause(usual.code, what, nodes, (run.trial,), of_trials, detail, usual.remedy)
    if own := next((fault for fault in faults if isinstance(fault, Said)), ''):
        return Cause('validation', f'{run.who} {how}', nodes, (run.trial,), of_trials, f': {own}')
    told = what_it_said(errors, output, environ, code)
    return replace(told, what=f'{run.who} {how}', nodes=nodes, trials=(run.trial,), of_trials=of_trials)


def of_job(ending: Ending, runs: list[Run], of_trials: int, nodes: str, environ: str) -> Cause | None:
    """Return why a job ended early; None if it ended normally. `runs`: all its runs in order."""
    if ending.well:
        return None
    if ending.refused:
        return Cause('refused', f'{ending.name} did not run its trials', nodes, detail=f': {ending.refused}')
    when = _when(runs, of_trials) if nodes or any(run.folder.exists() for run in runs) else 'before it had a node'
    if ending.own_fault:
        ended = f'ended in state {ending.state}, exit code {ending.exitcode}'
        how = how_it_ended(ending.exitcode)[0] if ending.exitcode else ended
        told = what_it_said(ending.errors, '', environ, ending.exitcode)
        return replace(told, what=f'{ending.name} {how} {when}', nodes=nodes)
    usual = signatures.of_state(ending.state, f' of {ending.limit:.0f} s' if ending.limit else '')
    words = first_words(next((text_of(run.folder / 'stderr') for run in runs if run.running), ending.errors))
    detail = f' ({ending.name}, state {ending.state})' + (f': "{words}"' if words else '')
    sentence = f'{usual.means} {when}' + f'; {ending.remark}' * bool(ending.remark)
    return Cause(usual.code, sentence, nodes, detail=detail, remedy=usual.remedy)


def _when(runs: list[Run], of_trials: int) -> str:
    """Return the run during which a job ended, as text."""
    if running := [run for run in runs if run.running]:
        return f'while {running[0].who} ran in trial {running[0].trial} of {of_trials}'
    if ended := [run for run in runs if run.exit_code is not None]:
        return f'after {ended[-1].who} of trial {ended[-1].trial} of {of_trials}'
    return 'before its first trial'


def merged(causes: list[Cause]) -> list[Cause]:
    """Return the causes in their order; those that differ only in the trial are merged."""
    alike: dict[Cause, list[int]] = {}
    for cause in causes:
        alike.setdefault(replace(cause, trials=()), []).extend(cause.trials)
    return [replace(cause, trials=tuple(trials)) for cause, trials in alike.items()]


def of_output(output: str, times: set[int], name: str) -> str:
    """Return a sentence on what makes an output unreadable; empty if nothing does.

    `times`: how often its results were found. `name`: the name of its file.
    """
    if not output.strip():
        return f'it ended with exit code 0 and left an empty {name}'
    if len(times) == 1 and (count := max(times)) > 1:
        return (
            f'its results are there {count} times: {count} programs wrote into one output, each as if it were alone; '
            'look whether launcher and program use the same MPI'
        )
    return ''
