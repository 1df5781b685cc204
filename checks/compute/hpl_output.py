# SPDX-License-Identifier: BSD-3-Clause
"""The output of HPL: Netlib's HPL 2.3, Intel's, NVIDIA's and AMD's print the same lines.

Intel's HPL prints the rate with five decimals, and between result and residual the time of its start and how many
of the cycles it used.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from checks.core.reading import saved
from checks.core.reading.metrics import Metric, NotMeasured, OutputRow
from plumbline.measurement import Measurement
from plumbline.record import Better

Configuration = tuple[int, int, int, int]  # N, NB, P, Q
# ``WR11C2R4       2000   192     1     2               0.44             1.2001e+01``, a vendor's with (rate of a GPU)
RESULT = re.compile(
    r'W[RC]\w+ +(\d{1,9}) +(\d{1,9}) +(\d{1,9}) +(\d{1,9}) +(\d{1,9}\.\d\d) +(\d\.\d{3,5}e[+-]\d\d)(?: +\([^()]*\))? *',
    re.ASCII,
)
RESIDUAL = re.compile(r'^\|\|Ax-b\|\|_oo/\(eps.*\)\*N\)= +(\S+) \.+ (PASSED|FAILED)\s*$', re.MULTILINE)
# Where runs of a saved output begin and end
_LINES = re.compile(r'^(?:(?P<banner>HPL\S* [\d.]+ +--)|(?P<table>T/V|W[RC]\d)|(?P<end>End of Tests))', re.MULTILINE)


@dataclass(frozen=True)
class HplResult:
    """A solved system: seconds of wall time and GFlop/s, and its line of the output."""

    configuration: Configuration
    seconds: float
    gflops: float
    line: int


def metrics_of(requested: tuple[Configuration, ...], nodes: int, peak: float | None) -> list[Metric]:
    """Return the metrics of a run on `nodes` nodes of `peak` Flop/s each, where that is known.

    With several configurations, all metrics but the mean are of the fastest one.
    """

    def fastest(results: Sequence[HplResult]) -> HplResult:
        return max(results, key=lambda result: result.gflops)

    def best(results: Sequence[HplResult]) -> float:
        return fastest(results).gflops

    def mean(results: Sequence[HplResult]) -> float:
        return fmean(result.gflops for result in results)

    def read(of: Callable[[Sequence[HplResult]], float], output: str) -> list[OutputRow]:
        results = results_of(output)
        times, rest = divmod(len(results), len(requested))
        if not times or rest or Counter(result.configuration for result in results) != Counter(requested * times):
            raise NotMeasured('the results are not those of the configurations in HPL.dat')
        return [OutputRow({}, of(results), tuple(result.line for result in results))] * times

    def metric(name: str, unit: str, better: Better, of: Callable[[Sequence[HplResult]], float], **more) -> Metric:
        return Metric(name, unit, better, functools.partial(read, of), **more)

    bounded = 'flops_dp' if peak else None
    rates = {'gflops': best} if len(requested) == 1 else {'gflops_best': best, 'gflops_mean': mean}
    metrics = [metric(name, 'GFlop/s', 'higher', of, peak=bounded) for name, of in rates.items()]
    if nodes > 1:
        metrics.append(metric('gflops_per_node', 'GFlop/s', 'higher', best, scale=1 / nodes, draw={'ideal': 'none'}))
    metrics.append(metric('time', 's', 'lower', lambda results: fastest(results).seconds))
    if peak:
        metrics.append(metric('peak_fraction', '1', 'higher', best, scale=1e9 / (peak * nodes)))
    return metrics


@functools.lru_cache(maxsize=1)  # all metrics of a run and its faults are of the same results
def results_of(output: str) -> tuple[HplResult, ...]:
    """Return all results in an output. Raises NotMeasured if a line is incomplete."""
    results = []
    for number, line in enumerate(output.split('\n'), start=1):
        if not re.search(r'\bW[RC]\d', line):
            continue
        match = RESULT.fullmatch(line)
        if match is None:
            raise NotMeasured(f'{line.strip()[:100]!r} is no complete line of results')
        n, nb, p, q = (int(match[i]) for i in range(1, 5))
        results.append(HplResult((n, nb, p, q), float(match[5]), float(match[6]), number))
    return tuple(results)


def faults_of(output: str, requested: tuple[Configuration, ...]) -> list[str]:
    """Return one sentence for each sign that HPL did not solve all systems correctly; it exits with 0 in any case."""
    causes = []
    if not re.search(r'^End of Tests\.\s*$', output, re.MULTILINE):
        causes.append('HPL did not end: no line "End of Tests."')
    if 'tests completed without checking' in output:
        causes.append('no residual was checked: the threshold in HPL.dat is not above zero')
    residuals = RESIDUAL.findall(output)
    if failed := [value for value, verdict in residuals if verdict == 'FAILED']:
        causes.append(f'the solution is wrong: residual {", ".join(failed)} FAILED')
    for skipped in re.findall(r'^ +([1-9]\d*) tests skipped', output, re.MULTILINE):
        causes += [f'HPL skipped {skipped} tests', *errors_of(output)]
    return causes or miscounts(output, requested, len(residuals))


def errors_of(output: str) -> list[str]:
    """Return a sentence for each error of HPL.dat or of the machine that HPL reports, in angle brackets."""
    return [f'HPL says: {error}' for error in re.findall(r'^>>> (.*) <<<', output, re.MULTILINE)]


def miscounts(output: str, requested: tuple[Configuration, ...], passed: int) -> list[str]:
    """Return a sentence for each difference between the requested and the completed tests."""
    faults = []
    finished = re.findall(r'^Finished +(\d+) tests', output, re.MULTILINE)
    if finished != [str(len(requested))]:
        faults.append(f'{len(requested)} tests were requested, HPL finished {" and ".join(finished) or "none"}')
    if passed != len(requested):
        faults.append(f'{len(requested)} residuals should have PASSED, {passed} did')
    try:
        solved = Counter(result.configuration for result in results_of(output))
    except NotMeasured:
        return faults  # each metric reports this itself
    if solved != Counter(requested):
        lost, other = Counter(requested) - solved, solved - Counter(requested)
        faults.append(f'HPL was to solve {in_words(lost)} and solved {in_words(other)}')
    return faults


def in_words(configurations: Counter[Configuration]) -> str:
    return ', '.join('N={} NB={} P={} Q={}'.format(*which) for which in configurations) or 'nothing'


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield rate and time of each solved system; those of a run fail if a residual FAILED or a test is missing."""
    yield from saved.results_of(path, _begins, 'WR11C2R4  2000  192  1  2  0.44  1.2001e+01', _run)


