# SPDX-License-Identifier: BSD-3-Clause
"""Compare the settings of a node with those that its site expects."""

from dataclasses import replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.benchmark import Benchmark
from checks.core.job.assembly import table_of
from checks.core.placement import Placement
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric
from checks.core.topology import Topology


@rfm.simple_test
class NodeSettings(Benchmark):
    """Kernel, firmware, GPUs, network and other settings that `expects` of the partition in ``site.yaml`` states.

    Parses ``as expected: 11 of 12``, and a sentence such as ``gpus: expected 8, found 7`` for each that is not. Every
    other check compares the settings, too, before its first trial, and runs no trial on a node that differs.
    """

    descr = 'Settings of a node, as its site expects them'
    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4)'
    valid_prog_environs = ['*']
    executable = 'bash'
    executable_opts = ['../../settings.sh', 'compare', '../../expects.tsv']
    tags = {'quick', 'nightly', 'acceptance'}
    trials = 1
    metrics = [
        Metric(
            'as_expected', '1', 'higher', r'^as expected: (\d+) of', per=(r'^as expected: \d+ of (\d+)$',),
            judged=False,
        ),
    ]  # fmt: skip

    def supports(self, topology: Topology) -> bool:
        return bool(topology.expects)

    def job_spec(self):
        """Give the settings to the program alone, so that a node that differs is not refused."""
        spec = super().job_spec()
        Path(self.stagedir, 'expects.tsv').write_text(table_of(spec.expects), encoding='utf-8')
        return replace(spec, expects=())

    @run_after('setup')
    def place(self):
        self.placement = Placement(1, None)  # a shell and its children, which need no CPU of their own

    def sanity_faults(self, run: Run) -> list[str]:
        return run.output.splitlines()[:-1]
