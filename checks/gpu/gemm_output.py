# SPDX-License-Identifier: BSD-3-Clause
"""Programs that multiply matrices on all GPUs of a node: their options, their rows, and what the GPUs did meanwhile.

CoralGemm prints a line of labels, then each time that all devices are done a row: GFlop/s of each device, and the
seconds since the start, until these are more than it was asked for. Argonne's program prints ``DGEMM: 125020 GFlop/s``,
the sum of all ranks, for one precision after the other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from statistics import median

from checks.core.reading.trials import Metric, NotMeasured, OutputRow

#: Precision -> types of A and B, of C, and of the sums, in CoralGemm's words; further words.
CORAL = {
    'double': ('R_64F', 'R_64F', 'R_64F'),
    'single': ('R_32F', 'R_32F', 'R_32F'),
    'tf32': ('R_32F', 'R_32F', 'R_32F'),
    'half': ('R_16F', 'R_32F', 'R_32F', 'ex'),
    'bf16': ('R_16B', 'R_32F', 'R_32F', 'ex'),
    'fp8': ('R_8F', 'R_32F', 'R_32F', 'lt'),
}
ONEMKL = {'double': 'DGEMM', 'single': 'SGEMM', 'half': 'HGEMM', 'bf16': 'BF16GEMM', 'tf32': 'TF32GEMM'}
_LAST_OF_ONEMKL = 'I8GEMM'
# Precision -> beginnings of the architectures whose libraries have it; all libraries have the other precisions. TF32
# is of NVIDIA's matrix units, by a patch in the suite's recipe of CoralGemm, and of oneMKL.
SINCE = {
    'tf32': ('sm_8', 'sm_9', 'sm_1', 'intel'),
    'bf16': ('sm_8', 'sm_9', 'sm_1', 'gfx9', 'intel'),
    'fp8': ('gfx94', 'gfx95'),
}
ORDER, MATRICES = 8448, 6  # no power of two, whose strides collide in the caches; 10 GiB in double precision
_NUMBER = r'[0-9]{1,12}\.[0-9]{2}'


def known(precisions: Sequence[str], arch: str, onemkl: bool, without: Collection[str] = ()) -> list[str]:
    """Return the precisions that the program knows and the libraries of this architecture have."""
    program = [
        precision for precision in precisions if precision in (ONEMKL if onemkl else CORAL) and precision not in without
    ]
    return [precision for precision in program if arch.startswith(SINCE.get(precision, ''))]


def options_of(precision: str, seconds: int) -> list[str]:
    """Return CoralGemm's options: square matrices, for so many seconds after the first round."""
    operands, result, sums, *more = CORAL[precision]
    order = [str(ORDER)] * 6
    return [operands, operands, result, sums, 'OP_N', 'OP_T', *order, str(MATRICES), str(seconds), *more]


def rows_of(output: str) -> list[list[float]]:
    """Return the complete rows of an output: GFlop/s of each device, then seconds."""
    lines = output.splitlines()[1 : None if output.endswith('\n') else -1]
    return [[float(number) for number in line.split()] for line in lines if re.fullmatch(rf'( +{_NUMBER})+ *', line)]


def rates_of_devices(output: str) -> Iterator[OutputRow]:
    """Yield the rate of each device: the median of the second half of the rows, when the device is warm."""
    if not (rows := rows_of(output)):
        raise NotMeasured('there is no row of rates')
    *rates, _ = zip(*rows[len(rows) // 2 :], strict=False)
    for device, of_device in enumerate(rates):
        yield OutputRow({'device': str(device)}, median(of_device))


def metrics_of(precision: str, devices: Sequence[int], with_peak: bool) -> list[Metric]:
    """Return the metrics of CoralGemm: each device, the slowest, and all together."""
    dims, of_devices = {'precision': precision}, {'device': devices}
    fraction = [Metric('peak_fraction', '1', 'higher', dims=dims, judged=False)] if with_peak else []
    return [
        Metric('flops', 'TFlop/s', 'higher', rates_of_devices, dims, of_devices, scale=1e-3, run=precision,
               peak=f'device_flops_{precision}', judged=False),
        Metric('slowest', 'TFlop/s', 'higher', dims=dims),
        Metric('all', 'TFlop/s', 'higher', dims=dims),
        *fraction,
    ]  # fmt: skip


def of_onemkl(precision: str) -> Metric:
    """Return the metric of the rate of all ranks of Argonne's program together."""
    rows = rf'^{ONEMKL[precision]}: (?P<value>\S+) GFlop/s$'
    return Metric('all', 'TFlop/s', 'higher', rows, {'precision': precision}, scale=1e-3)


def coral_faults(output: str, devices: int, seconds: int) -> list[str]:
    """Return one sentence for each sign that an output is not of so many devices for so many seconds."""
    first, *lines = output.splitlines() or ['']
    labels = [*(f'device_{device}_[GFLOPS]' for device in range(devices)), 'timestamp_[sec]']
    if first.split() != labels:
        number = len(re.findall(r'device_\d+_', first))
        return [f'expected the rates of {devices} devices, found those of {number}: {first.strip()[:80]!r}']
    rows = rows_of(output)
    if len(rows) != len(lines) or any(len(row) != devices + 1 for row in rows):
        return [f'cannot parse row: expected {devices} rates and a time in each of {len(lines)} lines']
    times = [row[-1] for row in rows]
    if not times or times[-1] < seconds or times != sorted(times):
        return [f'it ended after {times[-1] if times else 0} s, expected at least {seconds}, in ascending order']
    return []


def onemkl_faults(output: str) -> list[str]:
    """Return a sentence where the program did not reach its last precision."""
    whole = re.search(rf'^{_LAST_OF_ONEMKL}: \S+ GFlop/s$', output, re.MULTILINE) and output.endswith('\n')
    return [] if whole else [f'it ended before its last line, {_LAST_OF_ONEMKL}: ... GFlop/s']
