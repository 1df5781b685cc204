# SPDX-License-Identifier: BSD-3-Clause
"""What other programs write: a module for each format, whose `read` takes a path and yields measurements.

It raises ValueError where the file is not what it reads.
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

Reader = Callable[[Path], Iterator[Measurement]]
READERS: dict[str, Reader] = {
    module.__name__.rpartition('.')[2].replace('_', '-'): module.read
    for module in (
        asv, bencher, conbench, github_action_benchmark, google_benchmark, hyperfine, jube, pyperf, pytest_benchmark,
        ramble, superbench, table, xdmod,
    )
}  # fmt: skip