def _begins(text: str) -> list[int]:
    """Return where runs begin: with their banners, which a vendor may precede with its own, else with a table."""
    begins, before = [], 'end'
    for match in _LINES.finditer(text):
        kind = match.lastgroup or ''
        if kind != 'end' and (before == 'end' or (kind == 'banner' and before == 'table')):
            begins.append(match.start())
        before = kind
    return begins


def _run(part: saved.Part) -> Iterator[saved.Result]:
    output, lines = part.output, part.output.split('\n')
    results = results_of(output)
    faults = errors_of(output) or faults_of(output, tuple(result.configuration for result in results))
    dates = re.findall(r'^HPL_pdgesv\(\) start time +(.*\S)', output, re.MULTILINE)
    for result in results:
        solved = dict(zip(('n', 'nb', 'p', 'q'), result.configuration, strict=True))
        row = lines[result.line - 1]
        metrics = metrics_of((result.configuration,), 1, None)
        of_row = solved | {'variant': row.split()[0]}
        yield saved.Result('HPL', of_row, metrics, output, faults, dates=dates, numbers=f'{row}\n')
    if not results:
        asked = dict(re.findall(r'^(N|NB|P|Q) +: +([0-9]+) *$', output, re.MULTILINE))
        params = {name.lower(): number for name, number in asked.items()}
        yield saved.Result('HPL', params, metrics_of(((0, 0, 0, 0),), 1, None), output, faults, dates=dates)
