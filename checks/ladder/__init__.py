# SPDX-License-Identifier: BSD-3-Clause
"""The node ladder: `check` states it, `on_node` runs it in the job, `judge` decides on numbers alone.

`judge` never starts a program and `on_node` never decides, so that a simulation can take its place.
"""
