# SPDX-License-Identifier: BSD-3-Clause
"""Find faults in the looks at the threads of a rank that ``parts/watch.sh`` took while its program ran."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from checks.core.placement import Cpus, cpu_list, parse_cpu_list
from checks.core.reading.outputs import some

# Thresholds, as parts of the time between two looks in which a thread ran or waited for a CPU
_RAN = 0.1  # below it a thread is ignored: helper threads of MPI that mostly sleep may be anywhere
_BUSY = 0.5  # from here a thread needs a CPU of its own
_USED = 0.02  # busy threads use at least this part of their CPUs, unless other processes have them
_ALIKE = 0.1  # part of the time of the busiest thread: threads that share a CPU get similar times
_ALIKE_UNDER_LOAD = 0.5  # the same where other programs have a part of these CPUs: threads that work get equal times
_OWN = 0.75  # part of the CPUs that the busy threads of a rank have; below it, other programs have the rest
_MOMENT = 0.25  # s; a thread may be elsewhere for so long
_MORE = 0.1  # CPUs; threads that share want as many more than there are: one after the other, they want no more
_LONG_ENOUGH = 0.1  # s; sharing for less is no fault: threads are created with all CPUs, then bound
_BEYOND = 1.1  # times the CPU time of the rank's CPUs: more than that was used elsewhere
_GONE = 0.5  # part of the CPU time; if more of it was in threads that no look saw, it is a fault
_ENOUGH = 0.5  # s of CPU time; less is not judged, as a program may be started by scripts
_LOOKED_BY = 2.0  # s; within this time there must be a look; the time grows with each thread by:
_FOR_A_THREAD = 0.25  # s
_STARTED = 3.0  # s; within it all requested threads must have been busy once
_AWAKE = 0.25  # part of the time between looks, from which a thread counts as working
_PART = 0.75  # the least part of the requested threads that must work
_OFF = ('none', '0', 'off', 'no', 'false', 'disable', 'disabled', 'quiet,none', 'quiet', '')  # values that bind nothing
_MARK = 'PLUMBLINE_SEES'  # in the environment of the program, but not of its wrapper
_TICKS = 100.0  # of user space in a second: USER_HZ on all machines that Linux still has but Alpha
_POLICIES = {'0': 'SCHED_OTHER', '1': 'SCHED_FIFO', '2': 'SCHED_RR', '3': 'SCHED_BATCH', '5': 'SCHED_IDLE'}  # sched(7)


class Thread(NamedTuple):
    """A thread at one look. `process`: ``.`` or the number of a child. `ran`, `waited`: seconds on or for a CPU."""

    process: str
    number: int
    ran: float
    waited: float
    cpus: Cpus
    name: str

    @property
    def key(self) -> tuple[str, int]:
        return self.process, self.number


@dataclass(frozen=True)
class ThreadLook:
    """All threads of a rank, `at` seconds after its start. `environs`: process -> its variables of visible GPUs.

    `spent`: process -> CPU seconds, including threads and children that have ended. `classes`: policy and nice value of
    threads that are scheduled differently from the start of the rank.
    """

    at: float
    threads: list[Thread] = field(default_factory=list)
    environs: dict[str, dict[str, str]] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    classes: dict[tuple[str, int], str] = field(default_factory=dict)


class Interval(NamedTuple):
    """The seconds between two looks, and the later one. `threads`: its threads, each with the seconds that it ran since
    the look before, and those in which it ran or waited for a CPU, 0 if it did not run.
    """

    seconds: float
    look: ThreadLook
    threads: list[tuple[Thread, float, float]]


@dataclass(frozen=True)
class Watched:
    """The looks at a rank; the first one shows the wrapper that becomes its program.

    `ended`: seconds after the start; None if unknown. `own`: CPU seconds of all looks. `only_itself`: the kernel
    does not list children. `asked`: OpenMP threads requested. `variables`: environment variables that bind. `clocks`:
    kHz of the CPU of the first thread at each look.
    """

    looks: tuple[ThreadLook, ...] = ()
    ended: float | None = None
    own: float | None = None
    only_itself: bool = False
    asked: int = 1
    variables: Mapping[str, str] = field(default_factory=dict)
    clocks: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the number of looks as text; says nothing about faults."""
        seen = [interval.look for interval in self.intervals]
        if not seen and self.ended is not None:
            return f'too short to look at: {self.ended:.2f} s'
        if not seen:
            return 'not looked at'
        if not self.number():
            return 'not looked at: this kernel does not tell which threads ran'
        of = ' s' if self.ended is None else f' of {self.ended:.2f} s'
        words = [f'{len(seen)} look{"s" * (len(seen) > 1)}, the last after {seen[-1].at:.2f}{of}']
        words += ['this kernel does not tell its children'] * self.only_itself
        return '; '.join(words)

    def number(self) -> int:
        """Return the number of looks that tell which threads ran."""
        seen = self.intervals
        return len(seen) if seen and any(thread.ran for thread in seen[-1].look.threads) else 0

    def faults(self, bound: Cpus, ours: Mapping[str, str]) -> list[str]:
        """Return a sentence for each fault of the rank; `ours`: the variables that the job set."""
        found = [f'{fault}{self._cause(ours)}' for fault in self._moved(bound)]
        found += self._shared(bound, ours)
        found = found or [*self._beyond(bound)] or [*self._gone()]
        return some([*found, *self._reclassed(), *self._lazy()])

    def unseen(self, after: float) -> str:
        """Return a sentence if a program ran for long without a look, else an empty text.

        `after`: seconds from the last line about the rank to the end of its run, used if its own end is unknown. Pauses
        between looks double, and are longer with many threads.
        """
        last = self.looks[-1] if self.looks else ThreadLook(0.0)
        ended = last.at + after if self.ended is None else self.ended
        if ended < _LOOKED_BY:
            return ''
        if not self.intervals:
            return f'nobody looked at it in the {ended:.1f} s that it ran'
        if not any(thread.ran for thread in last.threads):
            return 'nobody knows where its threads ran: this kernel does not tell which ones did'
        if ended - last.at > _LOOKED_BY + 2 * last.at + _FOR_A_THREAD * len(last.threads):
            return f'nobody looked at it in the last {ended - last.at:.1f} of the {ended:.1f} s that it ran'
        return ''

    def _beyond(self, bound: Cpus) -> Iterator[str]:
        """Yield a sentence if the rank used more CPU time in total than its CPUs can provide."""
        for look in reversed(self.looks[1:]):
            seconds, spent = look.at - self.looks[0].at, self._spent(look)
            if spent > _ENOUGH and spent > _BEYOND * seconds * len(bound):
                yield (
                    f'it used {spent:.1f} s of CPU time in {seconds:.1f} s, more than CPU {cpu_list(bound)} has, to '
                    f'which the rank was bound'
                )
                return

    def _spent(self, look: ThreadLook) -> float:
        return sum(look.spent.values()) - sum(self.looks[0].spent.values())

    def _gone(self) -> Iterator[str]:
        """Yield a sentence if much CPU time belongs to threads that ended between two looks."""
        last: dict[tuple[str, int], float] = {}
        for look in self.looks:
            last |= {thread.key: thread.ran for thread in look.threads}
        spent = self._spent(self.looks[-1]) if self.looks else 0.0
        if spent > _ENOUGH and (gone := spent - sum(last.values())) > _GONE * spent:
            yield (
                f'{gone:.1f} of {spent:.1f} s of its CPU time were of threads or processes that ended between two '
                f'looks: on which CPUs they ran is not known'
            )

    def _reclassed(self) -> Iterator[str]:
        """Yield a sentence on a thread that ran with another scheduling policy or priority than the rank had first."""
        for seconds, look, threads in self.intervals:
            for seen, _, wanted in threads:
                if (had := look.classes.get(seen.key)) and wanted > _RAN * seconds:
                    yield f'{_who(look, {seen})} has the scheduling {had} since {look.at:.2f} s, which the rank had not'
                    return

    def _lazy(self) -> Iterator[str]:
        """Yield a sentence if a program never had as many threads at work as were requested of OpenMP."""
        most = 0
        for seconds, _, threads in self.intervals:
            if seconds >= _LONG_ENOUGH:
                most = max(most, sum(wanted >= _AWAKE * seconds for *_, wanted in threads))
        if self.asked > 1 and self.looks and self.looks[-1].at >= _STARTED and most < _PART * self.asked:
            yield f'no more than {most} of the {self.asked} threads that it was asked for (OMP_NUM_THREADS) were busy'

    @functools.cached_property
    def intervals(self) -> list[Interval]:
        """The intervals between looks, without those in which the clock was set back."""
        return [_interval(before, look) for before, look in pairwise(self.looks) if look.at > before.at]

    def _moved(self, bound: Cpus) -> Iterator[str]:
        """Yield a sentence on threads that ran and were allowed on CPUs outside `bound`, for more than a moment.

        While an MPI library starts, hwloc moves its thread to each CPU of the node and back.
        """
        seen: dict[Cpus, list[tuple[float, ThreadLook, set[Thread]]]] = defaultdict(list)
        spent: dict[Cpus, float] = defaultdict(float)
        in_all: dict[tuple[str, int], float] = defaultdict(float)
        for seconds, look, threads in self.intervals:
            outside: dict[Cpus, set[Thread]] = defaultdict(set)
            for thread, _, wanted in threads:
                in_all[thread.key] += wanted
                if not thread.cpus <= bound and wanted > _RAN * seconds:
                    outside[thread.cpus].add(thread)
                    spent[thread.cpus] += wanted
            for cpus, moved in outside.items():
                seen[cpus].append((look.at - seconds, look, moved))
        for cpus, sightings in seen.items():
            (begin, first, _), (_, last, _) = sightings[0], sightings[-1]
            whole = sum(in_all[key] for key in {thread.key for _, _, moved in sightings for thread in moved})
            stayed = last is self.looks[-1] or len(sightings) > 1
            if not stayed or last.at - begin < _MOMENT or spent[cpus] < _RAN * whole:
                continue
            # of several the latest, which comes after a wrapper
            _, look, moved = max(reversed(sightings), key=lambda sighting: len(sighting[2]))
            since = f'since {first.at:.2f} s' if last is self.looks[-1] else f'from {first.at:.2f} to {last.at:.2f} s'
            where = f'may run on CPU {cpu_list(cpus)} {since}; the rank was bound to CPU {cpu_list(bound)}'
            yield f'{_who(look, moved)} {where}'

    def _shared(self, bound: Cpus, ours: Mapping[str, str]) -> Iterator[str]:
        """Yield a sentence for each set of CPUs with more busy threads than CPUs, and why: mask, program or load.

        On CPUs that other programs use, too, a thread that mostly sleeps waits long, but runs less than busy threads.
        """
        worst: dict[Cpus, tuple[float, int, float]] = {}
        for seconds, look, threads in self.intervals:
            busy: dict[Cpus, list[tuple[float, float]]] = defaultdict(list)
            for thread, ran, wanted in threads:
                if wanted >= _BUSY * seconds:
                    busy[thread.cpus].append((ran, wanted))
            for cpus, of_threads in busy.items():
                if sum(wanted for _, wanted in of_threads) <= (len(cpus) + _MORE) * seconds:
                    continue
                times = [ran for ran, _ in of_threads]
                had = sum(times) / (seconds * len(cpus))
                alike = _ALIKE if had >= _OWN else _ALIKE_UNDER_LOAD
                number = sum(ran >= alike * max(times) for ran in times)
                if cpus <= bound and number > len(cpus) and had >= _USED and seconds >= _LONG_ENOUGH:
                    since, most, least = worst.get(cpus, (look.at, 0, had))
                    worst[cpus] = since, max(most, number), min(least, had)
        for cpus, (since, number, had) in worst.items():
            fault = f'{number} busy threads share CPU {cpu_list(cpus)} since {since:.2f} s'
            if cpus != bound:
                yield f'{fault}; the rank was bound to CPU {cpu_list(bound)}{self._cause(ours)}'
            elif had < _OWN:
                others = f'other programs had {100 * (1 - had):.0f} % of that CPU time'
                why = (
                    f'nobody changed their binding, and {others}: the node is overloaded, look for what else runs there'
                )
                yield f'{fault}; {why}'
            else:
                yield f'{fault}; nobody changed their binding: the program has more busy threads than the rank has CPUs'

    def _cause(self, ours: Mapping[str, str]) -> str:
        settings = [
            f'{name}={value}'
            for name, value in self.variables.items()
            if ours.get(name) != value and value.lower() not in _OFF
        ]
        if settings:
            return f' (set in its environment: {", ".join(settings)})'
        return ' (no variable explains it: look for taskset, numactl or affinity calls in the program and its wrappers)'

    def device_faults(self, variable: str, expected: tuple[str, ...], others: tuple[str, ...]) -> list[str]:
        """Return a sentence for each process whose `variable` is none of `expected`, or that has one of `others`."""
        by_process: dict[str, str] = {}
        for _, look, _ in self.intervals:
            for process, variables in look.environs.items():
                if process == '.' and _MARK not in variables:
                    continue  # rank.sh, before it becomes the program
                value = variables.get(variable)
                other = [f'{name}={variables[name]}' for name in others if name in variables]
                if value not in expected or other:
                    shown = ', '.join([f'{variable}={value}' if value is not None else f'no {variable}', *other])
                    who = 'the program' if process == '.' else f'child process {process}'
                    by_process.setdefault(process, f'{who} has {shown} since {look.at:.2f} s')
        return some([f'{fault}; the rank was given {variable}={expected[0]}' for fault in by_process.values()])


