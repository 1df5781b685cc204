# SPDX-License-Identifier: BSD-3-Clause
"""The commands of this folder: one night, one node sweep, one comparison, one installation, around ReFrame runs.

Drives ReFrame and asks the scheduler, then postprocess. Never: a verdict of its own, or an import of `checks`.
"""

from plumbline.paths import add_library

add_library()
