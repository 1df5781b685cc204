# SPDX-License-Identifier: BSD-3-Clause
"""The formats of other programs: one module for each, whose `read` takes a path and yields measurements.

`read` raises ValueError if the file is not of its format.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.readers.formats import (
    asv,
    bencher,
    conbench,
    github_action_benchmark,
    google_benchmark,
    hyperfine,
    jube,
    pyperf,
    pytest_benchmark,
    ramble,
    superbench,
    table,
    xdmod,
)

Reader = Callable[[Path], Iterator[Measurement | str]]  # a text: a sentence on a part that cannot be read
READERS: dict[str, Reader] = {
    module.__name__.rpartition('.')[2].replace('_', '-'): module.read
    for module in (
        asv, bencher, conbench, github_action_benchmark, google_benchmark, hyperfine, jube, pyperf, pytest_benchmark,
        ramble, superbench, table, xdmod,
    )
}  # fmt: skip