def _interval(before: ThreadLook, look: ThreadLook) -> Interval:
    last = {thread.key: (thread.ran, thread.waited) for thread in before.threads}
    threads = []
    for thread in look.threads:
        ran, waited = last.get(thread.key, (0.0, 0.0))
        ran = thread.ran - ran
        threads.append((thread, ran, ran + thread.waited - waited if ran > 0 else 0.0))
    return Interval(look.at - before.at, look, threads)


def _who(look: ThreadLook, threads: set[Thread]) -> str:
    """Return words for threads of a look, such as ``thread 2 of 4 (xhpl)``."""
    names = ', '.join(sorted({thread.name for thread in threads})[:3])
    child = ', a child process' if all(thread.process != '.' for thread in threads) else ''
    if len(threads) == 1:
        (thread,) = threads
        return f'thread {look.threads.index(thread) + 1} of {len(look.threads)} ({names}{child})'
    return f'{len(threads)} of {len(look.threads)} threads ({names}{child})'


def parse(lines: list[str]) -> Watched:
    """Parse the output of ``parts/watch.sh``; a line that was cut off is left out."""
    looks: list[ThreadLook] = []
    clocks: list[int] = []
    variables: dict[str, str] = {}
    ended, own, only_itself, asked = None, None, False, 1
    for line in lines:
        key, _, rest = line.partition(' ')
        try:
            if key == 'look':
                looks.append(ThreadLook(int(rest) / 1e6))
            elif key == 'clock':
                clocks.append(int(rest))
            elif key == 'end':
                at, took = rest.split()
                ended, own = int(at) / 1e6, int(took) / 1e9
            elif key == 'threads':
                asked = int(rest)
            elif key == 'spent' and looks:
                process, _, ticks = rest.partition(' ')
                looks[-1].spent[process] = int(ticks) / _TICKS
            elif key == 'sched' and looks:
                process, of, policy, nice = rest.split()
                looks[-1].classes[process, int(of)] = f'{_POLICIES.get(policy, policy)}, nice {nice}'
            elif key == 'set':
                name, _, variables[name] = rest.partition('=')
            elif key == 'children':
                only_itself = True
            elif key == 'sees' and looks:
                process, _, entry = rest.partition(' ')
                name, is_set, value = entry.partition('=')
                looks[-1].environs.setdefault(process, {}).update({name: value} if is_set else {})
            elif looks and (key == '.' or key.isdecimal()):
                number, ran, waited, cpus, name = rest.split(' ', 4)
                thread = Thread(key, int(number), int(ran) / 1e9, int(waited) / 1e9, parse_cpu_list(cpus), name)
                if thread.cpus:  # none of a thread that ended while it was looked at
                    looks[-1].threads.append(thread)
        except ValueError:
            continue
    for look in looks:  # a process that left its parent during a look appears twice
        look.threads[:] = {seen.key: seen for seen in look.threads}.values()
    looks[1:] = [look for look in looks[1:] if look.threads]  # an empty look was taken just after the end
    return Watched(tuple(looks), ended, own, only_itself, asked, variables, tuple(clocks))
