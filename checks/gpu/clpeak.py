# SPDX-License-Identifier: BSD-3-Clause
"""clpeak: the rates of any OpenCL device, of GPUs and, through PoCL, of processors."""

import re

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from checks.core.benchmark import USUAL_TRIALS, Benchmark
from checks.core.placement import Execution, one_process
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, Of
from checks.core.topology import Topology, on_this_system
from plumbline.record import Dim

OUTPUT = 'clpeak.xml'
WIDTHS = ('', '2', '4', '8', '16')  # elements of a vector
COPIES = ('enqueuewritebuffer', 'enqueuereadbuffer', 'memcpy_from_mapped_ptr', 'memcpy_to_mapped_ptr')
# Test -> option, metric, unit, factor of what is printed, type of the vectors. Half precision has no option of its own.
TESTS = {
    'bandwidth': ('--global-bandwidth', 'bandwidth', 'GB/s', 1, 'float'),
    'single': ('--compute-sp', 'flops', 'GFlop/s', 1, 'float'),
    'double': ('--compute-dp', 'flops', 'GFlop/s', 1, 'double'),
    'half': ('--compute-dp', 'flops', 'GFlop/s', 1, 'half'),
    'integer': ('--compute-integer', 'int_ops', 'ops/s', 1e9, 'int'),
    'transfer': ('--transfer-bandwidth', 'transfer', 'GB/s', 1, ''),
    'launch': ('--kernel-latency', 'launch', 'us', 1, ''),
}
VALUE = '(?P<value>[^<>]+)'


def metrics_of(test: str, peak: str | None = None) -> list[Metric]:
    """Return the metrics of a test; for a test with several vector widths, also a metric of the best width."""
    _, name, unit, scale, kind = TESTS[test]
    if test == 'launch':
        launch = rf'^ *<kernel_launch_latency unit="us">{VALUE}</kernel_launch_latency>$'
        return [Metric(name, unit, 'lower', launch, run=test)]
    if test == 'transfer':
        copies = rf'^ *<(?P<copy>{"|".join(COPIES)})>{VALUE}</(?P=copy)>$'
        return [Metric(name, unit, 'higher', copies, expected={'copy': COPIES}, run=test)]
    vectors = [f'{kind}{width}' for width in WIDTHS]
    rows = rf'^ *<(?P<vector>{"|".join(vectors)})>{VALUE}</(?P=vector)>$'
    dims = {'type': kind} if name == 'flops' else {}
    return [
        Metric(name, unit, 'higher', rows, dims, {'vector': vectors}, scale=scale, run=test, peak=peak, judged=False),
        Metric(name, unit, 'higher', dims=dims, peak=peak, of=Of(name, max, dims)),
    ]


def faults_of(output: str, device: int) -> list[str]:
    """Return one sentence for each sign that an output is not of exactly this device; clpeak exits with 0 even then."""
    platforms, devices = re.findall(r'<platform name="(.*?)"', output), re.findall(r'<device name="(.*?)"', output)
    named = ', '.join(platforms) or 'none: expected the .icd file of a driver in /etc/OpenCL/vendors or OCL_ICD_VENDORS'
    if not devices:
        return [f'clpeak measured nothing: no OpenCL device {device}; platforms of OpenCL: {named}']
    if len(devices) > 1:
        return [f'{len(devices)} platforms have a device {device}: {named}; choose one: OCL_ICD_VENDORS in env_vars']
    return (
        [] if output.count('</clpeak>') == 1 else ['clpeak ended before its last line, or could not build its kernels']
    )


@rfm.simple_test
class ClPeak(Benchmark):
    """Bandwidth, arithmetic by type, copies and kernel launch. Parses ``<float16>25.11</float16>`` of an XML file.

    A series without `vector` has the best vector of each trial. `device` is the number of a device on the only platform
    with so many devices; site.yaml lists devices that are no GPUs as `devices` of type opencl.
    """

    descr = 'clpeak on an OpenCL device'
    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4), as two devices of PoCL 3.1; not yet on a GPU'
    valid_prog_environs = ['+clpeak']
    executable = 'clpeak'
    output = OUTPUT
    tags = {'nightly', 'acceptance'}
    trials = USUAL_TRIALS | {'acceptance': 10}
    trial_seconds = 120
    usual_spread = {'launch': 0.05, 'transfer': 0.02, '*': 0.01}  # a guess: no source has several sessions
    dims = {'vector': Dim('name'), 'type': Dim('name'), 'copy': Dim('name')}
    device = parameter(on_this_system(lambda topology: range(topology.opencl_devices)), loggable=True)
    #: What to measure, of TESTS. Without `half` and `double` for devices that have no such precision.
    tests = variable(typ.List[str], value=[test for test in TESTS if test != 'half'])

    def supports(self, topology: Topology) -> bool:
        return self.device is not None and self.device < topology.opencl_devices

    @run_after('setup')
    def choose_tests(self):
        self.placement = one_process(self.topology, [self.device])
        memory = 'device_memory_bandwidth' if self.topology.gpus else 'memory_bandwidth'
        if not self.topology.gpus:  # PoCL's threads leave a CPU to the one that waits for them, which is busy as well
            self.env_vars['POCL_MAX_PTHREAD_COUNT'] = max(1, len(self.topology.all_cpus) - 1)
        self.metrics = [m for test in self.tests for m in metrics_of(test, memory if test == 'bandwidth' else None)]
        where = ['-d', str(self.device if self.placement.devices is None else 0), '--enable-xml-dump', '-f', OUTPUT]
        self.runs |= {test: Execution([*where, TESTS[test][0]]) for test in self.tests}

    def sanity_faults(self, run: Run) -> list[str]:
        facts = dict(re.findall(r'(platform name|device name|driver_version)="(.*?)"', run.output))
        run.provenance.update({f'opencl_{key.replace(" name", "")}': value for key, value in facts.items()})
        run.devices.extend(re.findall(r'<device name="(.*?)"', run.output))
        return faults_of(run.output, self.device if self.placement.devices is None else 0)
