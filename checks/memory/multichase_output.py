# SPDX-License-Identifier: BSD-3-Clause
"""The output of multichase: samples of the time of a load, and their mean in the last line."""

import re

from checks.core.reading.agreement import equal, exact, printed

LATENCY = r'^(?=.{6}) *(\d+\.\d+)$'  # the last line: mean ns of the samples, six characters or more


def chase_faults(output: str, size: int, samples: int) -> list[str]:
    """Return a sentence if multichase did not take so many samples of a chain of `size` bytes, or misses their mean."""
    faults = []
    if f'total_memory = {size} ' not in output:
        faults.append(f'the chain is not as long as requested: expected total_memory = {size}')
    times, mean = re.findall(r'^ +([0-9.]+) +avg=', output, re.MULTILINE), re.findall(LATENCY, output, re.MULTILINE)
    if len(times) != samples:
        return [*faults, f'{samples} samples were requested, multichase took {len(times)}']
    if mean and not equal(sum(map(printed, times), exact(0)) / samples, printed(mean[0])):
        faults.append(f'the mean of {", ".join(times)} is not {mean[0]}: samples and mean contradict each other')
    return faults
