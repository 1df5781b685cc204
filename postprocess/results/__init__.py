# SPDX-License-Identifier: BSD-3-Clause
"""The store: Parquet files of typed rows, written whole, read under today's names, verified by checksums.

Imports no other room of postprocess. Never: a verdict, or knowing which program wrote a report.
"""
