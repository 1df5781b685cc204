# SPDX-License-Identifier: BSD-3-Clause
"""Files that a job wrote: read in bounded memory, as plain text."""

from __future__ import annotations

import re
from pathlib import Path

from plumbline import settings
from plumbline.outputs import plain

MIB = 2**20
#: A time stamp that a job writes: the time of day, which may be changed, and the uptime, which cannot, `seconds_of`;
#: then the time of day of a program that starts as the benchmark does, and the uptime after that, see `other_clock`.
CLOCKS = (
    'read -r uptime _ < /proc/uptime; seen=$EPOCHREALTIME; program=$(date +%s.%N); '
    'read -r later _ < /proc/uptime; echo $seen $uptime $program $later'
)
JOB_ENDED = 'job_ended'  #: the file that a job script writes last, if nothing failed before
_NUMBER = re.compile(r'-?[0-9]+(?:\.[0-9]+)?').fullmatch
_TICK = 0.01  # s, the resolution of the uptime
_FASTER = 1.05  # factor between two clocks of a node that no slewing explains: chrony's most is 1.083, of both alike
# Lines that do not explain a failure: rules, warnings, the launcher's banner
_NOISE = re.compile(
    r'\W*$|.*\bwarn(ing)?\b|note:|info\b|\s*at \S+:\d+$|[+>] |primary job +terminated|a non-zero exit code'
    r'|srun: (job|launch/|Job step|cluster conf)|slurmstepd: error: \*\*\* |srun: error: .*(exit code|Exited with)'
    r'|mpirun (detected|noticed)|\S+ detected that one or more processes|={5,}|Loading |Unloading ',
    re.IGNORECASE,
)

# A line by which a program says that something went wrong, though it may go on and exit with 0
_ERROR = re.compile(r'(?:\S+: |ior |mdtest )?(?:ERROR|Error|error)(?=[:! ])(?![\s:=]*[-+.\d])')
# What Open MPI says of itself stands between two lines of 74 dashes
_OPEN_MPI = re.compile(r'^-{74}\n(?:.*\n)*?-{74}$', re.MULTILINE)
_OURS = 'plumbline: '  # with which the job's own scripts begin a line
LONGEST = 200  # characters of a line that is quoted
_SHOWN = 3  # faults of a kind that are listed for a run; further ones are counted


def text_of(path: Path) -> str:
    """Return the text of a file, up to the last whole line within the limit; empty where it cannot be read."""
    most = settings.OUTPUT_LIMIT.get() * MIB
    try:
        with path.open('rb') as stream:
            content = stream.read(most + 1)
    except OSError:
        return ''
    if len(content) > most:
        content = content[: content.rfind(b'\n', 0, most) + 1]
    return plain(content.decode('utf-8', errors='replace'))


def cut_of(path: Path) -> str:
    """Return a sentence if `text_of` does not return all of a file, else an empty text."""
    try:
        size, most = path.stat().st_size, settings.OUTPUT_LIMIT.get()
    except OSError:
        return ''
    if size <= most * MIB:
        return ''
    return (
        f'{path.name} has {size / MIB:.0f} MiB, of which only the first {most} are read '
        f'({settings.OUTPUT_LIMIT.name}): what follows cannot be checked'
    )


def errors_of(text: str, pattern: re.Pattern[str] = _ERROR) -> list[str]:
    """Return the lines that begin as `pattern`: errors that the program reports, without Open MPI's notices."""
    return [line.strip()[:LONGEST] for line in _OPEN_MPI.sub('', text).splitlines() if pattern.match(line.strip())]


def last_words(text: str) -> str:
    """Return the last line of a text that has a word."""
    return next((line.strip()[:LONGEST] for line in reversed(text.splitlines()) if re.search(r'\w', line)), '')


def own_words(text: str) -> list[str]:
    """Return what the job's own scripts said in a text, without the mark of such lines."""
    lines = map(str.strip, text.splitlines())
    return [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]


def first_words(text: str) -> str:
    """Return the first line that reports a failure, else the first one with a word, in at most `LONGEST` characters."""
    lines = [line.strip() for line in text.splitlines() if re.search(r'\w', line)]
    telling = own_words(text) or [line for line in lines if not _NOISE.match(line)] or lines
    return telling[0][:LONGEST] if telling else ''


def some(faults: list[str]) -> list[str]:
    """Return the first faults of a kind, and how many more there are."""
    return faults[:_SHOWN] + [f'and {len(faults) - _SHOWN} more'] * (len(faults) > _SHOWN)


def marks_of(folder: Path) -> tuple[list[float], list[float]]:
    """Return the numbers of the time stamps at the beginning and at the end of a phase, see `CLOCKS`."""
    started, ended = (text_of(folder / mark).split() for mark in ('started', 'ended'))
    # a `date` that tells no parts of a second writes words that are no numbers
    return [float(word) for word in started if _NUMBER(word)], [float(word) for word in ended if _NUMBER(word)]


def seconds_of(folder: Path) -> tuple[float, float] | None:
    """Return the seconds of a trial by uptime, and by how many the time of day was set in it; None if it did not end.

    The time of day is read between two looks at the uptime, so that a busy node, on which it is read late, is no fault.
    """
    started, ended = marks_of(folder)
    if len(started) < 2 or len(ended) < 2:
        return None
    seen, seconds = ended[0] - started[0], ended[1] - started[1]
    least = most = seconds
    if len(started) == len(ended) == 4:
        least, most = ended[1] - started[3], ended[3] - started[1]
    return seconds, seen - min(max(seen, least), most)


def other_clock(folder: Path) -> str:
    """Return a sentence if the clock of programs runs slower or faster than the kernel's in a trial; else empty text.

    `date` read the clock between two looks at the uptime, so that a busy node, on which it starts late, is no fault.
    """
    started, ended = marks_of(folder)
    if len(started) != 4 or len(ended) != 4:
        return ''
    (_, early, start, begun), (_, until, end, over) = started, ended
    seen, least, most = end - start, until - begun - _TICK, over - early + _TICK
    if least < 0 or least / _FASTER <= seen <= most * _FASTER:
        return ''
    return (
        f'programs saw it take {seen:.2f} s, and by /proc/uptime it took {until - early:.2f} s: their '
        'clock is not that of the node; see preloaded_ in the provenance, LD_PRELOAD and /etc/ld.so.preload'
    )
