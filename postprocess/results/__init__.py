# SPDX-License-Identifier: BSD-3-Clause
"""The store: Parquet files of typed rows, written as a whole, read under today's names, verified by checksums.

This room imports no other room of postprocess. It makes no verdicts, and does not know which program wrote a report.
"""
