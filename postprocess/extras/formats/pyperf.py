# SPDX-License-Identifier: BSD-3-Clause
"""pyperf's JSON."""

from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import local
from postprocess.readers import fields


def read(path: Path) -> Iterator[Measurement]:
    """Yield the values of all runs of each benchmark as trials; runs for calibration have no values."""
    document = fields.json_of(path.read_bytes())
    for benchmark in document['benchmarks']:
        trial, of_all = 0, document.get('metadata', {}) | benchmark.get('metadata', {})
        unit = {'second': 's', 'byte': 'B', 'integer': ''}[of_all.get('unit', 'second')]
        for run in benchmark['runs']:
            facts = of_all | run.get('metadata', {})
            for value in run.get('values', []):
                trial += 1
                yield Measurement(
                    check=facts['name'], metric='value', value=fields.number(value), unit=unit, better='lower',
                    trial=trial, time=local(facts['date']) if 'date' in facts else None,
                    node=facts.get('hostname', ''),
                )  # fmt: skip
