# SPDX-License-Identifier: BSD-3-Clause
"""The job script of a case: what it sets up, its node sweep, its further jobs; `parts/` is copied into each case."""
