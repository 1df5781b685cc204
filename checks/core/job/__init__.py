# SPDX-License-Identifier: BSD-3-Clause
"""The job script of a case: set-up, trials, node sweep, further jobs; `parts/` is copied into each case.

Writes scripts and their inputs only. Never: reading what a job has measured, except the places of a sweep.
"""
