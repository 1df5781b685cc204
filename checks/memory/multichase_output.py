# SPDX-License-Identifier: BSD-3-Clause
"""The output of multichase: samples of the time of a load, and their mean in the last line."""

import re

LATENCY = r'^(?=.{6}) *(\d+\.\d+)$'  # the last line: mean ns of the samples, six characters or more


def chase_faults(output: str, size: int, samples: int) -> list[str]:
    """Return a sentence if multichase did not take so many samples of a chain of `size` bytes."""
    faults = []
    if f'total_memory = {size} ' not in output:
        faults.append(f'the chain is not as long as requested: expected total_memory = {size}')
    if (taken := len(re.findall(r'^ +[0-9.]+ +avg=', output, re.MULTILINE))) != samples:
        faults.append(f'{samples} samples were requested, multichase took {taken}')
    return faults
