# SPDX-License-Identifier: BSD-3-Clause
"""Checks of caches and memory: bandwidth and latency by kernel, level, NUMA domain and device.

Sizes come from the topology and the budget of a trial. Never here: a size that fits one machine only.
"""
