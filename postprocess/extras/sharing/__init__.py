# SPDX-License-Identifier: BSD-3-Clause
"""The command ``share``: levels of performance by hardware, written for other sites and taken in from them.

What was taken in is compared by `postprocess.verdicts.elsewhere`, which needs none of this. See docs/elsewhere.md.
"""
