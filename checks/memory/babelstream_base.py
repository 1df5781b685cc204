# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream: five kernels over three arrays, in the memory of the host and of each device."""

from reframe.core.builtins import variable

from checks.core.benchmark import Benchmark
from checks.memory.babelstream_output import faults_of
from plumbline.record import Dim

KERNEL = {'kernel': Dim('name')}
SWEPT_ELEMENTS = [2**power for power in range(14, 28)]  # 003, appendix B.2: 16 k to 128 M doubles
FEWEST_REPETITIONS = 15  # the best of 15 is close to the best of 100
PASSES = 16  # over an array in a repetition of all kernels, with the reads before writes
START = 3.0  # seconds until the arrays are filled
# Table 1 of the US DOE study (003): OMP_NUM_THREADS (one, all cores, all hardware threads), OMP_PROC_BIND, OMP_PLACES
BINDINGS = {
    'one': ('one', None, None),
    'one-true': ('one', 'true', None),
    'cores': ('cores', None, None),
    'cores-true': ('cores', 'true', None),
    'cores-spread': ('cores', 'spread', 'cores'),
    'threads': ('threads', None, None),
    'threads-true': ('threads', 'true', None),
    'threads-close': ('threads', 'close', 'threads'),
}


class BabelStream(Benchmark):
    """The base of every BabelStream check: arrays, repetitions and sanity."""

    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), OpenMP'
    #: How often the program repeats each kernel: its default, or less often if the time of a trial does not suffice.
    repetitions = variable(int, value=100)
    seconds = 18
    dims = KERNEL
    usual_spread = 0.015  # 0.05 to 3.5 % within 100 runs, median 0.4 % of all cores and 1.3 % of one (003, Table 4)
    elements: dict[str, int]  # of an array, by run

    def stream(self, elements: int, run: str = 'run', device: int | None = None) -> list[str]:
        """Return the options of one run with arrays of `elements` doubles."""
        self.elements = getattr(self, 'elements', {}) | {run: elements}
        on_device = [] if device is None else ['--device', str(device)]
        return ['--arraysize', str(elements), '--numtimes', str(self.repetitions), *on_device]

    def repeat_in_time(self, once: float, runs: int):
        """Lower the repetitions to what the time of a trial allows; `once`: seconds of one repetition of all runs."""
        allowed = int((self.trial_seconds - START * runs) / once)
        self.repetitions = min(self.repetitions, max(FEWEST_REPETITIONS, allowed))

    def sanity_faults(self, run):
        failures = [
            f'the program says: {line}' for line in run.errors.splitlines() if line.startswith('Validation failed')
        ]
        return failures + faults_of(run.output, self.elements[run.name], self.repetitions)
