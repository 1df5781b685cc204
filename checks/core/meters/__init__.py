# SPDX-License-Identifier: BSD-3-Clause
"""What is metered around a benchmark: energy and power caps.

Adds to a record that the trials have filled. Never: a number of the benchmark itself.
"""
