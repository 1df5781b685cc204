# SPDX-License-Identifier: BSD-3-Clause
"""What is metered around a benchmark: energy, health of the node, power caps."""
