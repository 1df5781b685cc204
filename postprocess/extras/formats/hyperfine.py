# SPDX-License-Identifier: BSD-3-Clause
"""hyperfine's ``--export-json``."""

from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import mean_of
from postprocess.readers import fields


def read(path: Path) -> Iterator[Measurement]:
    """Yield the time of each run of each command."""
    for result in fields.json_of(path.read_bytes())['results']:
        params, codes = result.get('parameters') or {}, result.get('exit_codes') or []
        if codes and len(codes) != len(result.get('times') or codes):
            raise ValueError(f'{result["command"]!r:.40}: has {len(result["times"])} times and {len(codes)} exit codes')
        failed = next((f'exit code {code}' for code in codes if code), '')
        times = [fields.number(seconds) for seconds in result.get('times') or []]
        mean_of(times, result['mean'], result['command'])
        for trial, seconds in enumerate(times or [fields.number(result['mean'])], 1):
            yield Measurement(
                check=result['command'], params=params, metric='time', value=seconds, unit='s', trial=trial,
                failed=failed,
            )  # fmt: skip
