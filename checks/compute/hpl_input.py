"""HPL.dat, and what HPL prints. Netlib's HPL 2.3, NVIDIA's and AMD's read the same file and print the same lines."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from checks.core.trials import Metric, NotMeasured
from plumbline.errors import SiteError

# The lines of HPL.dat in its order and under its names, with the algorithm that hpcc ships: row-major grid,
# right-looking panels in Crout's recursion, modified ring broadcast, lookahead of one. None: computed for the nodes.
LINES: dict[str, str | None] = {
    'Ns': None, 'NBs': None, 'PMAP': '0', 'Ps': None, 'Qs': None, 'threshold': '16.0',
    'PFACTs': '2', 'NBMINs': '4', 'NDIVs': '2', 'RFACTs': '1', 'BCASTs': '1', 'DEPTHs': '1',
    'SWAP': '2', 'swapping threshold': '64', 'L1': '0', 'U': '0', 'Equilibration': '1', 'memory alignment': '8',
}  # fmt: skip
ALGORITHMS = ('PFACTs', 'NBMINs', 'NDIVs', 'RFACTs', 'BCASTs', 'DEPTHs')
COUNTED = ('Ns', 'NBs', 'Ps', *ALGORITHMS)  # a line before them says how many values they have; Qs has those of Ps

# ``WR11C2R4       2000   192     1     2               0.44             1.2001e+01``, a vendor's with (rate of a GPU)
RESULT = re.compile(
    r'W[RC]\w+ +(\d+) +(\d+) +(\d+) +(\d+) +(\d+\.\d\d) +(\d\.\d{3,4}e[+-]\d\d)(?: +\([^()]*\))? *', re.ASCII
)
RESIDUAL = re.compile(r'^\|\|Ax-b\|\|_oo/\(eps.*\)\*N\)= +(\S+) \.+ (PASSED|FAILED)\s*$', re.MULTILINE)

Configuration = tuple[int, int, int, int]  # N, NB, P, Q


@dataclass(frozen=True)
class Result:
    """One linear system solved: seconds of wall time and 10^9 floating-point operations per second."""

    configuration: Configuration
    seconds: float
    gflops: float


@dataclass(frozen=True)
class OfResults(Metric):
    """A metric that `of` takes from all results of a run, which must be those of the configurations `asked`."""

    rows: str | None = RESULT.pattern
    of: Callable[[list[Result]], float] | None = None
    asked: tuple[Configuration, ...] = ()

    def found(self, output):
        results = results_of(output)
        if Counter(result.configuration for result in results) != Counter(self.asked):
            raise NotMeasured('the results are not those of the configurations in HPL.dat')
        return [({}, self.of(results))]


def metrics_of(asked: tuple[Configuration, ...], nodes: int, peak: float | None) -> list[Metric]:
    """Those of a run on `nodes` nodes whose processors do `peak` Flop/s each at most, where that is known.

    Of several configurations, all but the mean are of the fastest.
    """

    def fastest(results: list[Result]) -> Result:
        return max(results, key=lambda result: result.gflops)

    def best(results: list[Result]) -> float:
        return fastest(results).gflops

    def mean(results: list[Result]) -> float:
        return fmean(result.gflops for result in results)

    def metric(name: str, unit: str, better: str, of: Callable[[list[Result]], float], **more) -> OfResults:
        return OfResults(name, unit, better, of=of, asked=asked, **more)

    bounded = 'flops_dp' if peak else None
    rates = {'gflops': best} if len(asked) == 1 else {'gflops_best': best, 'gflops_mean': mean}
    metrics = [metric(name, 'GFlop/s', 'higher', of, peak=bounded) for name, of in rates.items()]
    if nodes > 1:
        metrics.append(metric('gflops_per_node', 'GFlop/s', 'higher', best, scale=1 / nodes, draw={'ideal': 'none'}))
    metrics.append(metric('time', 's', 'lower', lambda results: fastest(results).seconds))
    if peak:
        metrics.append(metric('peak_fraction', '1', 'higher', best, scale=1e9 / (peak * nodes)))
    return metrics


def nearly_square(ranks: int) -> tuple[int, int]:
    """P x Q = `ranks` with P <= Q and both as close as the divisors allow."""
    p = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
    return p, ranks // p


def matrix_order(memory: float, block_size: int) -> int:
    """N: the largest multiple of the block size whose N^2 doubles fit into `memory` bytes."""
    return math.isqrt(int(memory) // 8) // block_size * block_size


def operations(n: int) -> float:
    """Floating-point operations that HPL counts for a system of order `n`."""
    return 2 / 3 * n**3 + 3 / 2 * n**2


def lines_of(n: int, block_size: int, ranks: int, site: dict[str, object]) -> dict[str, str]:
    """All lines of HPL.dat by name: computed, else default, and above both what the site asks for."""
    p, q = nearly_square(ranks)
    computed = {'Ns': n, 'NBs': block_size, 'Ps': p, 'Qs': q}
    return {name: ' '.join(str(value).split()) for name, value in (LINES | computed | site).items()}


def text_of(lines: dict[str, str]) -> str:
    """HPL.dat; results go to standard output."""
    text = ['HPL.dat', 'written by Plumbline', 'HPL.out', '6 device out']
    for name in LINES:
        text += [f'{len(lines[name].split())} # of {name}'] if name in COUNTED else []
        text.append(f'{lines[name]} {name}')
    return '\n'.join(text) + '\n'


def configurations(lines: dict[str, str], ranks: int) -> tuple[Configuration, ...]:
    """What HPL will solve, one entry a test. Raises SiteError where a process grid is not one of all `ranks`."""
    ns, nbs, ps, qs = ([int(value) for value in lines[name].split()] for name in ('Ns', 'NBs', 'Ps', 'Qs'))
    if len(ps) != len(qs) or any(p * q != ranks for p, q in zip(ps, qs, strict=True)):
        raise SiteError(f'benchmarks.hpl.lines: expected grids Ps x Qs of {ranks} ranks, found {ps} x {qs}')
    algorithms = math.prod(len(lines[name].split()) for name in ALGORITHMS)
    return tuple(
        (n, nb, p, q) for p, q in zip(ps, qs, strict=True) for n in ns for nb in nbs for _ in range(algorithms)
    )


def results_of(output: str) -> list[Result]:
    """Every result line. Raises NotMeasured where one is broken, or where its two numbers contradict each other."""
    results = []
    for line in output.splitlines():
        if not re.search(r'\bW[RC]\d', line):
            continue
        found = RESULT.fullmatch(line)
        if found is None:
            raise NotMeasured(f'{line.strip()[:100]!r} is no whole line of results')
        n, nb, p, q = (int(found[i]) for i in range(1, 5))
        result = Result((n, nb, p, q), float(found[5]), float(found[6]))
        # both are printed rounded: the time to 0.01 s, the rate to four digits or five
        expected = operations(n) / 1e9 / result.gflops if result.gflops else math.inf
        if abs(expected - result.seconds) > 0.006 + 6e-4 * result.seconds:
            raise NotMeasured(f'{line.strip()[:100]!r}: at that rate it takes {expected:.2f} s')
        results.append(result)
    return results


def faults_of(output: str, asked: tuple[Configuration, ...]) -> list[str]:
    """One sentence for each sign that HPL did not solve all it was asked, and rightly. It exits with 0 all the same."""
    causes = []
    if not re.search(r'^End of Tests\.\s*$', output, re.MULTILINE):
        causes.append('HPL did not come to its end: no line "End of Tests."')
    if 'tests completed without checking' in output:
        causes.append('no residual was checked: the threshold in HPL.dat is not above zero')
    residuals = RESIDUAL.findall(output)
    if failed := [value for value, verdict in residuals if verdict == 'FAILED']:
        causes.append(f'the solution is wrong: residual {", ".join(failed)} FAILED')
    for skipped in re.findall(r'^ +([1-9]\d*) tests skipped', output, re.MULTILINE):
        causes += [f'HPL skipped {skipped} tests', *errors_of(output)]
    return causes or miscounts(output, asked, len(residuals))


def errors_of(output: str) -> list[str]:
    """What HPL says is wrong with HPL.dat or with the machine, each time in angle brackets."""
    return [f'HPL says: {said}' for said in re.findall(r'^>>> (.*) <<<', output, re.MULTILINE)]


def miscounts(output: str, asked: tuple[Configuration, ...], passed: int) -> list[str]:
    """The same where nothing in the output says why: other tests than those asked, or not as many."""
    faults = []
    finished = re.findall(r'^Finished +(\d+) tests', output, re.MULTILINE)
    if finished != [str(len(asked))]:
        faults.append(f'{len(asked)} tests were asked, HPL finished {" and ".join(finished) or "none"}')
    if passed != len(asked):
        faults.append(f'{len(asked)} residuals should have PASSED, {passed} did')
    try:
        solved = Counter(result.configuration for result in results_of(output))
    except NotMeasured:
        return faults  # each metric says so itself
    if solved != Counter(asked):
        faults.append(
            f'HPL was asked {in_words(Counter(asked) - solved)} and solved {in_words(solved - Counter(asked))}'
        )
    return faults


def in_words(configurations: Counter[Configuration]) -> str:
    return ', '.join('N={} NB={} P={} Q={}'.format(*which) for which in configurations) or 'nothing'
