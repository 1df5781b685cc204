# SPDX-License-Identifier: BSD-3-Clause
"""The formats of other tools that ``plumbline ingest --format`` reads: one module for each.

A module has a `read`, which takes a path and yields measurements, and raises ValueError if the file is not of its
format. An entry point of the group ``plumbline.readers`` in pyproject.toml names it. See docs/keep-your-suite.md.
"""
