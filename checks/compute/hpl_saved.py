# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of HPL, also of Intel's, NVIDIA's and AMD's."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from checks.compute import hpl_output as hpl
from checks.core.reading.saved import saved
from plumbline.measurement import Measurement


def read(path: Path) -> Iterator[Measurement]:
    """Yield rate and time of each solved system; all count as failed if a residual FAILED or a test is missing."""
    output, trials = saved(path), Counter[str]()
    results = hpl.results_of(output)
    if not results:
        errors = hpl.errors_of(output) or ['expected a line such as "WR11C2R4  2000  192  1  2  0.44  1.2001e+01"']
        raise ValueError(errors[0])
    faults = hpl.faults_of(output, tuple(result.configuration for result in results))
    lines = output.split('\n')
    for result in results:
        params: dict[str, object] = dict(zip(('n', 'nb', 'p', 'q'), result.configuration, strict=True))
        params |= {'variant': lines[result.line - 1].split()[0]}
        trials[f'{params}'] += 1
        for metric, value, unit, better in (
            ('gflops', result.gflops, 'GFlop/s', 'higher'), ('time', result.seconds, 's', 'lower'),
        ):  # fmt: skip
            yield Measurement(
                'HPL', metric, value, unit, better, params=params, trial=trials[f'{params}'], failed='; '.join(faults)
            )
