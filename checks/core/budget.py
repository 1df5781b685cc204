# SPDX-License-Identifier: BSD-3-Clause
"""Estimate and limit the time and memory of a trial, and choose the largest size within them.

A size derived from caches alone may be huge: a virtual machine of 2 cores that reports the 480 MiB of its host would
solve dense systems for hours. Speeds are conservative: what nodes of the last ten years reach while they are busy.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import loggable, variable
from reframe.core.logging import getlogger

from checks.core.reading.metrics import Metric
from checks.core.topology import Topology, current_site
from plumbline import settings, units
from plumbline.errors import SiteError
from plumbline.node_check.jobs import Busy, warning
from plumbline.references import load_references

#: Part of a node's memory that a benchmark fills, unless its purpose is to fill the memory.
MEMORY_SHARE = 0.5
#: STREAM's rule: each array at least four times the sum of all last-level caches (www.cs.virginia.edu/stream).
BEYOND_CACHES = 4
# Doubles of a vector by archspec's name, the widest first; a core of the slowest kind has one multiply-add pipeline
_VECTORS = {'avx512f': 8, 'avx2': 4, 'avx': 4}
_SLOW_CLOCK = 2e9
_BESIDE_TRIALS = 60  # seconds of a job for its set-up, and for what follows the trials
_OF_PEAK = 0.4  # HPL reaches 60 to 90 % of the peak; a small matrix, or a busy machine, less
_DENSE_OF_GPU = 2e12  # Flop/s: the oldest with much double precision, P100 and MI50, have peaks of 4.7 and 6.6e12
# One core reaches 12 to 19 GB/s, and 2 to 6 GB/s beside all others (003, Table 4)
_MEMORY_OF_CORE, _MEMORY_OF_EACH_CORE, _MEMORY_OF_ANY_NODE = 5e9, 2e9, 10e9
#: Bytes/s at which one thread touches memory first: measured 0.6 GB/s on a busy virtual machine, 5 GB/s elsewhere.
FIRST_TOUCH = 2.5e9


def dense_rate(topology: Topology, peaks: Mapping[str, float], on_gpus: bool = False) -> float:
    """Return a lower bound of the Flop/s of a node in dense linear algebra, on its cores or on its GPUs."""
    if on_gpus:
        return _DENSE_OF_GPU * len(topology.gpus)
    if 'flops_dp' in peaks:
        return _OF_PEAK * peaks['flops_dp']
    doubles = next((width for name, width in _VECTORS.items() if topology.has_instructions(name)), 2)
    return 0.75 * 2 * doubles * _SLOW_CLOCK * len(topology.cores)


def memory_rate(topology: Topology, peaks: Mapping[str, float], threads: int | None = None) -> float:
    """Return a lower bound of the bytes/s between memory and `threads` threads, by default one for each core."""
    threads = threads or len(topology.cores)
    whole = max(_MEMORY_OF_ANY_NODE, _MEMORY_OF_EACH_CORE * len(topology.cores))
    return min(_OF_PEAK * peaks.get('memory_bandwidth', whole / _OF_PEAK), _MEMORY_OF_CORE * threads)


def largest(wanted: float, seconds_of: Callable[[float], float], seconds: float) -> float:
    """Return `wanted`, or the largest smaller size that takes at most `seconds`; `seconds_of` grows with the size."""
    if seconds_of(wanted) <= seconds:
        return wanted
    low, high = 0.0, wanted
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds_of(middle) <= seconds else (low, middle)
    return low


def limit_of_trial(seconds: float) -> int:
    """Return the seconds after which a trial that is estimated to take `seconds` is ended."""
    return 60 + int(min(10 * seconds, 4 * seconds + 600))  # a wide margin, for a machine that is busy with other work


def seconds_of_job(trials: int, limit: float) -> float:
    """Return the time limit that a job needs for its trials, each ended after `limit` seconds."""
    return _BESIDE_TRIALS + trials * limit


def longest_trial(max_time: float) -> float:
    """Return the longest estimated time of a trial that fits into a job of `max_time` seconds, see job/time_left.sh."""
    return max(1, (max_time - _BESIDE_TRIALS) / 1.5)


def jobs_for(trials: int, seconds: float, max_time: float) -> int:
    """Return the number of jobs of at most `max_time` seconds that the trials need, if each takes `seconds`."""
    return math.ceil(trials / max(1, math.floor((max_time - _BESIDE_TRIALS - seconds / 2) / seconds)))


def time_in_words(trials: int, seconds: float, limit: float, max_time: float | None) -> str:
    """Return how the time limit of a job is computed, as text."""
    words = f'{trials} trial{"s" * (trials > 1)} of about {units.in_words(seconds)}'
    longest = f'max_time, {units.in_words(max_time)}' if max_time else ''
    if max_time and seconds >= max_time:
        return f'{words}, longer than {longest}: expected a smaller size in file_systems, or a longer max_time'
    words += f', {"each " * (trials > 1)}ended after {units.in_words(min(limit, max_time or limit))} at the latest'
    needed = seconds_of_job(trials, limit)
    if not max_time or needed <= max_time:
        return f'{words}: a job of {units.in_words(needed)}'
    jobs = jobs_for(trials, seconds, max_time)
    return f'{words}: {jobs} job{"s" * (jobs > 1)} of {longest}'


@functools.cache
def cpus_of_others() -> float:
    """Return how many CPUs others keep busy on this host; warn of them. Measured once in a session: half a second."""
    cpus = settings.BUSY.get()
    if cpus is None:
        busy = Busy()
        time.sleep(0.5)
        cpus = busy.cpus()
    if disturbed := warning(cpus):
        getlogger().warning(disturbed)
    return cpus


def slowed_by(cpus: float, of: int) -> float:
    """Return how many times longer ranks that wait for each other take beside `cpus` busy CPUs `of` so many.

    Measured with HPCC on two cores: 3 to 7 beside as many busy processes as cores.
    """
    return 1 + 3 * cpus / of if cpus >= of / 4 else 1.0


def informational(metrics: Iterable[Metric], names: str = '*') -> list[Metric]:
    """Return the metrics; those whose names match `names` measure caches: they get no peak and need no reference."""
    return [
        replace(metric, judged=False, peak=math.inf if metric.peak == math.inf else None)
        if fnmatchcase(metric.name, names)
        else metric
        for metric in metrics
    ]


def in_words(size: float) -> str:
    """Return a number of bytes as text: ``1.5 GiB``."""
    power = min(3, max(0, int(math.log2(max(size, 1)) // 10)))
    return f'{size / 2 ** (10 * power):.3g} {("B", "KiB", "MiB", "GiB")[power]}'


class Fit(NamedTuple):
    """A size in bytes and the seconds of a trial with it. `cut`: what was cut, as text. `small`: it measures caches."""

    size: float
    seconds: float
    cut: str = ''
    small: bool = False


def fit(
    wanted: float, needed: float, seconds_of: Callable[[float], float], seconds: float, memory: float,
    share: float = MEMORY_SHARE, slowed: float = 1.0,
) -> Fit:  # fmt: skip
    """Return `wanted` bytes, or as many as fit into `seconds` and a share of `memory`; see `Benchmark.fit`."""
    room = min(wanted, share * memory)
    quiet = size = largest(room, seconds_of, seconds)
    if slowed * seconds_of(0) < seconds:
        size = largest(quiet, lambda data: slowed * seconds_of(data), seconds)
    takes = seconds_of(size) if size == quiet else seconds
    if size >= wanted:
        return Fit(size, takes)
    why = f'{seconds:.0f} s' if size < room else f'{share:.0%} of the memory'
    cut = f'{in_words(size)} of {in_words(wanted)}, which take at most {why}'
    if size < quiet:
        cut += f' on a busy node, {slowed:.1f} times slower; informational'
    elif size < needed:
        cut += f'; informational, as data beyond the caches take {in_words(needed)}'
    return Fit(size, takes, cut, size < quiet or size < needed)


def slowed(beside: float, topology: Topology, check: str) -> float:
    """Return how many times longer a trial takes on a host where others keep `beside` CPUs busy.

    1 where a reference of the check needs the usual size.
    """
    times = slowed_by(beside, len(topology.all_cpus))
    rows = load_references(current_site().name).rows if times > 1 else ()
    has_reference = any(row.kind != 'elsewhere' and row.id.check in (check, '*') for row in rows)
    return 1.0 if has_reference else times


class Budgeted(rfm.RegressionTestPlugin):
    """The part of a check that keeps trials within their time: `trial_seconds`, and `fit`, which limits sizes."""

    #: Longest time in s of all runs of a trial, for which sizes are chosen: a number, or by the parameter `size`.
    trial_seconds: Any = variable(int, typ.Dict[str, int], type(None), value=10, loggable=True)
    #: Seconds after which a trial is ended; None: ten times `trial_seconds` plus a minute; of long trials, four times
    #: plus 11 minutes.
    trial_time_limit = variable(int, type(None), value=None)
    below_caches = False  # whether a size is too small for what it should measure
    beside = 0.0  # CPUs of this host that others keep busy, where no scheduler chooses the node

    def choose_budget(self):
        """Set the seconds of a trial; append those of all trials to the file that ``PLUMBLINE_BUDGETS`` names."""
        self.estimates: list[float] = []  # estimated seconds of each benchmark that `fit` sized
        if isinstance(self.trial_seconds, dict):
            self.trial_seconds = self.trial_seconds[self.size]
        if path := settings.BUDGETS.get():
            with open(path, 'a', encoding='utf-8') as stream:
                stream.write(f'{self.hashcode} {self.trials * self.trial_seconds} {inspect.getfile(type(self))}\n')

    def fit(
        self, wanted: float, needed: float, seconds_of: Callable[[float], float],
        share: float = MEMORY_SHARE, runs: int = 1, yields: bool = False,
    ) -> float:  # fmt: skip
        """Return the bytes of data on all nodes: `wanted`, or as many as fit into the time of a trial.

        `seconds_of`: bytes -> estimated seconds. `share`: the part of memory that may be filled. `runs`: the number of
        runs of a trial; each calls this method once and gets an equal part of the time. Below `needed` bytes caches are
        measured, and all metrics become informational. The record says what was cut. `yields`: on a host that others
        keep busy, the size is cut further, and informational, too. Raises SiteError if the time is too short even
        without data.
        """
        seconds = self.trial_seconds / runs
        if seconds_of(0) >= seconds:
            raise SiteError(
                f'{self.display_name}: a trial may take {seconds:.0f} s here, and takes {seconds_of(0):.0f} s without '
                'any data: raise trial_seconds, or max_time of the partition'
            )
        memory = self.num_nodes * (self.topology.described_memory or math.inf)
        times = slowed(self.beside, self.topology, self.check) if yields else 1.0
        found = fit(wanted, needed, seconds_of, seconds, memory, share, times)
        self.estimates.append(found.seconds)
        self.below_caches |= found.small
        self.provenance |= {'size_cut': found.cut} if found.cut else {}
        return found.size

    def limit_trial(self):
        """Lower the seconds of a trial to the estimated ones, and derive the time limit of a trial from them."""
        if self.estimates:
            self.trial_seconds = min(self.trial_seconds, math.ceil(sum(self.estimates)))
        self.trial_time_limit = self.trial_time_limit or limit_of_trial(self.trial_seconds)
        self.trial_seconds = min(self.trial_seconds, self.trial_time_limit)

    @loggable
    @property
    def time_limits(self) -> dict[str, str]:
        """How the time limit is computed, by the partition of the case."""
        if not hasattr(self, 'partition'):
            return {}
        limit = self.trial_time_limit or limit_of_trial(self.trial_seconds)
        words = time_in_words(self.trials, self.trial_seconds, limit, self.partition.max_time)
        return {self.partition.name: words}
