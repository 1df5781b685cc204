# SPDX-License-Identifier: BSD-3-Clause
"""stress-ng: how fast the kernel serves one core. A new kernel, or its mitigations, can change this alone."""

import re

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.benchmark import Benchmark
from checks.core.placement import Execution, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric
from plumbline.record import Dim

# Stressors of one lasting process: two busy ones would share the core, and no look sees where brief ones ran
SERVICES = ('fault', 'get', 'null')
ROW = r'^stress-ng: \w+: +\[\d+\] (?P<service>{}) +\d+ +(?:[\d.]+ +){{3}}(?P<value>[\d.]+) '


@rfm.simple_test
class KernelServices(Benchmark):
    """Page faults, ``get...`` calls and writes to /dev/null per second of one core.

    Parses ``stress-ng: metrc: [6288] get  225  1.02  0.02  0.12  221.51  1561.19``: operations per second of real time.
    """

    descr = 'stress-ng, kernel services to one core'
    last_run = '2026-11-28, virtual machine, 2 cores (AMD EPYC, Zen 4)'
    valid_prog_environs = ['+stress-ng']
    executable = 'stress-ng'
    tags = {'nightly', 'acceptance'}
    dims = {'service': Dim('name')}
    usual_spread = 0.05  # no source
    output = 'log.txt'

    @run_after('setup')
    def choose_runs(self):
        self.placement = one_rank_on(self.topology.cpu_of_core[:1])
        self.runs |= {
            name: Execution([f'--{name}', '1', '--timeout', '2', '--metrics', '--log-file', 'log.txt'])
            for name in SERVICES
        }
        self.metrics = [
            Metric('rate', 'ops/s', 'higher', ROW.format(name), expected={'service': [name]}, run=name)
            for name in SERVICES
        ]

    def sanity_faults(self, run: Run) -> list[str]:
        found = re.search(r'\bsuccessful run completed', run.output)  # the other one is "unsuccessful run completed"
        return [] if found else ['stress-ng does not say "successful run completed"']
