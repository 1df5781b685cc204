# SPDX-License-Identifier: BSD-3-Clause
"""The output of HPL: Netlib's HPL 2.3, Intel's, NVIDIA's and AMD's print the same lines.

Intel's HPL prints the rate with five decimals, and between result and residual the time of its start and how many
of the cycles it used.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from checks.compute.hpl_input import Configuration
from checks.core.reading.trials import Metric, NotMeasured, OutputRow

# ``WR11C2R4       2000   192     1     2               0.44             1.2001e+01``, a vendor's with (rate of a GPU)
RESULT = re.compile(
    r'W[RC]\w+ +(\d{1,9}) +(\d{1,9}) +(\d{1,9}) +(\d{1,9}) +(\d{1,9}\.\d\d) +(\d\.\d{3,5}e[+-]\d\d)(?: +\([^()]*\))? *',
    re.ASCII,
)
RESIDUAL = re.compile(r'^\|\|Ax-b\|\|_oo/\(eps.*\)\*N\)= +(\S+) \.+ (PASSED|FAILED)\s*$', re.MULTILINE)


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

    def fastest(results: list[HplResult]) -> HplResult:
        return max(results, key=lambda result: result.gflops)

    def best(results: list[HplResult]) -> float:
        return fastest(results).gflops

    def mean(results: list[HplResult]) -> float:
        return fmean(result.gflops for result in results)

    def read(of: Callable[[list[HplResult]], float], output: str) -> list[OutputRow]:
        results = results_of(output)
        times, rest = divmod(len(results), len(requested))
        if not times or rest or Counter(result.configuration for result in results) != Counter(requested * times):
            raise NotMeasured('the results are not those of the configurations in HPL.dat')
        return [OutputRow({}, of(results), tuple(result.line for result in results))] * times

    def metric(name: str, unit: str, better: str, of: Callable[[list[HplResult]], float], **more) -> Metric:
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


def results_of(output: str) -> list[HplResult]:
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
    return results


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
