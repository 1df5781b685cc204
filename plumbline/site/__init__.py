# SPDX-License-Identifier: BSD-3-Clause
"""What a site is: its file, its places, its schedulers and their job rules, and how it is probed.

A mistake names file, line, key and what was expected. Never here: ReFrame, or running a benchmark.
"""
