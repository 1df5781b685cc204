# SPDX-License-Identifier: BSD-3-Clause
"""What every check shares: the base class, job script, trials, metrics, placement, topology and node sweep."""
